"""What judging policies from a log gave, for people and for programs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from posse.insight.text import WIDTH, count, cut, decimals, item, plain

SHOWN = 20
"""How many players the text shows, those with most rows."""


@dataclass(frozen=True)
class Interval:
    """A value with the interval that holds it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """What a policy would earn a decision, for one player or overall, in the log's units."""

    target: str
    player: str | None
    """None: overall, with players as often as in the log."""
    value: float
    """NaN where the log has no row to say it from."""
    low: float
    high: float
    estimator: str
    """How the value was made: dr, snips, ips, mean (of the log's own choices) or replay."""
    interval: str
    """How the interval was made: normal, betting, hoeffding, replay, or none where there is no value."""
    rows: float
    """How many rows have an arm that the target may play; of a replay, how many it used on average."""
    effective_rows: float
    """How many equally weighted rows would say as much."""
    largest_weight: float
    difference: Interval | None = None
    """To the policy that it was compared against, if any."""


@dataclass(frozen=True)
class Evaluation:
    """Policies judged from a log; `print` shows a table."""

    reward: str
    level: float
    """Intervals miss the truth with at most this probability, each."""
    reward_range: tuple[float, float]
    rows: int
    """How many rows had both a reward and a propensity."""
    players: tuple[str, ...]
    """The players of those rows, those with most rows first."""
    player_rows: tuple[int, ...]
    arms: tuple[str, ...]
    missing: int
    """Rows left out because their reward is unknown."""
    undrawn: int
    """Rows left out because they have no propensity."""
    given_up: int
    """Decisions that have no row because the learner gave them up before their rewards came."""
    adaptive: bool
    """Whether the log was gathered by a policy that learns."""
    against: str | None
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def of(self, target: str, player: str | None = None) -> Estimate:
        """The estimate for a target, overall or for one player."""
        for estimate in self.estimates:
            if estimate.target == target and estimate.player == player:
                return estimate
        known = ", ".join(dict.fromkeys(estimate.target for estimate in self.estimates))
        raise ValueError(f"no estimate of {target!r} for {player or 'all players'}; judged were {known}")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that JSON can hold; NaN becomes None."""
        return dict(plain(dataclasses.asdict(self)))

    def __str__(self) -> str:
        head = (
            f"{self.reward} of {count(self.rows, 'decision')}, {count(len(self.players), 'player')}, "
            f"{count(len(self.arms), 'arm')}, chosen "
            + ("by a policy that learns" if self.adaptive else "at random, whatever the rewards")
        )
        parts = [head, self._overall()]
        if len(self.players) > 1:
            parts.append(self._by_player())
        if self.notes:
            parts.append("\n".join(item(note) for note in self.notes))
        return "\n\n".join(parts)

    def _overall(self) -> str:
        digits = self._digits()
        columns = [["", *(cut(estimate.target, 40) for estimate in self._of_player(None))]]
        shown = [self._interval(estimate, digits) for estimate in self._of_player(None)]
        columns.append(["value", *(value for value, _ in shown)])
        columns.append([f"{100 * (1 - self.level):g} % interval", *(interval for _, interval in shown)])
        if self.against is not None:
            columns.append(
                [f"minus {cut(self.against, 24)}", *(self._difference(each, digits) for each in self._of_player(None))]
            )
        for title, field, style in (
            ("rows", "rows", ",.0f"),
            ("effective", "effective_rows", ",.0f"),
            ("largest weight", "largest_weight", ",.3g"),
        ):
            columns.append([title, *(format(getattr(each, field), style) for each in self._of_player(None))])
        return _aligned(columns)

    def _by_player(self) -> str:
        """A line a player, a column a target; in blocks where the columns are too many for a line."""
        digits = max(self._digits() - 2, 0)
        targets = [estimate.target for estimate in self._of_player(None)]
        players = self.players[:SHOWN]
        first = [["player", *players], ["rows", *(f"{rows:,}" for rows in self.player_rows[:SHOWN])]]
        blocks, columns = [], list(first)
        for target in targets:
            cells = [self._cell(self.of(target, player), digits) for player in players]
            column = [cut(target, 24), *cells]
            if len(columns) > len(first) and _width([*columns, column]) > WIDTH:
                blocks.append(_aligned(columns))
                columns = list(first)
            columns.append(column)
        blocks.append(_aligned(columns))
        if len(self.players) > SHOWN:
            more = f"{count(len(self.players) - SHOWN, 'more player')} with {sum(self.player_rows[SHOWN:]):,} rows"
            blocks.append(f"… and {more}, which are in to_dict() and in --json")
        return "\n\n".join(blocks)

    def _of_player(self, player: str | None) -> list[Estimate]:
        return [estimate for estimate in self.estimates if estimate.player == player]

    def _digits(self) -> int:
        return decimals(*self.reward_range, 4)

    def _interval(self, estimate: Estimate, digits: int) -> tuple[str, str]:
        if math.isnan(estimate.value):
            return "—", "—"
        return f"{estimate.value:,.{digits}f}", f"[{estimate.low:,.{digits}f}, {estimate.high:,.{digits}f}]"

    def _cell(self, estimate: Estimate, digits: int) -> str:
        value, interval = self._interval(estimate, digits)
        return value if value == "—" else f"{value} {interval}"

    def _difference(self, estimate: Estimate, digits: int) -> str:
        found = estimate.difference
        if found is None:
            return "—"
        return f"{found.value:+,.{digits}f} [{found.low:+,.{digits}f}, {found.high:+,.{digits}f}]"


def _aligned(columns: list[list[str]]) -> str:
    """Columns side by side, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        first = f"{cells[0]:<{widths[0]}}"
        lines.append("  ".join([first, *(f"{cell:>{w}}" for cell, w in zip(cells[1:], widths[1:], strict=True))]))
    return "\n".join(lines)


def _width(columns: list[list[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in columns) - 2
