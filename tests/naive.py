"""The paper, line by line, in slow and obvious Python: the oracle of every fast path.

Each algorithm is a generator over rounds. It takes the sizes, `log_T(t)` and three sources of chance:

    active(t)          the players of round t
    normal(t, p, i)    a standard normal draw for player p and arm i
    reward(t, p, i)    the reward that player p gets from arm i

and yields, for each round, {player: (arm, reward)}. Rounds count from 1, players and arms from 0.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

import naive_guarantee
import naive_posse
from naive_alone import ALONE, argmax, played
from naive_told import TOLD
from posse import rewards, streams
from posse.policies import Law


def robustagg_ts(M, K, T, log_T, active, normal, reward, epsilon, c1=0.5, c2=1.0, every_posterior=False):
    """Algorithm 1; with `every_posterior`, its variant -V, which updates all aggregate posteriors after each round."""
    n = [[0] * K for _ in range(M)]
    n_all = [0] * K
    s = [[0.0] * K for _ in range(M)]
    s_all = [0.0] * K
    ind_mean = [[0.0] * K for _ in range(M)]
    ind_var = [[c2] * K for _ in range(M)]
    agg_mean = [[0.0] * K for _ in range(M)]
    agg_var = [[c2] * K for _ in range(M)]
    for t in range(1, T + 1):
        players = active(t)
        pulled = {}
        for p in players:
            theta = []
            for i in range(K):
                if epsilon > 0 and n[p][i] >= c1 * log_T(t) / epsilon**2 + 2 * M:
                    mean, var = ind_mean[p][i], ind_var[p][i]
                else:
                    mean, var = agg_mean[p][i], agg_var[p][i]
                theta.append(mean + math.sqrt(var) * normal(t, p, i))
            i = argmax(theta)
            pulled[p] = (i, reward(t, p, i))
        for p, (i, r) in pulled.items():
            n[p][i] += 1
            n_all[i] += 1
            s[p][i] += r
            s_all[i] += r
        for p, (i, _) in pulled.items():
            ind_mean[p][i] = s[p][i] / max(n[p][i], 1)
            ind_var[p][i] = c2 / max(n[p][i], 1)
            agg_mean[p][i] = s_all[i] / max(n_all[i], 1) + epsilon
            agg_var[p][i] = c2 / max(n_all[i] - M, 1)
        if every_posterior:
            for p in range(M):
                for i in range(K):
                    agg_mean[p][i] = s_all[i] / max(n_all[i], 1) + epsilon
                    agg_var[p][i] = c2 / max(n_all[i] - M, 1)
        yield pulled


def robustagg(M, K, T, log_T, active, normal, reward, epsilon, width=2.0):
    """Algorithm 2, with the width of the experiments (2 ln T) in place of the analysis' (64 · 13 ln T)."""

    def choice(n, s, t, p):
        bounds = []
        for i in range(K):
            own = max(n[p][i], 1)
            others = max(sum(n[q][i] for q in range(M) if q != p), 1)
            zeta = s[p][i] / own
            eta = sum(s[q][i] for q in range(M) if q != p) / others

            A = width * log_T(t)
            weight = best_weight(own, others, A, epsilon)
            kappa = weight * zeta + (1 - weight) * eta
            bounds.append(kappa + width_of(weight, own, others, A, epsilon))
        return argmax(bounds)

    return played(M, K, T, active, reward, choice)


def width_of(weight, n, m, A, epsilon):
    """F(n, m, λ, ε)."""
    return math.sqrt(A * (weight**2 / n + (1 - weight) ** 2 / m)) + (1 - weight) * epsilon


def best_weight(n, m, A, epsilon):
    """The λ that minimises F, in closed form (checked against a numerical minimum in test_policies.py)."""
    if epsilon > 0 and n >= A / epsilon**2:
        return 1.0
    if epsilon == 0:
        return n / (n + m)
    return min(1.0, n / (n + m) * (1 + epsilon * m / math.sqrt(A * (n + m) - epsilon**2 * n * m)))


def naive_agg(M, K, T, log_T, active, normal, reward, width=2.0):
    """RobustAgg with ε = 0."""
    return robustagg(M, K, T, log_T, active, normal, reward, 0.0, width)


