"""Arms by the values of an attribute: what players with each value chose, and what it earned them."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.attributes import CATEGORY
from posse.confidence import reward_interval
from posse.service.dashboard.snapshots import Snapshot

ROWS = 25  # values that are shown, the most active ones
LEVEL = 0.05  # the probability that an interval is ever wrong


def by_attribute(snapshot: Snapshot, name: str, arms: list[int]) -> dict[str, Any] | None:
    """A table of the values of an attribute, the first one unless it is declared; None without attributes.

    A row has the value (None if it is not known), how many players have it, their decisions, and for each of the arms:
    the lower end of the interval, the mean and the upper end as rewards, and the share of the decisions. Intervals hold
    for the average of the players' means, each as often as it chose the arm.
    """
    declared = snapshot.setup.attributes
    if not declared:
        return None
    name = name if name in declared.kinds else next(iter(declared.kinds))
    values, of_player, players = snapshot.values_of(name)
    tables = (snapshot.chosen, snapshot.counts.pulls, snapshot.counts.sums)
    chosen, pulls, sums = (_added(table, of_player, len(values)) for table in tables)
    decisions = chosen.sum(axis=1)
    order = np.argsort(-decisions, kind="stable")[:ROWS]
    if declared.kinds[name] != CATEGORY:  # a few values with an order of their own
        ranks: dict[str | None, int] = {text: rank for rank, text in enumerate([*declared.texts(name), None])}
        order = order[np.argsort([ranks[values[value]] for value in order])]
    some = np.ix_(order, np.array(arms, np.int64))
    within = snapshot.setup.low, snapshot.setup.high
    means, *ends = np.where(pulls[some] > 0, reward_interval(pulls[some], sums[some], LEVEL, *within), np.nan)
    shares = chosen[some] / np.maximum(decisions[order, None], 1)
    cells = np.stack([ends[0], means, ends[1], shares], axis=-1).tolist()
    counts = players[order].tolist(), decisions[order].astype(np.int64).tolist()
    rows = list(zip([values[value] for value in order], *counts, cells, strict=True))
    return {"name": name, "names": list(declared.kinds), "rows": rows, "hidden": len(values) - len(rows)}


def _added(table: np.ndarray, of_player: np.ndarray, values: int) -> np.ndarray:
    """A table [player, arm] added up over the players with each value."""
    return np.stack([np.bincount(of_player, weights=column, minlength=values) for column in table.T], axis=1)
