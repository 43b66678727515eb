"""One model of how players differ, behind diagnosis, planning and the dashboard.

Player p's mean reward on arm a, on the scale [0, 1], is m = logistic(η) with

    η = θ_a + u_p + e_pa,   u_p ~ Normal(0, σ²),   e_pa ~ Normal(0, (λ_a τ)²).

θ_a is the arm, u_p the player's *level* (what it earns more on every arm), and e_pa its *contrast* (what the arm does
for this player beyond its level). Rewards of 0 and 1 are binomial, so rates of 0.1 % and cells of 15 pulls are no
special case. Other rewards count as a fraction of a pull each: sums and pulls are divided by the dispersion, the
variance of the rewards as a share of m (1 − m) (quasi-likelihood: McCullagh and Nelder, "Generalized Linear Models").

Given σ and τ, expectation propagation (Minka, UAI 2001) replaces the likelihood of each cell by a normal one that gives
the cell the same posterior mean and variance; one-dimensional integrals by adaptive Gauss-Hermite quadrature find it.
Then everything is linear: arms, levels and contrasts have closed forms, and so has the evidence for (σ, τ)
(`propagation.py`). The evidence is computed on a grid that zooms in to where it is not negligible (`grid.py`). λ_a,
which lets one arm differ more than the others, is a shrunken estimate. How pulls were chosen does not change a
likelihood, if they were chosen by the past (Rubin, Biometrika 63, 1976), so logs of learners need no other treatment.

Priors: θ_a is vague; σ and τ are half-Cauchy, or exactly 0 with some probability. That probability matters when the
data cannot tell, so an interval allows for both: it contains the intervals with much and with no prior weight on 0.
docs/diagnosis.md has measured how often intervals hold.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.insight.hierarchy.grid import ScaleGrid
from posse.insight.hierarchy.propagation import Cells, NormalCells
from posse.learner import Counts
from posse.text import with_ends

TAIL = 0.3  # of the level beyond each end of an interval: less than a half, because the model is not the truth
LEAST_DISPERSION = 1e-4  # rewards that do not vary at all would have infinite weights
MOST_PULLS = 1e14  # that a cell counts as; more leaves nothing of a variance but rounding errors
CELLS = 10_000_000  # numbers in all draws together, at most
MOST_DRAWS, FEWEST_DRAWS = 1000, 200
PAIRS = 0.95  # the spread is what this share of all pairs of players stays within
MOST_PAIRS = 2000  # of many players, only some pairs are compared


class PosteriorInterval(NamedTuple):
    """An estimate and the ends of its interval, or arrays of them."""

    value: Any
    low: Any
    high: Any

    def at(self, place: int) -> PosteriorInterval:
        """One of several estimates."""
        return PosteriorInterval(*(float(part[place]) for part in self))

    def text(self, sign: str = "") -> str:
        """One estimate in words."""
        return with_ends(float(self.value), float(self.low), float(self.high), sign)


def posterior_interval(values: np.ndarray, weights: dict[str, np.ndarray], level: float) -> PosteriorInterval:
    """The median and the 1 − level interval of draws, [draw, …]; weights are for the low end, the middle and the high.

    >>> posterior_interval(np.arange(101.0), dict.fromkeys(("low", "middle", "high"), np.ones(101)), 0.2).low
    np.float64(6.0)
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)

    def quantiles(prior: str, tail: float) -> list[np.ndarray]:
        heaped = np.cumsum(weights[prior][order], axis=0)
        places = [(heaped < share * heaped[-1]).sum(axis=0) for share in (tail, 1 - tail)]
        return [np.take_along_axis(ordered, place[None].clip(0, len(values) - 1), axis=0)[0] for place in places]

    ends, middle = [quantiles(name, TAIL * level) for name in ("low", "high")], quantiles("middle", 0.5)[0]
    low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    return PosteriorInterval(middle, np.minimum(low, middle), np.maximum(high, middle))


