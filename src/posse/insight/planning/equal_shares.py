"""What a run loses without a policy: equal shares throughout, or for some time and then the best arm for everybody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

EQUAL, TESTED = "equal shares", "equal shares, then best"  # what a plan calls them
DRAWS = 400  # of what a test may show, for each problem


class EqualSharesTest(NamedTuple):
    """Equal shares for some time; then everybody gets the arm with the largest mean reward of all players together."""

    part: float  # of the run that the test takes: of the parts tried, the one that loses least
    lost: np.ndarray  # on average over what the test may show, [problem]


def best_test(means: np.ndarray, dispersion: float, decisions: np.ndarray, parts: np.ndarray) -> EqualSharesTest:
    """The test that loses least over all problems, as if its best length were known.

    `means` are [problem, player, arm] on [0, 1], rewards vary by dispersion · mean · (1 − mean), and `decisions` are
    those of each player in the whole run, [problem, player]. An arm's mean reward in the test is taken as normal.

    >>> means = np.tile([0.2, 0.4], (1, 3, 1))
    >>> found = best_test(means, 1.0, np.full((1, 3), 1000), np.array([0.05, 0.1, 0.5, 1.0]))
    >>> found.part, bool(found.lost[0] > 0.05 * 3000 * 0.1)
    (0.05, True)
    """
    weights = decisions / decisions.sum(axis=1, keepdims=True)
    shown = np.einsum("bp,bpk->bk", weights, means)
    noise = np.einsum("bp,bpk->bk", weights, dispersion * means * (1 - means) + (means - shown[:, None]) ** 2)
    gaps = np.einsum("bp,bpk->bk", decisions, means.max(axis=2, keepdims=True) - means)  # lost if all get an arm
    normals = np.random.default_rng(0).standard_normal((DRAWS, *shown.shape))
    lost = np.empty((len(parts), len(means)))
    for place, part in enumerate(parts):
        error = np.sqrt(noise * means.shape[2] / (part * decisions.sum(axis=1, keepdims=True)))
        shipped = (shown + error * normals).argmax(axis=2)  # [draw, problem]
        rest = np.take_along_axis(gaps, shipped.T, axis=1).mean(axis=1)
        lost[place] = part * gaps.mean(axis=1) + (1 - part) * rest
    best = int(lost.mean(axis=1).argmin())
    return EqualSharesTest(float(parts[best]), lost[best])
