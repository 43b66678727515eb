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

    chances: np.ndarray
    """The chance that an arm is the player's best, [player, arm]; 0 for arms that are not on offer."""
    overall: np.ndarray
    """The chance that an arm is best on average over all decisions, [arm]."""
    others: np.ndarray
    """The weight of other players' data in what is known of the mean, from 0 to 1, [player, arm]."""
    one_loss: np.ndarray
    """What is lost if an arm is shipped for everybody, beside each player's best arm, [arm]."""
    own_loss: float
    """The same if each player gets the arm that the model expects most of."""
    going_loss: float
    """The same if decisions go on with the present probabilities."""


def best_chances(counts: Counts, squares: np.ndarray | None, offered: np.ndarray, present: np.ndarray) -> BestChances:
    """Fit the model. `offered` says which arms can be shipped, `present` are the probabilities now, [player, arm].

    A player counts as much as it has rewards. One without probabilities, a line of zeros, counts as if it got every arm
    on offer alike.

    >>> counts = Counts(("north", "south"), ("old", "new"), np.full((2, 2), 400), np.array([[80.0, 120], [84, 130]]))
    >>> found = best_chances(counts, None, np.array([True, True]), np.full((2, 2), 0.5))
    >>> bool(found.overall[1] > 0.99), bool(found.going_loss > found.one_loss[1])
    (True, True)
    """
    model = fit(counts, squares)
    weights = model.weights["middle"] / model.weights["middle"].sum()
    traffic = counts.pulls.sum(axis=1) / max(counts.pulls.sum(), 1)
    draws = np.where(offered, model.draws, -np.inf)
    best = draws.argmax(axis=2)
    everybody = np.einsum("dpa,p->da", model.draws, traffic)
    most = np.where(offered, everybody, -np.inf).argmax(axis=1)
    arms = np.arange(offered.size)
    present = np.where(present.sum(axis=1, keepdims=True) > 0, present, offered / max(offered.sum(), 1))
    ideal = float(weights @ (draws.max(axis=2) @ traffic))
    means = np.einsum("d,dpa->pa", weights, model.draws)
    odds = np.clip((model.draws - counts.low) / model.unit, 1e-9, 1 - 1e-9)
    odds = np.log(odds) - np.log1p(-odds)
    variance = np.einsum("d,dpa->pa", weights, (odds - np.einsum("d,dpa->pa", weights, odds)) ** 2)
    return BestChances(
        np.stack([weights @ (best == arm) for arm in arms], axis=-1),
        np.array([weights @ (most == arm) for arm in arms]),
        np.clip(1 - model.cells.sites.t * variance, 0, 1),
        np.maximum(ideal - weights @ everybody, 0),
        max(ideal - float(np.where(offered, means, -np.inf).max(axis=1) @ traffic), 0.0),
        max(ideal - float((present * means).sum(axis=1) @ traffic), 0.0),
    )
