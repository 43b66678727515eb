"""PosseTS' model, Ind-TS-V's posterior and RobustPosseTS' bounds, in slow and obvious Python.

The estimate follows docs/posse-ts.md, step by step, with its letters. Tables are lists of lists [p][i] for player p and
arm i: n counts, s sums of rewards, q sums of their squares; [g][i] for group g.
"""

from __future__ import annotations

import math

UNIFORM = 1 / 12
STRENGTHS = [2 * 4**k for k in range(8)]
VARIANCES = [0, 0.01, 0.04, 0.16, 0.64, 2.56, 10.24]


def clip(x, low, high):
    return min(max(x, low), high)


def logit(x):
    return math.log(x / (1 - x))


def logistic(x):
    return 1 / (1 + math.exp(-x))


def softmax(logs):
    """Chances proportional to the exponentials, and the logarithm of the exponentials' sum."""
    top = max(logs)
    parts = [math.exp(x - top) for x in logs]
    return [part / sum(parts) for part in parts], top + math.log(sum(parts))


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


class Estimate:
    """What everybody's data say: phi, rho, c and d of arms; phi_p, odd, b, v and w of players."""

    def __init__(self, n, s, q):
        self.n, self.s = n, s
        self.players, self.arms = range(len(n)), range(len(n[0]))
        self.pulls = [sum(column) for column in zip(*n, strict=True)]
        self.dispersions(q)
        self.start()
        for _ in range(3):
            self.improve()
        if len(n) >= 3:
            self.groups()
            if len(self.c) > 1:
                self.improve()
                self.groups()
            self.odd_players()
        self.centers()

    def is_old(self, n):
        """Whether the estimate must be made anew for these counts: an eighth of them is new, or some were forgotten."""
        pulls = [sum(column) for column in zip(*n, strict=True)]
        faded = any(now < then for now, then in zip(pulls, self.pulls, strict=True))
        return faded or 8 * (sum(pulls) - sum(self.pulls)) >= sum(pulls)

    def improve(self):
        """3 to 5."""
        self.centers()
        self.unusual = [self.evidence_of_oddity(p) for p in self.players]  # 7, before ρ changes
        self.own()
        if len(self.n) >= 3:
            self.levels()

    # ------------------------------------------------ the steps

    def dispersions(self, q):
        """1."""
        n, s = self.n, self.s
        self.phi = [dispersion([(n[p][i], s[p][i], q[p][i]) for p in self.players]) for i in self.arms]
        self.phi_p = [dispersion([(n[p][i], s[p][i], q[p][i]) for i in self.arms]) for p in self.players]

    def start(self):
        """2."""
        n, s = self.n, self.s
        self.c = [
            [(sum(s[p][i] for p in self.players) + 1) / (sum(n[p][i] for p in self.players) + 2) for i in self.arms]
        ]
        self.d = [[0.0 for i in self.arms]]
        self.b = [0.0 for p in self.players]
        self.v = [0.0 for p in self.players]
        self.odd = [0.0 for p in self.players]
        self.w = [[1.0] for p in self.players]
        self.rho = [0.04 for i in self.arms]

    def centers(self, part=1.0):
        """3. All groups' centers take a step, and their doubts."""
        for i in self.arms:
            seen = [p for p in self.players if self.n[p][i] > 0]
            h = {p: self.h(p, i, part) for p in seen}
            expected = 0.5
            if len(self.c) > 1:
                expected = (1 + sum(h[p] * self.y(p, i) for p in seen)) / (2 + sum(h.values()))
            for g in range(len(self.c)):
                c = self.c[g][i]
                score = 2 * (expected - c)
                information = 2 * c * (1 - c)
                for p in seen:
                    x = self.center(p, i, g)
                    score += self.w[p][g] * h[p] * (self.y(p, i) - x)
                    information += self.w[p][g] * h[p] * x * (1 - x)
                c = clip(logistic(logit(c) + clip(score / information, -2, 2)), 1e-9, 1 - 1e-9)
                self.c[g][i] = c
                self.d[g][i] = (c * (1 - c)) ** 2 / (information + c * (1 - c))

    def own(self):
        """4."""
        evidence = [[sum(self.evidence(p, i, 1 / (k + 1)) for p in self.players) for k in STRENGTHS] for i in self.arms]
        proportions = [1 / len(STRENGTHS)] * len(STRENGTHS)
        for _ in range(6):
            chances = []
            for i in self.arms:
                weights, _ = softmax([e + math.log(part) for e, part in zip(evidence[i], proportions, strict=True)])
                self.rho[i] = sum(w / (k + 1) for w, k in zip(weights, STRENGTHS, strict=True))
                chances.append(weights)
            chances.append([1 / len(STRENGTHS)] * len(STRENGTHS))
            proportions = [sum(column) / len(chances) for column in zip(*chances, strict=True)]

    def levels(self):
        """5."""
        U, J = [], []
        for p in self.players:
            seen = [i for i in self.arms if self.n[p][i] > 0]
            U.append(sum(self.h(p, i) * (self.y(p, i) - self.mean(p, i)) for i in seen))
            J.append(sum(self.h(p, i) * self.mean(p, i) * (1 - self.mean(p, i)) for i in seen))
        raw = [self.b[p] + clip(U[p] / (J[p] + 0.5), -2, 2) for p in self.players]
        weights = [j / (1 + j) for j in J]
        if sum(weights) > 0:
            middle = sum(weights[p] * raw[p] for p in self.players) / sum(weights)
            raw = [b - middle for b in raw]
        evidence = []
        for variance in VARIANCES:
            total = math.log(0.3) if variance > 0 else 0.0
            for p in self.players:
                x = variance * J[p]
                total += (J[p] * raw[p] ** 2 * x / (1 + x) - math.log(1 + x)) / 2
            evidence.append(total)
        chances, _ = softmax(evidence)
        for p in self.players:
            means = [raw[p] * variance * J[p] / (1 + variance * J[p]) for variance in VARIANCES]
            own = [variance / (1 + variance * J[p]) for variance in VARIANCES]
            self.b[p] = sum(chance * mean for chance, mean in zip(chances, means, strict=True))
            self.v[p] = sum(
                chance * (inner + (mean - self.b[p]) ** 2)
                for chance, mean, inner in zip(chances, means, own, strict=True)
            )

    def groups(self):
        """6."""
        likelihood = self.settle()
        while len(self.c) < 6:
            self.add_group()
            grown = self.settle()
            if grown <= likelihood + 1.5 * len(self.arms):
                self.c.pop()
                self.d.pop()
                self.settle()
                break
            likelihood = self.settle()

    def settle(self):
        """Chances and proportions in turns; the mixture's log-likelihood of the last time."""
        proportions = [1 / len(self.c)] * len(self.c)
        for number in range(4):
            if number > 0:
                self.centers(0.5)
            total = 0.0
            for p in self.players:
                self.w[p], log_sum = softmax([math.log(part) + self.fit(p, g) for g, part in enumerate(proportions)])
                total += log_sum
            proportions = [
                (1 + sum(self.w[p][g] for p in self.players)) / (len(self.players) + len(self.c))
                for g in range(len(self.c))
            ]
        return total

    def fit(self, p, g):
        """The log-likelihood of a player in a group."""
        total = 0.0
        for i in self.arms:
            if self.n[p][i] > 0:
                c, y = self.center(p, i, g), self.y(p, i)
                total += self.h(p, i, 0.5) * (y * math.log(c) + (1 - y) * math.log(1 - c))
        return total

    def add_group(self):
        """One with the centers of the player that fits worst."""
        far = []
        for p in self.players:
            seen = [i for i in self.arms if self.n[p][i] > 0]
            mean = [self.mean(p, i) for i in self.arms]
            far.append(sum(self.h(p, i, 0.5) * (self.y(p, i) - mean[i]) ** 2 / (mean[i] * (1 - mean[i])) for i in seen))
        first = far.index(max(far))
        new = []
        for i in self.arms:
            c = self.mean(first, i)
            its = c
            if self.n[first][i] > 0:
                h = self.h(first, i, 0.5)
                its = (h * self.y(first, i) + 2 * c) / (h + 2)
            new.append(clip(logistic(logit(its) - self.b[first]), 1e-6, 1 - 1e-6))
        self.c.append(new)
        self.d.append([0.0 for i in self.arms])

    def evidence_of_oddity(self, p):
        """7. How much larger the evidence of a player is for κ = 2 than for ρ."""
        return sum(self.evidence(p, i, 1 / 3) - self.evidence(p, i, self.rho[i]) for i in self.arms)

    def odd_players(self):
        """7."""
        self.odd = [logistic(clip(more - math.log(10 * len(self.players)), -50, 50)) for more in self.unusual]

    # ------------------------------------------------ of a pair

    def y(self, p, i):
        return self.s[p][i] / self.n[p][i]

    def pair_phi(self, p, i):
        return max(self.phi[i], self.phi_p[p])

    def pair_rho(self, p, i):
        return self.rho[i] + self.odd[p] * (1 / 3 - self.rho[i])

    def h(self, p, i, part=1.0):
        """How many single pulls a pair's data are worth for a center; `part` of ρ counts."""
        pulls, kappa = self.n[p][i] / self.pair_phi(p, i), 1 / (part * self.pair_rho(p, i)) - 1
        return pulls * kappa / (pulls + kappa)

    def center(self, p, i, g):
        return logistic(logit(self.c[g][i]) + self.b[p])

    def mean(self, p, i):
        return sum(self.w[p][g] * self.center(p, i, g) for g in range(len(self.c)))

    def evidence(self, p, i, rho):
        """4. Of a pair, for a ρ."""
        phi = self.pair_phi(p, i)
        if self.n[p][i] <= phi:
            return 0.0
        c = self.mean(p, i)
        between = max(sum(self.w[p][g] * self.center(p, i, g) ** 2 for g in range(len(self.c))) - c**2, 0)
        u, at_most = phi / self.n[p][i], c * (1 - c)
        v = u + (1 - u) * rho + self.v[p] * at_most + between / at_most
        all_h = sum(self.h(other, i) for other in self.players if self.n[other][i] > 0)
        left = 1 - self.h(p, i) / (2 + all_h)
        x = at_most / u
        return -x / (x + 0.2) * (math.log(v / u) + (self.y(p, i) - c) ** 2 / (at_most * left * v)) / 2

    # ------------------------------------------------ priors and indices

    def prior(self, p, i, epsilon=math.inf, log_T=0.0):
        """The mean and the variance of a pair's mean before its own data."""
        if len(self.players) == 1:
            return 0.5, UNIFORM
        rho, mean = min(self.pair_rho(p, i) / self.held(log_T), 1 / 3), self.mean(p, i)
        between, doubt = -(mean**2), 0.0
        for g in range(len(self.c)):
            c, first = self.center(p, i, g), self.c[g][i]
            between += self.w[p][g] * (c * (1 - c) * (rho + self.v[p] * c * (1 - c)) + c**2)
            doubt += self.w[p][g] * self.d[g][i] * (c * (1 - c) / (first * (1 - first))) ** 2
        return clip(mean, 1e-9, 1 - 1e-9), max(min(between, epsilon**2 / 4) + doubt, 1e-9)

    def held(self, log_T):
        """By how much ρ may be underestimated: two errors of χ² over its degrees of freedom for each ten beyond 10⁵."""
        k = sum(max(sum(n[i] > 0 for n in self.n) - 1, 0) for i in self.arms)
        x, error = log_T / math.log(10) - 5, 2 / (9 * max(k, 1))
        return clip(1 - x * (error + 2 * math.sqrt(error)), 0.1, 1) ** 3

    def index(self, n, s, p, i, epsilon, log_T):
        """PosseTS' center and scale for player p, arm i: own data on a prior from everybody's."""
        return index(n, s, self.pair_phi(p, i), *self.prior(p, i, epsilon, log_T), log_T)

    def belief(self, n, s, p, i, epsilon, log_T):
        """The same without exploration."""
        return index(n, s, self.pair_phi(p, i), *self.prior(p, i, epsilon, log_T))


def index(n, s, phi, c, V, log_T=None):
    """Center and scale on the scale x^¼ − (1−x)^¼, from own data and a prior of mean c and variance V."""
    n0 = max(phi * (c * (1 - c) / V - 1), 2 * phi)
    m = clip((s + n0 * c) / (n + n0), 1e-6, 1 - 1e-6)
    V = phi * m * (1 - m) / (n + n0 + phi)
    skew = min(V / (m * (1 - m)), 1 / 3)
    median = clip(m - (1 - 2 * m) * skew / 3, m / 3, 1 - (1 - m) / 3)
    center, sd = median**0.25 - (1 - median) ** 0.25, math.sqrt(V) / 4 * (m**-0.75 + (1 - m) ** -0.75)
    if log_T is None:  # what is believed
        return center, sd
    z = boundary(n + n0 + phi, log_T)
    g = n * m * (1 - m) / (n * m * (1 - m) + z**2 / 8)
    return center + 0.6 * g * z * sd, sd * math.sqrt(1 - 0.91 * g)


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
