"""The run that is planned: players, arms, traffic and where its problems come from, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posse.attribute_effects import AttributeEffects
from posse.attributes import CATEGORY
from posse.checks import number, whole
from posse.generate import SCALES
from posse.insight.hierarchy.data import PlayerData
from posse.insight.hierarchy.model import PlayerModel
from posse.insight.hierarchy.shares import AttributeShares
from posse.insight.planning.policies import MOST_POLICIES
from posse.insight.planning.text import guess_in_words, history_in_words
from posse.learner import Counts
from posse.problem import Problem
from posse.rewards import Bernoulli, Beta
from posse.schedule import Concurrent, Random, Schedule
from posse.text import listed

GUESS = {"players": 12, "arms": 3, "effect": 0.03, "base": 0.2, "levels": 0.0}  # what is taken if nothing is said
DECISIONS, EPSILON = 2000, 0.05
WORK = 250_000_000  # decisions to simulate by default: about ten seconds on two cores
FEWEST, MOST = 10, 100  # problems
ATTRIBUTE, EXPLAINED, VALUES = "segment", 0.5, 4  # of a guess, if one of the numbers is given
PART = 0.2  # of the upper end of the spread's interval: the least ε that is planned for


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A planned run, as far as it does not depend on policies. Rewards are in the user's units."""

    players: tuple[str, ...]
    arms: tuple[str, ...]
    decisions: np.ndarray
    """Expected decisions of each player over the whole run, int64 [player]."""
    low: float
    """The least possible reward."""
    high: float
    """The greatest possible reward."""
    given_epsilon: float | None
    """The ε that was given beside historical data, to be compared with the right one; None if not given."""
    problems: list[Problem] = field(repr=False)
    """What the run may turn out to be, with rewards on the scale [0, 1]."""
    epsilon: float
    """The right ε: the most by which players differ on an arm; from data, what 95 % of the pairs stay within."""
    assumed: tuple[str, ...]
    """What was assumed, in sentences."""
    model: PlayerModel | None = field(repr=False)
    """What the data says about the players; None for a guess."""

    @property
    def schedule(self) -> Schedule:
        """Who is active in a round: the busiest player always, others with a probability that gives their share."""
        busiest = self.decisions.max()
        return Concurrent() if (self.decisions == busiest).all() else Random((self.decisions / busiest).tolist())


class PlanRequest(NamedTuple):
    """What is asked of a plan from a guess and from data alike; None if it is omitted."""

    decisions: float | Sequence[float] | None
    days: int | None
    epsilon: float | None
    problems: int | None
    seed: int


def from_guess(asked: PlanRequest, guess: Mapping[str, Any]) -> PlannedRun:
    """The run that a guess describes, with defaults for what is omitted, and its problems."""
    given = GUESS | {name: value for name, value in guess.items() if value is not None}
    decisions = DECISIONS if asked.decisions is None else asked.decisions
    if guess["players"] is None and np.ndim(decisions):
        given["players"] = np.size(decisions)
    players, arms = (whole(name, given[name], least=2) for name in ("players", "arms"))
    traffic = _traffic(decisions, asked.days, players)
    epsilon = number("epsilon", EPSILON if asked.epsilon is None else asked.epsilon, above=0, most=1)
    effect, base = (number(name, given[name], least=0, most=1) for name in ("effect", "base"))
    own, narrowest = _room(base, effect, epsilon)
    levels = _levels(given["levels"], base)
    total = float(f"{own + _widest_level(base, effect, levels):.3g}") if levels else None
    assumed, known = guess_in_words(base, effect, epsilon, own, narrowest, levels, total), None
    if "explained" in given or "values" in given:
        values = whole("values", given.get("values", VALUES), least=2, most=players)
        share = number("explained", given.get("explained", EXPLAINED), least=0, most=1)
        known = AttributeEffects({ATTRIBUTE: values}, players=players, arms=arms, explained=share)
        assumed += (
            f"The players have an attribute with {values} values. It explains {100 * share:.0f} % of the variance "
            "between their means, and the rest is their own. Policies that use attributes, such as PosseTS, are told.",
        )
    count = asked.problems or _affordable(traffic)
    drawn: dict[str, Any] = {"count": count, "seed": asked.seed, "known": known, "levels": levels}
    problems = guessed_problems(players, arms, own, effect, base, **drawn)
    names = [tuple(f"{what} {place + 1}" for place in range(n)) for what, n in (("player", players), ("arm", arms))]
    return PlannedRun(names[0], names[1], traffic, 0.0, 1.0, None, problems, total or own, assumed, None)


def from_history(asked: PlanRequest, data: PlayerData) -> PlannedRun:
    """The run that historical data describes, and problems that the data leaves possible."""
    counts, epsilon = data.counts, asked.epsilon
    _check(counts)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, above=0, most=counts.high - counts.low)
    if asked.decisions is None and asked.days is not None:
        raise ValueError(f"days={asked.days}, but how many decisions a day is not said; give decisions too")
    if asked.decisions is None:
        traffic = np.maximum(counts.pulls.sum(axis=1), 1)
    else:
        traffic = _traffic(asked.decisions, asked.days, len(counts.players))
    model, known = data.model, None if data.shares is None else (counts, data.shares)
    problems = problems_of(model, counts.low, asked.problems or _affordable(traffic), asked.seed, known)
    spread = model.spread()
    right = float(f"{max(spread.value, PART * spread.high):.2g}")
    assumed = history_in_words(counts, model, right, epsilon)
    if counts.attributes:
        names = listed(counts.attributes)
        assumed += (f"The players have attributes: {names}. Policies that use them, such as PosseTS, are told.",)
    return PlannedRun(
        counts.players, counts.arms, traffic, counts.low, counts.high, epsilon, problems, right, assumed, model
    )


