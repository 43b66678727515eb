"""The rows of a log that can be judged by, and what they support."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posse.checks import number
from posse.insight.logs import Log

_SAME = 1e-6
"""Propensities that differ by less, relatively, count as one: logs are written with few digits."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows whose arm was drawn with a known probability and whose reward is known."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    player: np.ndarray
    arm: np.ndarray
    reward: np.ndarray
    """Rewards, moved from the range to [0, 1]."""
    propensity: np.ndarray
    low: float
    high: float
    design: np.ndarray | None
    """The propensity of each player and arm, NaN where unknown; None where propensities vary within one."""
    adaptive: bool
    """Whether choices may depend on earlier rewards."""
    missing: int
    """How many rows were left out because their reward is unknown."""
    undrawn: int
    """How many were left out because no propensity is known: data that was recorded, not decided."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.players), len(self.arms)

    def pulls(self) -> np.ndarray:
        """How many rows each player and arm has."""
        cells = self.player * len(self.arms) + self.arm
        return np.bincount(cells, minlength=len(self.players) * len(self.arms)).reshape(self.shape)


def usable(log: Log, reward_range: tuple[float, float] | None, adaptive: bool | None) -> Rows:
    """The rows of a log to judge by, with how they were gathered: as told, as the log says, or as it looks."""
    if log.propensity is None:
        raise ValueError(
            "the log has no column 'propensity'; without the probabilities of its choices it judges nothing"
        )
    low, high = _range(log, reward_range)
    drawn = ~np.isnan(log.propensity)
    known = ~np.isnan(log.reward)
    use = drawn & known
    if not use.any():
        raise ValueError(
            f"no row has both a propensity and a reward: {drawn.sum()} have the one, {known.sum()} the other"
        )
    design = _design(log, drawn)
    if adaptive is None:
        adaptive = bool(log.about.get("adaptive", design is None))
    return Rows(
        log.players,
        log.arms,
        log.player[use],
        log.arm[use],
        (log.reward[use] - low) / (high - low),
        log.propensity[use],
        low,
        high,
        design,
        adaptive,
        int((drawn & ~known).sum()),
        int((~drawn).sum()),
    )


def only(log: Log, players: Iterable[str]) -> Log:
    """The rows of these players."""
    names = list(players)
    for name in names:
        if name not in log.players:
            raise ValueError(f"the log has no player {name!r}; its players are {shortened(log.players)}")
    return _kept(log, np.isin(log.player, [log.players.index(name) for name in names]))


def held_out(log: Log) -> Log:
    """The decisions that a learner held out: their arms were drawn uniformly, whatever it had learnt."""
    if log.holdout is None or not log.holdout.any():
        raise ValueError("the log has no decisions that were held out; posse.Learner(..., holdout=0.1) holds some out")
    if any(change.get("kind") in ("add arm", "retire arm") for change in log.about.get("changes", ())):
        raise ValueError("arms came or went in this log, so the propensities of its held out decisions differ")
    kept = _kept(log, log.holdout)
    about = {**log.about, "adaptive": False}
    return replace(kept, propensity=np.full(kept.player.size, 1 / len(log.arms)), about=about)


def _kept(log: Log, keep: np.ndarray) -> Log:
    names = ("player", "arm", "reward", "propensity", "shared", "holdout")
    columns: dict[str, Any] = {name: getattr(log, name) for name in names}
    kept: dict[str, Any] = {name: column if column is None else column[keep] for name, column in columns.items()}
    return replace(log, **kept)


def unseen(rows: Rows, probabilities: np.ndarray, target: str) -> np.ndarray:
    """Whether each player lacks rows of an arm that the target plays there, by mere chance; an error if not by chance.

    It is chance in a log of fixed propensities in which every arm has one propensity for all players, and a player's
    seen and unseen arms together have probability 1: then the arm could have been played, and weights stay fair.
    """
    pulls = rows.pulls()
    lacking = (probabilities > 0) & (pulls == 0) & (pulls.sum(axis=1) > 0)[:, None]
    chance = _by_chance(rows)
    for player, arm in np.argwhere(lacking):
        if not chance[player]:
            raise ValueError(
                f"no overlap: {target} plays arm {rows.arms[arm]!r} for player {rows.players[player]!r}, where the log "
                "never played it; judge a policy that does not, or leave that player out"
            )
    return lacking.any(axis=1)


def _by_chance(rows: Rows) -> np.ndarray:
    """Whether each player's unseen arms are known to have been possible."""
    nobody = np.zeros(len(rows.players), bool)
    if rows.design is None or np.isnan(rows.design).all(axis=0).any():
        return nobody
    common = np.nanmin(rows.design, axis=0)
    if not np.allclose(np.nanmax(rows.design, axis=0), common, rtol=_SAME, atol=0):
        return nobody
    return np.full(len(rows.players), bool(np.isclose(common.sum(), 1, rtol=_SAME)))


def _design(log: Log, drawn: np.ndarray) -> np.ndarray | None:
    """The propensity of each player and arm if it is the same in all of its rows."""
    assert log.propensity is not None
    shape = (len(log.players), len(log.arms))
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    cells = log.player[drawn], log.arm[drawn]
    np.minimum.at(least, cells, log.propensity[drawn])
    np.maximum.at(most, cells, log.propensity[drawn])
    seen = np.isfinite(least)
    if not np.allclose(least[seen], most[seen], rtol=_SAME, atol=0):
        return None
    totals = np.where(seen, least, 0).sum(axis=1)
    worst = int(totals.argmax())
    if totals[worst] > 1 + _SAME and not log.about.get("adaptive"):
        raise ValueError(
            f"the propensities of player {log.players[worst]!r} are the same throughout and add up to "
            f"{totals[worst]:g} over the arms, but probabilities add up to 1"
        )
    return np.where(seen, least, np.nan)


def _range(log: Log, given: Any) -> tuple[float, float]:
    if given is None:
        given = log.about.get("reward_range", (0.0, 1.0))
    try:
        first, second = given
    except (TypeError, ValueError):
        raise TypeError(
            f"reward_range={given!r}, but expected two numbers, the least and the greatest reward"
        ) from None
    low = number("the least reward", first)
    high = number("the greatest reward", second, above=low)
    outside = np.flatnonzero((log.reward < low) | (log.reward > high))
    if outside.size:
        row = int(outside[0])
        raise ValueError(
            f"row {row + 1} has reward {log.reward[row]:g}, but rewards are in [{low:g}, {high:g}]; "
            "reward_range says otherwise"
        )
    return low, high


def shortened(names: Iterable[str], most: int = 12) -> str:
    """A list of names that is not too long to read."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
