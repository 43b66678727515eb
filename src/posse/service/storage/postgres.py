"""PostgreSQL over a network that may silently stop forwarding, and with another server that takes over."""

import time
from collections.abc import Generator
from typing import Any

import psycopg
import sqlalchemy as sql
from sqlalchemy.engine import URL, Engine, ExceptionContext

LOCK_SECONDS = 8  # that a statement waits for another transaction
IDLE_SECONDS = 60  # in a transaction, after which the server takes a process for hanging and lets others go on
AWAY_SECONDS = 1  # in which nobody else waits for a server that has just not answered
RECYCLE_SECONDS = 1800  # after which a connection is made anew
READ_ONLY = "25006"  # what a server says that has become a standby
NETWORK = {  # what the operating systems at both ends do about packets that nobody answers; within about 10 seconds
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
}


def connect(address: URL, patience: int, silence: float | None) -> Engine:
    """An engine that waits so many seconds for a connection, and with `silence` so many for an answer.

    With several hosts, the one that can write is taken.
    """
    options: dict[str, Any] = NETWORK | {"connect_timeout": patience}
    if not isinstance(address.query.get("host", ""), str):
        options["target_session_attrs"] = "read-write"
    options = {name: value for name, value in options.items() if name not in address.query}
    pool = {"pool_size": 4, "max_overflow": 64, "pool_pre_ping": True, "pool_recycle": RECYCLE_SECONDS}
    engine = sql.create_engine(address, connect_args=options, **pool)
    away_until = 0.0

    @sql.event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, record: Any, arguments: list[Any], named: dict[str, Any]) -> ImpatientConnection:
        nonlocal away_until
        began = time.monotonic()
        if began < away_until:
            raise psycopg.OperationalError("it did not answer a moment ago")
        try:
            made = ImpatientConnection.connect(*arguments, **named)
        except psycopg.OperationalError:
            if time.monotonic() > began + AWAY_SECONDS:  # where it is refused at once, the next try costs nothing
                away_until = time.monotonic() + AWAY_SECONDS
            raise
        made.silence = silence
        idle = IDLE_SECONDS if silence is None else 3 * silence
        settings = {"lock_timeout": f"{LOCK_SECONDS}s", "idle_in_transaction_session_timeout": f"{idle:g}s"}
        settings |= {f"tcp_{name}": f"{value}" for name, value in NETWORK.items() if name.startswith("keepalives")}
        made.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
        made.commit()
        return made

    sql.event.listen(engine, "handle_error", _leave_standby)
    return engine


def _leave_standby(context: ExceptionContext) -> None:
    """Give up connections to a server that no longer writes: another one may answer at its address by now."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


class ImpatientConnection(psycopg.Connection[Any]):
    """A connection that counts as broken when nothing is heard for a while.

    The operating system notices packets that nobody acknowledges; it does not notice a server, or a proxy on the way,
    that takes a statement and never answers.
    """

    silence: float | None = None

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        """Go through the steps of a statement."""
        if self.silence is None:
            return super().wait(gen, *arguments, **named)
        ping = self.autocommit  # half the time for a ping, since a new connection is tried after it
        try:
            return super().wait(_heard(gen, self.silence / 2 if ping else self.silence), *arguments, **named)
        except SilentServer:
            self.close()
            raise


class SilentServer(psycopg.OperationalError):
    """Nothing was heard for too long."""


def _heard(steps: Generator[Any, Any, Any], silence: float) -> Generator[Any, Any, Any]:
    """The steps of a statement, as long as the socket is ready again within so many seconds."""
    ready, last = None, time.monotonic()
    while True:
        try:
            state = steps.send(ready)
        except StopIteration as end:
            return end.value
        ready = yield state
        if ready:
            last = time.monotonic()
        elif time.monotonic() - last > silence:
            raise SilentServer(f"nothing was heard for {silence:g} seconds")
