"""What a plan is about: players, arms, traffic and where its problems come from, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number, whole
from posse.insight.logs import Log, read_log
from posse.insight.planning.problems import Population, fit_population, guessed_problems, reward_dispersion
from posse.learner import Counts
from posse.problem import Problem
from posse.schedule import Concurrent, Random, Schedule

PLAYERS, ARMS, DECISIONS, EPSILON, EFFECT, BASE = 12, 3, 2000, 0.05, 0.03, 0.2
MOST_ARMS_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Setting:
    """A planned experiment, as far as it does not depend on policies."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    decisions: np.ndarray
    """Decisions of each player over the whole run, int64 [player]."""
    low: float
    high: float
    epsilon: float | None
    """In units of reward; None: to be read off the problems."""
    assumed: tuple[str, ...]
    draw: Callable[[int, int], list[Problem]]
    """So many problems from a seed, on the scale [0, 1]."""

    @property
    def schedule(self) -> Schedule:
        """Who is active in a round: the busiest player always, others with chances that give them their share."""
        busiest = self.decisions.max()
        return Concurrent() if (self.decisions == busiest).all() else Random((self.decisions / busiest).tolist())


def from_guess(
    players: int | None,
    arms: int | None,
    decisions: float | Sequence[float] | None,
    days: int | None,
    epsilon: float | None,
    effect: float | None,
    base: float | None,
) -> Setting:
    """The setting that a guess describes, with defaults for what is omitted."""
    decisions = DECISIONS if decisions is None else decisions
    if players is None:
        players = PLAYERS if np.ndim(decisions) == 0 else np.size(decisions)
    players = whole("players", players, least=2)
    arms = whole("arms", ARMS if arms is None else arms, least=2)
    traffic = _traffic(decisions, days, players)
    epsilon = number("epsilon", EPSILON if epsilon is None else epsilon, above=0, most=1)
    effect = number("effect", EFFECT if effect is None else effect, least=0, most=1)
    base = number("base", BASE if base is None else base, least=0, most=1)
    if base + effect > 1:
        raise ValueError(f"base={base:g} with effect={effect:g}, but the best arm's mean, their sum, is at most 1")
    widest = 2 * min(base, 1 - base), 2 * min(base + effect, 1 - base - effect)
    narrower = "" if min(widest) >= epsilon else f", or {min(widest):.3g} where they would leave [0, 1] otherwise"
    assumed = (
        f"The best arm earns {base + effect:.4g} a decision on average over players, the others {base:.4g}; rewards "
        "are 0 or 1.",
        f"For each arm, the players' means lie anywhere within ε = {epsilon:g}{narrower}.",
    )
    return Setting(
        tuple(f"player {number + 1}" for number in range(players)),
        tuple(f"arm {number + 1}" for number in range(arms)),
        traffic,
        0.0,
        1.0,
        epsilon,
        assumed,
        lambda count, seed: guessed_problems(players, arms, epsilon, effect, base, count=count, seed=seed),
    )


def from_history(
    history: Any,
    decisions: float | Sequence[float] | None,
    days: int | None,
    epsilon: float | None,
    reward: str,
    reward_range: tuple[float, float] | None,
) -> Setting:
    """The setting that historical data describes."""
    counts, dispersion = _read(history, reward, reward_range)
    _check(counts)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, above=0, most=counts.high - counts.low)
    if decisions is None and days is not None:
        raise ValueError(f"days={days}, but how many decisions a day is not told; give decisions too")
    pulls = counts.pulls.sum(axis=1)
    traffic = np.maximum(pulls, 1) if decisions is None else _traffic(decisions, days, len(counts.players))
    population = fit_population(counts, dispersion)
    unit = counts.high - counts.low
    assumed = (
        f"The problems are what {pulls.sum():,} rewards on record leave possible. {_arm_means(counts, population)}",
        f"Noise taken out, players vary by {unit * population.level:.2g} (standard deviation) in what all their arms "
        f"share and by {unit * population.own:.2g} arm by arm.",
        *([] if epsilon is None else [f"ε = {epsilon:g} as given."]),
    )
    return Setting(
        counts.players,
        counts.arms,
        traffic,
        counts.low,
        counts.high,
        epsilon,
        assumed,
        lambda count, seed: population.problems(count=count, seed=seed),
    )


