"""Seeded families of problems. Problem number k of a family depends on the seed and k alone, not on the count."""

from __future__ import annotations

import numpy as np

from posse.checks import number, whole
from posse.problem import Problem
from posse.rewards import Bernoulli, Family
from posse.streams import GENERATE, check_seed, key, uniforms

BASE = 0.8  # the arms that are not subpar start here for the first player


def subpar(
    n_subpar: int,
    *,
    count: int = 1,
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
    players = whole("players", players, least=1)
    arms = whole("arms", arms, least=1)
    n_subpar = whole("n_subpar", n_subpar, least=0)
    epsilon = number("epsilon", epsilon, least=0, most=1)
    _check_subpar(n_subpar, arms, epsilon)
    good = arms - n_subpar
    problems = []
    for draws in _draws(count, seed, players * arms):
        first = np.empty(arms)
        first[:good] = BASE + epsilon * draws[:good]
        first[good:] = (first[:good].max() - 5 * epsilon) * draws[good:arms]
        means = np.vstack([first, _around(np.tile(first, (players - 1, 1)), epsilon, draws[arms:])])
        problems.append(Problem(means, epsilon, rewards))
    return problems


def uniform(
    *,
    count: int = 1,
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
    players = whole("players", players, least=1)
    arms = whole("arms", arms, least=1)
    epsilon = number("epsilon", epsilon, least=0, most=1)
    problems = []
    for draws in _draws(count, seed, (players + 1) * arms):
        centres = np.tile(draws[:arms], (players, 1))
        problems.append(Problem(_around(centres, epsilon, draws[arms:]), epsilon, rewards))
    return problems


def _draws(count: int, seed: int, numbers: int) -> list[np.ndarray]:
    check_seed(seed)
    return [uniforms(numbers, key(seed, k), GENERATE) for k in range(whole("count", count, least=0))]


def _around(centres: np.ndarray, epsilon: float, draws: np.ndarray) -> np.ndarray:
    """Means uniform within ε/2 of the centres, the intervals (not the samples) cut to [0, 1]."""
    low = np.maximum(centres - epsilon / 2, 0)
    high = np.minimum(centres + epsilon / 2, 1)
    return low + (high - low) * draws.reshape(centres.shape)


def _check_subpar(n_subpar: int, arms: int, epsilon: float) -> None:
    if n_subpar >= arms:
        raise ValueError(f"n_subpar={n_subpar} of arms={arms}, but the best arm is never subpar: at most {arms - 1}")
    if BASE + epsilon > 1:
        raise ValueError(f"epsilon={epsilon:g}, but this family needs 0.8 + epsilon <= 1: at most 0.2")
    if n_subpar and BASE - 5 * epsilon < 0:
        raise ValueError(
            f"epsilon={epsilon:g} with n_subpar={n_subpar}, but a subpar arm lies 5 epsilon below an arm near 0.8: "
            "at most 0.16"
        )
