"""How a server is set up, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from posse.service.steady_clock import offset_now

DATABASE = "sqlite:///posse.db"
LARGEST_BODY = 1 << 20  # bytes
LARGEST_BATCH = 1000  # decisions, rewards or names in one request
LARGEST_PAGE = 10_000  # rows of the log in one answer
LARGEST_LIST = 1000  # experiments, or players with their numbers, in one answer


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
    reader: str | None = None
    """The path of the Unix socket at which the reader listens; None if this process reads itself."""
    trust_seconds: float = 1.0
    """How old what is known of the tokens may be: so long after it is revoked, a token is refused."""
    silence_seconds: float = 10.0
    """For how long PostgreSQL may say nothing before it counts as away."""
    import_file: str | None = None
    """A Python file that defines policies, imported before anything else."""
    clock_offset: float = field(default_factory=offset_now)
    """What the clock of every worker goes on from, also of one that is started later: see `SteadyClock`."""
    connections: int = 1000
    """How many connections a worker has at most."""
    connections_per_address: int = 250
    """How many of them come from one address at most."""
    head_seconds: float = 10.0
    """How long the headers of a request may take to arrive."""
    idle_seconds: float = 30.0
    """How long a connection stays open without a request, and how long an answer waits for somebody to read it."""
    log_format: str = "text"
    """How log lines are written: "text" or "json"."""
