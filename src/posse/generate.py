"""Seeded families of problems. Problem number k of a family depends on the seed and k alone, not on the count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from posse.attribute_effects import AttributeEffects, declare
from posse.checks import number, one_of, whole
from posse.problem import Problem
from posse.rewards import Bernoulli, Family
from posse.streams import GENERATE, check_seed, key, uniforms

__all__ = ["changing", "structured", "subpar", "uniform"]

ODDITIES = ("reversed", "swapped", "favourite", "own")
SCALES: dict[str, tuple[Any, Any, float]] = {
    "logit": (lambda mean: np.log(mean / (1 - mean)), lambda x: 1 / (1 + np.exp(-x)), 0.5),
    "log": (np.log, np.exp, 1.0),
}
"""A scale, its inverse, and where on the scale of means a step on it moves a mean most."""
LIFT = 0.1  # how much better than the best centre a private favourite is
BASE = 0.8  # the arms that are not subpar start here for the first player


def subpar(
    n_subpar: int,
    *,
    count: int | range = 1,
    seed: int = 0,
    players: int = 20,
    arms: int = 10,
    epsilon: float = 0.15,
    rewards: Family | str = Bernoulli(),
) -> list[Problem]:
    """Problems with exactly `n_subpar` arms in I_5ε, drawn as in the paper's experiments.

    Player 0's first arms − n_subpar means are uniform on [0.8, 0.8 + ε]; with d their maximum, its other means are
    uniform on [0, d − 5ε]. Every other player's mean is uniform within ε/2 of player 0's, the interval cut to
    [0, 1]. The problem carries the ε asked for, also where its actual spread is smaller.

    >>> problems = subpar(8, count=3, seed=1)
    >>> [len(problem.subpar_5) for problem in problems]
    [8, 8, 8]
    """
    players, arms = _check_size(players, arms)
    n_subpar = whole("n_subpar", n_subpar, least=0)
    epsilon = number("epsilon", epsilon, least=0, most=1)
    if n_subpar >= arms:
        raise ValueError(f"n_subpar={n_subpar} of arms={arms}, but the best arm is never subpar: at most {arms - 1}")
    if BASE + epsilon > 1:
        raise ValueError(f"epsilon={epsilon:g}, but this family needs 0.8 + epsilon <= 1: at most 0.2")
    if n_subpar and BASE - 5 * epsilon < 0:
        expected = "a subpar arm lies 5 epsilon below an arm near 0.8: at most 0.16"
        raise ValueError(f"epsilon={epsilon:g} with n_subpar={n_subpar}, but {expected}")
    good = arms - n_subpar
    problems = []
    for draws in _draws(count, seed, players * arms):
        first = np.empty(arms)
        first[:good] = BASE + epsilon * draws[:good]
        first[good:] = (first[:good].max() - 5 * epsilon) * draws[good:arms]
        problems.append(Problem(np.vstack([first, _around(first, epsilon, draws[arms:])]), epsilon, rewards))
    return problems


def uniform(
    *,
    count: int | range = 1,
    seed: int = 0,
    players: int = 20,
    arms: int = 10,
    epsilon: float = 0.15,
    rewards: Family | str = Bernoulli(),
) -> list[Problem]:
    """Problems whose arms' centres are uniform on [0, 1], each player's mean uniform within ε/2 of the centre.

    The interval is cut to [0, 1]. The second family of Wang, Zhang, Singh, Riek and Chaudhuri (AISTATS 2021).

    >>> uniform(players=5, arms=3, epsilon=0.1)[0].means.shape
    (5, 3)
    """
    players, arms = _check_size(players, arms)
    epsilon = number("epsilon", epsilon, least=0, most=1)
    return [
        Problem(_around(draws[:arms], epsilon, draws[arms:]), epsilon, rewards)
        for draws in _draws(count, seed, (players + 1) * arms)
    ]


def structured(
    *,
    count: int | range = 1,
    seed: int = 0,
    players: int | None = None,
    arms: int = 10,
    spread: float = 0.05,
    low: float = 0.2,
    high: float = 0.8,
    level: float = 0.0,
    groups: int = 1,
    unlike: float = 0.0,
    odd: int = 0,
    oddity: str = "reversed",
    rewards: Family | str = Bernoulli(),
    majority: float | None = None,
    scale: str | None = None,
    centers: Sequence[float] | None = None,
    attributes: Mapping[str, Any] | None = None,
    explained: float | Mapping[str, float] | None = None,
    interactions: float | None = None,
    missing: float | None = None,
    rare: float | None = None,
) -> list[Problem]:
    """Problems in which players are alike in some ways and not in others; each option adds one way.

    A mean is uniform within spread/2 of its centre (the interval cut to [0, 1]). The problem carries the smallest ε
    that holds for all problems with these options, and the group of each player. A group is players with the same
    centres, but for levels and unlike arms.

    With `attributes`, each value of each attribute has an effect on each arm, and spread/√12 is the standard deviation
    between players on an arm from all sources together: the attributes, their interactions, and what is the player's
    own, which is uniform. Shares of the variance hold on average over problems. Means are cut to [0, 1]. The ε
    then holds for all problems too, but it is not the smallest.

    Args:
        count: how many problems, or a range with their numbers in the family.
        seed: a non-negative integer.
        players: the number of players, M; if omitted 20, or one for each combination of attributes.
        arms: the number of arms, K.
        spread: how wide the means of players that are alike lie around an arm's centre.
        low: the centres are uniform on [low, high].
        high: see `low`.
        level: each player has a level of its own, added to all of its means, uniform on [−level/2, level/2].
        groups: so many groups of players, in order and as equal as can be, each with centres of its own.
        unlike: the share of the arms (the last ones, rounded up) for which every player has a centre of its own.
        odd: so many players, the last ones, are unlike all others by `oddity`.
        oddity: "reversed": centres mirrored, low + high − centre; "swapped": best and worst centre change places;
            "favourite": one arm, drawn for the player, has centre high + 0.1; "own": all centres of its own.
        rewards: the reward family.
        majority: the share of the players that is in the first group; the other groups are as equal as can be.
        scale: where `level` and `spread` are added: to the means if omitted, or to their "logit" or "log". A level on
            the "log" multiplies all means of a player by a factor.
        centers: the arms' centres, instead of drawn ones; `low` and `high` are then the least and the largest.
        attributes: {name: number of values}, or {name: [rising cut points]} for a number, whose effect is a slope over
            its bins. Players have all combinations in a mixed order, each equally often as far as that is possible.
        explained: the share of the variance between players that attributes explain, in equal parts; or {name: share},
            where an attribute that is not named explains nothing. 0.9 if omitted.
        interactions: a further share, which the interactions of every two attributes explain, in equal parts.
        missing: the probability that a player's value of an attribute is not told.
        rare: draws each player's values, so that some combinations are rare: an attribute's value number k has a
            share of the players in proportion to 1/k^rare.

    >>> problem = structured(players=4, arms=3, spread=0.0, odd=1)[0]
    >>> bool(problem.means[0].argmax() == problem.means[1].argmax() == problem.means[3].argmin())
    True
    >>> problem = structured(attributes={"region": 2, "age": [30, 50]}, spread=0.3)[0]
    >>> problem.players, problem.attributes.name(problem.values[0])
    (6, 'region=region 2, age=30 to 50')
    """
    given: dict[str, Any] = {"explained": explained, "interactions": interactions, "missing": missing, "rare": rare}
    if attributes is None:
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name}={value!r}, but there are no attributes")
    players, arms = _check_size(default_players(attributes) if players is None else players, arms)
    made = None if attributes is None else AttributeEffects(attributes, players=players, arms=arms, **given)
    if centers is not None:
        if not isinstance(centers, Iterable):
            raise TypeError(f"centers={centers!r}, but expected one number for each of {arms} arms")
        centers = [number("centers", center, least=0, most=1) for center in centers]
        if len(centers) != arms:
            raise ValueError(f"centers={centers}, but expected one for each of {arms} arms")
        low, high = min(centers), max(centers)
    if scale is not None:
        one_of("scale", scale, tuple(SCALES))
    widest = 1.0 if scale is None else 10.0
    spread = number("spread", spread, least=0, most=widest)
    low = number("low", low, least=0, most=1)
    high = number("high", high, least=low, most=1)
    level = number("level", level, least=0, most=widest)
    groups = whole("groups", groups, least=1, most=players)
    if centers is not None and groups > 1:
        raise ValueError(f"groups={groups} with centers, but then all groups would have the same centres; expected 1")
    unlike = number("unlike", unlike, least=0, most=1)
    odd = whole("odd", odd, least=0, most=players)
    one_of("oddity", oddity, ODDITIES)
    lift = LIFT if odd and oddity == "favourite" else 0.0
    differ = groups > 1 or unlike > 0 or odd > 0
    width = spread if made is None else spread * made.own
    widest = spread if made is None else width + 2 * spread * made.reach
    epsilon = _epsilon(scale, low, high, lift, level, widest, differ, centers or [])
    group = _groups(players, groups, majority)
    strange = np.arange(players)[players - odd :]
    told = group.copy()
    told[strange] = groups + (group[strange] if oddity in ("reversed", "swapped") else strange)
    problems = []
    pairs = (groups + 2 * players) * arms
    for draws in _draws(count, seed, pairs + 2 * players + (0 if made is None else made.numbers)):
        tables, rest = draws[:pairs].reshape(-1, arms), draws[pairs : pairs + 2 * players]
        shared, own, places = np.split(tables, [groups, groups + players])
        centres = low + (high - low) * shared[group] if centers is None else np.tile(centers, (players, 1))
        alone = low + (high - low) * own
        first = arms - math.ceil(unlike * arms)
        centres[:, first:] = alone[:, first:]
        for player in strange:
            centres[player] = _odd(oddity, centres[player], alone[player], low, high, rest[players + player])
        shift = level * (rest[:players, None] - 0.5)
        known: dict[str, Any] = {}
        if made is not None:
            effects, values = made.draw(draws[pairs + 2 * players :])
            shift = shift + spread * effects
            known = {"attributes": made.attributes, "values": values}
        if scale is None:
            means = _around(centres + shift if made is None else np.clip(centres + shift, 0, 1), width, places)
        else:
            onto, back, _ = SCALES[scale]
            means = back(onto(centres) + shift + width * (places - 0.5))
        problems.append(Problem(means, epsilon, rewards, groups=told, **known))
    return problems


def default_players(attributes: Mapping[str, Any] | None) -> int:
    """The number of players of `structured` if it is omitted: 20, or one for each combination of attributes."""
    return 20 if attributes is None else math.prod(declare(attributes)[1])


def _epsilon(
    scale: str | None,
    low: float,
    high: float,
    lift: float,
    level: float,
    spread: float,
    differ: bool,
    centers: Sequence[float],
) -> float:
    """The smallest ε that holds for all of these centres, or any in [low, high + lift], or if players' `differ`."""
    given = f"level={level:g} with centres from {low:g} to {high + lift:g}"
    if scale is None:
        if low - level / 2 < 0 or high + lift + level / 2 > 1:
            raise ValueError(f"{given}, but centres must stay in [0, 1]")
        return min(1.0, spread + level + (high - low + lift if differ else 0.0))
    onto, back, steepest = SCALES[scale]
    if low == 0 or high + lift >= 1:
        raise ValueError(f"scale={scale!r}, {given}, but it needs centres inside (0, 1)")
    half = (level + spread) / 2
    if (most := back(onto(high + lift) + half)) > 1:
        raise ValueError(f"{given} and spread={spread:g}, but the largest mean would be {most:.3g}")
    ranges = [(low, high + lift)] if differ else [(each, each) for each in centers or [min(max(steepest, low), high)]]
    return max(float(back(onto(last) + half) - back(onto(first) - half)) for first, last in ranges)


