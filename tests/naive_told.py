"""Policies of other authors that are told players' attributes, by other means than theirs; see naive.py.

`parts` has a tuple for each player, with a (value, weight) for each part of its attributes; of a missing value the
value is None. Parts of single attributes come first, then those of pairs.
"""

from __future__ import annotations

import math

import numpy as np

import naive_posse


def count_singles(parts):
    """How many parts are no pairs: the first, where a attributes have a to 2a of them and a (a − 1) / 2 pairs."""
    count = len(parts[0])
    (pairs,) = {a * (a - 1) // 2 for a in range(20) if a <= count - a * (a - 1) // 2 <= 2 * a}
    return count - pairs


class Linear:
    """The Gaussian model, by conditioning the players' means on what was seen of them: no effect is ever computed."""

    def __init__(self, n, s, parts, noise, own, prior_mean, prior_sd, single, pair, most=128):
        n, s = np.array(n, float), np.array(s, float)
        players, arms = n.shape
        singles, columns = count_singles(parts), 1
        explained = np.full((players, players), prior_sd**2)
        self.own = np.full(players, own**2)
        for k in range(len(parts[0])):
            values, weights = zip(*(each[k] for each in parts), strict=True)
            known = np.array([value is not None for value in values])
            deviation = single if k < singles else pair
            size = len(set(values) - {None})
            if deviation > 0 and columns + size <= most:
                columns += size
                same = np.array([[a == b for a in values] for b in values]) & known & known[:, None]
                explained += same * np.outer(weights, weights) * deviation**2
            else:
                known[:] = False
            self.own += 0 if own == 0 else ~known * (deviation * np.array(weights)) ** 2
        self.mean, self.variance = np.zeros((2, players, arms))
        self.expected, self.doubt = np.zeros((2, players, arms))
        for i in range(arms):
            seen = np.flatnonzero(n[:, i])
            away = s[seen, i] / n[seen, i] - prior_mean
            of_data = (explained + np.diag(self.own))[np.ix_(seen, seen)] + np.diag(noise**2 / n[seen, i])
            for whole, mean, variance in (
                (explained, self.expected, self.doubt),
                (explained + np.diag(self.own), self.mean, self.variance),
            ):
                gain = np.linalg.solve(of_data, whole[seen]).T
                mean[:, i] = prior_mean + gain @ away
                variance[:, i] = np.diag(whole - gain @ whole[seen])


def mixed(parts, own, effects, pairs, noise, prior_mean, prior_sd):
    """MixedTS' summary and index."""
    singles = count_singles(parts)
    shares = effects / max(singles, 1) ** 0.5, pairs / max(len(parts[0]) - singles, 1) ** 0.5

    def summary(n, s, *_):
        it = Linear(n, s, parts, noise, own, prior_mean, prior_sd, *shares)

        def index(n, s, p, i, *_):
            d = n * it.own[p] + noise**2
            center = (noise**2 * it.expected[p, i] + it.own[p] * s) / d
            return center, math.sqrt(it.own[p] * noise**2 / d + (noise**2 / d) ** 2 * it.doubt[p, i])

        return index

    return summary


def lin(parts, pairs, noise, ridge):
    """LinTS' summary and index."""
    deviation = noise / math.sqrt(ridge)

    def summary(n, s, *_):
        it = Linear(n, s, parts, noise, 0.0, 0.5, deviation, deviation, pairs * deviation)
        return lambda n, s, p, i, *_: (it.expected[p, i], math.sqrt(it.doubt[p, i]))

    return summary


def deviate(one, other, arms, least):
    """How unlike two sets of players are, each with (n, s, q) of each arm."""
    terms = []
    for i in range(arms):
        (n1, s1, q1), (n2, s2, q2) = one[i], other[i]
        n, s = n1 + n2, s1 + s2
        if n == 0 or min(n1, n2) * (s / n) * (1 - s / n) < least * (1 - 1e-12):
            continue
        within = (q1 - s1**2 / n1) + (q2 - s2**2 / n2)
        saved = s1**2 / n1 + s2**2 / n2 - s**2 / n
        terms.append(saved * (n + 1) / (max(within, 0) + 0.25))
    if not terms:
        return -math.inf
    k = len(terms)
    return ((max(sum(terms), 0) / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))


def grow(players, n, s, q, parts, evidence, least):
    """The leaves of TreeTS' tree below these players, as lists of players."""
    arms, best, halves = len(n[0]), evidence, None

    def sums(of):
        return [tuple(sum(table[p][i] for p in of) for table in (n, s, q)) for i in range(arms)]

    for k in range(count_singles(parts)):
        for value, weight in dict.fromkeys(parts[p][k] for p in players):
            inside = [p for p in players if parts[p][k][0] == value and parts[p][k][1] <= weight]
            outside = [p for p in players if p not in inside]
            found = deviate(sums(inside), sums(outside), arms, least)
            if found > best + (1e-9 if halves else 0):
                best, halves = found, (outside, inside)
    if halves is None:
        return [players]
    return [leaf for half in halves for leaf in grow(half, n, s, q, parts, evidence, least)]


def tree(parts, evidence, least):
    """TreeTS' summary and index."""

    def summary(n, s, q, *_):
        n, s, q = ([list(row) for row in table] for table in (n, s, q))
        arms, leaf_of = len(n[0]), {}
        for leaf in grow(list(range(len(n))), n, s, q, parts, evidence, least):
            leaf_of |= dict.fromkeys(leaf, leaf)

        def total(table, leaf, i):
            return sum(table[p][i] for p in leaf)

        def index(own_n, own_s, p, i, log_t):
            leaf = leaf_of[p]
            phi = max(naive_posse.dispersion([[total(t, leaf, j) for t in (n, s, q)]]) for j in range(arms))
            others = [each for each in leaf if each != p]
            numbers = own_n + total(n, others, i), own_s + total(s, others, i)
            return naive_posse.index(*numbers, phi, 0.5, naive_posse.UNIFORM, log_t)

        return index

    return summary


TOLD = {"LinTS": lin, "MixedTS": mixed, "TreeTS": tree}
