"""What the page of an experiment shows, made from a snapshot for the templates."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from posse.policies.base import Policy
from posse.service.dashboard import words
from posse.service.dashboard.analysis_process import AnalysisProcess
from posse.service.dashboard.snapshots import Snapshot
from posse.service.dashboard.templates import experiment_address

COLORS = 8  # that can be told apart; with more arms the last color stands for all others
CLEAR = 0.5  # an arm is a player's favorite if it would be chosen with more than this probability
ROWS, COLUMNS = 25, 12  # of the matrix on one page
RECENT_SECONDS = 60.0


class ShownArm(NamedTuple):
    """An arm as the page draws it."""

    place: int
    name: str
    here: bool
    color: int
    share: float
    """Of all decisions."""


def contents(snapshot: Snapshot, analyses: AnalysisProcess, search: str, page_number: int) -> dict[str, Any]:
    """Everything that the page of an experiment shows, for the templates."""
    return {
        "snapshot": snapshot,
        "address": experiment_address(snapshot.name),
        "arms": shown_arms(snapshot),
        "left_out": sum(here for _, here in snapshot.players) - len(snapshot.choices.players),
        "lead": lead(snapshot),
        "rates": recent_rates(snapshot),
        "matrix": matrix(snapshot, search, page_number),
        "amount": amount_of(snapshot),
        "diagnosis": analyses.latest("diagnosis", snapshot),
        "savings": analyses.latest("savings", snapshot),
        "policy_words": policy_in_words(snapshot.setup.policy),
    }


def amount_of(snapshot: Snapshot) -> functools.partial[str]:
    """The function that writes a reward of this experiment."""
    return functools.partial(words.amount, snapshot.setup.low, snapshot.setup.high)


def shown_arms(snapshot: Snapshot) -> tuple[ShownArm, ...]:
    """The arms with their colors: by place if there are few; otherwise the most chosen arms have their own colors."""
    total = snapshot.chosen.sum(axis=0)
    everything = max(int(total.sum()), 1)
    order = np.arange(len(total)) if len(total) <= COLORS else np.argsort(-total, kind="stable")
    color = np.full(len(total), COLORS - 1)
    color[order[:COLORS]] = np.arange(min(len(total), COLORS))
    return tuple(
        ShownArm(place, name, here, int(color[place]), float(total[place]) / everything)
        for place, (name, here) in enumerate(snapshot.arms)
    )


def favorite_arms(snapshot: Snapshot) -> np.ndarray:
    """The place of the arm that looks best for each player, −1 where it is too early to tell, int [player].

    An arm looks best if the player would now choose it more often than all others together. A policy without
    randomness chooses the largest bonus, so for it the arm with the best mean looks best.
    """
    pulls = snapshot.counts.pulls
    if not pulls.size:
        return np.full(len(snapshot.players), -1)
    if snapshot.setup.policy.randomised:
        best = snapshot.probabilities.argmax(axis=1)
        clear = snapshot.probabilities.max(axis=1) > CLEAR
    else:
        here, known = np.array([here for _, here in snapshot.arms]), pulls > 0
        means = np.divide(snapshot.counts.sums, pulls, out=np.full(known.shape, -math.inf), where=known & here)
        best, clear = means.argmax(axis=1), known[:, here].all(axis=1)
    return np.where(clear & (len(snapshot.arms) > 1), best, -1)


def lead(snapshot: Snapshot) -> dict[str, Any]:
    """What is happening, for the top of the page: for how many players which arm looks best, and how much is shared."""
    here = np.array([here for _, here in snapshot.players], bool)
    favorites = favorite_arms(snapshot)[here]
    arms = shown_arms(snapshot)
    found = [(arms[place], int((favorites == place).sum())) for place in set(favorites.tolist()) - {-1}]
    found.sort(key=lambda favorite: (-favorite[1], favorite[0].place))
    shared = None  # of what decisions rest on; None if there is nobody to share with
    if here.sum() > 1 and snapshot.decisions:
        shared = float((snapshot.weights * snapshot.probabilities).sum(axis=1)[here].mean())
    return {
        "players": int(here.sum()),
        "arms": sum(here for _, here in snapshot.arms),
        "favorites": found,
        "undecided": int((favorites == -1).sum()),
        "shared": shared,
        "started": snapshot.decisions > 0,
    }


def recent_rates(snapshot: Snapshot) -> tuple[float, float]:
    """Decisions and rewards a second over the last minute or so."""
    traffic = snapshot.traffic
    lengths = np.diff(traffic.times)
    count = int(np.searchsorted(lengths[::-1].cumsum(), RECENT_SECONDS)) + 1
    time = float(lengths[-count:].sum())
    return float(traffic.decisions[-count:].sum()) / time, float(traffic.rewards[-count:].sum()) / time


def matrix(snapshot: Snapshot, search: str = "", page: int = 1) -> dict[str, Any]:
    """One page of the table of players and arms.

    A row has the player's place, its decisions, and for each arm: the lower end of the interval, the estimate and the
    upper end, first as rewards and then from 0 to 100 on the bars' common scale; the share of the decisions, the weight
    of other players' data, and the rewards of the player's own.
    """
    arms = shown_arms(snapshot)
    shown = sorted(sorted(arms, key=lambda arm: (not arm.here, -arm.share))[:COLUMNS], key=lambda arm: arm.place)
    found = [place for place, (name, _) in enumerate(snapshot.players) if search.casefold() in name.casefold()]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(page, 1), pages)
    places = found[(page - 1) * ROWS : page * ROWS]
    cells = np.ix_(places, [arm.place for arm in shown])
    ends = np.stack([table[cells] for table in (snapshot.lows, snapshot.estimates, snapshot.highs)])
    known = np.isfinite(ends[0])
    low, high = (
        (ends[0, known].min(), ends[2, known].max()) if known.any() else (snapshot.setup.low, snapshot.setup.high)
    )
    bars = np.round(100 * (ends - low) / max(high - low, 1e-300), 1)
    decisions = snapshot.chosen[places].sum(axis=1)
    shares = snapshot.chosen[cells] / np.maximum(decisions[:, None], 1)
    numbers = np.stack([*ends, *bars, shares, snapshot.weights[cells], snapshot.counts.pulls[cells]], axis=-1)
    return {
        "arms": shown,
        "rows": list(zip(places, decisions.tolist(), numbers.tolist(), strict=True)),
        "favorites": favorite_arms(snapshot),
        "low": low,
        "high": high,
        "page": page,
        "pages": pages,
        "search": search,
        "found": len(found),
        "hidden_arms": len(arms) - len(shown),
    }


def policy_in_words(policy: Policy) -> str:
    """How players learn from each other. An ε that may be left out is a limit for the alarm; others are promises."""
    if not policy.shares:
        return "Every player learns from its own rewards only."
    if not hasattr(policy, "epsilon"):
        return "See the documentation of posse."
    if getattr(type(policy), "epsilon", 0) is None:  # its default
        return "It learns how alike players are and how noisy rewards are, and shares as far as it helps."
    return f"Players share, relying on your promise that they differ by at most ε = {policy.epsilon:g}."