def ind_ts(M, K, T, log_T, active, normal, reward, c2=1.0):
    """Thompson sampling for each player alone."""

    def choice(n, s, t, p):
        own = [max(n[p][i], 1) for i in range(K)]
        return argmax([s[p][i] / own[i] + math.sqrt(c2 / own[i]) * normal(t, p, i) for i in range(K)])

    return played(M, K, T, active, reward, choice)


def ind_ucb(M, K, T, log_T, active, normal, reward, width=2.0):
    """UCB-1 for each player alone, each arm once first."""

    def bound(n, s, t):
        return s / n + math.sqrt(width * log_T(t) / n) if n else math.inf

    def choice(n, s, t, p):
        return argmax([bound(n[p][i], s[p][i], t) for i in range(K)])

    return played(M, K, T, active, reward, choice)


def beta_ts(M, K, T, log_T, active, beta, reward):
    """Thompson sampling for each player alone from Beta(1 + successes, 1 + failures)."""

    def choice(n, s, t, p):
        return argmax([beta(t, p, i, 1 + s[p][i], 1 + n[p][i] - s[p][i]) for i in range(K)])

    return played(M, K, T, active, reward, choice)


def hier_ts(M, K, T, log_T, active, normal, reward, spread, noise=0.5, prior_mean=0.5, prior_sd=0.5):
    """Hierarchical Thompson sampling, each posterior from the joint Gaussian of centre, means and rewards."""

    def choice(n, s, t, p):
        theta = []
        for i in range(K):
            counts = [n[q][i] for q in range(M)]
            sums = [s[q][i] for q in range(M)]
            mean, var = joint_posterior(p, counts, sums, spread, noise, prior_mean, prior_sd)
            theta.append(mean + math.sqrt(var) * normal(t, p, i))
        return argmax(theta)

    return played(M, K, T, active, reward, choice)


def joint_posterior(p, counts, sums, spread, noise, prior_mean, prior_sd):
    """Mean and variance of player p's mean given all players' average rewards, by conditioning one big Gaussian.

    A priori cov(means q, q') = σq² + σ0² [q = q'], and an average of n rewards adds σ²/n.
    """
    seen = [q for q in range(len(counts)) if counts[q]]
    if not seen:
        return prior_mean, prior_sd**2 + spread**2
    averages = np.array([sums[q] / counts[q] for q in seen])
    covariance = prior_sd**2 + np.diag([spread**2 + noise**2 / counts[q] for q in seen])
    with_p = np.array([prior_sd**2 + spread**2 * (q == p) for q in seen])
    gain = np.linalg.solve(covariance, with_p)
    return prior_mean + gain @ (averages - prior_mean), prior_sd**2 + spread**2 - gain @ with_p


def estimates(parts):
    """A function of everybody's tables that gives an estimate: the last one, until that is too old."""
    made = [None]

    def estimate(n, s, q, log_t):
        if made[-1] is None or made[-1].is_old(n):
            made.append(naive_posse.Estimate(n, s, q, log_t, parts, made[-1]))
        return made[-1]

    return estimate


def posse_ts(M, K, T, log_T, active, normal, reward, epsilon, parts=None):
    """PosseTS: priors from a summary of everybody's data; ε is infinite where it is not known."""
    estimate = estimates(parts)

    def summary(n, s, q, log_t):
        it = estimate(n, s, q, log_t)
        return lambda n, s, p, i, log_t: it.index(n, s, p, i, epsilon, log_t)

    return summarised(M, K, T, log_T, active, normal, reward, summary)


def robust_posse_ts(M, K, T, log_T, active, normal, reward, epsilon, rounds, parts=None):
    """PosseTS behind bounds: the cutoff of a player is the loose bound of the model's favourite, of half the width."""
    estimate = estimates(parts)

    def summary(n, s, q, log_t):
        it = estimate(n, s, q, log_t)
        N, S = ([sum(table[p][i] for p in range(M)) for i in range(K)] for table in (n, s))
        cutoff = []
        for p in range(M):
            means = [it.index(n[p][i], s[p][i], p, i, epsilon, math.log(rounds))[0] for i in range(K)]
            best = argmax(means)
            numbers = n[p][best], s[p][best], N[best], S[best]
            cutoff.append(naive_guarantee.loose_bound(*numbers, M, epsilon, rounds, times=1))

        def index(n, s, p, i, log_t):
            center, scale = it.index(n, s, p, i, epsilon, log_t)
            return naive_guarantee.guarded(center, scale, n, s, N[i], S[i], M, cutoff[p], epsilon, rounds)

        return index

    return summarised(M, K, T, log_T, active, normal, reward, summary)


