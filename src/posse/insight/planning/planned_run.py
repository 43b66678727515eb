"""The run that is planned: players, arms, traffic and where its problems come from, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import number, whole
from posse.insight.logs import Log, read_log, with_range
from posse.insight.planning.model import Population, guessed_problems, population_of, reward_dispersion
from posse.insight.planning.text import guess_in_words, history_in_words
from posse.learner import Counts
from posse.problem import Problem
from posse.schedule import Concurrent, Random, Schedule

PLAYERS, ARMS, DECISIONS, EPSILON, EFFECT, BASE = 12, 3, 2000, 0.05, 0.03, 0.2
LEAST_EPSILON = 1e-6  # as a share of the reward range; assumed if the problems show no difference at all


@dataclass(frozen=True, eq=False)
class DrawnProblems:
    """Problems, on the scale [0, 1], and what they assume, in sentences."""

    problems: list[Problem]
    epsilon: float
    """The right ε: the most by which players differ in them, in units of reward."""
    assumed: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A planned run, as far as it does not depend on policies."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    decisions: np.ndarray
    """Decisions of each player over the whole run, int64 [player]."""
    low: float
    high: float
    given: float | None
    """The ε that the user gave beside the data, in units of reward."""
    draw: Callable[[int, int], DrawnProblems]
    """Draws problems, given how many and a seed."""

    @property
    def schedule(self) -> Schedule:
        """Who is active in a round: the busiest player always, others with a probability that gives their share."""
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
) -> PlannedRun:
    """The run that a guess describes, with defaults for what is omitted."""
    decisions = DECISIONS if decisions is None else decisions
    if players is None:
        players = PLAYERS if np.ndim(decisions) == 0 else np.size(decisions)
    players = whole("players", players, least=2)
    arms = whole("arms", ARMS if arms is None else arms, least=2)
    traffic = _traffic(decisions, days, players)
    epsilon = number("epsilon", EPSILON if epsilon is None else epsilon, above=0, most=1)
    effect = number("effect", EFFECT if effect is None else effect, least=0, most=1)
    base = number("base", BASE if base is None else base, least=0, most=1)
    right, narrowest = _room(base, effect, epsilon)
    assumed = guess_in_words(base, effect, epsilon, right, narrowest)

    def draw(count: int, seed: int) -> DrawnProblems:
        problems = guessed_problems(players, arms, right, effect, base, count=count, seed=seed)
        return DrawnProblems(problems, right, assumed)

    return PlannedRun(
        tuple(f"player {number + 1}" for number in range(players)),
        tuple(f"arm {number + 1}" for number in range(arms)),
        traffic,
        0.0,
        1.0,
        None,
        draw,
    )


def from_history(
    history: Any,
    decisions: float | Sequence[float] | None,
    days: int | None,
    epsilon: float | None,
    reward: str,
    reward_range: tuple[float, float] | None,
) -> PlannedRun:
    """The run that historical data describes."""
    counts, dispersion = _read(history, reward, reward_range)
    _check(counts)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, above=0, most=counts.high - counts.low)
    if decisions is None and days is not None:
        raise ValueError(f"days={days}, but how many decisions a day is not said; give decisions too")
    pulls = counts.pulls.sum(axis=1)
    traffic = np.maximum(pulls, 1) if decisions is None else _traffic(decisions, days, len(counts.players))
    population = population_of(counts, dispersion)
    return PlannedRun(
        counts.players,
        counts.arms,
        traffic,
        counts.low,
        counts.high,
        epsilon,
        lambda count, seed: _from_posterior(counts, population, epsilon, count, seed),
    )


def _room(base: float, effect: float, epsilon: float) -> tuple[float, float]:
    """The largest ε up to the one given that means in [0, 1] leave room for, and the room on the narrowest arm."""
    if base + effect > 1:
        raise ValueError(f"base={base:g} with effect={effect:g}, but the best arm's mean, their sum, is at most 1")
    widest = 2 * min(base, 1 - base), 2 * min(base + effect, 1 - base - effect)
    if max(widest) == 0:
        raise ValueError(
            f"base={base:g} with effect={effect:g}, but rewards are 0 or 1: with such means players cannot differ"
        )
    return min(epsilon, max(widest)), min(widest)


def _from_posterior(
    counts: Counts, population: Population, given: float | None, number: int, seed: int
) -> DrawnProblems:
    """Problems that the data leaves possible; the right ε is the median of theirs."""
    problems = population.problems(count=number, seed=seed)
    unit = counts.high - counts.low
    ranges = unit * np.array([problem.epsilon for problem in problems])
    right = max(float(f"{np.median(ranges):.2g}"), LEAST_EPSILON * unit)
    differs = right > LEAST_EPSILON * unit
    return DrawnProblems(problems, right, history_in_words(counts, problems, ranges, right, given, differs))


def _read(history: Any, reward: str, reward_range: tuple[float, float] | None) -> tuple[Counts, float]:
    """Counts and the rewards' dispersion, which is that of rewards of 0 and 1 if only counts are given."""
    if isinstance(history, Counts):
        return with_range(history, reward_range), 1.0
    log = with_range(history if isinstance(history, Log) else read_log(history, reward), reward_range)
    player, arm, rewards = log.scaled_rewards()
    return log.counts(), reward_dispersion(player, arm, rewards) if rewards.size else 1.0


def _check(counts: Counts) -> None:
    players, arms = counts.pulls.shape
    if players < 2 or arms < 2:
        raise ValueError(f"the history has {players} × {arms} players and arms, but a plan needs at least two of each")
    known = (counts.pulls > 0).sum(axis=0)
    if known.min() == 0:
        raise ValueError(
            f"arm {counts.arms[known.argmin()]!r} has no rewards on record, so nothing can be said about it"
        )
    if known.max() == 1:
        raise ValueError(
            "no arm has rewards of two players on record, so nothing says how far players differ; expected at least one"
        )


def _traffic(decisions: float | Sequence[float], days: int | None, players: int) -> np.ndarray:
    """Decisions of each player over the whole run, int64 [player]."""
    each = list(decisions) if isinstance(decisions, Iterable) and np.ndim(decisions) else [decisions] * players
    if len(each) != players:
        raise ValueError(
            f"decisions are {len(each)} numbers, but there are {players} players; expected one or {players}"
        )
    total = [round(number("decisions", value, above=0) * (days or 1)) for value in each]
    if min(total) < 1:
        raise ValueError(f"decisions={each[total.index(0)]:g}, but expected at least one for each player over the run")
    return np.array(total, np.int64)
