"""PosseTS' model and Ind-TS-V's posterior, in slow and obvious Python.

The estimate follows docs/posse-ts.md, step by step, with its letters. Tables are lists of lists [p][i] for player p and
arm i: n counts, s sums of rewards, q sums of their squares; [g][i] for group g. What is known of a player beside its
data is its list of parts, each a (value, weight); the value is None if it is missing.
"""

from __future__ import annotations

import itertools
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


def parts_of(kinds, values):
    """The parts of a player's attributes, from its values: a category's name, a number's bin, or None if missing."""
    parts = []
    for kind, value in zip(kinds.values(), values, strict=True):
        if kind != "category" and not isinstance(kind[0], str):  # a number, cut into bins
            bins = len(kind) + 1
            parts.append((None, 0.0) if value is None else ("slope", 2 * value / (bins - 1) - 1))
        parts.append((value, 1.0))
    for pair in itertools.combinations(values, 2):
        parts.append((None if None in pair else pair, 1.0))
    return tuple(parts)


def share_prior(evidence):
    """Each arm's chances of some choices, from the logarithms of their evidence, [i][choice].

    Arms share the proportions of the choices, which are the means of the chances over all arms and one arm more.
    """
    count = len(evidence[0])
    proportions = [1 / count] * count
    for _ in range(6):
        chances = [
            softmax([e + math.log(part) for e, part in zip(arm, proportions, strict=True)])[0] for arm in evidence
        ]
        everywhere = [*chances, [1 / count] * count]
        proportions = [sum(column) / len(everywhere) for column in zip(*everywhere, strict=True)]
    return chances


def evidence_for(variance, J, raw):
    """Of an estimate with information J, for a variance of what is estimated."""
    x = variance * J
    return (J * raw**2 * x / (1 + x) - math.log(1 + x)) / 2


def averaged(chances, J, raw):
    """The mean and the variance of what is estimated, over the variances that it may have."""
    means = [raw * variance * J / (1 + variance * J) for variance in VARIANCES]
    own = [variance / (1 + variance * J) for variance in VARIANCES]
    mean = sum(chance * each for chance, each in zip(chances, means, strict=True))
    return mean, sum(
        chance * (inner + (each - mean) ** 2) for chance, each, inner in zip(chances, means, own, strict=True)
    )


def centered(raw, J):
    """Estimates less their mean, weighted by J / (1 + J)."""
    weights = [j / (1 + j) for j in J]
    if sum(weights) == 0:
        return raw
    middle = sum(weight * each for weight, each in zip(weights, raw, strict=True)) / sum(weights)
    return [each - middle for each in raw]


