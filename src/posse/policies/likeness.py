"""How players differ, estimated from everybody's statistics: the model of docs/posse-ts.md, for PosseTS.

Player p's mean for an arm varies around a center: that of p's group, shifted on the logit scale by p's level. What is
p's own has the variance ρ c (1−c) around that center c, as a Beta distribution of strength 1/ρ − 1 has. A pair's n
pulls, divided by the dispersion, then say about as much of the center as h = n (1−ρ) / (1 + ρ (n − 1)) single pulls
would (`effective`).
"""

import math

from posse.compile import out_of_line
from posse.policies.fourth_root import clip, dispersion_sums
from posse.policies.statistics import STEP

GROUPS = 6  # at most
LN_10 = math.log(10.0)
STRENGTHS = 8  # how many there are of what is a player's own: 2, 8, 32 … 32,768 pulls
OWN_AT = tuple(1.0 / (2.0 * 4.0**number + 1.0) for number in range(STRENGTHS))  # ρ of each strength
VARIANCES = (0.0, 0.01, 0.04, 0.16, 0.64, 2.56, 10.24)  # that levels may have
UNLIKE = OWN_AT[0]  # that of the uniform distribution
ROUNDS = 3  # of estimation
COUNTS_HALF = 0.2  # a pair with so many successes and failures, n c (1−c), counts half as evidence
FEWEST_PLAYERS = 3  # that can be said to have levels or to be odd
TOO_LARGE = 2.0  # steps on the logit scale are cut to this
LESS = math.log(0.3)  # added to the evidence for levels that vary: before the data, it is less likely that they do
RARE = 10.0  # one player in so many times M is expected to be odd
WORTH = 1.5  # what a further group must gain in log-likelihood for each arm

# What is said of an arm, by its place in `of_arm`: centers and doubts (the variances of centers) for each group. The
# looseness, √(2/9k) for k degrees of freedom, says how loosely ρ is known: `held` uses it.
DISPERSION, OWN, FITTED, LOOSENESS, CENTER, DOUBT = 0, 1, 2, 3, 4, 4 + GROUPS
# What is said of a player, by its place in `of_player`: its dispersion, how likely it is to be odd, by what its level
# multiplies odds, the variance of the level on the logit scale, and its share of each group.
NOISE, ODD, LEVEL, LEVEL_DOUBT, SHARE = 0, 1, 2, 3, 4
# Rows of `work`, with a place for each arm or player, after two tables [arm, player] of means and effective pulls.
LIKELIHOOD, LOG, LOG_REST = 0, STRENGTHS, STRENGTHS + GROUPS  # of strengths; logarithms of centers c and of 1−c
STEP_TO, PRECISION, USUAL, UNUSUAL, WEIGHT = (STRENGTHS + 2 * GROUPS + place for place in range(5))
ROWS = WEIGHT + 1


@out_of_line
def estimate(pulls, sums, squares, of_arm, of_player, work):
    """Fill `of_arm` and `of_player` from all pairs' counts, sums and sums of squares."""
    arms, players = pulls.shape
    means, effective, rows = work[:arms, :players], work[arms : 2 * arms, :players], work[2 * arms :]
    begin(pulls, sums, squares, of_arm, of_player, means)
    groups = 1
    for _ in range(ROUNDS):
        improve(groups, pulls, of_arm, of_player, means, effective, rows)
    if players >= FEWEST_PLAYERS:
        groups = find_groups(1, pulls, of_arm, of_player, means, effective, rows)
        if groups > 1:  # what groups explain is no longer players' own: look again
            improve(groups, pulls, of_arm, of_player, means, effective, rows)
            groups = find_groups(groups, pulls, of_arm, of_player, means, effective, rows)
        odd_players(of_player, rows)
    weigh(pulls, of_arm, of_player, effective, 1.0)
    centers(groups, of_arm, of_player, means, effective)


def improve(groups, pulls, of_arm, of_player, means, effective, rows):
    """Centers, what is players' own, and levels, each from the others."""
    weigh(pulls, of_arm, of_player, effective, 1.0)
    centers(groups, of_arm, of_player, means, effective)
    strengths(pulls, groups, of_arm, of_player, means, effective, rows)
    if pulls.shape[1] >= FEWEST_PLAYERS:
        weigh(pulls, of_arm, of_player, effective, 1.0)
        levels(groups, of_arm, of_player, means, effective, rows)