def ind_tsv(M, K, T, log_T, active, normal, reward):
    """Ind-TS-V: a uniform prior, with the dispersion of each player's noisiest arm."""

    def summary(n, s, q, _):
        phi = [max(naive_posse.dispersion([(n[p][i], s[p][i], q[p][i])]) for i in range(K)) for p in range(M)]
        return lambda n, s, p, i, log_t: naive_posse.index(n, s, phi[p], 0.5, naive_posse.UNIFORM, log_t)

    return summarised(M, K, T, log_T, active, normal, reward, summary)


def summarised(M, K, T, log_T, active, normal, reward, summary):
    """Thompson sampling with indices from a summary of everybody's data, made now and then.

    `summary(n, s, q, ln T)` gives a function of a pair's n, s, p, i and of ln T: its center and scale. Between
    summaries a pair's index follows the player's own pulls of the arm, up to the 64th.
    """
    n = [[0] * K for _ in range(M)]
    s = [[0.0] * K for _ in range(M)]
    q = [[0.0] * K for _ in range(M)]
    before = pulls = 0
    index = summary(n, s, q, log_T(1))
    known = [[(0, 0.0)] * K for _ in range(M)]
    for t in range(1, T + 1):
        pulled = {}
        for p in active(t):
            numbers = [index(*known[p][i], p, i, log_T(t)) for i in range(K)]
            i = argmax([center + scale * normal(t, p, i) for i, (center, scale) in enumerate(numbers)])
            pulled[p] = (i, reward(t, p, i))
        for p, (i, r) in pulled.items():
            pulls += 1
            n[p][i] += 1
            s[p][i] += r
            q[p][i] += math.floor(r**2 * rewards.GRID + 0.5) / rewards.GRID
        if pulls > before and 16 * (pulls - before) >= min(pulls, 1024 * M):
            before = pulls
            index = summary(n, s, q, log_T(t))
            known = [[(n[p][i], s[p][i]) for i in range(K)] for p in range(M)]
        else:
            for p, (i, _) in pulled.items():
                if n[p][i] <= 64:
                    known[p][i] = n[p][i], s[p][i]
        yield pulled


def told(policy):
    """A policy of naive_told.py, which is told players' attributes."""

    def algorithm(M, K, T, log_T, active, normal, reward, *constants, parts):
        return summarised(M, K, T, log_T, active, normal, reward, policy(parts, *constants))

    return algorithm


ALGORITHMS = {
    "RobustAggTS": robustagg_ts,
    "RobustAggTSV": lambda *args: robustagg_ts(*args, every_posterior=True),
    "RobustAgg": robustagg,
    "NaiveAgg": naive_agg,
    "IndTS": ind_ts,
    "IndUCB": ind_ucb,
    "BetaTS": beta_ts,
    "HierTS": hier_ts,
    "PosseTS": posse_ts,
    "RobustPosseTS": robust_posse_ts,
    "IndTSV": ind_tsv,
    **ALONE,
    **{name: told(policy) for name, policy in TOLD.items()},
}


def normal_from(bits):
    """The standard normal quantile of 64 bits."""
    if bits < 2**63:
        return NormalDist().inv_cdf((bits + 0.5) / 2**64)
    return -NormalDist().inv_cdf((2**64 - bits - 0.5) / 2**64)


