"""Bayes-UCB: upper quantiles of the posterior of a Bernoulli mean, for each player alone."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.policies.base import Look, Policy
from posse.policies.bernoulli_kl import BELOW_ONE, exploration, kl_upper_bound, on_grid
from posse.policies.beta_propensity import log_top

STEPS = 5  # of Halley's method at most; three are enough for a horizon of 10 or more
ENOUGH = 1e-4  # a step so small, in units of the tail's length, leaves an error of its third power
MOST_TERMS = 1e4


def upper_quantile(a, b, log_tail):
    """The x that a Beta(a, b) draw exceeds with probability exp(−log_tail), for a, b ≥ 1 and log_tail ≥ ln 2.

    Halley's method for the logarithm of the tail, which is concave, from Chernoff's bound, which is above.

    >>> round(upper_quantile(1.0, 1.0, math.log(4.0)), 9), round(upper_quantile(3.0, 2.0, math.log(100.0)), 9)
    (0.75, 0.958001364)
    """
    trials = a + b - 1.0
    mean = a / (a + b)
    top = log_top(a, b)
    x = min(kl_upper_bound((a - 1.0) / trials, log_tail / trials), BELOW_ONE)
    for _ in range(STEPS):
        ahead = x - mean
        log_density = top + (a - 1.0) * math.log1p(ahead / mean) + (b - 1.0) * math.log1p(-ahead / (1.0 - mean))
        tail = x * (1.0 - x) / b * tail_fraction(b, a, 1.0 - x)  # in units of the density
        error = log_density + math.log(tail) + log_tail
        bend = 1.0 + tail * ((a - 1.0) / x - (b - 1.0) / (1.0 - x))
        step = error * tail / (1.0 + 0.5 * error * bend)
        x = min(x + step, BELOW_ONE)
        if abs(step) < ENOUGH * tail:
            break
    return x


def tail_fraction(a, b, x):
    """The continued fraction of the incomplete beta function for I_x(a, b), by the recurrence of its convergents.

    Abramowitz and Stegun, "Handbook of mathematical functions", 26.5.8. Both parts are kept over the last denominator.
    """
    above = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    before, below, change, m = above, above, above, 0.0
    while abs(change) > 1e-14 * above and m < MOST_TERMS:
        m += 1.0
        part = x / (a + 2.0 * m)
        even = m * (b - m) * part / (a + 2.0 * m - 1.0)
        odd = -(a + m) * (a + b + m) * part / (a + 2.0 * m + 1.0)
        over, under = above + even * before, 1.0 + even * below
        scale = 1.0 / (under + odd)
        before, below, change = over * scale, under * scale, above
        above = (over + odd * above) * scale
        change -= above
    return above


@dataclass(frozen=True)
class BayesUCB(Policy):
    """The quantile 1 − 1/(T (ln T)^c) of the player's posterior Beta(1 + s, 1 + n − s) of a uniform prior.

    Kaufmann, Cappé and Garivier, "On Bayesian upper confidence bounds for bandit problems" (AISTATS 2012), Algorithm 1.
    The analysis has c = 5, the authors recommend c = 0, and so it is here. Their T is the round, as in the anytime form
    here. Rewards in [0, 1] that are not 0 or 1 count as parts of a success.

    >>> center, scale = BayesUCB().index(n=4.0, s=3.0, log_T=math.log(20.0), c=0.0)
    >>> round(center, 4), scale
    (0.9236, 0.0)
    """

    c: float = 0.0

    name = "Bayes-UCB"
    shares = False
    look = Look("#7F7F7F", (0, (2, 1, 1, 1)), "H", "--")
    randomised = False
    untried = 0.5

    @staticmethod
    def index(n, s, log_T, c):
        if log_T <= 0.0:  # a single round
            return 0.0, 0.0
        return on_grid(upper_quantile(1.0 + s, 1.0 + n - s, exploration(log_T, c))), 0.0

    def check(self) -> None:
        number("c", self.c, least=0)
