"""PosseTS: Thompson sampling that learns how noisy rewards are and how alike players are, and shares accordingly."""

import math
from dataclasses import dataclass

from posse.checks import dissimilarity
from posse.policies.base import Look, Policy, Refresh
from posse.policies.fourth_root import UNIFORM, clip, dispersion_sums, explore, mean_of, posterior
from posse.policies.statistics import STEP

# What the summary says of an arm, by its place in `shared`.
MEAN = 0  # over players
DISPERSION = 1  # φ: a reward with mean μ has variance φ μ (1 − μ)
DOUBT = 2  # the variance of the mean over players
SPREAD = 3  # τ², the variance of players' means
NOISE = 4  # the variance of a reward; e = noise / n is that of a player's mean
EXCESS, INFORMATION = 5, 6  # of the arm's own spread: its estimate is their quotient
LOOSENESS = 7  # √(2/9f): how loosely f degrees of freedom hold a spread

# What it says of a player, by its place in `of_player`.
LEVEL = 0  # by how much it earns more on every arm
LEVEL_DOUBT = 1  # the variance of that
ODDITY = 2  # at least 1: by how much its means spread more than others'
OFFSET, OFFSET_VARIANCE = 3, 4  # a first look at the level

WIDE = 0.01  # the spread to begin with
UNKNOWN = 1e300  # the variance of what there is no data on; finite, so that a learner can be saved as JSON
ROUNDS = 3  # of estimation
LN_10 = math.log(10.0)


@dataclass(frozen=True)
class PosseTS(Policy):
    """A hierarchy of Beta-like posteriors, with noise, spread, levels and odd players estimated from everybody's data.

    A player's mean for an arm varies around the arm's mean plus the player's level, with variance τ² f: τ² is the arm's
    spread, f ≥ 1 the player's oddity. Such a prior, of mean c and variance τ², is worth
    n₀ = φ (c (1−c) − τ²) / τ² observations, so that

        mean m = (s + n₀ c) / (n + n₀),    variance φ m (1−m) / (n + n₀ + φ) + (n₀ / (n + n₀))² d

    with d the doubt about the arm's mean, and τ² = 1/12 around ½ is the uniform prior of Beta-Bernoulli Thompson
    sampling. `posterior` turns this into center and scale on the scale x^¼ − (1−x)^¼, for draws from its upper part.
    docs/posse-ts.md derives all of it and says what is not proven. ε is optional: players that differ by at most ε have
    a spread of at most ε²/4.

    >>> PosseTS().label, PosseTS(0.1).label
    ('PosseTS', 'PosseTS(epsilon=0.1)')
    """

    epsilon: float | None = None

    name = "PosseTS"
    look = Look("#5B2A86", "-", "*", "..")
    refresh = Refresh.SCHEDULE
    shared = ("mean", "dispersion", "doubt", "spread", "noise", "excess", "information", "looseness")
    of_player = ("level", "level_doubt", "oddity", "offset", "offset_variance")
    work_tables = 2
    moved_by_others = "mean"
    reward_of = staticmethod(mean_of)

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, s, q, of_arm, of_player, work, epsilon):
        means, shares = work[0], work[1]  # each player's mean, and 1/n; 0 where it has no data
        cap = min(UNIFORM, 0.25 * epsilon * epsilon)
        total, freedom = look(n, s, q, of_arm, of_player, means, shares)
        margin = insurance(total / max(n.shape[1], 1))
        pooled = WIDE
        for number in range(ROUNDS):
            pooled = spreads(of_arm, of_player, means, shares, pooled, cap, margin)
            if number > 0:
                levels(of_arm, of_player, means, shares)
                oddities(of_arm, of_player, means, shares)
        centres(of_arm, of_player, means, shares)
        of_arm[:, LOOSENESS] = math.sqrt(2.0 / (9.0 * max(freedom, 1)))

    @staticmethod
    def index(n, s, mean, dispersion, doubt, spread, looseness, level, level_doubt, oddity, M, log_T, epsilon):
        expected, variance, doubt = prior(mean, doubt, spread, looseness, level, level_doubt, oddity, M, log_T, epsilon)
        center, scale, seen, information = posterior(n, s, dispersion, expected, variance, doubt)
        return explore(center, scale, seen, information, log_T)

    @staticmethod
    def belief(n, s, mean, dispersion, doubt, spread, looseness, level, level_doubt, oddity, M, log_T, epsilon):
        expected, variance, doubt = prior(mean, doubt, spread, looseness, level, level_doubt, oddity, M, log_T, epsilon)
        return posterior(n, s, dispersion, expected, variance, doubt)[:2]

    def check(self) -> None:
        if self.epsilon is not None:
            dissimilarity(self.epsilon)