class Chance:
    """posse's own random numbers for one run, taken one at a time and turned into draws the plain way."""

    def __init__(self, problem, schedule, horizon, seed=0, replication=0):
        self.problem = problem
        self.schedule = schedule
        self.horizon = horizon
        self.key = streams.key(seed, problem.stream, replication)

    def words(self, number, player, t, purpose):
        words = streams.philox(number, player, t % 2**32, t // 2**32 + purpose * 2**24, *self.key)
        return [int(word) for word in words]

    def active(self, t):
        M = self.problem.players
        name = type(self.schedule).__name__
        if name == "Concurrent":
            return list(range(M))
        if name == "Sequential" and self.schedule.order == "turn":
            return [(t - 1) % M]
        if name == "Sequential":
            high, low, _, _ = self.words(0, 0, t, streams.SCHEDULE)
            return [(high * 2**32 + low) * M // 2**64]
        if name == "Fixed":
            return [p for p in range(M) if self.schedule.mask[t - 1, p]]
        if name == "Late":
            absent = self.schedule.players if t <= math.floor(self.schedule.share * self.horizon) else 0
            return list(range(max(M - absent, 0)))
        if name == "Arrivals":
            there = [p for p in range(M) if p * self.horizon // M < t]
            return there if self.schedule.stay else [p for p in there if t <= (p + 1) * self.horizon // M]
        given = self.schedule.probability
        chances = list(given) if isinstance(given, tuple) else [given] * M
        return [p for p in range(M) if self.words(0, p, t, streams.SCHEDULE)[0] < chances[p] * 2**32]

    def normal(self, t, p, i):
        half_words = []
        for number in range((i + 2) // 8 + 1):
            for word in self.words(number, p, t, streams.DRAW):
                half_words += [word % 2**16, word // 2**16]
        middle, last, _, _ = self.words(i, p, t, streams.REFINE)
        return normal_from(half_words[2 + i] * 2**48 + middle * 2**16 + last // 2**16)

    def beta(self, t, p, i, a, b):
        """X / (X + Y) of two Gamma draws. The arm's first block has the first attempts at both, but for their uniforms.

        Further words of X and of Y are in the arm's other blocks, those of Y in the second half.
        """
        halves, first, second, uniforms = self.words(4096 * i, p, t, streams.SAMPLE)
        x_start, y_start = halves // 2**16 * 2**48 + first * 2**16, halves % 2**16 * 2**48 + second * 2**16
        x = self.gamma(t, p, a, x_start, uniforms // 2**16, 4096 * i + 1)
        y = self.gamma(t, p, b, y_start, uniforms % 2**16, 4096 * i + 2049)
        return x / (x + y)

    def gamma(self, t, p, shape, bits, uniform, number):
        """Marsaglia and Tsang's method, without the squeeze: attempts until one is accepted."""
        d = shape - 1 / 3
        high, low, _, _ = self.words(number, p, t, streams.SAMPLE)
        u = (uniform * 2**48 + high * 2**16 + low // 2**16 + 0.5) / 2**64
        while True:
            x = normal_from(bits)
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(u) < x**2 / 2 + d - d * v + d * math.log(v):
                return d * v
            number += 1
            first, second, third, fourth = self.words(number, p, t, streams.SAMPLE)
            bits = first // 2**16 * 2**48 + second * 2**16 + first % 2**16
            u = (third * 2**32 + fourth + 0.5) / 2**64

    def reward(self, t, p, i):
        first = self.words(0, p, t, streams.DRAW)[0]
        mean = float(self.problem.means[p, i])
        if isinstance(self.problem.rewards, rewards.Bernoulli):
            return 1.0 if first < mean * 2**32 else 0.0
        family = self.problem.rewards
        steps = rewards.draw_reward(family.code, family.parameter, mean, first, p, t, self.key)
        return steps / rewards.GRID


def run(policy, problem, horizon, schedule, seed=0, replication=0, anytime=False):
    """A whole run with posse's random numbers: a list of {player: (arm, reward)}, one for each round."""
    chance = Chance(problem, schedule, horizon, seed, replication)

    def log_T(t):
        return math.log(max(t, 2)) if anytime else math.log(horizon)

    algorithm = ALGORITHMS[type(policy).__name__]
    draw = chance.beta if policy.law is Law.BETA else chance.normal
    sizes = problem.players, problem.arms, horizon
    told = {}
    if policy.of_value:
        told["parts"] = [naive_posse.parts_of(problem.attributes.kinds, values) for values in problem.values]
    return list(algorithm(*sizes, log_T, chance.active, draw, chance.reward, *policy.constants(), **told))
