"""A regret bound for any model, if players differ by at most ε: docs/theory.md has the theorem and its proof.

Two upper bounds on a player's mean stand behind it. The *sharp* one is rarely below the mean. The *loose* one is never
below the sharp one. A player only pulls an arm whose loose bound reaches every arm's sharp bound; which of those arms
it pulls is the model's choice. Both take the smaller of what the player's own data say and what everybody's data say,
plus ε.
"""

import math

from posse.policies.bernoulli_kl import divergence, kl_upper_bound, rough_ahead

TIER = 100.0  # forced arms are drawn this far above the model's arms, excluded arms this far below
FARTHEST, WIDEST = 20.0, 5.0  # the model's centers and scales stay within these, far from other tiers
SLACK = 4.0  # the larger, the more often sharp bounds fail: less exploration, and a larger constant in the theorem
NO_BOUND = 2.0  # where there is no data; rewards are at most 1
MARGIN = 1e-9  # more than the rounding errors of a bound


def log_most(rounds, M):
    """Λ, the logarithm of the number of rounds or of players, whichever is larger."""
    return math.log(max(rounds, M * 1.0))


def threshold(log_ratio):
    """h of docs/theory.md: y + ln(1 + y), where y is `log_ratio` or, if that is negative, 0."""
    y = max(log_ratio, 0.0)
    return y + math.log(1.0 + y)


def sharp_bound(n, s, N, S, M, epsilon, rounds, cutoff):
    """What the mean is rarely above, at most 1; if it is not above the cutoff, any number that is not."""
    budget = math.log(rounds) - math.log(SLACK * log_most(rounds, M))
    bound = 1.0
    if N > 0.0 and bound > cutoff:
        allowed = threshold(budget + math.log(M) - math.log(N))
        bound = min(bound, upper_bound(S / N, allowed / N, cutoff - epsilon) + epsilon)
    if n > 0.0 and bound > cutoff:
        allowed = threshold(budget - math.log(n) + max(math.log(M) - n * epsilon * epsilon, 0.0))
        bound = min(bound, upper_bound(s / n, allowed / n, cutoff))
    return bound


def upper_bound(p, level, cutoff):
    """The bound of `kl_upper_bound`, or a rough one from above where that is enough to be below the cutoff."""
    below = cutoff - MARGIN
    rough = p + rough_ahead(p, level)
    if rough < below:
        return rough
    return below if below > p and divergence(p, below - p) > level else kl_upper_bound(p, level)


def loose_bound(n, s, N, S, epsilon, width):
    """The smaller of s/n + √(width/n) and S/N + ε + √(width/N)."""
    bound = NO_BOUND
    if N > 0.0:
        bound = min(bound, S / N + epsilon + math.sqrt(width / N))
    if n > 0.0:
        bound = min(bound, s / n + math.sqrt(width / n))
    return bound


def cutoff_of(n, s, N, S, M, epsilon, rounds):
    """The cutoff that lets the model pull this arm: its loose bound with half the width, so that the whole is above."""
    return loose_bound(n, s, N, S, epsilon, log_most(rounds, M))


def guarded(center, scale, n, s, N, S, M, cutoff, epsilon, rounds, reach=NO_BOUND):
    """The model's center and scale where the model may choose, and otherwise those of another tier.

    Arms whose sharp bound is above the player's cutoff come first, the highest bound before all. Then come arms whose
    loose bound reaches the cutoff, by the model's draw, and then all others, the highest loose bound first. Whatever
    the cutoff, an arm that is pulled has a loose bound that reaches every sharp bound. `reach` is a number that the
    sharp bound is known not to exceed.
    """
    loose = loose_bound(n, s, N, S, epsilon, 2.0 * log_most(rounds, M))
    if loose < cutoff:
        return loose - TIER, 0.0
    if reach > cutoff - MARGIN:
        sharp = sharp_bound(n, s, N, S, M, epsilon, rounds, cutoff)
        if sharp > cutoff:
            return sharp + TIER, 0.0
    return min(max(center, -FARTHEST), FARTHEST), min(scale, WIDEST)
