"""How a server is set up, and its limits."""

from dataclasses import dataclass, field

from posse.service.steady_clock import offset_now

DATABASE = "sqlite:///posse.db"
LARGEST_BODY = 1 << 20  # bytes
LARGEST_BATCH = 1000  # decisions, rewards or names in one request
LARGEST_PAGE = 10_000  # rows of the log in one answer
LARGEST_LIST = 1000  # experiments, or players with their numbers, in one answer
SHORTEST_PATIENCE = 0.001  # seconds
LONGEST_SECONDS = 100 * 365 * 86_400  # that a token may be valid for, and a decision may wait


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know."""

    database: str = DATABASE
    open: bool = False  # whether everybody on this machine may do everything, without a token, until one is made
    access_log: bool = False
    body_seconds: float = 10.0  # how long a body may take to arrive
    answer_seconds: float = 30.0  # how long an answer may take
    defaults_seconds: float | None = 1.0  # how often default rewards are taken; None if another worker takes them
    reader: str | None = None  # the Unix socket at which the reader listens; None if this process reads itself
    trust_seconds: float = 1.0  # how old what is known of tokens may be: so long after, a revoked one is refused
    silence_seconds: float = 10.0  # for how long PostgreSQL may say nothing before it counts as away
    import_file: str | None = None  # a Python file that defines policies, imported before anything else
    clock_offset: float = field(default_factory=offset_now)  # what every worker's clock goes on from: `SteadyClock`
    connections: int = 1000  # how many connections a worker has at most
    connections_per_address: int = 250  # how many of them come from one address at most
    head_seconds: float = 10.0  # how long the headers of a request may take to arrive
    idle_seconds: float = 30.0  # how long a connection may be without a request, and an answer without a reader
    log_format: str = "text"  # how log lines are written: "text" or "json"
