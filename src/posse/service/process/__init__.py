"""The server processes: the supervisor, and what warms workers up."""