def begin(pulls, sums, squares, of_arm, of_player, means):
    """Pairs' means, dispersions of arms and players, and first values for the rest: one group, no levels, none odd."""
    arms, players = pulls.shape
    freedom = 0
    for player in range(players):
        of_player[player, NOISE], of_player[player, ODD] = 1.0, 1.0  # for now, numerator and denominator
        of_player[player, LEVEL], of_player[player, LEVEL_DOUBT] = 1.0, 0.0
        for group in range(GROUPS):
            of_player[player, SHARE + group] = 1.0 if group == 0 else 0.0
    for arm in range(arms):
        above, below, N, S = 1.0, 1.0, 0.0, 0.0
        tried = 0
        for player in range(players):
            n, s = pulls[arm, player] * 1.0, sums[arm, player] * STEP
            means[arm, player] = s / max(n, 1.0)
            N, S = N + n, S + s
            tried += 1 if n > 0.0 else 0
            more, rest = dispersion_sums(n, s, squares[arm, player] * STEP)
            above, below = above + more, below + rest
            of_player[player, NOISE] += more
            of_player[player, ODD] += rest
        freedom += max(tried - 1, 0)
        of_arm[arm, OWN], of_arm[arm, FITTED], of_arm[arm, CENTER] = 0.04, N, (S + 1.0) / (N + 2.0)
        of_arm[arm, DISPERSION] = min(max(above / below, 1e-12), 1.0)
    for arm in range(arms):
        of_arm[arm, LOOSENESS] = math.sqrt(2.0 / (9.0 * max(freedom, 1)))
    for player in range(players):
        of_player[player, NOISE] = min(max(of_player[player, NOISE] / of_player[player, ODD], 1e-12), 1.0)
        of_player[player, ODD] = 0.0


def shifted(center, odds):
    """A mean whose odds are so many times a center's."""
    return center * odds / (1.0 - center + center * odds)


def noise_of(arm, player, of_arm, of_player):
    """The dispersion of a pair's rewards: the arm's or the player's, whichever is larger."""
    return max(of_arm[arm, DISPERSION], of_player[player, NOISE])


def own_share(own, odd):
    """ρ of a pair: an arm's, or for an odd player that of the uniform distribution."""
    return own + odd * (UNLIKE - own)


@out_of_line
def held(looseness, log_T):
    """By what ρ is divided: how small its estimate may be, as a fraction of the true one.

    Few players on few arms say little about how far players differ, and treating different players as alike costs
    regret in proportion to T. So the longer the run, the more standard errors are allowed for: none up to 10⁵ rounds,
    then two errors of χ² (with the quantiles of Wilson and Hilferty) for every power of ten.
    """
    powers = log_T / LN_10 - 5.0
    root = min(max(1.0 - powers * looseness * (looseness + 2.0), 0.1), 1.0)
    return root * root * root


def weigh(pulls, of_arm, of_player, effective, part):
    """How many single pulls each pair's pulls count as, if only this part of what is players' own is left."""
    for arm in range(pulls.shape[0]):
        for player in range(pulls.shape[1]):
            n = pulls[arm, player] / noise_of(arm, player, of_arm, of_player)
            strength = 1.0 / (part * own_share(of_arm[arm, OWN], of_player[player, ODD])) - 1.0
            effective[arm, player] = n * strength / (n + strength)


def expected(arm, player, groups, of_arm, of_player):
    """A player's center for an arm, over the groups that it may belong to, and the variance between those."""
    odds = of_player[player, LEVEL]
    mean, square = 0.0, 0.0
    for group in range(groups):
        center = shifted(of_arm[arm, CENTER + group], odds)
        mean += of_player[player, SHARE + group] * center
        square += of_player[player, SHARE + group] * center * center
    return mean, max(square - mean * mean, 0.0)


@out_of_line
def centers(groups, of_arm, of_player, means, effective):
    """Each group's center for each arm and its doubt, by a step of scoring on the logit scale.

    Two pulls more are counted: at ½ for one group, at everybody's mean for several.
    """
    arms, players = means.shape
    for arm in range(arms):
        total, above = 2.0, 1.0
        for player in range(players):
            total += effective[arm, player]
            above += effective[arm, player] * means[arm, player]
        toward = 0.5 if groups == 1 else above / total
        for group in range(groups):
            center = of_arm[arm, CENTER + group]
            score, information = 2.0 * (toward - center), 2.0 * center * (1.0 - center)
            for player in range(players):
                weight = of_player[player, SHARE + group] * effective[arm, player]
                mean = shifted(center, of_player[player, LEVEL])
                score += weight * (means[arm, player] - mean)
                information += weight * mean * (1.0 - mean)
            step = min(max(score / information, -TOO_LARGE), TOO_LARGE)
            center = clip(shifted(center, math.exp(step)), 1e-9)
            at_most = center * (1.0 - center)
            of_arm[arm, CENTER + group] = center
            of_arm[arm, DOUBT + group] = at_most * at_most / (information + at_most)


