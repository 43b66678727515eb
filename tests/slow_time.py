"""Simulations over time in slow and obvious Python: means that change, rewards that come late, policies that forget.

The oracle of what naive.py does not have. It calls the policies' own functions, which naive.py and others check, and
forms every number anew for each decision.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import naive
from by_name import call
from naive_alone import imed
from posse.policies import Law, Refresh
from posse.policies.state import state_shapes
from posse.rewards import GRID

OF_SUMMARY = ("of_player", "of_pair", "of_value", "columns", "weights", "part_of", "work")
EIGHTH_ROOT = Fraction(60097, 65536)  # of a half


def step_at(t, half_life):
    """The number of the eighth of a half-life that ends with round t, None if none does."""
    return next((step for step in range(1, 8 * t) if math.ceil(Fraction(step * half_life, 8)) == t), None)


def kept(values, place, step):
    """A pair's statistics when a step is forgotten; `place` is the sum of its player's and its arm's.

    The count is rounded up if its fraction is large enough, in turns; the rest is kept in the same part.
    """
    n = values[0]
    left = math.floor(n * EIGHTH_ROOT + Fraction(2 * ((place + 5 * step) % 8) + 1, 16))
    return [math.floor(Fraction(value * left, n) + Fraction(1, 2)) if n else 0 for value in values]


class SlowRun:
    """A policy on a problem; `decided` and `regret` say what came of it."""

    def __init__(self, policy, problem, horizon, schedule, feedback, seed=0, anytime=False):
        self.policy, self.players, self.arms = policy, range(problem.players), range(problem.arms)
        self.own = {(p, i): [0] * len(policy.statistics) for p in self.players for i in self.arms}
        self.of_arm = np.zeros((problem.arms, len(policy.shared)))
        shapes = state_shapes(policy, policy.statistics, problem.players, problem.arms)
        self.filled = {name: np.zeros(shapes[name][1], shapes[name][0]) for name in OF_SUMMARY}
        self.pulls = 0  # for the schedule of summaries
        self.share_with_everybody(math.log(2 if anytime else horizon))
        self.decided, self.regret = [], 0.0
        chance = naive.Chance(problem, schedule, horizon, seed)
        waiting = []
        for t in range(1, horizon + 1):
            chance.problem = problem.at(t)
            log_T = math.log(max(t, 2)) if anytime else math.log(horizon)
            pulled = {p: self.choose(chance, t, p, log_T) for p in chance.active(t)}
            self.decided.append({p: (i, chance.reward(t, p, i)) for p, i in pulled.items()})
            self.regret += sum(chance.problem.gaps[p, i] for p, i in pulled.items())
            waiting += [(t, p, *self.decided[-1][p]) for p in pulled]
            if t % feedback.batch == 0:
                self.observe([(p, i, r) for made, p, i, r in waiting if made + feedback.delay <= t], log_T)
                waiting = [entry for entry in waiting if entry[0] + feedback.delay > t]
            if policy.forget and (step := step_at(t, policy.forget)):
                self.forget(step, log_T)

    def choose(self, chance, t, p, log_T):
        indices = [self.index(p, i, log_T) for i in self.arms]
        if self.policy.law is Law.IMED:
            n = [count for _, count in indices]
            return imed(len(n), n, [mean * count if count else 0.0 for mean, count in indices], None)
        if self.policy.law is Law.BETA:
            return naive.argmax([chance.beta(t, p, i, a, b) for i, (a, b) in enumerate(indices)])
        return naive.argmax([center + scale * chance.normal(t, p, i) for i, (center, scale) in enumerate(indices)])

    def named(self, values):
        return {each.name: value * each.unit for each, value in zip(self.policy.statistics, values, strict=True)}

    def index(self, p, i, log_T):
        scheduled = self.policy.refresh is Refresh.SCHEDULE
        own = self.named(self.known[p, i] if scheduled else self.own[p, i])
        shared = self.seen[p, i] if self.policy.refresh is Refresh.OWN_PULL else self.shared(i)
        own |= dict(zip(self.policy.shared, shared, strict=True))
        own |= dict(zip(self.policy.of_player, self.filled["of_player"][p].tolist(), strict=True))
        own |= dict(zip(self.policy.of_pair, self.filled["of_pair"][:, i, p].tolist(), strict=True))
        return call(self.policy, "index", **own, M=len(self.players), K=len(self.arms), log_T=log_T)

    def shared(self, i):
        """What is shared of an arm now."""
        if self.policy.summary is not None:
            return self.of_arm[i].tolist()
        if self.policy.contribution is None:
            return [sum(self.own[p, i][0] for p in self.players), sum(self.own[p, i][1] for p in self.players) / GRID]
        each = [call(self.policy, "contribution", **self.named(self.own[p, i])) for p in self.players]
        return [sum(numbers) for numbers in zip(*each, strict=True)]

    def observe(self, rewards, log_T):
        """Take in what arrives together."""
        for p, i, r in rewards:
            values = zip(self.policy.statistics, self.own[p, i], strict=True)
            self.own[p, i] = [each.update(value, round(r * GRID)) for each, value in values]
        self.pulls += len(rewards)
        if self.policy.summary is not None:
            since = self.pulls - self.summarised_at
            if since > 0 and 16 * since >= min(self.pulls, 1024 * len(self.players)):
                self.share_with_everybody(log_T)
            for p, i, _ in rewards:
                if self.own[p, i][0] <= 64:
                    self.known[p, i] = self.own[p, i]
        for p, i, _ in rewards:
            self.seen[p, i] = self.shared(i)

    def forget(self, step, log_T):
        for p, i in self.own:
            self.own[p, i] = kept(self.own[p, i], p + i, step)
        self.pulls = sum(values[0] for values in self.own.values())
        self.share_with_everybody(log_T)

    def share_with_everybody(self, log_T):
        if self.policy.summary is not None:
            values = np.array([[self.own[p, i] for p in self.players] for i in self.arms], np.int64)
            tables = {each.name: values[:, :, place] for place, each in enumerate(self.policy.statistics)}
            call(self.policy, "summary", **tables, of_arm=self.of_arm, log_T=log_T, **self.filled)
        self.summarised_at = self.pulls
        self.known = dict(self.own)
        self.seen = {(p, i): self.shared(i) for p, i in self.own}