def _arm_means(counts: Counts, population: Population) -> str:
    shown = [
        f"{name} {counts.low + (counts.high - counts.low) * population.arm_means[arm]:.3g}"
        for arm, name in enumerate(counts.arms)
    ]
    if len(shown) <= MOST_ARMS_SHOWN:
        return f"Means over players: {', '.join(shown)}."
    best, worst = int(population.arm_means.argmax()), int(population.arm_means.argmin())
    return f"Means over players: from {shown[worst]} to {shown[best]}."


def _read(history: Any, reward: str, reward_range: tuple[float, float] | None) -> tuple[Counts, float]:
    """Pulls and sums, and how much the rewards vary for their means; of counts alone, as much as rewards of 0 and 1."""
    if isinstance(history, Counts):
        if reward_range is not None:
            raise ValueError(f"reward_range={reward_range!r}, but the counts have their own: leave it out")
        return history, 1.0
    log = history if isinstance(history, Log) else read_log(history, reward)
    counts = log.counts()
    if reward_range is not None:
        low, high = _check_range(reward_range)
        counts = Counts(counts.players, counts.arms, counts.pulls, counts.sums, low, high)
    known = ~np.isnan(log.reward)
    rewards = log.reward[known]
    outside = rewards[(rewards < counts.low) | (rewards > counts.high)]
    if outside.size:
        raise ValueError(
            f"the log has a reward of {outside[0]:g}, but rewards are in [{counts.low:g}, {counts.high:g}]; "
            "give the range that is possible as reward_range"
        )
    scaled = (rewards - counts.low) / (counts.high - counts.low)
    return counts, reward_dispersion(log.player[known], log.arm[known], scaled) if scaled.size else 1.0


def _check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = reward_range
    except (TypeError, ValueError):
        raise ValueError(f"reward_range={reward_range!r}, but expected two numbers") from None
    low = number("the least reward", low)
    return low, number("the greatest reward", high, above=low)


def _check(counts: Counts) -> None:
    players, arms = counts.pulls.shape
    if players < 2 or arms < 2:
        raise ValueError(f"the history has {players} × {arms} players and arms, but a plan needs at least two of each")
    empty = np.flatnonzero(counts.pulls.sum(axis=0) == 0)
    if empty.size:
        raise ValueError(f"arm {counts.arms[empty[0]]!r} has no rewards on record, so nothing can be said of it")
    low, high = counts.low * counts.pulls, counts.high * counts.pulls
    slack = 1e-9 * (np.abs(low) + np.abs(high))  # sums are rounded
    bad = np.argwhere((counts.sums < low - slack) | (counts.sums > high + slack))
    if len(bad):
        player, arm = bad[0]
        raise ValueError(
            f"player {counts.players[player]!r} earned {counts.sums[player, arm]:g} with {counts.pulls[player, arm]} "
            f"pulls of arm {counts.arms[arm]!r}, but rewards are in [{counts.low:g}, {counts.high:g}]"
        )


def _traffic(decisions: float | Sequence[float], days: int | None, players: int) -> np.ndarray:
    """Decisions of each player over the whole run, int64 [player]."""
    each = [decisions] * players if np.ndim(decisions) == 0 else list(decisions)  # type: ignore[arg-type]
    if len(each) != players:
        raise ValueError(
            f"decisions are {len(each)} numbers, but there are {players} players; expected one or {players}"
        )
    total = [round(number("decisions", value, above=0) * (days or 1)) for value in each]
    if min(total) < 1:
        raise ValueError(f"decisions={each[total.index(0)]:g}, but expected at least one for each player over the run")
    return np.array(total, np.int64)
