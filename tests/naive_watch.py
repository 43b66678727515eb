"""Slow, obvious versions of what `posse.insight.watching.evidence` computes, from docs/watching.md."""

from __future__ import annotations

import math

import numpy as np

STEPS = [2.0**k for k in range(-6, 3)]


def share_evidence(arm, probabilities, first):
    """The evidence after each decision that arms are not drawn as logged, of an experiment with `first` arms at first.

    The first share of the level is for whichever arm is the likeliest, the others are for the arms. A product begins
    at each 64th decision.
    """
    arms = probabilities.shape[1]
    products = {(which, tilt): 0.0 for which in range(1 + arms) for step in STEPS for tilt in (step, -step)}
    found = []
    for row, (chosen, chances) in enumerate(zip(arm.tolist(), probabilities.tolist(), strict=True)):
        begins = 1 / math.log2(2 + row / 64) - 1 / math.log2(3 + row / 64) if row % 64 == 0 else 0.0
        likeliest = chances.index(max(chances))
        for which, tilt in products:
            tilted = likeliest if which == 0 else which - 1
            weights = [p * math.exp(tilt) if place == tilted else p for place, p in enumerate(chances)]
            law = [weight / sum(weights) for weight in weights]
            products[which, tilt] = (products[which, tilt] + begins) * law[chosen] / chances[chosen]
        early = 1 + first
        level = [early / ((number + early - 1) * (number + early)) for number in range(1, 2 + arms)]
        mean = sum(level[which] * product / (2 * len(STEPS)) for (which, _), product in products.items())
        found.append(mean)
    return found


def guesses(player, arm, reward, arms):
    """The guess of each arm's reward in each row: means that change after 64, 128, … rows, shrunken towards others."""
    found, known = [], []
    for row in range(len(arm)):
        step = min(max(64, 2 ** int(math.log2(row)) // 16 if row else 0), 8192)
        if row % step == 0:
            known = list(zip(player[:row].tolist(), arm[:row].tolist(), reward[:row].tolist(), strict=True))
        overall = (sum(r for _, _, r in known) + 5) / (len(known) + 10)
        line = []
        for which in range(arms):
            of_arm = [r for _, a, r in known if a == which]
            own = [r for p, a, r in known if a == which and p == player[row]]
            line.append((sum(own) + 10 * (sum(of_arm) + 10 * overall) / (len(of_arm) + 10)) / (len(own) + 10))
        found.append(line)
    return np.array(found)


def lower_end(arm, probabilities, reward, stakes, guess, level, reach):
    """The least average of Σ d(a) μ(a) that is not refuted, by a search among many values."""
    sums = spread = 0.0
    for a, p, r, d, g in zip(arm, probabilities, reward, stakes, guess, strict=True):
        moved = [
            min(each, reach * chance / stake)
            if stake > 0
            else max(each, 1 - reach * chance / -stake)
            if stake
            else each
            for each, chance, stake in zip(g, p, d, strict=True)
        ]
        rest = d[a] * (r - moved[a]) / p[a]
        assert rest >= -reach - 1e-9
        sums += sum(stake * each for stake, each in zip(d, moved, strict=True)) + rest
        spread += rest**2
    bets = [0.9 * 2.0**-k / reach for k in range(18)]
    weights = [1 / (k + 1) / (k + 2) for k in range(18)]

    def refuted(value):
        evidence = sum(
            weight
            / sum(weights)
            * math.exp(bet * (sums - len(arm) * value) - (-math.log(1 - reach * bet) - reach * bet) / reach**2 * spread)
            for bet, weight in zip(bets, weights, strict=True)
        )
        return evidence >= 1 / level

    low, high = -2.0 * reach, 2.0 * reach
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
