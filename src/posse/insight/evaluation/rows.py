"""The rows of a log by which policies can be judged, and which policies they can judge."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posse.insight.logs import ROUNDED, Log, by_cell, fixed_shares
from posse.learner.shares import equal_shares
from posse.text import listed

UNLIKELY = math.log(1e5)  # one in 1e5 correct logs may be doubted, for each arm and direction
SEEN = 20  # a player whose rarest seen arm is expected this often has surely seen every arm that it may play


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows whose propensity and reward are both known."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    player: np.ndarray
    arm: np.ndarray
    reward: np.ndarray  # moved from the range to [0, 1]
    propensity: np.ndarray
    low: float
    high: float
    design: np.ndarray | None
    """The propensity of each player and arm, NaN where unknown; None if propensities vary within a player and arm."""
    adaptive: bool  # whether choices may depend on earlier rewards
    missing: int  # how many rows were left out because their reward is unknown
    undrawn: int  # how many were left out because their propensity is unknown: past rewards, not decisions
    given_up: int  # how many decisions are not in the log because the learner gave them up
    early: int | None  # how many early rewards were left out; None if no default reward is taken
    offered: np.ndarray | None  # which arms could be played, [row, arm]; None if all could, as far as is known
    groups: tuple[str, ...]  # the players, or the values of the column by which results are asked for
    group: np.ndarray
    probabilities: np.ndarray | None  # of all arms in each row, [row, arm], NaN where unknown
    attributes: dict[str, tuple[str | None, ...]]  # each player's values, None if missing

    @property
    def by_player(self) -> bool:
        """Whether the groups are the players."""
        return self.group is self.player

    def chance(self, arm: int, rows: Any, *, of_all: bool = False) -> np.ndarray | None:
        """The propensity of an arm in each of these rows, played or not, 0 where unknown; None if it is in none.

        With `of_all`, None if it is unknown in any row. An arm that was not available has the propensity 0.
        """
        own = self.propensity[rows]
        if self.probabilities is not None:
            known = self.probabilities[rows, arm]
            if of_all and np.isnan(known).any() and np.isnan(self.probabilities[rows]).all(axis=1).any():
                return None
        elif self.design is not None and not self.adaptive:
            known = self.design[self.player[rows], arm]
        elif len(self.arms) == 2:
            known = 1 - own
        else:
            return None
        return np.where(self.arm[rows] == arm, own, np.nan_to_num(known))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.players), len(self.arms)

    def pulls(self) -> np.ndarray:
        """How many rows each player and arm has."""
        return by_cell(self.player, self.arm, self.shape)

    def each_group(self) -> tuple[int | None, ...]:
        """None for all rows, then every group that has rows."""
        return None, *np.unique(self.group).tolist()

    def on_offer(self, arms: np.ndarray) -> np.ndarray:
        """In which rows all of these arms could be played, as far as is known."""
        there = np.ones(self.arm.size, bool) if self.offered is None else self.offered[:, arms].all(axis=1)
        if not there.any():
            raise ValueError(f"in no row were all of {listed(np.array(self.arms)[arms])} on offer")
        return np.asarray(there)

    def taken(self, places: Any) -> "Rows":
        """Only the rows in these places, a slice or numbers, in their order."""
        if isinstance(places, slice) and places.indices(self.arm.size) == (0, self.arm.size, 1):
            return self
        columns = {name: getattr(self, name)[places] for name in ("player", "arm", "reward", "propensity")}
        columns["group"] = columns["player"] if self.by_player else self.group[places]
        for name in ("probabilities", "offered"):
            columns[name] = None if getattr(self, name) is None else getattr(self, name)[places]
        return replace(self, **columns)


def usable(log: Log, adaptive: bool | None) -> Rows:
    """The rows of a log to judge by.

    Whether the log is adaptive is what `adaptive` says, or what the log says about itself, or how it looks.
    """
    propensity = log.propensity
    if propensity is None:
        raise ValueError(
            "the log has no column 'propensity'; without the probabilities of its choices, no policy can be judged "
            "(--propensity 1/3 gives one for all rows, --propensity empirical the arms' frequencies)"
        )
    low, high = log.about["reward_range"]
    drawn = ~np.isnan(propensity)
    known = ~np.isnan(log.reward)
    use = drawn & known
    if not use.any():
        early = "; ".join(log.left_out())
        raise ValueError(
            f"no row has both a propensity and a reward: {drawn.sum()} have the one, {known.sum()} the other"
            + (f"; {early}" if early else "")
        )
    design = _design(log)
    if adaptive is None:
        adaptive = bool(log.about.get("adaptive", design is None))
    kept = log.kept(use)
    columns = kept.player, kept.arm, (kept.reward - low) / (high - low), propensity[use]
    left_out = int((drawn & ~known).sum()), int((~drawn).sum()), log.given_up, log.early
    groups, group = (kept.players, kept.player) if kept.group is None else (kept.groups, kept.group)
    offered = None if kept.probabilities is None else ~(kept.probabilities <= 0)  # NaN in old logs, which do not say
    offered = None if offered is None or offered.all() else offered
    named: dict[str, Any] = {
        "groups": groups,
        "group": group,
        "probabilities": kept.probabilities,
        "attributes": log.attributes,
    }
    return Rows(log.players, log.arms, *columns, low, high, design, adaptive, *left_out, offered, **named)


def only(log: Log, players: Iterable[str]) -> Log:
    """The rows of these players."""
    names = list(players)
    for name in names:
        if name not in log.players:
            raise ValueError(f"the log has no player {name!r}; its players are {listed(log.players)}")
    return log.kept(np.isin(log.player, [log.players.index(name) for name in names]))


def held_out(log: Log) -> Log:
    """The decisions that a learner held out: their arms had equal shares within their limits, whatever it learned."""
    if log.holdout is None or not log.holdout.any():
        raise ValueError("the log has no decisions that were held out; posse.Learner(..., holdout=0.1) holds some out")
    kept, each = log.kept(log.holdout), 1 / len(log.arms)
    equal = kept.propensity is not None and np.allclose(kept.propensity, each, rtol=ROUNDED, atol=0)
    drawn = np.full((kept.arm.size, len(log.arms)), each)
    if kept.probabilities is not None and kept.rounds is not None and not np.isnan(kept.probabilities).any():
        drawn = equal_shares(log.about, kept.rounds, kept.probabilities > 0)
    elif any(change.get("kind") in ("add arm", "retire arm") for change in log.about.get("changes", ())):
        raise ValueError("arms came or went in this log, so the propensities of its held out decisions differ")
    elif "changes" not in log.about and not equal:
        raise ValueError(
            "whether arms came or went is not in this log, so nobody knows how its held out decisions were drawn: give "
            f"learner.log() itself or as Parquet, or write a propensity of {each:.4g} in those rows"
        )
    propensity = drawn[np.arange(kept.arm.size), kept.arm]
    return replace(kept, propensity=propensity, probabilities=drawn, about={**log.about, "adaptive": False})


def unseen(rows: Rows, probabilities: np.ndarray, target: str) -> np.ndarray:
    """For each player, whether the log has no row of an arm that the target plays; an error unless by mere chance."""
    pulls = rows.pulls()
    lacking = (probabilities > 0) & (pulls == 0) & (pulls.sum(axis=1) > 0)[:, None]
    never = lacking & ~playable(rows)
    if never.any():
        player, arm = np.argwhere(never)[0]
        raise ValueError(
            f"no overlap: {target} plays arm {rows.arms[arm]!r} for player {rows.players[player]!r}, but no row to "
            "judge it by has both; judge a policy that does not, or leave that player out"
        )
    return lacking.any(axis=1)


def playable(rows: Rows) -> np.ndarray:
    """Which arms each player can be judged by, [player, arm]: those that it played, or could have played in every row.

    Then weights stay fair. That an arm could have been played is known if each row has the probabilities of all arms,
    or if propensities are fixed (`fixed_shares`).
    """
    if fixed_shares(rows.design) is not None:
        return np.ones(rows.shape, bool)
    pulls = rows.pulls()
    found = (pulls > 0) | (pulls.sum(axis=1) == 0)[:, None]
    if rows.probabilities is not None:
        blocked = np.zeros(rows.shape, np.int64)
        np.add.at(blocked, rows.player, ~(rows.probabilities > 0))  # not on offer, or not known
        found |= blocked == 0
    return found


def average_weight(rows: Rows, arm: int) -> tuple[float, float, float]:
    """The average weight of an arm, its standard deviation if propensities are right, and how far from 1 it may be.

    A weight is 1/e where the arm was played, with e its propensity, and 0 elsewhere. How far the average may be from 1
    is Bernstein's inequality (Freedman, 1975, for logs that learn).
    """
    if rows.offered is not None:
        rows = rows.taken(np.flatnonzero(rows.offered[:, arm]))
    weights, chances = (rows.arm == arm) / rows.propensity, _chances(rows, arm)
    if chances is not None:
        weights, chances = weights[~np.isnan(chances)], chances[~np.isnan(chances)]
    if not weights.any():
        return 1.0, 0.0, 0.0
    mean, size = float(weights.mean()), weights.size
    square = float((weights**2).sum() / weights.sum()) if chances is None else float((1 / chances).mean())
    variance = max(square - 1, 0.0)
    linear = (float(weights.max()) if mean > 1 else 1.0) * UNLIKELY / (3 * size)
    return mean, math.sqrt(variance / size), linear + math.sqrt(linear**2 + 2 * variance * UNLIKELY / size)


def check_draws(rows: Rows) -> int:
    """How many players have an arm more or less often than draws row by row would give; an error if one arm each.

    Only fixed propensities say what to expect. Of n rows drawn with the probability p, a share as far from p as f has a
    probability of at most exp(−n KL(f, p)) (Chernoff); propensities that were rounded are given some room. All n rows
    of a player have one arm with a probability of at most pⁿ + (1 − p)ⁿ, and the number of such players is far above
    its expectation E with a probability of at most exp(−k ln(k/E) + k − E).
    """
    if rows.design is None or rows.adaptive:
        return 0
    pulls = rows.pulls()
    size, there = pulls.sum(axis=1), np.arange(len(rows.players))
    chance = np.where(np.isnan(rows.design), 0.0, rows.design)
    found = pulls / np.maximum(size, 1)[:, None]
    near = np.clip(found, (1 - ROUNDED) * chance, np.minimum((1 + ROUNDED) * chance, 1))
    arm, several = pulls.argmax(axis=1), size > 1
    once, p = several & (pulls[there, arm] == size), near[there, arm]
    k, expected = int(once.sum()), max(float((p**size + (1 - p) ** size)[several].sum()), 1e-300)
    if 2 * k > several.sum() and k * math.log(k / expected) - k + expected > UNLIKELY:
        raise ValueError(
            f"arms seem to have been drawn once for each player, not for each row: {k:,} of {several.sum():,} players "
            "with several rows have one arm in all of them, though its propensity is below 1. Then a player is one "
            "draw, and intervals that take every row for a draw are far too narrow. Give one row for each player "
            "instead: its arm, its mean reward and the propensity"
        )
    far = (size[:, None] * _divergence(found, near) > UNLIKELY + math.log(2 * pulls.size)) & (pulls > 0)
    return int(far.any(axis=1).sum())


def _divergence(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL of two shares: f ln(f/p) + (1 − f) ln((1 − f)/(1 − p)), 0 ln 0 being 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (np.where(f > 0, f * np.log(f / p), 0.0) for f, p in ((one, other), (1 - one, 1 - other)))
        return np.asarray(sum(parts))


def _chances(rows: Rows, arm: int) -> np.ndarray | None:
    """The propensity of an arm in each row, played or not, NaN where unknown; None if propensities vary."""
    if rows.design is None or rows.adaptive:
        return None
    known = fixed_shares(rows.design)
    if known is not None:
        return np.asarray(known[rows.player, arm])
    least = np.where(np.isnan(rows.design), 1, rows.design).min(axis=1)
    sure = rows.pulls().sum(axis=1) * least >= SEEN
    return np.asarray(np.where(sure, rows.design[:, arm], np.nan)[rows.player])


def _design(log: Log) -> np.ndarray | None:
    """The log's design, if it is one: probabilities add up to 1 at most."""
    design = log.design()
    if design is not None and not log.about.get("adaptive"):
        totals = np.nansum(design, axis=1)
        worst = int(totals.argmax())
        if totals[worst] > 1 + ROUNDED:
            raise ValueError(
                f"the propensities of player {log.players[worst]!r} are the same throughout and add up to "
                f"{totals[worst]:g} over the arms, but probabilities add up to 1"
            )
    return design
