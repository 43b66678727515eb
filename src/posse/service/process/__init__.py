"""The server processes: supervisor, settings, metrics, warm-up."""