def prior(mean, doubt, spread, looseness, level, level_doubt, oddity, M, log_T, epsilon):
    """What is expected of a player on an arm before its own data: the mean, its variance, and the doubt about it."""
    spread = min(UNIFORM, 0.25 * epsilon * epsilon, (spread * oddity + level_doubt) / held(looseness, log_T))
    if M == 1 or spread >= UNIFORM:  # nobody to share with, or nothing in common
        return 0.5, UNIFORM, 0.0
    return clip(mean + level, 1e-3), max(spread, 1e-8), doubt


def look(pulls, sums, squares, of_arm, of_player, means, shares):
    """Players' means, and first values for everything: arms' dispersions and means, players without level or oddity.

    Returns how many pulls there are in all, and the degrees of freedom of a spread common to all arms: for each arm,
    one less than the players who have tried it.
    """
    arms, players = pulls.shape
    everything, freedom = 0, 0
    for player in range(players):
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT], of_player[player, ODDITY] = 0.0, 0.0, 1.0
        for arm in range(arms):
            everything += pulls[arm, player]
    for arm in range(arms):
        N, S, above, below = 0.0, 0.0, 1.0, 1.0
        there = 0
        for player in range(players):
            n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
            share = 1.0 / n if n > 0.0 else 0.0
            there += 1 if n > 0.0 else 0
            shares[arm, player], means[arm, player] = share, s * share
            more, rest = dispersion_sums(n, s, squares[arm, player] * STEP)
            N, S, above, below = N + n, S + s, above + more, below + rest
        freedom += max(there - 1, 0)
        dispersion = min(max(above / below, 1e-12), 1.0)
        of_arm[arm, DISPERSION] = dispersion
        of_arm[arm, MEAN] = (S + dispersion) / (N + 2.0 * dispersion)
    return everything, freedom


def insurance(rounds):
    """How many standard errors an arm's spread stays above its own estimate after so many pulls a player.

    An arm that nobody has tested for spread may hide one player's best arm. Missing it costs regret in every round,
    while testing it costs a few pulls once. The margin is 0 up to 10⁴ rounds, and grows by half a standard error for
    every power of ten after that.
    """
    return min(max(0.5 * (math.log10(rounds) - 4.0), 0.0), 2.0) if rounds > 0.0 else 0.0


def held(looseness, log_T):
    """How small the estimate of the spread may be beside the true spread, as a fraction of it.

    Few players on few arms say little about how far players differ, and treating different players as alike costs
    regret in proportion to T. So the longer the run, the more standard errors are allowed for: none up to 10⁵ rounds,
    then two errors of χ² (with the quantiles of Wilson and Hilferty) for every power of ten.
    """
    powers = log_T / LN_10 - 5.0
    root = min(max(1.0 - powers * looseness * (looseness + 2.0), 0.1), 1.0)
    return root * root * root


def spreads(of_arm, of_player, means, shares, pooled, cap, margin):
    """Each arm's spread, its own estimate and the pooled one blended; return the pooled one.

    With weights w = 1 / (τ² f + e) the score of τ² is Σ f w² (r² − e h), r the distance to the weighted mean and
    h = 1 − w/Σw; its information is Σ f² w² h. The pooled spread is taken one standard error above its estimate.
    """
    arms, players = means.shape
    excess, information = 0.0, 0.0
    for arm in range(arms):
        mean, dispersion = of_arm[arm, MEAN], of_arm[arm, DISPERSION]
        at_most = mean * (1.0 - mean)
        noise = dispersion * max(at_most - pooled, 0.25 * at_most)
        W, WY = 0.0, 0.0
        for player in range(players):
            e = noise * shares[arm, player]
            known = 1.0 if e > 0.0 else 0.0  # in place of a branch, which would keep the loop from being vectorised
            w = known / (pooled * of_player[player, ODDITY] + of_player[player, LEVEL_DOUBT] + e + (1.0 - known))
            W += w
            WY += w * (means[arm, player] - of_player[player, LEVEL])
        center = WY / W if W > 0.0 else 0.0
        over_W = 1.0 / W if W > 0.0 else 0.0
        Q, I = 0.0, 0.0
        for player in range(players):
            e, f = noise * shares[arm, player], of_player[player, ODDITY]
            known = 1.0 if e > 0.0 else 0.0
            w = known / (pooled * f + of_player[player, LEVEL_DOUBT] + e + (1.0 - known))
            r = means[arm, player] - of_player[player, LEVEL] - center
            h = 1.0 - w * over_W
            h = h if h > 1e-12 else 0.0  # a player alone tells nothing of the spread, whatever rounding says
            Q += f * w * w * (r * r - e * h)
            I += f * f * w * w * h
        of_arm[arm, NOISE], of_arm[arm, EXCESS], of_arm[arm, INFORMATION] = noise, Q, I
        of_arm[arm, MEAN] = clip((dispersion + noise * WY) / (2.0 * dispersion + noise * W), 1e-4)
        excess += Q
        information += I
    pooled = min(cap, max(0.0, excess) / max(information, 1e-12) + standard_error(information))
    for arm in range(arms):
        of_arm[arm, SPREAD] = blended(of_arm[arm, EXCESS], of_arm[arm, INFORMATION], pooled, cap, margin)
    return pooled


