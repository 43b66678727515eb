"""The divergence of Bernoulli laws, and the upper confidence bound that it gives.

kl(p, q) = p ln(p/q) + (1−p) ln((1−p)/(1−q)). Bounds by it hold for all rewards in [0, 1], since of all laws on [0, 1]
with the same mean the Bernoulli law is the widest.
"""

import math

from posse.compile import out_of_line

STEPS = 3  # of Halley's method: enough for all digits, everywhere
TINY = 1e-300  # a smaller mean counts as 0: to divide by it would overflow
BELOW_ONE = 1.0 - 2.0**-53  # only a mean of 1 has the bound 1


def divergence(p, ahead):
    """kl(p, p + ahead) for ahead ≥ 0, by logarithms of 1 + x, so that nothing cancels where q is close to p.

    >>> round(divergence(0.25, 0.5), 9) == round(0.5 * math.log(3.0), 9)
    True
    """
    low = p * math.log1p(ahead / p) if p > TINY else 0.0
    return -low - (1.0 - p) * math.log1p(-ahead / (1.0 - p)) if ahead < 1.0 - p else math.inf


@out_of_line
def kl_upper_bound(p, level):
    """The largest q with kl(p, q) ≤ level, to all digits.

    >>> round(kl_upper_bound(0.5, 0.1), 6), kl_upper_bound(1.0, 2.0)
    (0.712879, 1.0)
    """
    rest = 1.0 - p
    if level <= 0.0 or rest <= 0.0:
        return p
    # Two bounds from above. The second one, because p ln q ≤ 0, is the smaller where q is close to 1.
    entropy = p * math.log(p) if p > 0.0 else 0.0
    ahead = min(rough_ahead(p, level), -rest * math.expm1((entropy - level) / rest))
    for _ in range(STEPS):
        left = rest - ahead
        if left <= 0.0:
            return BELOW_ONE
        q = p + ahead
        error = divergence(p, ahead) - level
        slope = ahead / (q * left)
        bend = p / (q * q) + rest / (left * left)
        ahead = max(ahead - 2.0 * error * slope / (2.0 * slope * slope - error * bend), 0.0)
    return min(p + ahead, BELOW_ONE)


def rough_ahead(p, level):
    """By how much a q with kl(p, q) ≤ level is above p at most, because kl ≥ (q−p)² / (2 q (1−p))."""
    half = level * max(1.0 - p, 0.0)
    return half + math.sqrt(half * (half + 2.0 * p))


def kl_index(n, s, level):
    """The largest q with n kl(s/n, q) ≤ level, rounded to a multiple of 2⁻⁴⁰."""
    return on_grid(kl_upper_bound(s / n, level / n))


def on_grid(bound):
    """A bound rounded to a multiple of 2⁻⁴⁰, so that bounds that differ by rounding errors only are the same.

    Next to 1 many are, and exact ties are common while pulls are few. The lowest arm wins then, on every machine.
    """
    return math.floor(bound * 2.0**40 + 0.5) * 2.0**-40


def exploration(log_T, c):
    """ln T + c ln ln T, without the second part up to T = e."""
    return log_T + c * math.log(max(log_T, 1.0))