class Estimate:
    """What everybody's data say: phi, rho, c and d of arms; phi_p, odd, b, v and w of players; effects of values.

    `parts` are each player's, by `parts_of`. `before` is the last estimate, whose effects are the first ones here.
    """

    def __init__(self, n, s, q, log_T=0.0, parts=None, before=None):
        self.n, self.s = list(n), s
        self.parts = list(parts or [() for _ in n])
        self.players, self.arms = range(len(n)), range(len(n[0]))
        self.pulls = [sum(column) for column in zip(*n, strict=True)]
        self.dispersions(q)
        self.start(before)
        for _ in range(3):
            self.improve()
        if len(n) >= 3:
            self.groups()
            if len(self.c) > 1:
                self.improve()
                self.groups()
            self.odd_players()
        self.weigh()
        self.centers()
        self.rho_divided_by = self.held(log_T)

    def welcome(self, parts):
        """Somebody joins, and is taken for a player without data until the next estimate."""
        self.n.append([0 for i in self.arms])
        self.parts.append(parts)
        self.players = range(len(self.n))
        self.phi_p.append(1.0)
        self.odd.append(self.odd_newcomer)
        self.b.append(0.0)
        self.v.append(self.v_newcomer)
        self.w.append(self.w_newcomer)

    def is_old(self, n):
        """Whether the estimate must be made anew for these counts: an eighth of them is new, or some were forgotten."""
        pulls = [sum(column) for column in zip(*n, strict=True)]
        faded = any(now < then for now, then in zip(pulls, self.pulls, strict=True))
        return faded or 8 * (sum(pulls) - sum(self.pulls)) >= sum(pulls)

    def improve(self):
        """3 to 6."""
        self.weigh()
        self.centers()
        if len(self.n) >= 3:
            self.attributes()
        self.unusual = [self.evidence_of_oddity(p) for p in self.players]  # 8, before ρ changes
        self.own()
        if len(self.n) >= 3:
            self.weigh()
            self.levels()

    # ------------------------------------------------ the steps

    def dispersions(self, q):
        """1."""
        n, s = self.n, self.s
        self.phi = [dispersion([(n[p][i], s[p][i], q[p][i]) for p in self.players]) for i in self.arms]
        self.phi_p = [dispersion([(n[p][i], s[p][i], q[p][i]) for i in self.arms]) for p in self.players]

    def start(self, before):
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
        self.odd_newcomer, self.v_newcomer, self.w_newcomer = 0.0, 0.0, [1.0]
        self.effects = []  # of each part: {value: [(effect, doubt) of arm i]}
        for k in range(len(self.parts[0]) if self.parts else 0):
            known = before.effects[k] if before is not None and self.values(k) else {}
            self.effects.append(
                {v: [*pairs, *[(0.0, 0.0)] * (len(self.arms) - len(pairs))] for v, pairs in known.items()}
            )

    def centers(self):
        """3. All groups' centers take a step, and their doubts."""
        for i in self.arms:
            seen = [p for p in self.players if self.n[p][i] > 0]
            h = {p: self.h(p, i) for p in seen}
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

    def attributes(self):
        """4. What each value of each part does to each arm, part by part."""
        for k in range(len(self.effects)):
            values = self.values(k)
            J = {v: [0.0 for i in self.arms] for v in values}
            U = {v: [0.0 for i in self.arms] for v in values}
            for p in self.players:
                value, x = self.parts[p][k]
                for i in self.arms:
                    if value is not None and value in values and self.n[p][i] > 0:
                        c, h = self.mean(p, i), self.h(p, i)
                        U[value][i] += x * h * (self.y(p, i) - c)
                        J[value][i] += x**2 * h * c * (1 - c)
            raw, evidence = [], []
            for i in self.arms:
                info = [J[v][i] for v in values]
                raw.append([self.effect(k, v, i)[0] + clip(U[v][i] / (J[v][i] + 0.5), -2, 2) for v in values])
                pairs = list(zip(info, raw[i], strict=True))
                evidence.append([sum(evidence_for(variance, *pair) for pair in pairs) for variance in VARIANCES])
            if values:
                chances = share_prior(evidence)
                found = {None: [averaged(chances[i], 0.0, 0.0) for i in self.arms]}
                for number, v in enumerate(values):
                    found[v] = [averaged(chances[i], J[v][i], raw[i][number]) for i in self.arms]
                self.effects[k] = found

    def own(self):
        """5."""
        evidence = [[sum(self.evidence(p, i, 1 / (k + 1)) for p in self.players) for k in STRENGTHS] for i in self.arms]
        for i, chances in enumerate(share_prior(evidence)):
            self.rho[i] = sum(chance / (k + 1) for chance, k in zip(chances, STRENGTHS, strict=True))

    def levels(self):
        """6."""
        U, J = [], []
        for p in self.players:
            seen = [i for i in self.arms if self.n[p][i] > 0]
            U.append(sum(self.h(p, i) * (self.y(p, i) - self.mean(p, i)) for i in seen))
            J.append(sum(self.h(p, i) * self.mean(p, i) * (1 - self.mean(p, i)) for i in seen))
        raw = centered([self.b[p] + clip(U[p] / (J[p] + 0.5), -2, 2) for p in self.players], J)
        evidence = []
        for variance in VARIANCES:
            total = math.log(0.3) if variance > 0 else 0.0
            evidence.append(total + sum(evidence_for(variance, J[p], raw[p]) for p in self.players))
        chances, _ = softmax(evidence)
        for p in self.players:
            self.b[p], self.v[p] = averaged(chances, J[p], raw[p])
        _, self.v_newcomer = averaged(chances, 0.0, 0.0)

    def groups(self):
        """7."""
        self.weigh(0.5)
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
        for number in range(8):
            if number > 0:
                self.centers()
            total = self.share_players(proportions)
            self.w_newcomer = proportions
            proportions = [
                (1 + sum(self.w[p][g] for p in self.players)) / (len(self.players) + len(self.c))
                for g in range(len(self.c))
            ]
        return total

    def share_players(self, proportions):
        """Players' chances of belonging to each group; the mixture's log-likelihood."""
        total = 0.0
        for p in self.players:
            self.w[p], log_sum = softmax([math.log(part) + self.fit(p, g) for g, part in enumerate(proportions)])
            total += log_sum
        return total

    def fit(self, p, g):
        """The log-likelihood of a player in a group."""
        total = 0.0
        for i in self.arms:
            if self.n[p][i] > 0:
                c, y = self.center(p, i, g), self.y(p, i)
                total += self.h(p, i) * (y * math.log(c) + (1 - y) * math.log(1 - c))
        return total

    def add_group(self):
        """One with the centers of a player: of the four that fit worst, that with the largest likelihood."""
        far = []
        for p in self.players:
            seen = [i for i in self.arms if self.n[p][i] > 0]
            mean = [self.mean(p, i) for i in self.arms]
            far.append(sum(self.h(p, i) * (self.y(p, i) - mean[i]) ** 2 / (mean[i] * (1 - mean[i])) for i in seen))
        worst = [p for p in sorted(self.players, key=lambda p: -far[p])[:4] if far[p] > 0] or [0]
        begun = [[self.begun_by(p, i) for i in self.arms] for p in worst]
        equal = [1 / (len(self.c) + 1)] * (len(self.c) + 1)
        others, totals = self.c, []
        for new in begun:
            self.c = [*others, new]
            totals.append(self.share_players(equal))
        self.c = [*others, begun[totals.index(max(totals))]]
        self.d.append([0.0 for i in self.arms])

    def begun_by(self, p, i):
        """The center of a group that begins with a player."""
        c = self.mean(p, i)
        if self.n[p][i] > 0:
            h = self.h(p, i)
            c = (h * self.y(p, i) + 2 * c) / (h + 2)
        return clip(logistic(logit(c) - self.shift(p, i)), 1e-6, 1 - 1e-6)

    def evidence_of_oddity(self, p):
        """8. How much larger the evidence of a player is for κ = 2 than for ρ."""
        return sum(self.evidence(p, i, 1 / 3) - self.evidence(p, i, self.rho[i]) for i in self.arms)

    def odd_players(self):
        """8."""
        rare = math.log(10 * len(self.players))
        self.odd = [logistic(clip(more - rare, -50, 50)) for more in self.unusual]
        self.odd_newcomer = logistic(-rare)

    # ------------------------------------------------ of a pair

    def y(self, p, i):
        return self.s[p][i] / self.n[p][i]

    def pair_phi(self, p, i):
        return max(self.phi[i], self.phi_p[p])

    def pair_rho(self, p, i):
        return self.rho[i] + self.odd[p] * (1 / 3 - self.rho[i])

    def weigh(self, part=1.0):
        """3. How many single pulls each pair's data are worth for a center, [p][i]; `part` of ρ counts."""
        self.worth = [[self.effective(p, i, part) for i in self.arms] for p in self.players]

    def effective(self, p, i, part):
        c = self.center(p, i, 0)
        missing = sum(x * self.effect(k, v, i)[1] for k, (v, x) in enumerate(self.parts[p]) if v is None)
        rho = min(self.pair_rho(p, i) + missing * c * (1 - c), 0.5)
        pulls, kappa = self.n[p][i] / self.pair_phi(p, i), 1 / (part * rho) - 1
        return pulls * kappa / (pulls + kappa)

    def h(self, p, i):
        return self.worth[p][i]

    def values(self, k):
        """The values of a part, in the order of the players; none if there are fewer than two players for each."""
        found = list(dict.fromkeys(parts[k][0] for parts in self.parts if parts[k][0] is not None))
        return found if 2 * len(found) <= len(self.parts) else []

    def effect(self, k, value, i):
        """What a value of a part does to an arm, and its doubt; of a value not seen before that of a missing one."""
        known = self.effects[k]
        return (known[value] if value in known else known.get(None, [(0.0, 0.0)] * len(self.arms)))[i]

    def shift(self, p, i):
        """By what a player's level and its attributes shift its means for an arm, on the logit scale."""
        return self.b[p] + sum(x * self.effect(k, value, i)[0] for k, (value, x) in enumerate(self.parts[p]))

    def doubt(self, p, i):
        """The variance of that shift."""
        return self.v[p] + sum(x**2 * self.effect(k, value, i)[1] for k, (value, x) in enumerate(self.parts[p]))

    def center(self, p, i, g):
        return logistic(logit(self.c[g][i]) + self.shift(p, i))

    def mean(self, p, i):
        return sum(self.w[p][g] * self.center(p, i, g) for g in range(len(self.c)))

    def evidence(self, p, i, rho):
        """5. Of a pair, for a ρ."""
        phi = self.pair_phi(p, i)
        if self.n[p][i] <= phi:
            return 0.0
        c = self.mean(p, i)
        between = max(sum(self.w[p][g] * self.center(p, i, g) ** 2 for g in range(len(self.c))) - c**2, 0)
        u, at_most = phi / self.n[p][i], c * (1 - c)
        tau = u + (1 - u) * rho + self.doubt(p, i) * at_most + between / at_most
        all_h = sum(self.h(other, i) for other in self.players if self.n[other][i] > 0)
        fitted = [self.effect(k, v, i)[1] * x**2 for k, (v, x) in enumerate(self.parts[p]) if v is not None]
        left = (1 - self.h(p, i) / (2 + all_h)) * max(1 - self.h(p, i) * at_most * sum(fitted), 0.1)
        j = at_most / u
        return -j / (j + 0.2) * (math.log(tau / u) + (self.y(p, i) - c) ** 2 / (at_most * left * tau)) / 2

    # ------------------------------------------------ priors and indices

    def prior(self, p, i, epsilon=math.inf):
        """The mean and the variance of a pair's mean before its own data."""
        if len(self.players) == 1:
            return 0.5, UNIFORM
        rho, mean = min(self.pair_rho(p, i) / self.rho_divided_by, 1 / 3), self.mean(p, i)
        between, doubt = -(mean**2), 0.0
        for g in range(len(self.c)):
            c, first = self.center(p, i, g), self.c[g][i]
            between += self.w[p][g] * (c * (1 - c) * (rho + self.doubt(p, i) * c * (1 - c)) + c**2)
            doubt += self.w[p][g] * self.d[g][i] * (c * (1 - c) / (first * (1 - first))) ** 2
        return clip(mean, 1e-9, 1 - 1e-9), max(min(between, epsilon**2 / 4) + doubt, 1e-9)

    def held(self, log_T):
        """By how much ρ may be underestimated: two errors of χ² over its degrees of freedom for each ten beyond 10⁵."""
        k = sum(max(sum(n[i] > 0 for n in self.n) - 1, 0) for i in self.arms)
        u, error = log_T / math.log(10) - 5, 2 / (9 * max(k, 1))
        return clip(1 - u * (error + 2 * math.sqrt(error)), 0.1, 1) ** 3

    def index(self, n, s, p, i, epsilon, log_T):
        """PosseTS' center and scale for player p, arm i: own data on a prior from everybody's."""
        return index(n, s, self.pair_phi(p, i), *self.prior(p, i, epsilon), log_T)

    def belief(self, n, s, p, i, epsilon):
        """The same without exploration."""
        return index(n, s, self.pair_phi(p, i), *self.prior(p, i, epsilon))


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
    f = n * m * (1 - m) / (n * m * (1 - m) + z**2 / 8)
    return center + 0.6 * f * z * sd, sd * math.sqrt(1 - 0.91 * f)


def part_labels(coder):
    """What each part of a coder is called: 'region', 'slope of age', 'region × device'."""
    names = list(coder.attributes.kinds)
    return [
        f"slope of {names[of[0]]}" if of[0] == of[-1] and len(of) == 2 else " × ".join(names[each] for each in of)
        for of in coder._parts
    ]
