"""The server processes: the supervisor, and what warms workers up."""

from posse.extras import extra

with extra("service", "the service"):
    from posse.service.process.supervisor import background, serve

__all__ = ["background", "serve"]