def standard_error(information):
    """Of an estimated spread."""
    return math.sqrt(2.0 / information) if information > 1e-12 else math.inf


def blended(excess, information, pooled, cap, margin):
    """An arm's spread: the pooled one counts like four players, but it stays within two errors above the arm's own."""
    spread = pooled
    if information > 1e-12:
        own, weight = excess / information, information * pooled * pooled
        error = standard_error(information)
        spread = (4.0 * pooled + weight * max(own, 0.0)) / (4.0 + weight)
        spread = min(max(spread, own + margin * error), own + 2.0 * error)
    return min(max(spread, 1e-8), cap)


def levels(of_arm, of_player, means, shares):
    """Players' levels, shrunk towards 0.

    All are 0 unless three players have data and the variance of levels, less half a standard error, is positive.
    """
    arms, players = means.shape
    there = 0
    for player in range(players):
        W, WR = 0.0, 0.0
        for arm in range(arms):
            e = of_arm[arm, NOISE] * shares[arm, player]
            if e > 0.0:
                w = 1.0 / (of_arm[arm, SPREAD] + e)
                W += w
                WR += w * (means[arm, player] - of_arm[arm, MEAN])
        of_player[player, OFFSET] = WR / W if W > 0.0 else 0.0
        of_player[player, OFFSET_VARIANCE] = 1.0 / W if W > 0.0 else UNKNOWN
        there += 1 if W > 0.0 else 0
    variance = 0.0
    if there >= 3:
        variance = level_variance(of_player, level_variance(of_player, WIDE))
    for player in range(players):
        doubt = of_player[player, OFFSET_VARIANCE]
        trust = variance / (variance + doubt)
        of_player[player, LEVEL] = trust * of_player[player, OFFSET]
        of_player[player, LEVEL_DOUBT] = trust * doubt if doubt < UNKNOWN else variance


def level_variance(of_player, guess):
    """The variance of levels, by the same score as the spreads', from a guess; half a standard error below."""
    W, WB = 0.0, 0.0
    for player in range(of_player.shape[0]):
        w = 1.0 / (guess + of_player[player, OFFSET_VARIANCE])
        W += w
        WB += w * of_player[player, OFFSET]
    middle = WB / W
    above, below = 0.0, 0.0
    for player in range(of_player.shape[0]):
        doubt = of_player[player, OFFSET_VARIANCE]
        if doubt < UNKNOWN:
            w = 1.0 / (guess + doubt)
            above += w * w * ((of_player[player, OFFSET] - middle) ** 2 - doubt)
            below += w * w
    return max(0.0, above / below - 0.5 * math.sqrt(2.0 / below))


def oddities(of_arm, of_player, means, shares):
    """By how much each player's residuals exceed what is expected, beyond two standard deviations of χ²."""
    arms, players = means.shape
    for player in range(players):
        residual, count = 0.0, 0.0
        for arm in range(arms):
            e = of_arm[arm, NOISE] * shares[arm, player]
            if e > 0.0:
                r = means[arm, player] - of_player[player, LEVEL] - of_arm[arm, MEAN]
                residual += r * r / (of_arm[arm, SPREAD] + of_player[player, LEVEL_DOUBT] + e)
                count += 1.0
        of_player[player, ODDITY] = max(1.0, residual / (count + 2.0 * math.sqrt(2.0 * count) + 1.0))


def centres(of_arm, of_player, means, shares):
    """Arms' means over players and their doubts, from effective observations h = noise / (τ² f + e)."""
    arms, players = means.shape
    for arm in range(arms):
        dispersion, noise, spread = of_arm[arm, DISPERSION], of_arm[arm, NOISE], of_arm[arm, SPREAD]
        H, HY = 2.0 * dispersion, dispersion
        for player in range(players):
            e = noise * shares[arm, player]
            known = 1.0 if e > 0.0 else 0.0
            variance = spread * of_player[player, ODDITY] + of_player[player, LEVEL_DOUBT] + e + (1.0 - known)
            h = known * noise / variance
            H += h
            HY += h * (means[arm, player] - of_player[player, LEVEL])
        mean = clip(HY / H, 1e-4)
        of_arm[arm, MEAN] = mean
        of_arm[arm, DOUBT] = dispersion * mean * (1.0 - mean) / (H + dispersion)