def _groups(players: int, groups: int, majority: float | None) -> np.ndarray:
    """The group of each player, in order."""
    if majority is None:
        return np.arange(players) * groups // players
    first = round(number("majority", majority, least=0, most=1) * players)
    if groups < 2 or not 1 <= first <= players - (groups - 1):
        raise ValueError(f"majority={majority:g} of {players} players in groups={groups}, but no group may be empty")
    return np.concatenate([np.zeros(first, int), 1 + np.arange(players - first) * (groups - 1) // (players - first)])


def changing(
    kind: str = "swap",
    *,
    count: int | range = 1,
    seed: int = 0,
    players: int = 20,
    arms: int = 10,
    spread: float = 0.05,
    low: float = 0.2,
    high: float = 0.8,
    every: int = 5000,
    times: int = 1,
    step: float = 0.1,
    rewards: Family | str = Bernoulli(),
) -> list[Problem]:
    """Problems whose means change `times` times, after every `every` rounds.

    Arms' centres start uniform on [low, high], and each player's mean keeps its place within spread/2 of the centre
    (the interval cut to [0, 1]). The centres change by `kind`:

    - "swap": the best and the worst one change places, and with the next change back;
    - "drift": each moves by up to `step` up or down, uniformly, and is reflected at low and high;
    - "season": each goes through a cycle of twelve segments between low and high, from a point of its own.

    >>> problem = changing("swap", players=4, arms=3, spread=0.0, every=100)[0]
    >>> bool(problem.at(100).means[0].argmax() == problem.at(101).means[0].argmin())
    True
    """
    players, arms = _check_size(players, arms)
    spread = number("spread", spread, least=0, most=1)
    low = number("low", low, least=0, most=1)
    high = number("high", high, least=low, most=1)
    every, times = whole("every", every, least=1), whole("times", times, least=1)
    step = number("step", step, least=0, most=1)
    one_of("kind", kind, tuple(_CHANGES))
    problems = []
    for draws in _draws(count, seed, (1 + times + players) * arms):
        rows = draws.reshape(-1, arms)
        centres = low + (high - low) * _CHANGES[kind](rows[: times + 1], step / (high - low) if high > low else 0.0)
        tables = [_around(each, spread, rows[times + 1 :]) for each in centres]
        changes = {every * segment + 1: means for segment, means in enumerate(tables) if segment}
        problems.append(Problem(tables[0], spread, rewards, changes=changes))
    return problems


def _swaps(draws: np.ndarray, step: float) -> np.ndarray:
    """Centres in [0, 1] in every segment, [segment, arm], from uniform draws of that shape; so do the next two."""
    swapped = _odd("swapped", draws[0], draws[0], 0.0, 1.0, 0.0)
    return np.array([swapped if segment % 2 else draws[0] for segment in range(len(draws))])


def _drift(draws: np.ndarray, step: float) -> np.ndarray:
    moved = draws[0] + np.vstack([np.zeros_like(draws[0]), step * (2 * draws[1:] - 1)]).cumsum(axis=0)
    return 1 - np.abs(1 - moved % 2)  # reflected as often as it takes


def _season(draws: np.ndarray, step: float) -> np.ndarray:
    segments = np.arange(len(draws))[:, None]
    return 0.5 + 0.5 * np.cos(2 * np.pi * (draws[0] + segments / 12))


_CHANGES = {"swap": _swaps, "drift": _drift, "season": _season}


def _odd(oddity: str, centres: np.ndarray, own: np.ndarray, low: float, high: float, draw: float) -> np.ndarray:
    """An odd player's centres, from those of its group and its own."""
    if oddity == "reversed":
        return low + high - centres
    if oddity == "own":
        return own
    changed = centres.copy()
    if oddity == "swapped":
        pair = [centres.argmax(), centres.argmin()]
        changed[pair] = centres[pair[::-1]]
    else:
        changed[int(draw * len(centres))] = high + LIFT
    return changed


def _check_size(players: int, arms: int) -> tuple[int, int]:
    return whole("players", players, least=1), whole("arms", arms, least=1)


def _draws(count: int | range, seed: int, numbers: int) -> list[np.ndarray]:
    check_seed(seed)
    places = count if isinstance(count, range) else range(whole("count", count, least=0))
    return [uniforms(numbers, key(seed, k), GENERATE) for k in places]


def _around(centres: np.ndarray, epsilon: float, draws: np.ndarray) -> np.ndarray:
    """Means uniform within ε/2 of the arms' centres, the intervals (not the samples) cut to [0, 1], [player, arm]."""
    low = np.maximum(centres - epsilon / 2, 0)
    high = np.minimum(centres + epsilon / 2, 1)
    return low + (high - low) * draws.reshape(-1, centres.shape[-1])


FAMILIES = {"subpar": subpar, "uniform": uniform, "structured": structured, "changing": changing}
