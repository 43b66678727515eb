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
    """How a table's row becomes bytes: its numbers, then what varies in length or may be missing."""

    numbers: Callable[[Values], tuple[Any, ...]]
    pack: Callable[..., bytes]
    varying: list[str]


def _row_layout(whole: str, real: str, varying: str) -> RowLayout:
    names = [*whole.split(), *real.split()]
    form = struct.Struct(f">{len(whole.split())}q{len(real.split())}d")
    return RowLayout(operator.itemgetter(*names), form.pack, varying.split())


NAMES = _row_layout("experiment place", "", "name")
LAYOUTS = {
    "decisions": _row_layout(
        "link serial tag round player arm holdout restricted position",
        "propensity shared decided_at",
        "probabilities offered request_key",
    ),
    "rewards": _row_layout("link serial event round player arm defaulted", "reward seen_n seen_s observed_at", ""),
    "changes": _row_layout("link event place knows_others", "at", "kind"),
    "experiments": _row_layout("first_players first_arms", "created_at", "name setup"),
    "players": NAMES,
    "arms": NAMES,
    "tokens": _row_layout("id", "created_at", "hash scopes label experiment expires_at revoked_at"),
}


def row_digest(table: str, row: Values, previous: bytes = b"") -> bytes:
    """The digest of a row. `previous` is the digest of the row before it in the log.

    An experiment's row is the first in its chain. The rows of names and tokens are in no chain, so that a name can be
    erased without breaking one. Raises struct.error or TypeError where a value is not of its column's kind.
    """
    layout = LAYOUTS[table]
    content = previous + table.encode() + layout.pack(*layout.numbers(row))
    if layout.varying:
        content += b"".join(_sized(row[name]) for name in layout.varying)
    return hashlib.sha256(content).digest()


def _sized(value: bytes | str | float | None) -> bytes:
    """A value after its length; length −1 if there is none."""
    if value is None:
        return struct.pack(">q", -1)
    if isinstance(value, (int, float)):
        value = repr(float(value))
    content = value.encode() if isinstance(value, str) else bytes(value)
    return struct.pack(">q", len(content)) + content
