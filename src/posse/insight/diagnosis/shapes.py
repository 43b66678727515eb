"""Three shapes that a population of players may have, from no tails to light ones, and what data says under each.

A player's mean θ lies around the arm's μ with standard deviation τ, and its observed mean x is Normal(θ, noise):

    ends     θ = μ ± τ, either with probability ½
    window   θ uniform in μ ± √3 τ
    normal   θ ~ Normal(μ, τ²)

The range of many normal players grows with their number, that of players within a window does not; with few players or
much noise nobody can tell them apart, and an estimate that trusts one shape is too sure. μ is flat and integrated out:
in closed form for the normal shape (Gelman and others, "Bayesian Data Analysis", 3rd edition, section 5.4), else on
nodes. Each class has the logarithm of the evidence for each τ of a grid, and draws θ given a τ for each draw.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from statistics import NormalDist

import numpy as np

COARSE, FINE = 8, 24  # nodes for μ: to find where it can be, and to be there
NEGLIGIBLE = 15.0  # a logarithm of a likelihood ratio
REACH = 6.0  # standard deviations beyond which noise explains nothing

_Z = np.linspace(-8.5, 8.5, 17_001)
_CDF = np.array([NormalDist().cdf(z) for z in _Z])


class Normal:
    """θ ~ Normal(μ, τ²)."""

    def __init__(self, observed: np.ndarray, noise: np.ndarray, scales: np.ndarray) -> None:
        self.observed, self.noise, self.scales = observed, noise, scales
        weight = 1 / (scales[:, None] ** 2 + noise)
        self.precision = weight.sum(axis=1)
        self.centre = weight @ observed / self.precision
        distance = (weight * (observed - self.centre[:, None]) ** 2).sum(axis=1)
        constant = (len(observed) - 1) * math.log(2 * math.pi)
        self.evidence = (np.log(weight).sum(axis=1) - np.log(self.precision) - distance - constant) / 2

    def draw(self, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given the number of each draw's τ."""
        centre = self.centre[own] + random.standard_normal(len(own)) / np.sqrt(self.precision[own])
        between = self.scales[own, None] ** 2
        trust = between / (between + self.noise)
        shrunk = centre[:, None] + trust * (self.observed - centre[:, None])
        return np.asarray(shrunk + np.sqrt(trust * self.noise) * random.standard_normal(shrunk.shape))


class _Bounded(ABC):
    """A shape that ends `reach` standard deviations from μ."""

    reach: float

    def __init__(self, observed: np.ndarray, noise: np.ndarray, scales: np.ndarray) -> None:
        self.observed, self.deviation, self.half = observed, np.sqrt(noise), self.reach * scales
        margin = REACH * self.deviation
        first, last = (observed - margin).max() - self.half, (observed + margin).min() + self.half
        kept = np.flatnonzero(first < last)
        for count in (COARSE, FINE):
            width = (last[kept] - first[kept]) / count
            places = first[kept, None] + width[:, None] * (np.arange(count) + 0.5)
            density = self._log_density(places, self.half[kept, None])
            top = density.max(axis=1)
            if count == COARSE:
                likely = density > top[:, None] - NEGLIGIBLE
                first[kept] = places[np.arange(len(kept)), likely.argmax(axis=1)] - width
                last[kept] = places[np.arange(len(kept)), count - 1 - likely[:, ::-1].argmax(axis=1)] + width
                kept = kept[top > top.max(initial=-np.inf) - 2 * NEGLIGIBLE]
        weight = np.exp(density - top[:, None])
        self.evidence = np.full(len(scales), -np.inf)
        self.evidence[kept] = top + np.log(weight.sum(axis=1) * width)
        self.places, self.cumulative = np.zeros((2, len(scales), FINE))
        self.places[kept], self.cumulative[kept] = places, np.cumsum(weight, axis=1)

    def draw(self, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Players' means, [draw, player], given the number of each draw's τ."""
        cumulative = self.cumulative[own]
        node = (cumulative < random.random((len(own), 1)) * cumulative[:, -1:]).sum(axis=1)
        place, half = self.places[own, node][:, None], self.half[own, None]
        return self._draw(place - half, place + half, random.random((len(own), len(self.observed))))

    def _log_density(self, places: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Logarithm of the density of all observed means, given μ and half the width."""
        low, high = (places - half)[..., None], (places + half)[..., None]
        return np.asarray(np.log(np.maximum(self._density(low, high), 1e-300)).sum(axis=-1))

    @abstractmethod
    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Density of each observed mean, given the ends."""

    @abstractmethod
    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Players' means, given the ends."""


class Window(_Bounded):
    """θ uniform in μ ± √3 τ."""

    reach = math.sqrt(3)

    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((self._below(high) - self._below(low)) / (high - low))

    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        first, last = self._below(low), self._below(high)
        z = np.interp(first + uniform * (last - first), _CDF, _Z)
        return np.asarray(np.clip(self.observed + z * self.deviation, low, high))

    def _below(self, value: np.ndarray) -> np.ndarray:
        return np.asarray(np.interp((value - self.observed) / self.deviation, _Z, _CDF))


class Ends(_Bounded):
    """θ = μ ± τ, either with probability ½."""

    reach = 1.0

    def _density(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.asarray((self._at(low) + self._at(high)) / 2)

    def _draw(self, low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        first, last = self._at(low), self._at(high)
        return np.where(uniform * (first + last) < first, low, high)

    def _at(self, value: np.ndarray) -> np.ndarray:
        z = (value - self.observed) / self.deviation
        return np.asarray(np.exp(-(z**2) / 2) / (math.sqrt(2 * math.pi) * self.deviation))
