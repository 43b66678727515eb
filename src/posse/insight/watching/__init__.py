"""Watching: what a log says about itself while its experiment runs."""
