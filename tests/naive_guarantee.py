"""RobustPosseTS' bounds of docs/theory.md, in slow and obvious Python."""

from __future__ import annotations

import math

from naive_posse import clip


def kl(p, q):
    """The divergence of Bernoulli laws with means p and q."""
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return first + second


def largest_mean(mean, divergence):
    """The largest u in [mean, 1] with kl(mean, u) <= divergence, by bisection."""
    low, high = mean, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if low < middle < high:
            low, high = (middle, high) if kl(mean, middle) <= divergence else (low, middle)
    return low


def allowed(ratio):
    """h(ln H/n), and 0 from n = H on."""
    y = math.log(max(ratio, 1))
    return y + math.log(1 + y)


def sharp_bound(n, s, N, S, M, epsilon, T):
    """U: own data with H = T/4Λ, up to M times that while n ε² < ln M; everybody's data with H = MT/4Λ, plus ε."""
    H = T / (4 * math.log(max(T, M)))
    alone = largest_mean(s / n, allowed(H / n * max(1, M * math.exp(-n * epsilon**2))) / n) if n else 1.0
    pooled = largest_mean(S / N, allowed(M * H / N) / N) + epsilon if N else 1.0
    return min(1.0, alone, pooled)


def loose_bound(n, s, N, S, M, epsilon, T, times=2):
    """B: Hoeffding's bounds at 2Λ; no data counts as a bound of 2."""
    top = math.log(max(T, M))
    alone = s / n + math.sqrt(times * top / n) if n else 2.0
    pooled = S / N + epsilon + math.sqrt(times * top / N) if N else 2.0
    return min(2.0, alone, pooled)


def guarded(center, scale, n, s, N, S, M, cutoff, epsilon, T):
    """Forced arms by U, then the model's arms, then the others by B."""
    sharp, loose = sharp_bound(n, s, N, S, M, epsilon, T), loose_bound(n, s, N, S, M, epsilon, T)
    if sharp > cutoff:
        return 100 + sharp, 0.0
    if loose >= cutoff:
        return clip(center, -20, 20), min(scale, 5)
    return loose - 100, 0.0
