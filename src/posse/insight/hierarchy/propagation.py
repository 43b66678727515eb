"""Expectation propagation for given σ and τ: a normal likelihood for each cell, and what follows from them.

The formulas are those of a linear mixed model whose observations are the cells, with θ and u integrated out one after
the other. `model.py` says what the letters stand for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

NODES, WEIGHTS = np.polynomial.hermite.hermgauss(11)
LOG_WEIGHTS = np.log(WEIGHTS) + NODES**2
VAGUE = 3.0  # standard deviation of θ_a about the overall mean, on the logit scale
CLOSE = 0.01  # a logarithm of the evidence
FACTORS = np.log(2.0) * np.linspace(-3, 3, 13)  # logarithms of λ: from 1/8 to 8
FACTOR_DEVIATIONS = np.array([0.05, 0.35, 0.7, 1.4])  # how unlike arms may be: standard deviations of ln λ


class Sites(NamedTuple):
    """A normal likelihood for each cell: exp(h η − t η² / 2)."""

    t: np.ndarray
    h: np.ndarray


class NormalCells(NamedTuple):
    """Normal likelihoods of all cells, for models that build on them."""

    sites: Sites
    factors: np.ndarray  # λ_a: how far players differ on each arm, beside the others
    center: float  # of the arms


class Levels(NamedTuple):
    """What follows from normal likelihoods given τ, whatever σ is."""

    own: np.ndarray  # variances of contrasts, [arm]
    shrink: np.ndarray  # 1 + contrast variance · t, [player, arm]
    precision: np.ndarray  # of a cell as an observation of θ_a + u_p, [player, arm]
    weighted: np.ndarray  # precision times observation, [player, arm]
    evidence: float  # for τ, as far as it does not depend on σ


class Posterior(NamedTuple):
    """What follows from normal likelihoods, given σ and τ."""

    evidence: float
    arms: np.ndarray  # the mean of θ, [arm]
    covariance: np.ndarray  # of θ, [arm, arm]
    level_variance: np.ndarray  # of u given θ, [player]
    totals: np.ndarray  # precision times observation, summed over the arms, [player]


class Cells:
    """Pulls and sums, which may be fractions of counts, and the two sides of expectation propagation."""

    def __init__(self, pulls: np.ndarray, sums: np.ndarray) -> None:
        self.pulls, self.sums = pulls, sums
        self.seen = pulls > 0
        self.factors = np.zeros(pulls.shape[1])  # ln λ_a
        mean = (sums.sum() + 0.5) / (pulls.sum() + 1)
        self.center = math.log(mean / (1 - mean))

    def without_contrasts(self, sites: Sites, contrast: float) -> Levels:
        """The cells as observations of θ_a + u_p, contrasts integrated out."""
        own = contrast**2 * np.exp(2 * self.factors)
        shrink = 1 + own * sites.t
        precision, weighted = sites.t / shrink, sites.h / shrink
        evidence = 0.5 * float((own * sites.h * weighted).sum() - np.log(shrink).sum())
        return Levels(own, shrink, precision, weighted, evidence)

    def posterior(self, given: Levels, level: float) -> Posterior:
        """Arms and levels, and the evidence up to what depends only on the sites."""
        d, totals, precision = given.precision, given.weighted.sum(axis=1), given.precision.sum(axis=1)
        variance = level**2 / (1 + level**2 * precision)
        of_arms = np.diag(d.sum(axis=0) + VAGUE**-2) - d.T @ (variance[:, None] * d)
        right = given.weighted.sum(axis=0) - d.T @ (variance * totals) + self.center * VAGUE**-2
        covariance = np.linalg.inv(of_arms)
        arms = covariance @ right
        squares = (variance * totals**2).sum() + right @ arms
        lengths = np.log1p(level**2 * precision).sum() + np.linalg.slogdet(of_arms)[1]
        return Posterior(given.evidence + 0.5 * float(squares - lengths), arms, covariance, variance, totals)

    def evidence(self, sites: Sites, levels: np.ndarray, contrasts: np.ndarray) -> np.ndarray:
        """The evidence for each (σ, τ), [σ, τ], with these sites: right near where they were found."""
        columns = []
        for contrast in contrasts:
            given = self.without_contrasts(sites, contrast)
            columns.append([self.posterior(given, level).evidence for level in levels])
        return np.array(columns).T

    def centers(self, sites: Sites, level: float, contrast: float) -> tuple[np.ndarray, np.ndarray, float, Levels]:
        """Means and variances of every θ_a + u_p, the evidence, and what they came from."""
        given = self.without_contrasts(sites, contrast)
        found = self.posterior(given, level)
        d, variance = given.precision, found.level_variance
        center = found.arms + (variance * (found.totals - d @ found.arms))[:, None]
        along = d @ found.covariance
        of_levels = variance**2 * (along * d).sum(axis=1) + variance
        spread = np.diag(found.covariance) - 2 * variance[:, None] * along + of_levels[:, None]
        return center, spread, found.evidence, given

    def marginals(self, sites: Sites, level: float, contrast: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Means and variances of every η, and the evidence."""
        center, spread, evidence, given = self.centers(sites, level, contrast)
        mean = (center + given.own * sites.h) / given.shrink
        return mean, spread / given.shrink**2 + given.own / given.shrink, evidence

    def estimated_factors(self, sites: Sites, level: float, contrast: float) -> np.ndarray:
        """ln λ_a, shrunk towards 0: how well each λ predicts the cells of its arm from all other cells."""
        center, spread, _, given = self.centers(sites, level, contrast)
        rest = 1 / np.maximum(1 / spread - given.precision, 1e-9)  # without the cell itself
        expected = rest * (center / spread - given.weighted)
        t = np.where(self.seen, sites.t, 1.0)
        squares, noise = (sites.h / t - expected) ** 2, 1 / t + rest
        own = contrast**2 * np.exp(2 * FACTORS)
        fits = [np.log(noise + each) + squares / (noise + each) for each in own]
        scores = -0.5 * np.where(self.seen, fits, 0.0).sum(axis=1)  # [λ, arm]
        prior = np.exp(-(FACTORS**2) / (2 * FACTOR_DEVIATIONS[:, None] ** 2))
        prior /= prior.sum(axis=1, keepdims=True)
        weights = prior[:, :, None] * np.exp(scores - scores.max(axis=0))  # [deviation, λ, arm]
        evidence = np.log(weights.sum(axis=1)).sum(axis=1)
        trust = np.exp(evidence - evidence.max())
        means = (weights * FACTORS[:, None]).sum(axis=1) / weights.sum(axis=1)
        return np.asarray(trust @ means / trust.sum())

    def draw(self, sites: Sites, level: float, contrast: float, count: int, random: np.random.Generator) -> np.ndarray:
        """Draws of the means: arms, then levels given those, then each η given both, for given (σ, τ)."""
        given = self.without_contrasts(sites, contrast)
        found = self.posterior(given, level)
        root = np.linalg.cholesky(found.covariance)
        arms = found.arms + random.standard_normal((count, len(root))) @ root.T
        levels = found.level_variance * (found.totals - arms @ given.precision.T)
        levels += np.sqrt(found.level_variance) * random.standard_normal(levels.shape)
        logits = (arms[:, None, :] + levels[:, :, None] + given.own * sites.h) / given.shrink
        logits += np.sqrt(given.own / given.shrink) * random.standard_normal(logits.shape)
        return np.asarray(1 / (1 + np.exp(-logits)))

    def refined(self, sites: Sites, mean: np.ndarray, variance: np.ndarray) -> tuple[Sites, float]:
        """Sites that match the exact posterior of each cell given all others, and what they add to the evidence."""
        mean, variance = mean[self.seen], variance[self.seen]
        v = 1 / np.maximum(1 / variance - sites.t[self.seen], 1e-9)
        m = v * (mean / variance - sites.h[self.seen])
        n, s = self.pulls[self.seen], self.sums[self.seen]
        mode, deviation = _mode(n, s, m, v, mean)
        offset = math.sqrt(2) * deviation[:, None] * NODES
        x = mode[:, None] + offset
        log = s[:, None] * x - n[:, None] * np.logaddexp(0, x) - (x - m[:, None]) ** 2 / (2 * v[:, None]) + LOG_WEIGHTS
        top = log.max(axis=1)
        weight = np.exp(log - top[:, None])
        total = weight.sum(axis=1)
        shift = (weight * offset).sum(axis=1) / total
        variance = (weight * offset**2).sum(axis=1) / total - shift**2
        exact = top + np.log(total * deviation / np.sqrt(np.pi * v))
        old = 1 + sites.t[self.seen] * v
        normal = 0.5 * ((m / v + sites.h[self.seen]) ** 2 * v / old - m**2 / v - np.log(old))
        t, h = np.zeros(self.pulls.shape), np.zeros(self.pulls.shape)
        t[self.seen] = np.maximum(1 / variance - 1 / v, 1e-12)
        h[self.seen] = (mode + shift) / variance - m / v
        return Sites(t, h), float((exact - normal).sum())

    def converged(self, level: float, contrast: float, sites: Sites) -> tuple[float, Sites]:
        """The logarithm of the evidence for (σ, τ), and the sites there."""
        last = -math.inf
        for _ in range(60):
            mean, variance, normal = self.marginals(sites, level, contrast)
            sites, added = self.refined(sites, mean, variance)
            evidence = normal + added
            if abs(evidence - last) < CLOSE:
                break
            last = evidence
        return evidence, sites

    def first_sites(self) -> Sites:
        """Sites to start from: each cell by itself."""
        mean = (self.sums + 0.5) / (self.pulls + 1)
        t = self.pulls * 0.05
        return Sites(t, t * np.log(mean / (1 - mean)))


def _mode(
    n: np.ndarray, s: np.ndarray, m: np.ndarray, v: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where s η − n ln(1 + e^η) − (η − m)²/2v is largest, by Newton's method, and its curvature as a deviation."""
    x = start
    for _ in range(50):
        p = 1 / (1 + np.exp(-x))
        curvature = n * p * (1 - p) + 1 / v
        step = np.clip((s - n * p - (x - m) / v) / curvature, -3, 3)
        x = x + step
        if (np.abs(step) * np.sqrt(curvature) < 1e-6).all():
            break
    return x, 1 / np.sqrt(curvature)
