"""The chain of digests. SQLite's pages have no checksums, so the log carries its own: each row's digest is

    sha256(digest of the row before ‖ table ‖ numbers ‖ texts and arrays),

one chain for each experiment, from its set-up to its last row, whose digest the experiment's row repeats as its head.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Values = Mapping[Any, Any]  # by the names of columns


class RowLayout(NamedTuple):
    """How a table's row becomes bytes: whole numbers, real numbers, then what varies in length or may be missing."""

    whole: tuple[str, ...]
    real: tuple[str, ...]
    varying: tuple[str, ...]
    pack: Callable[..., bytes]
    get: Callable[[Values], tuple[Any, ...]]


def _row_layout(whole: str, real: str, varying: str) -> RowLayout:
    names = tuple(whole.split()), tuple(real.split()), tuple(varying.split())
    form = struct.Struct(f">{len(names[0])}q{len(names[1])}d")
    return RowLayout(*names, form.pack, operator.itemgetter(*names[0], *names[1]))


DECISIONS = _row_layout(
    "link serial tag round player arm holdout restricted position",
    "propensity shared decided_at",
    "probabilities offered request_key",
)
REWARDS = _row_layout("link serial event round player arm defaulted", "reward seen_n seen_s observed_at", "")
CHANGES = _row_layout("link event place knows_others", "at", "kind")
EXPERIMENTS = _row_layout("first_players first_arms", "created_at", "name setup")
NAMES = _row_layout("experiment place", "", "name")
TOKENS = _row_layout("id", "created_at", "hash scopes label experiment expires_at revoked_at")

LOG = {"decisions": DECISIONS, "rewards": REWARDS, "changes": CHANGES}


def row_digest(previous: bytes, table: str, layout: RowLayout, row: Values) -> bytes:
    """The digest of a row that follows another; `previous` is empty where none comes before.

    Raises struct.error or TypeError where a value is not of its column's kind.
    """
    content = previous + table.encode() + layout.pack(*layout.get(row))
    if layout.varying:
        content += b"".join(_sized(row[name]) for name in layout.varying)
    return hashlib.sha256(content).digest()


def log_digest(head: bytes, table: str, row: Values) -> bytes:
    """The digest of a row of the log, which follows the one with the digest `head`."""
    return row_digest(head, table, LOG[table], row)


def origin_digest(row: Values) -> bytes:
    """The digest of an experiment's name and set-up, with which its chain begins."""
    return row_digest(b"", "experiments", EXPERIMENTS, row)


def name_digest(table: str, row: Values) -> bytes:
    """The digest of a player's or an arm's name; it is in no chain, so erasing the name breaks none."""
    return row_digest(b"", table, NAMES, row)


def token_digest(row: Values) -> bytes:
    """The digest of a token's row."""
    return row_digest(b"", "tokens", TOKENS, row)


def _sized(value: bytes | str | float | None) -> bytes:
    """A value after its length; length −1 if there is none."""
    if value is None:
        return struct.pack(">q", -1)
    if isinstance(value, (int, float)):
        value = repr(float(value))
    content = value.encode() if isinstance(value, str) else bytes(value)
    return struct.pack(">q", len(content)) + content
