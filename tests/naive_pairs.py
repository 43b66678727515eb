"""How far two players provably differ, by brute force from the definition: the oracle of `pairs.py`."""

from __future__ import annotations

import math


def tilts():
    """(λ, ν, weight, who shares the weight) for every term of the mixture."""
    sizes = [2.0**k for k in range(-9, 4)]
    total = sum(1 / (8 + math.log2(4 * size) ** 2) for size in sizes)
    for size in sizes:
        weight = 1 / (8 + math.log2(4 * size) ** 2) / total
        yield size, 0.0, weight / 6, "first"
        yield 0.0, size, weight / 6, "second"
        yield size, size / 4, weight / 6, "pair"
        yield size, size, weight / 3, "pair"
        yield size / 4, size, weight / 6, "pair"


def part(number):
    return 3 / ((number + 2) * (number + 3))


def wealth(first, second, means, numbers):
    """W for two players' (pulls, sum), their means and their numbers 1, 2, …."""
    (n, s), (n2, s2), later = first, second, max(numbers)
    parts = {"first": part(numbers[0]), "second": part(numbers[1]), "pair": part(later - 1) / (later - 1) / 2}
    total = 0.0
    for up, down, weight, who in tilts():
        gain = up * s - n * math.log(1 - means[0] + means[0] * math.exp(up))
        gain += -down * s2 - n2 * math.log(1 - means[1] + means[1] * math.exp(-down))
        total += weight * parts[who] * math.exp(min(gain, 500))  # far beyond any goal
    return total


def pair_bound(first, second, level, numbers=(1, 2), arm=1, grid=100):
    """The largest multiple of 1/grid by which the first player is shown to be better."""
    goal = 1 / (level * part(arm))
    shown = 0.0
    for k in range(grid):
        apart = k / grid
        places = [place * (1 - apart) / grid for place in range(grid + 1)]
        if min(wealth(first, second, (place + apart, place), numbers) for place in places) < goal:
            break
        shown = apart
    return shown
