"""Log lines: as text or JSON, with the request's id, without tokens, and never the same line in a loop."""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

ACCESS = "posse.access"
MOST_ALIKE = 10  # lines from one logger with one template, in a PERIOD
PERIOD = 60.0  # seconds
MOST_TEMPLATES = 1000  # that are told apart in a PERIOD
TOKEN = re.compile("posse_[0-9]+_[A-Za-z0-9_-]+")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being handled."""


def write_log(form: str = "text") -> None:
    """Write log lines to standard error, as text or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(RepeatFilter())
    handler.addFilter(TokenFilter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.captureWarnings(True)  # those of Python are lines like all others
    for noisy in ("uvicorn", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """A line for people; the request's id stands at its end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        identity = request_id.get()
        return super().formatMessage(record) + (f" [{identity}]" if identity else "")


class JsonFormatter(logging.Formatter):
    """One JSON object a line. What a logger gives as `extra={"fields": {...}}` is part of it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps({name: value for name, value in line.items() if value is not None})


class TokenFilter(logging.Filter):
    """Removes whatever looks like a token from every line of a log."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_tokens(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_text = without_tokens(record.exc_text) if record.exc_text else record.exc_text
        return True


def without_tokens(text: str) -> str:
    """The text without tokens.

    >>> without_tokens("GET /posse_7_hushhush")
    'GET /posse_…'
    """
    return TOKEN.sub("posse_…", text)


class RepeatFilter(logging.Filter):
    """Lets the same line through a few times a minute, then says how many were left out. Access lines all pass.

    Lines are the same if their logger is, and the first line of their template.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._until = clock, 0.0
        self._seen: dict[tuple[str, str], int] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == ACCESS:
            return True
        if self._clock() >= self._until:
            self._until = self._clock() + PERIOD
            self._left_out = {key: seen - MOST_ALIKE for key, seen in self._seen.items() if seen > MOST_ALIKE}
            self._seen = {}
        key = record.name, str(record.msg).partition("\n")[0][:200]
        if key not in self._seen and len(self._seen) >= MOST_TEMPLATES:
            key = "", ""
        self._seen[key] = seen = self._seen.get(key, 0) + 1
        left_out = self._left_out.pop(key, 0)
        if left_out:
            self._add(record, f"{left_out:,} lines like this one were left out before it")
        elif seen == MOST_ALIKE:
            self._add(record, f"more lines like this one are left out for up to {PERIOD:g} s")
        return seen <= MOST_ALIKE

    def _add(self, record: logging.LogRecord, remark: str) -> None:
        record.msg, record.args = f"{record.getMessage()} ({remark})", ()
