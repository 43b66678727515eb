"""How a server is set up, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

DATABASE = "sqlite:///posse.db"
LARGEST_BODY = 1 << 20  # bytes
LARGEST_BATCH = 1000  # decisions, rewards or names in one request
LARGEST_PAGE = 10_000  # rows of the log in one answer


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know."""

    database: str = DATABASE
    open: bool = False
    """Whether everybody on this machine may do everything, without a token, until the first one is made."""
    access_log: bool = False
    body_seconds: float = 10.0
    """How long a body may take to arrive."""
    answer_seconds: float = 30.0
    """How long an answer may take."""
    defaults_seconds: float | None = 1.0
    """How often default rewards that are due are taken; None if another worker takes them."""
    trust_seconds: float = 1.0
    """How old what is known of the tokens may be: so long after it is revoked, a token is refused."""
    import_file: str | None = None
    """A Python file that defines policies, imported before anything else."""