def strengths(pulls, groups, of_arm, of_player, means, effective, rows):
    """What is players' own of each arm: ρ, averaged over strengths by their evidence.

    The evidence is a normal likelihood with the variance that a beta-binomial count has. Arms share the prior of the
    strengths, which is estimated too: so ρ is tied across arms, but an arm with data of its own goes its own way.
    """
    arms, players = means.shape
    for player in range(players):
        rows[USUAL, player], rows[UNUSUAL, player] = 0.0, 0.0
    for arm in range(arms):
        total = 2.0
        for player in range(players):
            total += effective[arm, player]
        for strength in range(STRENGTHS):
            rows[LIKELIHOOD + strength, arm] = 0.0  # its logarithm, for now
        for player in range(players):
            n = pulls[arm, player] / noise_of(arm, player, of_arm, of_player)
            if n > 1.0:
                center, between = expected(arm, player, groups, of_arm, of_player)
                at_most = center * (1.0 - center)
                known = of_player[player, LEVEL_DOUBT] * at_most + between / at_most
                away = means[arm, player] - center
                square = away * away / (at_most * (1.0 - effective[arm, player] / total))
                counts = n * at_most / (n * at_most + COUNTS_HALF)
                for strength in range(STRENGTHS):
                    fit = counts * log_normal(n, OWN_AT[strength], known, square)
                    rows[LIKELIHOOD + strength, arm] += fit
                    rows[UNUSUAL, player] += fit if strength == 0 else 0.0
                rows[USUAL, player] += counts * log_normal(n, of_arm[arm, OWN], known, square)
        highest = -math.inf
        for strength in range(STRENGTHS):
            highest = max(highest, rows[LIKELIHOOD + strength, arm])
        for strength in range(STRENGTHS):
            rows[LIKELIHOOD + strength, arm] = math.exp(rows[LIKELIHOOD + strength, arm] - highest)
    for strength in range(STRENGTHS):
        rows[WEIGHT, strength] = 1.0 / STRENGTHS
    for _ in range(2 * ROUNDS):
        for strength in range(STRENGTHS):
            rows[WEIGHT, STRENGTHS + strength] = 1.0 / STRENGTHS
        for arm in range(arms):
            total, own = 0.0, 0.0
            for strength in range(STRENGTHS):
                weight = rows[WEIGHT, strength] * rows[LIKELIHOOD + strength, arm]
                total, own = total + weight, own + weight * OWN_AT[strength]
            of_arm[arm, OWN] = own / total
            for strength in range(STRENGTHS):
                weight = rows[WEIGHT, strength] * rows[LIKELIHOOD + strength, arm]
                rows[WEIGHT, STRENGTHS + strength] += weight / total
        for strength in range(STRENGTHS):
            rows[WEIGHT, strength] = rows[WEIGHT, STRENGTHS + strength] / (arms + 1.0)


def log_normal(n, own, known, square):
    """The logarithm of the likelihood of a pair's mean, its square distance to the center given in units of c (1−c)."""
    variance = 1.0 / n + (1.0 - 1.0 / n) * own + known
    return -0.5 * (math.log(variance * n) + square / variance)


def levels(groups, of_arm, of_player, means, effective, rows):
    """Players' levels as odds, and their variances on the logit scale.

    Each takes a step of scoring, shrunken for each of `VARIANCES`; the results are averaged by their evidence.
    """
    arms, players = means.shape
    weights, middle = 0.0, 0.0
    for player in range(players):
        score, information = 0.0, 0.0
        for arm in range(arms):
            center, _ = expected(arm, player, groups, of_arm, of_player)
            score += effective[arm, player] * (means[arm, player] - center)
            information += effective[arm, player] * center * (1.0 - center)
        step = min(max(score / (information + 0.5), -TOO_LARGE), TOO_LARGE)
        rows[STEP_TO, player] = math.log(of_player[player, LEVEL]) + step
        rows[PRECISION, player] = information
        weights += information / (1.0 + information)
        middle += information / (1.0 + information) * rows[STEP_TO, player]
    middle = middle / weights if weights > 0.0 else 0.0
    highest = -math.inf
    for number in range(len(VARIANCES)):
        evidence = 0.0 if number == 0 else LESS
        for player in range(players):
            level, ratio = rows[STEP_TO, player] - middle, VARIANCES[number] * rows[PRECISION, player]
            trust = ratio / (1.0 + ratio)
            evidence += 0.5 * (trust * rows[PRECISION, player] * level * level - math.log(1.0 + ratio))
        rows[WEIGHT, number] = evidence
        highest = max(highest, evidence)
    total = 0.0
    for number in range(len(VARIANCES)):
        rows[WEIGHT, number] = math.exp(rows[WEIGHT, number] - highest)
        total += rows[WEIGHT, number]
    for player in range(players):
        mean, square = 0.0, 0.0
        for number in range(len(VARIANCES)):
            weight, variance = rows[WEIGHT, number] / total, VARIANCES[number]
            ratio = variance * rows[PRECISION, player]
            level = ratio / (1.0 + ratio) * (rows[STEP_TO, player] - middle)
            mean += weight * level
            square += weight * (variance / (1.0 + ratio) + level * level)
        of_player[player, LEVEL] = math.exp(mean)
        of_player[player, LEVEL_DOUBT] = max(square - mean * mean, 0.0)


