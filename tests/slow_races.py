"""Who has the largest index, and how likely: by slow integration, and within limits on shares."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from naive_alone import imed


def limited(wins, least, most):
    """Shares as the rule says: the least, and the rest by the chances of winning; who has too much gives it away.

    What is given away goes by the chances of winning too. If they are less than a millionth together, the room between
    the limits makes up for what they lack.
    """
    if sum(most) < 1:
        most = [each / sum(most) if sum(most) else 1.0 for each in most]
    room = [high - low for low, high in zip(least, most, strict=True)]
    share = [low + (1 - sum(least)) * chance for low, chance in zip(least, wins, strict=True)]
    full = set()
    while over := {arm for arm, each in enumerate(share) if arm not in full and each >= most[arm]}:
        full |= over
        taken = sum(most[arm] for arm in full) + sum(low for arm, low in enumerate(least) if arm not in full)
        parts = {arm: chance for arm, chance in enumerate(wins) if arm not in full}
        lacking, space = max(1e-6 - sum(parts.values()), 0.0), sum(room[arm] for arm in parts)
        parts = {arm: chance + (lacking and lacking * room[arm] / space) for arm, chance in parts.items()}
        for arm in range(len(share)):
            share[arm] = most[arm] if arm in full else least[arm] + (1 - taken) * parts[arm] / sum(parts.values())
    return share


def race(indices):
    """The probability that each arm's index is the largest, by the trapezoid rule with steps far below any scale."""
    best = max(center for center, _ in indices)
    if best == math.inf or all(scale == 0 for _, scale in indices):
        first = next(arm for arm, (center, _) in enumerate(indices) if center == best)
        return [float(arm == first) for arm in range(len(indices))]
    surely = max(center - 9 * scale for center, scale in indices)
    able = [arm for arm, (center, scale) in enumerate(indices) if center + 9 * scale >= surely]
    if len(able) < len(indices):  # the others never win, whatever their scales are
        among = iter(race([indices[arm] for arm in able]))
        return [next(among) if arm in able else 0.0 for arm in range(len(indices))]
    low = min(center - 9 * scale for center, scale in indices)
    high = max(center + 9 * scale for center, scale in indices)
    step = min(scale for _, scale in indices) / 4
    wins = [0.0] * len(indices)
    for node in range(math.ceil((high - low) / step)):
        places = [(low + node * step - center) / scale for center, scale in indices]
        below = [math.erfc(-place / math.sqrt(2)) / 2 for place in places]
        for arm, (_, scale) in enumerate(indices):
            density = math.exp(-0.5 * places[arm] ** 2) / (scale * math.sqrt(2 * math.pi))
            wins[arm] += density * step * math.prod(below[:arm] + below[arm + 1 :])
    return wins


def imed_race(indices):
    """IMED's choice from means and counts, as if it were certain; the mean of an arm without pulls is infinite."""
    n = [count for _, count in indices]
    arm = imed(len(n), n, [mean * count if count else 0.0 for mean, count in indices], None)
    return [float(arm == each) for each in range(len(n))]


def beta_race(laws, reach=40.0, step=0.02):
    """The probability that each arm's Beta(a, b) draw is the largest, by the trapezoid rule for ln(x / (1 − x)).

    On that scale densities are smooth and fall off exponentially, so the rule converges to all digits.
    """
    x = special.expit(np.arange(-reach, reach, step))
    below = [special.betainc(a, b, x) for a, b in laws]
    log_x, log_rest = (
        special.log_expit(np.arange(-reach, reach, step)),
        special.log_expit(-np.arange(-reach, reach, step)),
    )
    wins = []
    for arm, (a, b) in enumerate(laws):
        density = np.exp(a * log_x + b * log_rest - special.betaln(a, b))
        wins.append(step * float(np.sum(density * np.prod(below[:arm] + below[arm + 1 :], axis=0))))
    return wins