def problems_of(
    model: PlayerModel, low: float, count: int, seed: int, known: tuple[Counts, AttributeShares] | None = None
) -> list[Problem]:
    """Problems that the data leaves possible, on the scale [0, 1]; rewards vary as much as those on record.

    If attributes are `known`, with what they explain, players that have them in common are alike.
    """
    rewards = Bernoulli() if model.dispersion > 1 - 1e-9 else Beta(1 / model.dispersion - 1)
    means, told = model.problems(count, seed), dict[str, Any]()
    if known is not None:
        draws, given = known[1].draws, known[0].attributes or {}
        chosen = np.random.default_rng(seed).choice(len(draws), count, replace=count > len(draws))
        there, arms = (np.flatnonzero(each) for each in model.there)
        means[:, there[:, None], arms] = draws[chosen]
        told["attributes"] = dict.fromkeys(given, CATEGORY)
        told["values"] = [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]
    means = np.clip((means - low) / model.unit, 0, 1)
    return [Problem(each, rewards=rewards, stream=place, **told) for place, each in enumerate(means)]


def guessed_problems(
    players: int,
    arms: int,
    epsilon: float,
    effect: float,
    base: float,
    *,
    count: int,
    seed: int,
    known: AttributeEffects | None = None,
    levels: float = 0.0,
) -> list[Problem]:
    """Problems whose best arm has center base + effect and all others base; players are uniform within ε/2 around it.

    Where that would leave [0, 1], the interval is narrower on both sides, so that the center stays the mean over
    players. The best arm is another one from problem to problem; problem k depends only on the seed and k. What is
    `known` of players is a part of how they vary: the sum of its effects and of what is their own stays within ε/2.
    With `levels`, base is uniform on an interval of that length from player to player, and what that moves it by on the
    logit scale is added to all of the player's means.

    >>> problem = guessed_problems(4, 3, epsilon=0.0, effect=0.1, base=0.2, count=1, seed=0)[0]
    >>> problem.means[0].round(2).tolist(), problem.epsilon
    ([0.3, 0.2, 0.2], 0.0)
    """
    problems, most = [], min(epsilon + _widest_level(base, effect, levels), 1.0) if levels else epsilon
    for k in range(count):
        random = np.random.default_rng([seed, k])
        centers = np.full(arms, base)
        centers[k % arms] += effect
        centers = np.tile(centers, (players, 1))
        half = np.minimum(epsilon / 2, np.minimum(centers, 1 - centers))
        apart, told = 2 * random.random((players, arms)) - 1, dict[str, Any]()
        if known is not None:
            effects, values = known.draw(random.random(known.numbers))
            apart = (effects + known.own / 2 * apart) / (known.reach + known.own / 2)
            told = {"attributes": known.attributes, "values": values}
        if levels:
            centers = _moved(centers, base, levels * (random.random((players, 1)) - 0.5))
            half = np.minimum(epsilon / 2, np.minimum(centers, 1 - centers))
        means = np.clip(centers + half * apart, 0, 1)  # clipped: rounding
        problems.append(Problem(means, most, stream=k, **told))  # the stream tells apart: ε = 0 draws equal means
    return problems


def _affordable(traffic: np.ndarray) -> int:
    """How many problems can be simulated in about ten seconds."""
    return min(MOST, max(FEWEST, WORK // (int(traffic.sum()) * MOST_POLICIES)))


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


def _levels(levels: float, base: float) -> float:
    """How far players' levels lie apart; an error if base would leave (0, 1)."""
    room = 2 * min(base, 1 - base)
    if number("levels", levels, least=0) and levels >= room:
        raise ValueError(
            f"levels={levels:g} around base={base:g}, but expected less than {room:g}, so that it stays in (0, 1)"
        )
    return float(levels)


def _moved(centers: np.ndarray, base: float, by: Any) -> np.ndarray:
    """The centers, if a player's level moves base by so much, and all centers by as much on the logit scale."""
    onto, back, _ = SCALES["logit"]
    with np.errstate(divide="ignore"):
        return np.asarray(back(onto(centers) + onto(base + by) - onto(base)))


def _widest_level(base: float, effect: float, levels: float) -> float:
    """How far levels move players apart, on the arm where they do so most."""
    low, high = (_moved(np.array([base, base + effect]), base, by) for by in (-levels / 2, levels / 2))
    return float((high - low).max())


def _check(counts: Counts) -> None:
    players, arms = counts.pulls.shape
    if players < 2 or arms < 2:
        raise ValueError(f"the history has {players} × {arms} players and arms, but a plan needs at least two of each")
    known = (counts.pulls > 0).sum(axis=0)
    if known.min() == 0:
        name = counts.arms[known.argmin()]
        raise ValueError(f"arm {name!r} has no rewards on record, so nothing can be said about it")
    if known.max() == 1:
        raise ValueError(
            "no arm has rewards of two players on record, so nothing says how far players differ; expected at least one"
        )


def _traffic(decisions: float | Sequence[float], days: int | None, players: int) -> np.ndarray:
    """Decisions of each player over the whole run, int64 [player]."""
    each = list(decisions) if isinstance(decisions, Iterable) and np.ndim(decisions) else [decisions] * players
    if len(each) != players:
        there = f"there are {players} players; expected one or {players}"
        raise ValueError(f"decisions are {len(each)} numbers, but {there}")
    total = [round(number("decisions", value, above=0) * (days or 1)) for value in each]
    if min(total) < 1:
        raise ValueError(f"decisions={each[total.index(0)]:g}, but expected at least one for each player over the run")
    return np.array(total, np.int64)
