"""A learner in slow and obvious Python, the oracle of `posse.Learner`.

It keeps a list of what happened, in slow_history.py, and counts everything anew from that list whenever it is asked. It
draws nothing: it says what the probabilities are, and is told what was decided.
"""

from __future__ import annotations

import math

from slow_history import SlowHistory
from slow_races import beta_race, imed_race, limited, race
from slow_time import kept, step_at

import naive_guarantee
import naive_posse
from posse.policies import Law, Refresh
from posse.policies.bound import ALONE

SHIFT = 2**-10  # by how much rewards are moved to see how far a center follows


class Summary:
    """What PosseTS knows: its last summary and what came after it."""

    def __init__(self):
        self.event = -1  # the last one that was looked at
        self.made = 0  # the event of the last summary
        self.pulls = self.players = 0  # how many it had
        self.since = {}  # {(player, arm): (n, s)} of what counted at once after it
        self.estimate = None
        self.sums, self.cutoffs = [], []  # for RobustPosseTS: (N, S) of arms, and of players


class SlowLearner(SlowHistory):
    def __init__(self, *setup, **more):
        super().__init__(*setup, **more)
        self.summary = Summary()

    # ---------------------------------------------------------------- what follows from the list

    def statistics(self, player, arm, event=math.inf, faded=True):
        """What the policy remembers of a pair, reward by reward up to an event, by name and in its units.

        Unless it is `faded`, what the event itself makes it forget is still there.
        """
        mine = sorted(
            (e for e in self.answered() if (e.player, e.arm) == (player, arm) and e.event <= event),
            key=lambda entry: (entry.event, entry.number),
        )
        values = [0] * len(self.policy.statistics)
        place = self.players.index(player) + self.arms.index(arm)
        for each in range(1, min(self.events, event) + 1) if self.policy.forget else sorted({e.event for e in mine}):
            for entry in mine:
                if entry.event == each:
                    pairs = zip(self.policy.statistics, values, strict=True)
                    values = [statistic.update(value, entry.steps) for statistic, value in pairs]
            forgets = self.policy.forget and (faded or each < event)
            if forgets and (step := step_at(each, self.policy.forget)):
                values = kept(values, place, step)
        return {each.name: value * each.unit for each, value in zip(self.policy.statistics, values, strict=True)}

    def forgets(self, event):
        return self.policy.forget is not None and step_at(event, self.policy.forget) is not None

    def own(self, player, arm, event=math.inf, faded=True):
        """A player's count and sum for an arm, the sum for rewards mapped to [0, 1], up to an event."""
        found = self.statistics(player, arm, event, faded)
        return float(found["n"]), found["s"]

    def money(self, player, arm):
        """A player's sum for an arm in the units of the rewards."""
        if self.policy.forget:
            n, s = self.own(player, arm)
            return n * self.low + s * (self.high - self.low)
        return sum(e.reward for e in self.answered() if (e.player, e.arm) == (player, arm))

    def contribution(self, n, s):
        return (n, s) if self.policy.contribution is None else self.call("contribution", n=n, s=s)

    def everybodys(self, arm, event=math.inf):
        """N and S of an arm up to an event."""
        pairs = [self.contribution(*self.own(player, arm, event)) for player in self.players]
        return sum(a for a, _ in pairs), sum(b for _, b in pairs)

    def seen(self, player, arm):
        """N and S when the player's last reward for the arm came; before the first, when the player came."""
        mine = [e.event for e in self.answered() if (e.player, e.arm) == (player, arm)]
        last = max(mine) if mine else self.starts[player]
        forgot = max([event for event in range(1, self.events + 1) if self.forgets(event)], default=0)
        if forgot > 0 and forgot >= self.joined.get(player, 0):  # then everybody sees what is left
            last = max(last or 0, forgot)
        return (0.0, 0.0) if last is None else self.everybodys(arm, last)

    # ---------------------------------------------------------------- indices and probabilities

    def constants(self):
        """The policy's constants for rewards mapped to [0, 1]."""
        width = self.high - self.low
        named = zip(self.policy.constant_names(), self.policy.constants(), strict=True)
        return [value / width if name in ("epsilon", "spread") else value for name, value in named]

    def log_T(self, round_):
        return math.log(max(round_, 2 if self.horizon is None else self.horizon))

    def call(self, function, **numbers):
        """What one of the policy's functions gives for numbers by name."""
        numbers |= {"lane": ALONE} | dict(zip(self.policy.constant_names(), self.constants(), strict=True))
        return getattr(self.policy, function)(*(numbers[name] for name in self.policy.named_by(function)))

    def more_statistics(self, player, arm):
        """What the policy remembers of a pair beside count, sum and squares, reward by reward."""
        return {each.name: self.statistics(player, arm)[each.name] for each in self.policy.statistics[3:]}

    def index(self, player, arm, round_, others=0.0, own=0.0):
        """Center and scale, if every pull of the others and every own one had earned so much more."""
        if self.policy.summary is not None:
            return self.index_from_summary(player, arm, round_, others, own)
        n, s = self.own(player, arm)
        at_own_pulls = self.policy.refresh is Refresh.OWN_PULL
        N, S = self.seen(player, arm) if at_own_pulls else self.everybodys(arm)
        if not self.policy.randomised:  # a pull that waits counts as if it had earned the mean so far
            mine = self.waiting_for(player, arm)
            all_ = mine if at_own_pulls else sum(self.waiting_for(other, arm) for other in self.players)
            untried = self.policy.untried
            n, s = n + mine, s + mine * (s / n if n else untried)
            N, S = N + all_, S + all_ * (S / N if N else untried)
        mine = self.contribution(n, s)[0]
        numbers = {"n": n, "s": s + own * n, "N": N, "S": S + others * (N - mine) + own * mine}
        numbers |= self.more_statistics(player, arm)
        return self.call("index", **numbers, M=len(self.active), K=len(self.offered), log_T=self.log_T(round_))

    def weight(self, player, arm, round_):
        """How far the center follows if the others earn more, in parts of how far it follows if everybody does."""
        here = self.index(player, arm, round_)[0]
        if here == math.inf or not self.policy.shares or len(self.players) == 1:
            return 0.0
        by_others = self.index(player, arm, round_, others=SHIFT)[0] - here
        by_all = self.index(player, arm, round_, others=SHIFT, own=SHIFT)[0] - here
        return min(max(by_others / by_all, 0.0), 1.0) if by_all > 0 else 0.0

    # ---------------------------------------------------------------- PosseTS

    def index_from_summary(self, player, arm, round_, others, own):
        """PosseTS' center and scale, from the last summary and the own pulls that counted at once since then."""
        last = self.last_summary()
        p, i = self.players.index(player), self.arms.index(arm)
        n, s = last.since.get((player, arm), self.own(player, arm, last.made))
        expected, variance = last.estimate.prior(p, i, self.constants()[0])
        phi, s = last.estimate.pair_phi(p, i), s + own * n
        center, scale = naive_posse.index(n, s, phi, expected + others, variance, self.log_T(round_))
        if "rounds" not in self.policy.constant_names():
            return center, scale
        rest = len(self.active), last.cutoffs[p], *self.constants()
        return naive_guarantee.guarded(center, scale, n, s, *last.sums[i], *rest)

    def squares(self, player, arm, event, faded):
        """A player's sum of squares for an arm up to an event, each rounded to whole steps."""
        return self.statistics(player, arm, event, faded)["q"]

    def parts(self, player):
        """The parts of a player's attributes."""
        return naive_posse.parts_of(self.kinds, self.values[player])

    def last_summary(self):
        """The last summary, brought up to date with all events since it was last asked for."""
        for event in range(self.summary.event + 1, self.events + 1):
            self.summary.event = event
            self.summarise(event, faded=not self.forgets(event))
            if self.forgets(event):
                self.summarise(event, faded=True, forgot=True)
        return self.summary

    def summarise(self, event, faded, forgot=False):
        """What an event changes, before or after what it makes the policy forget.

        There is a summary when an arm is new, when something is forgotten, and when the rewards since the last one are
        a sixteenth of all, or 64 for each player. Up to a player's 64th pull of an arm, its own count at once. A player
        who joins is taken for a newcomer; there is a summary when an eighth of the players came since the last one.
        """
        last, here = self.summary, [player for player in self.players if self.joined.get(player, 0) <= event]
        arms = [arm for arm in self.arms if self.added.get(arm, 0) <= event]
        if not here:
            return
        new = last.estimate is None or len(arms) > len(last.estimate.arms)
        if not new and len(here) > len(last.estimate.players):
            new = 8 * (len(here) - last.players) >= len(here)
            if not new:
                last.estimate.welcome(self.parts(here[-1]))
                last.cutoffs.append(self.cutoff(len(here) - 1, [0] * len(arms), [0] * len(arms), len(here)))
        pulls = sum(self.own(player, arm, event, faded)[0] for player in here for arm in arms)
        due = pulls > last.pulls and 16 * (pulls - last.pulls) >= min(pulls, 1024 * len(here))
        if new or forgot or due:
            last.made, last.pulls, last.players, last.since = event, pulls, len(here), {}
            tables = [[(*self.own(p, a, event, faded), self.squares(p, a, event, faded)) for a in arms] for p in here]
            n, s, q = ([[pair[number] for pair in row] for row in tables] for number in range(3))
            if new or last.estimate.is_old(n):
                log_T, parts = self.log_T(self.round_of[event]), [self.parts(player) for player in here]
                last.estimate = naive_posse.Estimate(n, s, q, log_T, parts, last.estimate)
            last.sums = [tuple(sum(row[i] for row in table) for table in (n, s)) for i in range(len(arms))]
            last.cutoffs = [self.cutoff(p, n[p], s[p], len(here)) for p in range(len(here))]
            return
        for player, arm in {(entry.player, entry.arm) for entry in self.answered() if entry.event == event}:
            n, s = self.own(player, arm, event, faded)
            if n <= 64:
                last.since[player, arm] = n, s

    def cutoff(self, p, n, s, M):
        """RobustPosseTS' cutoff of a player: the loose bound of the model's favourite, of half the width."""
        if "rounds" not in self.policy.constant_names():
            return None
        epsilon, rounds = self.constants()
        it, sums = self.summary.estimate, self.summary.sums
        centers = [it.index(n[i], s[i], p, i, epsilon, math.log(rounds))[0] for i in it.arms]
        best = centers.index(max(centers))
        return naive_guarantee.loose_bound(n[best], s[best], *sums[best], M, epsilon, rounds, times=1)

    def probabilities(self, player, available, round_, burns_in=False):
        arms = [arm for arm in self.arms if arm in available]
        compete = {Law.NORMAL: race, Law.BETA: beta_race, Law.IMED: imed_race}[self.policy.law]
        equal = [1 / len(arms)] * len(arms)
        wins = equal if burns_in else compete([self.index(player, arm, round_) for arm in arms])
        mixed = zip(self.limited(equal, arms), self.limited(wins, arms), strict=True)
        return {
            arm: self.holdout * one + (1 - self.holdout) * other for arm, (one, other) in zip(arms, mixed, strict=True)
        }

    def limited(self, wins, arms):
        """Shares in proportion to the chances of winning, within the limits of these arms."""
        return limited(wins, [self.limits(arm)[0] for arm in arms], [self.limits(arm)[1] for arm in arms])

    def limits(self, arm):
        """The least and the greatest share of an arm."""
        share = self.shares.get(arm, (self.floor, 1.0))
        return share if isinstance(share, tuple) else (share, share)
