"""Run a spec: the units of work, where they run, and the folder that keeps their results."""
