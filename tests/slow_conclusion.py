"""The evidence behind `posse conclude` as the formulas say it: one row, one pair of arms and one bet at a time."""

from __future__ import annotations

import math

import numpy as np

from posse.insight.conclusion.evidence import REACHES


def slow_sums(block, guesses, rows, i, j, reach):
    """How many rows count for the pair, Σ X and Σ (X − g)²."""
    count, total, spread = 0, 0.0, 0.0
    for row in rows:
        chances, arm, reward = block.probabilities[row], block.arm[row], block.reward[row]
        if not (chances[i] > 0 and chances[j] > 0):
            continue
        win = min(guesses[row, i], reach * chances[i])
        lose = min(1 - guesses[row, j], reach * chances[j])
        x = win + lose - 1
        if arm == i:
            x += (reward - win) / chances[i]
        if arm == j:
            x += (1 - reward - lose) / chances[j]
        count, total, spread = count + 1, total + x, spread + (x - (win + lose - 1)) ** 2
    return count, total, spread


def slow_evidence(block, guesses, rows, i, j, tolerance):
    """ln of the evidence that i is better than j, or worse by less than the tolerance."""
    wealth = 0.0
    for reach in REACHES:
        count, total, spread = slow_sums(block, guesses, rows, i, j, reach)
        cost = (-math.log(1 - 0.35) - 0.35) / reach**2
        wealth += math.exp(0.35 / reach * (total + tolerance * count) - cost * spread) / len(REACHES)
    return math.log(wealth)


def slow_winner(beats, offered):
    """The arm that beats all others on offer, or None."""
    there = np.flatnonzero(offered)
    found = [i for i in there if all(beats[i, j] for j in there if j != i)]
    return found[0] if found and len(there) > 1 else None
