"""How a server is set up, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

DATABASE = "sqlite:///posse.db"
LARGEST_BODY = 1 << 20  # bytes
LARGEST_BATCH = 1000  # decisions, rewards or names in one request
LARGEST_PAGE = 10_000  # rows of the log in one answer
LARGEST_LIST = 1000  # experiments, or players with their numbers, in one answer


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know."""

    database: str = DATABASE
    loopback: bool = True
    """Whether only this machine reaches the server; then, and while no token exists, none is asked for."""
    access_log: bool = False
    body_seconds: float = 10.0
    """How long a body may take to arrive."""
    answer_seconds: float = 30.0
    """How long an answer may take."""
    defaults_seconds: float | None = 1.0
    """How often default rewards that are due are taken; None if another worker takes them."""
    reader: str | None = None
    """The path of the Unix socket at which the reader listens; None if this process reads itself."""
    trust_seconds: float = 1.0
    """For how long a token that was found good is not looked up again."""
    import_file: str | None = None
    """A Python file that defines policies, imported before anything else."""
