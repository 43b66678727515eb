"""The numbers behind the charts, for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.service.dashboard import words
from posse.service.dashboard.snapshot import Snapshot
from posse.service.dashboard.views import COLOURS, arms_of
from posse.text import shorten

LONGEST_NAME = 40
SHORTEST = 5.0  # seconds of traffic that are worth a point
LATELY = 6  # stretches that make up what a player chooses now


def chart(snapshot: Snapshot) -> dict[str, Any]:
    """Shares of the arms over time, what each player chose over time, and traffic."""
    arms = arms_of(snapshot)
    colours = np.array([arm.colour for arm in arms], int)
    trail, size = snapshot.trail, snapshot.trail.size
    by_colour, everybody = (
        np.stack([counts[..., colours == colour].sum(axis=-1) for colour in range(COLOURS)], axis=-1)
        for counts in (trail.counts, trail.everybody)
    )
    shares = everybody / np.maximum(everybody.sum(axis=1, keepdims=True), 1)
    lengths = np.diff(snapshot.traffic.times)
    told = len(lengths) - int(len(lengths) > 1 and lengths[-1] < SHORTEST)  # a window that has just begun says little
    return {
        "names": _names(arms),
        "size": size,
        "decisions": snapshot.decisions,
        "upto": [min((number + 1) * size, snapshot.decisions) for number in range(len(shares))],
        "shares": np.round(shares, 4).T.tolist(),
        "players": [shorten(snapshot.players[place][0], LONGEST_NAME) for place in trail.players],
        "ribbons": [_ribbon(by_colour[:, row]) for row in range(len(trail.players))],
        "now": [_ribbon(by_colour[-LATELY:, row].sum(axis=0, keepdims=True))[0] for row in range(len(trail.players))],
        "traffic": {
            "times": snapshot.traffic.times[1:].tolist()[:told],
            "decisions": np.round(snapshot.traffic.decisions / lengths, 3).tolist()[:told],
            "rewards": np.round(snapshot.traffic.rewards / lengths, 3).tolist()[:told],
        },
        "summary": _summary(shares, _names(arms)),
    }


def _names(arms: Any) -> list[str]:
    """The name that each colour stands for."""
    names: list[str] = []
    for colour in range(min(COLOURS, len(arms))):
        of_colour = [arm.name for arm in arms if arm.colour == colour]
        names.append(shorten(of_colour[0], LONGEST_NAME) if len(of_colour) == 1 else f"{len(of_colour)} other arms")
    return names


def _ribbon(counts: np.ndarray) -> list[list[float]]:
    """For each stretch the colour chosen most and its share; −1 where the player did not choose."""
    total = counts.sum(axis=1)
    most = counts.argmax(axis=1)
    return [
        [int(colour), round(float(counts[stretch, colour] / total[stretch]), 3)] if total[stretch] else [-1, 0]
        for stretch, colour in enumerate(most)
    ]


def _summary(shares: np.ndarray, names: list[str]) -> str:
    """The picture in words, for those who do not see it."""
    if not len(shares):
        return "No decisions yet."
    first, last = int(shares[0].argmax()), int(shares[-1].argmax())
    return (
        f"At first {names[first]} was chosen most, {words.percent(float(shares[0, first]))} of the time; "
        f"of late {names[last]}, {words.percent(float(shares[-1, last]))}."
    )