@dataclass(frozen=True, eq=False)
class PlayerModel:
    """Posterior draws of the players' mean rewards, and what they say, in the user's reward units."""

    draws: np.ndarray  # the players' means, [draw, player, arm]
    weights: dict[str, np.ndarray]
    """The weight of each draw for the low end, the middle and the high end of an interval, [draw]."""
    there: tuple[np.ndarray, np.ndarray]  # which players and which arms have data; only these count in spreads
    unit: float  # the length of the reward range
    dispersion: float  # the rewards' variance as a share of m (1 − m); 1 for rewards of 0 and 1
    level_p: float  # p-value of the test that all players have the same level
    contrast_p: float  # p-value of the test that each arm does the same for all players; NaN where the data cannot tell
    difference_p: float
    """p-value of the test that players do not differ at all. It may be small where the others are not: few players can
    be shown to differ long before levels are told from contrasts."""
    scales: np.ndarray  # standard deviations of levels and of contrasts on the logit scale, [draw, 2]
    noise: float  # the typical sampling variance of a cell on the logit scale
    cells: NormalCells  # the cells' likelihoods on the logit scale

    @property
    def comparable(self) -> bool:
        """Whether two players have data, so that they can be compared."""
        return bool(self.there[0].sum() > 1)

    @property
    def tells_contrasts(self) -> bool:
        """Whether contrasts can be told from levels: some players have data on the same two arms."""
        return not math.isnan(self.contrast_p)

    def interval(self, values: np.ndarray, level: float = 0.05) -> PosteriorInterval:
        """The median of a quantity and its 1 − level interval, given its value in each draw, [draw, …]."""
        return posterior_interval(values, self.weights, level)

    @property
    def known(self) -> np.ndarray:
        """The draws for the players and arms that have data."""
        return self.draws[:, self.there[0]][:, :, self.there[1]]

    def levels(self, level: float = 0.05) -> PosteriorInterval:
        """Standard deviation between players of their levels: of what they earn more on every arm."""
        return self.interval(level_deviation(self.known), level)

    def contrasts(self, level: float = 0.05) -> PosteriorInterval:
        """Standard deviation between players of what an arm does beyond the player's level and the arm's mean."""
        return self.interval(contrast_deviation(self.known), level)

    def spreads(self, level: float = 0.05) -> PosteriorInterval:
        """What 95 % of all pairs of players stay within, for each arm that has data, [arm]."""
        return self.interval(self.pair_spreads, level)

    def spread(self, level: float = 0.05) -> PosteriorInterval:
        """What 95 % of all pairs of players stay within, on the arm where they differ most."""
        return self.interval(self.pair_spreads.max(axis=1), level)

    @functools.cached_property
    def pair_spreads(self) -> np.ndarray:
        """What 95 % of all pairs of players stay within, [draw, arm]."""
        return pair_spread(self.known)

    def odds_deviation(self, level: float = 0.05) -> PosteriorInterval:
        """τ: the standard deviation of contrasts on the logit scale."""
        return self.interval(self.scales[:, 1], level)

    @property
    def i_squared(self) -> float:
        """I²: how much of the variation of contrasts is true, not noise (Higgins and Thompson, 2002)."""
        true = float(self.odds_deviation().value) ** 2
        return true / (true + self.noise) if true else 0.0

    @property
    def chances(self) -> np.ndarray:
        """The probability of each draw, [draw]."""
        return np.asarray(self.weights["middle"] / self.weights["middle"].sum())

    def expected(self) -> np.ndarray:
        """The players' mean rewards, on average over the draws, [player, arm]."""
        return np.asarray(np.einsum("d,dpa->pa", self.chances, self.draws))

    def problems(self, count: int, seed: int) -> np.ndarray:
        """Means for simulations, drawn from the posterior, on the scale of the draws, [problem, player, arm]."""
        return self.draws[np.random.default_rng(seed).choice(len(self.draws), count, p=self.chances)]


def level_deviation(means: np.ndarray) -> np.ndarray:
    """The standard deviation of levels in means [draw, player, arm], by analysis of variance.

    It is that of the players' averages over the arms, without the part that their contrasts have in it.

    >>> level_deviation(np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.1, 0.2], [0.2, 0.1]]])).round(3).tolist()
    [0.141, 0.0]
    """
    of_contrasts = contrast_deviation(means) ** 2 / means.shape[2]
    return np.sqrt(np.maximum(means.mean(axis=2).var(axis=1, ddof=1) - of_contrasts, 0))


def contrast_deviation(means: np.ndarray) -> np.ndarray:
    """The standard deviation of contrasts in means [draw, player, arm]: the root of the interaction's mean square.

    >>> contrast_deviation(np.array([[[0.1, 0.2], [0.3, 0.4]]])).round(9).tolist()
    [0.0]
    """
    _, players, arms = means.shape
    rest = means - means.mean(axis=2, keepdims=True)
    rest -= rest.mean(axis=1, keepdims=True)
    return np.sqrt((rest**2).sum(axis=(1, 2)) / max((players - 1) * (arms - 1), 1))


def pair_spread(means: np.ndarray) -> np.ndarray:
    """What 95 % of the pairs of players stay within, for means [draw, player, arm]: [draw, arm].

    >>> pair_spread(np.array([[[0.1, 0.5], [0.3, 0.5]]])).round(9).tolist()
    [[0.2, 0.0]]
    """
    half, most = means.shape[1] // 2, max(MOST_PAIRS // max(means.shape[1], 1), 1)
    offsets = np.unique(np.linspace(1, half, min(half, most)).astype(int))  # each pairs every player with another
    apart = [np.abs(means - np.roll(means, offset, axis=1)) for offset in offsets]
    return np.quantile(np.concatenate(apart, axis=1), PAIRS, axis=1) if apart else np.zeros(means[:, 0].shape)