def find_groups(groups, pulls, of_arm, of_player, means, effective, rows):
    """Let players move between groups, add groups as long as one more explains enough, and return how many there are.

    A group explains some of what is players' own, so only half of that is left in while groups are sought.
    """
    arms, players = means.shape
    weigh(pulls, of_arm, of_player, effective, 0.5)
    before = settle(groups, of_arm, of_player, means, effective, rows)
    while groups < GROUPS:
        seed = worst_fit(groups, of_arm, of_player, means, effective)
        for arm in range(arms):
            center, _ = expected(arm, seed, groups, of_arm, of_player)
            h = effective[arm, seed]
            center = (h * means[arm, seed] + 2.0 * center) / (h + 2.0)
            of_arm[arm, CENTER + groups] = clip(shifted(center, 1.0 / of_player[seed, LEVEL]), 1e-6)
        after = settle(groups + 1, of_arm, of_player, means, effective, rows)
        if after - before <= WORTH * arms:
            for player in range(players):
                of_player[player, SHARE + groups] = 0.0
            settle(groups, of_arm, of_player, means, effective, rows)
            break
        groups += 1
        before = settle(groups, of_arm, of_player, means, effective, rows)
    return groups


def worst_fit(groups, of_arm, of_player, means, effective):
    """The player whose means lie farthest from its centers."""
    arms, players = means.shape
    worst, found = -1.0, 0
    for player in range(players):
        misfit = 0.0
        for arm in range(arms):
            center, _ = expected(arm, player, groups, of_arm, of_player)
            away = means[arm, player] - center
            misfit += effective[arm, player] * away * away / (center * (1.0 - center))
        if misfit > worst:
            worst, found = misfit, player
    return found


@out_of_line
def settle(groups, of_arm, of_player, means, effective, rows):
    """Players' shares of groups and groups' centers, in turns; return the log-likelihood of the mixture.

    A group's proportion is the mean of the players' shares of it, with one player more in each group.
    """
    arms, players = means.shape
    for group in range(groups):
        rows[WEIGHT, group] = 1.0 / groups
    total = 0.0
    for turn in range(ROUNDS + 1):
        if turn > 0:
            centers(groups, of_arm, of_player, means, effective)
        for group in range(groups):
            rows[WEIGHT, GROUPS + group] = 1.0
            for arm in range(arms):
                rows[LOG + group, arm] = math.log(of_arm[arm, CENTER + group])
                rows[LOG_REST + group, arm] = math.log(1.0 - of_arm[arm, CENTER + group])
        total = 0.0
        for player in range(players):
            odds = of_player[player, LEVEL]
            level, highest = math.log(odds), -math.inf
            for group in range(groups):
                fit = math.log(rows[WEIGHT, group])
                for arm in range(arms):
                    h, mean = effective[arm, player], means[arm, player]
                    if h > 0.0:
                        center = of_arm[arm, CENTER + group]
                        shift = level * mean - math.log(1.0 - center + center * odds) if level != 0.0 else 0.0
                        fit += h * (rows[LOG + group, arm] * mean + rows[LOG_REST + group, arm] * (1.0 - mean) + shift)
                of_player[player, SHARE + group] = fit
                highest = max(highest, fit)
            whole = 0.0
            for group in range(groups):
                of_player[player, SHARE + group] = math.exp(of_player[player, SHARE + group] - highest)
                whole += of_player[player, SHARE + group]
            for group in range(groups):
                of_player[player, SHARE + group] /= whole
                rows[WEIGHT, GROUPS + group] += of_player[player, SHARE + group]
            total += highest + math.log(whole)
        for group in range(groups):
            rows[WEIGHT, group] = rows[WEIGHT, GROUPS + group] / (players + groups)
    return total


def odd_players(of_player, rows):
    """How likely each player is to be unlike all others, if one in 10 M is: by its evidence for `UNLIKE`."""
    players = of_player.shape[0]
    for player in range(players):
        more = rows[UNUSUAL, player] - rows[USUAL, player] - math.log(RARE * players)
        of_player[player, ODD] = 1.0 / (1.0 + math.exp(-clip_size(more)))


def clip_size(x):
    """x, at most 50 in size: more than that says nothing new."""
    return min(max(x, -50.0), 50.0)
