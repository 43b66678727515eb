"""Policies of other authors for players that learn alone, from their papers' definitions; see naive.py."""

from __future__ import annotations

import math

from scipy import special


def argmax(values):
    """The first of the largest."""
    return max(range(len(values)), key=lambda i: (values[i], -i))


def kl(p, q):
    """The divergence of Bernoulli laws, for q ≥ p."""
    if q == p:
        return 0.0
    if q == 1:
        return math.inf
    return (p * math.log(p / q) if p > 0 else 0.0) + (1 - p) * math.log((1 - p) / (1 - q))


def largest_within(p, level):
    """The largest q in [p, 1] with kl(p, q) ≤ level, by halving."""
    low, high = p, 1.0
    if kl(p, high) <= level:
        return high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(p, middle) <= level else (low, middle)
    return low


def on_grid(bound):
    """A bound as a multiple of 2⁻⁴⁰, so that rounding errors decide nothing."""
    return math.floor(bound * 2**40 + 0.5) / 2**40


def kl_ucb(K, n, s, log_t, c):
    """Garivier and Cappé (2011), Algorithm 1."""
    level = log_t + (c * math.log(log_t) if log_t > 1 else 0.0)
    return argmax([on_grid(largest_within(s[i] / n[i], level / n[i])) if n[i] else math.inf for i in range(K)])


def kl_ucb_plus_plus(K, n, s, log_t):
    """Ménard and Garivier (2017), Section 2."""

    def log_plus(x):
        return math.log(x) if x > 1 + 1e-12 else 0.0  # rounding errors are nothing to explore by

    def bound(i):
        share = math.exp(log_t) / (K * n[i])
        return on_grid(largest_within(s[i] / n[i], log_plus(share * (log_plus(share) ** 2 + 1)) / n[i]))

    return argmax([bound(i) if n[i] else math.inf for i in range(K)])


def imed(K, n, s, log_t):
    """Honda and Takemura (2015), Algorithm 1, by the Bernoulli divergence. Exact ties are common, so ties are loose."""
    if 0 in n:
        return n.index(0)
    best = max(s[i] / n[i] for i in range(K))
    values = [n[i] * kl(s[i] / n[i], best) + math.log(n[i]) for i in range(K)]
    return next(i for i in range(K) if values[i] <= min(values) + 1e-12)


def bayes_ucb(K, n, s, log_t, c):
    """Kaufmann, Cappé and Garivier (2012), Algorithm 1, with a uniform prior."""
    tail = math.exp(-log_t) / (log_t**c if log_t > 1 else 1.0)
    return argmax([on_grid(1 - special.betaincinv(1 + n[i] - s[i], 1 + s[i], tail)) for i in range(K)])


def played(M, K, T, active, reward, choice):
    """Rounds in which a player pulls `choice(n, s, t, p)`, from the counts and sums [player][arm] before the round."""
    n = [[0] * K for _ in range(M)]
    s = [[0.0] * K for _ in range(M)]
    for t in range(1, T + 1):
        arms = {p: choice(n, s, t, p) for p in active(t)}
        pulled = {p: (i, reward(t, p, i)) for p, i in arms.items()}
        for p, (i, r) in pulled.items():
            n[p][i] += 1
            s[p][i] += r
        yield pulled


def alone(choice):
    """An algorithm of naive.py in which a player with its own data pulls `choice(K, n, s, ln t, *constants)`."""

    def algorithm(M, K, T, log_T, active, normal, reward, *constants):
        return played(M, K, T, active, reward, lambda n, s, t, p: choice(K, n[p], s[p], log_T(t), *constants))

    return algorithm


ALONE = {
    "KLUCB": alone(kl_ucb),
    "KLUCBPlusPlus": alone(kl_ucb_plus_plus),
    "IMED": alone(imed),
    "BayesUCB": alone(bayes_ucb),
}
