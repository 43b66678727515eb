"""How likely each arm is to be the best, for each player and for everybody, and what stopping or going on costs.

All of it comes from the one model of the players (`posse.insight.hierarchy`), by its draws: an arm is best for a player
in a draw if its mean is the greatest there. The weight of others' data in a player's mean is how much less uncertain
the model makes it, on the logit scale, than the player's own rewards do: 1 − t v, where t is the precision of its own
rewards and v the posterior variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posse.insight.hierarchy.model import fit
from posse.learner import Counts


@dataclass(frozen=True, eq=False)
class BestChances:
    """What the model says about every arm, in the user's reward units; losses are per decision."""

    chances: np.ndarray  # the chance that an arm is the player's best, [player, arm]; 0 for arms that are not on offer
    overall: np.ndarray  # the chance that an arm is best on average over all decisions, [arm]
    means: np.ndarray  # the mean reward of an arm, on average over all decisions, [arm]
    others: np.ndarray  # the weight of other players' data in what is known of the mean, from 0 to 1, [player, arm]
    one_loss: np.ndarray  # what is lost if an arm is shipped for everybody, compared with each player's best arm, [arm]
    own_loss: float  # the same if each player gets the arm with its highest expected reward
    going_loss: float  # the same if decisions go on with the present probabilities


def best_chances(counts: Counts, offered: np.ndarray, present: np.ndarray) -> BestChances:
    """Fit the model. `offered` says which arms can be shipped, `present` are the probabilities now, [player, arm].

    A player counts as much as it has rewards.

    >>> counts = Counts(("north", "south"), ("old", "new"), np.full((2, 2), 400), np.array([[80.0, 120], [84, 130]]))
    >>> found = best_chances(counts, np.array([True, True]), np.full((2, 2), 0.5))
    >>> bool(found.overall[1] > 0.99), bool(found.going_loss > found.one_loss[1])
    (True, True)
    """
    model = fit(counts)
    weights, traffic = model.chances, counts.pulls.sum(axis=1) / max(counts.pulls.sum(), 1)
    best, ideal = _best(model.draws, offered)  # of each draw and player
    everybody = np.einsum("dpa,p->da", model.draws, traffic)
    most, _ = _best(everybody, offered)
    means, chances, variances = np.zeros((3, *counts.pulls.shape))
    for arm in range(offered.size):  # one arm at a time: draws may be large
        draws = model.draws[:, :, arm]
        means[:, arm], chances[:, arm] = weights @ draws, weights @ (best == arm)
        share = np.clip((draws - counts.low) / model.unit, 1e-9, 1 - 1e-9)
        odds = np.log(share) - np.log1p(-share)
        variances[:, arm] = weights @ (odds - weights @ odds) ** 2
    most_found = float(weights @ (ideal @ traffic))
    return BestChances(
        chances,
        np.array([weights @ (most == arm) for arm in range(offered.size)]),
        weights @ everybody,
        np.clip(1 - model.cells.sites.t * variances, 0, 1),
        np.maximum(most_found - weights @ everybody, 0),
        max(most_found - float(np.where(offered, means, -np.inf).max(axis=1) @ traffic), 0.0),
        max(most_found - float((on_offer(present, offered) * means).sum(axis=1) @ traffic), 0.0),
    )


def on_offer(present: np.ndarray, offered: np.ndarray) -> np.ndarray:
    """The probabilities of the arms on offer, [player, arm]: they have those of retired arms too, in proportion.

    A player without probabilities, a line of zeros, counts as if it got every arm on offer alike.
    """
    kept = np.where(offered, present, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), offered / max(offered.sum(), 1))


def _best(means: np.ndarray, offered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which arm on offer has the greatest mean, and this mean; arms are the last axis."""
    there = means[..., offered]
    return np.flatnonzero(offered)[there.argmax(axis=-1)], there.max(axis=-1)