def fit(counts: Counts, *, seed: int = 0) -> PlayerModel:
    """Fit the model to counts.

    >>> pulls = np.full((4, 2), 400)
    >>> sums = np.array([[80.0, 200], [84, 190], [76, 320], [82, 196]])
    >>> model = fit(Counts(("a", "b", "c", "d"), ("x", "y"), pulls, sums))
    >>> model.spreads().value.round(1).tolist(), model.contrast_p < 0.01
    ([0.0, 0.3], True)
    """
    pulls, unit = np.asarray(counts.pulls, float), counts.high - counts.low
    sums = np.clip((counts.sums - counts.low * pulls) / unit, 0, pulls)
    dispersion, overall = dispersions(pulls, sums, counts.squares)
    dispersion = np.maximum(dispersion, pulls / MOST_PULLS)
    grid = ScaleGrid(Cells(pulls / dispersion, sums / dispersion), interaction_freedom(pulls > 0) > 0)
    random = np.random.default_rng(seed)
    count = int(np.clip(CELLS // max(pulls.size, 1), FEWEST_DRAWS, MOST_DRAWS))
    draws, scales, weights = grid.draw(count, random)
    level_ratio, contrast_ratio, ratio = grid.likelihood_ratios()
    there = np.any(pulls > 0, axis=1), np.any(pulls > 0, axis=0)
    return PlayerModel(
        counts.low + unit * draws,
        weights,
        there,
        unit,
        overall,
        _p_value(level_ratio),
        _p_value(contrast_ratio) if grid.tells_contrasts else math.nan,
        _p_value(ratio, parameters=2 if grid.tells_contrasts else 1),
        scales,
        grid.noise(),
        NormalCells(grid.sites, np.exp(grid.cells.factors), grid.cells.center),
    )


def dispersions(pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None) -> tuple[np.ndarray, float]:
    """The rewards' variance as a share of m (1 − m), for each cell and overall; 1 for rewards of 0 and 1.

    Both variances are unbiased. One reward of 0 or 1 is added, so that a few equal rewards do not count as certainty;
    five rewards with the overall dispersion are added to each arm. A player whose rewards vary more than the arms say
    has its own, with 30 rewards added. One whose rewards vary less has not: it may just have had no large one yet.
    """
    if squares is None:
        return np.ones(pulls.shape), 1.0
    several = pulls > 1
    safe = np.maximum(pulls, 2)
    around = np.where(several, sums**2 / np.maximum(pulls, 1), 0.0)
    variance = np.where(several, np.maximum(squares - around, 0), 0) / (safe - 1)
    found = pulls * variance
    possible = np.where(several, np.maximum(sums - around, 0) + variance, 0)
    mean = (sums.sum() + 0.5) / (pulls.sum() + 1)
    each = mean * (1 - mean)
    overall = (found.sum() + each) / (possible.sum() + each)
    by_arm = (found.sum(axis=0) + 5 * each * overall) / (possible.sum(axis=0) + 5 * each)
    usual = 30 * each * overall
    noisier = np.maximum((found.sum(axis=1) + usual) / ((by_arm * possible).sum(axis=1) + usual), 1)
    return np.clip(by_arm * noisier[:, None], LEAST_DISPERSION, 1.0), float(np.clip(overall, LEAST_DISPERSION, 1.0))


def _p_value(ratio: float, parameters: int = 1) -> float:
    """The p-value of a likelihood ratio test at the edge: half of a χ² variable with one degree of freedom.

    With two parameters at the edge, a quarter of χ² with two degrees is added.
    """
    of_one = 0.5 * math.erfc(math.sqrt(max(ratio, 0.0) / 2))
    return of_one if parameters == 1 else of_one + 0.25 * math.exp(-max(ratio, 0.0) / 2)


def interaction_freedom(known: np.ndarray) -> int:
    """Degrees of freedom for contrasts, beside levels and arms, if only the cells known[player, arm] have data.

    That is cells − players − arms + connected parts of the graph in which each cell joins its player and its arm.

    >>> interaction_freedom(np.ones((2, 2), bool)), interaction_freedom(np.eye(2, dtype=bool))
    (1, 0)
    """
    players = known.any(axis=1)
    part = np.arange(len(known))  # the least player known to be in the same part
    for _ in range(len(known)):
        of_arm = np.where(known, part[:, None], len(known)).min(axis=0)
        lower = np.where(known, of_arm, len(known)).min(axis=1)
        if (lower == part)[players].all():
            break
        part = np.where(players, lower, part)
    return int(known.sum() - players.sum() - known.any(axis=0).sum()) + len(np.unique(part[players]))
