"""PosseTS' hierarchy, Ind-TS-V's posterior and RobustPosseTS' bounds, formula by formula, in slow and obvious Python.

A reward of player p on arm i has mean μ_pi and variance φ_i μ_pi (1 − μ_pi); μ_pi varies around mu_i + lev_p with
variance tau2_i f_p. Tables are lists of lists [p][i]: n counts, s sums of rewards, q sums of their squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

UNIFORM = 1 / 12


def clip(x, low, high):
    return min(max(x, low), high)


def cap(epsilon):
    """The largest spread of players that differ by at most ε (Popoviciu's inequality); infinite: not known."""
    return min(UNIFORM, epsilon**2 / 4)


@dataclass
class Summary:
    """What everybody's data say: phi, mu, cvar and tau2 of each arm; lev, levv and f of each player; and freedom."""

    phi: list
    mu: list
    lev: list
    levv: list
    f: list
    v: list = field(default_factory=list)
    tau2: list = field(default_factory=list)
    cvar: list = field(default_factory=list)
    freedom: int = 0  # of a spread common to all arms


def boundary(information, log_T):
    """z*: by how many standard deviations an arm may trail and be worth a pull, worth so many of T observations."""
    x = log_T - math.log(max(information, 1)) - 3
    return math.sqrt(x + math.sqrt(x**2 + 5))


def dispersion(pairs):
    """φ, from (n, s, q) of some pairs: what the rewards vary, relative to rewards of 0 and 1 with the same means."""
    num = den = 0.0
    for n, s, q in pairs:
        if n >= 2:
            variance = max(q - s**2 / n, 0) / (n - 1)  # q is of squares on the grid, so it may fall short
            num += n * variance
            den += s - s**2 / n + variance
    return clip((1 + num) / (1 + den), 1e-12, 1)


def summary(n, s, q, most):
    """The whole estimate, three times over: spreads, then levels and oddities from the second time on."""
    M, K = len(n), len(n[0])
    phi = [dispersion([(n[p][i], s[p][i], q[p][i]) for p in range(M)]) for i in range(K)]
    mu = [(sum(s[p][i] for p in range(M)) + phi[i]) / (sum(n[p][i] for p in range(M)) + 2 * phi[i]) for i in range(K)]
    it = Summary(phi, mu, [0.0] * M, [0.0] * M, [1.0] * M)
    it.freedom = sum(max(sum(n[p][i] > 0 for p in range(M)) - 1, 0) for i in range(K))
    y = [[s[p][i] / n[p][i] if n[p][i] else None for i in range(K)] for p in range(M)]
    tau2 = 0.01
    zeta = growing_floor(sum(map(sum, n)) / M)
    for number in range(3):
        it.v = [it.phi[i] * max(m * (1 - m) - tau2, m * (1 - m) / 4) for i, m in enumerate(it.mu)]
        scores = [score(it, n, y, i, tau2) for i in range(K)]
        tau2 = pooled_spread(scores, most)
        it.tau2 = [arm_spread(Q, I, tau2, zeta, most) for Q, I in scores]
        if number >= 1:
            it.lev, it.levv = levels(it, n, y)
            it.f = [oddity(it, n, y, p) for p in range(M)]
    for i in range(K):
        weights = [(p, it.v[i] / (it.tau2[i] * it.f[p] + it.levv[p] + it.v[i] / n[p][i])) for p in range(M) if n[p][i]]
        H = 2 * it.phi[i] + sum(h for _, h in weights)
        it.mu[i] = clip((it.phi[i] + sum(h * (y[p][i] - it.lev[p]) for p, h in weights)) / H, 1e-4, 1 - 1e-4)
        it.cvar.append(it.phi[i] * it.mu[i] * (1 - it.mu[i]) / (H + it.phi[i]))
    return it


def score(it, n, y, i, tau2):
    """Q_i and I_i, the score and the information of arm i's spread; brings its mu up to date on the way."""
    seen = [p for p in range(len(n)) if n[p][i]]
    if not seen:
        return 0.0, 0.0
    e = {p: it.v[i] / n[p][i] for p in seen}
    w = {p: 1 / (tau2 * it.f[p] + it.levv[p] + e[p]) for p in seen}
    W = sum(w.values())
    WY = sum(w[p] * (y[p][i] - it.lev[p]) for p in seen)
    Q = I = 0.0
    for p in seen:
        r = y[p][i] - it.lev[p] - WY / W
        h = 1 - w[p] / W
        Q += it.f[p] * w[p] ** 2 * (r**2 - e[p] * h)
        I += it.f[p] ** 2 * w[p] ** 2 * h
    it.mu[i] = clip((it.phi[i] + it.v[i] * WY) / (2 * it.phi[i] + it.v[i] * W), 1e-4, 1 - 1e-4)
    return Q, I


def pooled_spread(scores, most):
    """τ² of all arms together, one standard error above its estimate."""
    Q, I = sum(Q for Q, _ in scores), sum(I for _, I in scores)
    return min(most, max(0.0, Q / I) + math.sqrt(2 / I)) if I > 0 else most


def arm_spread(Q, I, tau2, zeta, most):
    """τ_i²: between the pooled spread and the arm's own, not below the latter, nor two standard errors above it."""
    if I <= 0:
        return tau2
    own, se, k = Q / I, math.sqrt(2 / I), I * tau2**2
    blend = (4 * tau2 + k * max(0.0, own)) / (4 + k)
    return min(max(min(max(blend, own + zeta * se), own + 2 * se), 1e-8), most)


def growing_floor(rounds):
    """ζ: how many standard errors above its own estimate an arm's spread is at least, after so many rounds."""
    return clip((math.log10(rounds) - 4) / 2, 0, 2) if rounds > 0 else 0.0


def levels(it, n, y):
    """lev and levv of each player, none unless their variance is shown by three players."""
    M, K = len(n), len(n[0])
    V, B = {}, {}
    for p in range(M):
        weights = {i: 1 / (it.tau2[i] + it.v[i] / n[p][i]) for i in range(K) if n[p][i]}
        if weights:
            V[p] = 1 / sum(weights.values())
            B[p] = V[p] * sum(weights[i] * (y[p][i] - it.mu[i]) for i in weights)
    sigma2 = level_variance(B, V, level_variance(B, V, 0.01)) if len(B) >= 3 else 0.0
    lev = [sigma2 / (sigma2 + V[p]) * B[p] if p in B else 0.0 for p in range(M)]
    levv = [sigma2 / (sigma2 + V[p]) * V[p] if p in B else sigma2 for p in range(M)]
    return lev, levv


def level_variance(B, V, guess):
    """σ_b², half a standard error below its estimate."""
    w = {p: 1 / (guess + V[p]) for p in B}
    m = sum(w[p] * B[p] for p in B) / sum(w.values())
    squares = sum(w[p] ** 2 for p in B)
    found = sum(w[p] ** 2 * ((B[p] - m) ** 2 - V[p]) for p in B) / squares
    return max(0.0, found - math.sqrt(2 / squares) / 2)


def oddity(it, n, y, p):
    """f_p: how far player p's residuals go beyond χ² and two standard deviations."""
    seen = [i for i in range(len(n[p])) if n[p][i]]
    m = len(seen)
    R = sum((y[p][i] - it.lev[p] - it.mu[i]) ** 2 / (it.tau2[i] + it.levv[p] + it.v[i] / n[p][i]) for i in seen)
    return max(1.0, R / (m + 2 * math.sqrt(2 * m) + 1))


def held(f, log_T):
    """What part of its estimate the spread may be, with f degrees of freedom: less, the longer the run."""
    powers, c = log_T / math.log(10) - 5, 2 / (9 * max(f, 1))
    return clip(1 - powers * (c + 2 * math.sqrt(c)), 0.1, 1) ** 3


def shared_index(it, n, s, p, i, most, log_T):
    """PosseTS' center and scale for player p, arm i: own data on a prior from everybody's."""
    truth = held(it.freedom, log_T)
    t2 = max(min(most, (it.tau2[i] * it.f[p] + it.levv[p]) / truth), 1e-8)
    if len(it.lev) == 1 or t2 == UNIFORM:
        return index(n, s, it.phi[i], 0.5, UNIFORM, 0.0, log_T)
    c = clip(it.mu[i] + it.lev[p], 1e-3, 1 - 1e-3)
    return index(n, s, it.phi[i], c, t2, it.cvar[i], log_T)


def index(n, s, phi, c, t2, cvar, log_T=None):
    """Center and scale on the scale x^¼ − (1−x)^¼, from own data and a prior of mean c and variance t2."""
    n0 = max(0.0, phi * (c * (1 - c) - t2) / t2)
    a, b = max(n0 * c, phi), max(n0 * (1 - c), phi)
    n0 = a + b
    m = clip((s + a) / (n + n0), 1e-6, 1 - 1e-6)
    V = phi * m * (1 - m) / (n + n0 + phi) + (n0 / (n + n0)) ** 2 * cvar
    rho = min(V / (m * (1 - m)), 1 / 3)
    median = clip(m - (1 - 2 * m) * rho / 3, m / 3, 1 - (1 - m) / 3)
    center, sd = median**0.25 - (1 - median) ** 0.25, math.sqrt(V) / 4 * (m**-0.75 + (1 - m) ** -0.75)
    if log_T is None:  # what is believed
        return center, sd
    z = boundary(phi * m * (1 - m) / V, log_T)
    untried = z**2 / (z**2 + 8 * n * m * (1 - m))
    return center + (1 - untried) * 0.6 * z * sd, sd * math.sqrt(untried + (1 - untried) * 0.3**2)


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
