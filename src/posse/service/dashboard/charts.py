"""The numbers behind the charts, for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.service.dashboard import words
from posse.service.dashboard.experiment_page import COLORS, ShownArm, shown_arms
from posse.service.dashboard.snapshots import Snapshot
from posse.text import shorten

LONGEST_NAME = 40
SHORTEST = 5.0  # a last window of fewer seconds is left out of the traffic: it says little
LATELY = 6  # so many stretches make up what a player chooses now


def chart(snapshot: Snapshot) -> dict[str, Any]:
    """Shares of the arms over time, what each player chose over time, and traffic."""
    arms = shown_arms(snapshot)
    names, colors = _names(arms), np.array([arm.color for arm in arms], int)
    choices, traffic = snapshot.choices, snapshot.traffic
    by_color, everybody = (
        np.stack([counts[..., colors == color].sum(axis=-1) for color in range(COLORS)], axis=-1)
        for counts in (choices.counts, choices.everybody)
    )
    shares = everybody / np.maximum(everybody.sum(axis=1, keepdims=True), 1)
    lengths = np.diff(traffic.times)
    windows = len(lengths) - int(len(lengths) > 1 and lengths[-1] < SHORTEST)
    return {
        "names": names,
        "size": choices.size,
        "decisions": snapshot.decisions,
        "upto": [min((number + 1) * choices.size, snapshot.decisions) for number in range(len(shares))],
        "shares": np.round(shares, 4).T.tolist(),
        "players": [shorten(snapshot.players[place][0], LONGEST_NAME) for place in choices.players],
        "ribbons": [_ribbon(by_color[:, row]) for row in range(len(choices.players))],
        "now": [_ribbon(by_color[-LATELY:, row].sum(axis=0, keepdims=True))[0] for row in range(len(choices.players))],
        "traffic": {
            "times": traffic.times[1:].tolist()[:windows],
            "decisions": np.round(traffic.decisions / lengths, 3).tolist()[:windows],
            "rewards": np.round(traffic.rewards / lengths, 3).tolist()[:windows],
        },
        "summary": _summary(shares, names),
    }


def _names(arms: tuple[ShownArm, ...]) -> list[str]:
    """What each color stands for."""
    names = []
    for color in range(min(COLORS, len(arms))):
        of_color = [arm.name for arm in arms if arm.color == color]
        names.append(shorten(of_color[0], LONGEST_NAME) if len(of_color) == 1 else f"{len(of_color)} other arms")
    return names


def _ribbon(counts: np.ndarray) -> list[list[float]]:
    """For each stretch the color chosen most and its share; −1 where the player did not choose."""
    total = counts.sum(axis=1)
    return [
        [int(color), round(float(counts[stretch, color] / total[stretch]), 3)] if total[stretch] else [-1, 0]
        for stretch, color in enumerate(counts.argmax(axis=1))
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
