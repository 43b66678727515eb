"""Problems drawn from a guess."""

from __future__ import annotations

import numpy as np

from posse.problem import Problem


def guessed_problems(
    players: int, arms: int, epsilon: float, effect: float, base: float, *, count: int, seed: int
) -> list[Problem]:
    """Problems whose best arm has centre base + effect and all others base, players uniform within ε/2 of the centre.

    Where that would leave [0, 1], the interval is narrower, on both sides, so that the centre stays the mean over
    players. The best arm's place goes round from problem to problem; problem k depends on the seed and k alone.

    >>> problem = guessed_problems(4, 3, epsilon=0.0, effect=0.1, base=0.2, count=1, seed=0)[0]
    >>> problem.means[0].round(2).tolist(), problem.epsilon
    ([0.3, 0.2, 0.2], 0.0)
    """
    problems = []
    for k in range(count):
        random = np.random.default_rng([seed, k])
        centres = np.full(arms, base)
        centres[k % arms] += effect
        half = np.minimum(epsilon / 2, np.minimum(centres, 1 - centres))
        means = np.clip(centres + half * (2 * random.random((players, arms)) - 1), 0, 1)  # clipped: rounding
        problems.append(Problem(means, epsilon, stream=k))  # told apart by number: ε = 0 draws the same means again
    return problems
