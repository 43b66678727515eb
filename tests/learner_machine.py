"""Everything that can be done to a learner, done to it and to its oracle, in an order that Hypothesis makes up."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from learner_pair import ARMS, COMBINATIONS, CROWD, NAMES, PLAYERS, SHARES, VALUES, LearnerPair
from slow_history import Refused

from posse.checks import WrongValue
from posse.learner import ConflictingReward, UnknownDecision

ERRORS = {"unknown": UnknownDecision, "conflict": ConflictingReward, "value": WrongValue}
NO_IDS = ["", "7", "0-00000000", "999-00000000", " 0-00000000", "north"]
eighths = st.integers(0, 8)
kinds = st.sampled_from([float, float, np.float64, np.float32, Fraction, Decimal])


class Machine(LearnerPair):
    """A learner and its oracle, and what may happen to them."""

    # ---------------------------------------------------------------- decisions

    def some(self, among, picks):
        """Some of the names, in an order that the picks give."""
        places = ARMS if among and among[0] in ARMS else PLAYERS + CROWD + NAMES
        among = [name for name in among if picks[places.index(name) % 6]]
        return among[::-1] if picks[-1] else among

    picks = st.lists(st.booleans(), min_size=6, max_size=6)

    @precondition(lambda self: self.slow.active)
    @rule(pick=st.integers(0, 9), times=st.integers(1, 6))
    def choose_for_one(self, pick, times):
        for _ in range(times):
            player = self.learner.players[pick % len(self.learner.players)]
            foretold = self.foretell([player], None)
            self.decided([self.learner.choose(player)], [player], foretold)

    @rule(picks=picks, arm_picks=picks, restrict=st.booleans(), lazy=st.booleans())
    def choose_for_several(self, picks, arm_picks, restrict, lazy):
        players = self.some(self.learner.players, picks)
        available = self.some(self.learner.arms, arm_picks) if restrict else []
        foretold = self.foretell(players, available or None)
        if available and lazy:
            decisions = self.learner.choose(iter(players), available=iter(available))
        else:
            decisions = self.learner.choose(players, available or None)
        self.decided(decisions, players, foretold)

    @precondition(lambda self: self.attributes)
    @rule(which=st.lists(st.integers(0, 3), min_size=1, max_size=3), one=st.booleans())
    def choose_for_combinations(self, which, one):
        """Combinations join by themselves, in the order in which they are named; one may come several times."""
        given, names = [COMBINATIONS[place] for place in which], [NAMES[place] for place in which]
        if gone := [name for name in names if name in self.slow.players and name not in self.slow.active]:
            with pytest.raises(ValueError, match="has retired"):
                self.learner.choose(given)
            self.learner.join(gone[0])
            self.slow.join(gone[0], True)
            return
        self.slow.tick(self.clock.now)
        for name in dict.fromkeys(names[:1] if one else names):
            if name not in self.slow.players:
                self.slow.join(name, True, VALUES[NAMES.index(name)])
        names = names[:1] if one else names
        foretold = self.foretell(names, None)
        self.decided([self.learner.choose(given[0])] if one else self.learner.choose(given), names, foretold)

    @precondition(lambda self: self.slow.active)
    @rule(pick=st.integers(0, 9))
    def ask_for_probabilities(self, pick):
        self.slow.tick(self.clock.now)
        player = self.learner.players[pick % len(self.learner.players)]
        expected = self.slow.probabilities(player, self.slow.offered, self.slow.rounds + 1, *self.burn_in(1))
        assert self.learner.probabilities(player) == pytest.approx(expected, abs=self.near)

    # ---------------------------------------------------------------- rewards

    def report(self, reports, call):
        """Report to both; they agree on how many are new, or on why nothing is taken."""
        self.slow.tick(self.clock.now)
        try:
            expected = self.slow.observe(reports)
        except Refused as refused:
            errors = tuple(ERRORS[why] for why in refused.why)
            with pytest.raises(errors) as caught:
                call()
            assert type(caught.value) in errors
        else:
            assert call() == expected

    @precondition(lambda self: self.ids)
    @rule(back=st.integers(0, 7), eighth=eighths, kind=kinds, times=st.integers(1, 2))
    def observe_one(self, back, eighth, kind, times):
        identity, reward = self.identity(back), self.reward(eighth)
        for _ in range(times):
            self.report([(identity, reward)], lambda: self.learner.observe(identity, kind(reward)))

    @precondition(lambda self: self.slow.waiting())
    @rule(thirds=st.lists(st.integers(0, 3), min_size=1, max_size=20), backwards=st.booleans(), as_dict=st.booleans())
    def observe_those_that_wait(self, thirds, backwards, as_dict):
        self.slow.tick(self.clock.now)
        width = self.high - self.low
        reports = [
            (entry.id, self.low + width * (third / 3))
            for entry, third in zip(self.slow.waiting(), thirds, strict=False)
        ]
        reports = reports[::-1] if backwards else reports
        self.report(reports, lambda: self.learner.observe(dict(reports) if as_dict else iter(reports)))

    @precondition(lambda self: self.ids)
    @rule(reports=st.lists(st.tuples(st.integers(0, 12), eighths), max_size=8))
    def observe_any(self, reports):
        """New ones, known ones, conflicting ones, given up ones, all in one batch."""
        reports = [(self.identity(back), self.reward(eighth)) for back, eighth in reports]
        self.report(reports, lambda: self.learner.observe(reports))

    @precondition(lambda self: self.ids)
    @rule(back=st.integers(0, 40))
    def repeat_what_was_taken(self, back):
        identity = self.identity(back)
        self.slow.tick(self.clock.now)
        known = next(entry.reward for entry in self.slow.entries if entry.id == identity)
        reward = self.low if known is None else known
        self.report([(identity, reward)], lambda: self.learner.observe(identity, reward))

    @precondition(lambda self: self.ids)
    @rule(
        back=st.integers(0, 9),
        bad=st.sampled_from(["nan", "inf", "-inf", "above", "below"]) | st.sampled_from(NO_IDS),
        first=st.booleans(),
    )
    def observe_a_batch_with_one_that_is_wrong(self, back, bad, first):
        good = [(entry.id, self.low) for entry in self.slow.waiting()[-3:]]
        wrong = {
            "above": self.high + 1e-6,
            "below": self.low - 1e-6,
            "nan": math.nan,
            "inf": math.inf,
            "-inf": -math.inf,
        }
        report = (self.identity(back), wrong[bad]) if bad in wrong else (bad, self.high)
        reports = [report, *good] if first else [*good, report]
        self.report(reports, lambda: self.learner.observe(reports))

    @precondition(lambda self: self.slow.players)
    @rule(rewards=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), eighths), max_size=12))
    def record_history(self, rewards):
        players, arms = self.slow.players, self.slow.arms
        rewards = [(players[p % len(players)], arms[a % len(arms)], self.reward(e)) for p, a, e in rewards]
        self.slow.tick(self.clock.now)
        self.slow.record(rewards)
        self.learner.record(iter(rewards))

    @rule(seconds=st.sampled_from([0.5, 4.5, 10.0, 10.0, 20.0, -3.0, -50.0]))
    def let_time_pass(self, seconds):
        self.clock.now += seconds

    # ---------------------------------------------------------------- players and arms

    @rule(player=st.sampled_from(PLAYERS), knows_others=st.booleans())
    def join(self, player, knows_others):
        if player in self.slow.active:
            with pytest.raises(ValueError, match="is here already"):
                self.learner.join(player, knows_others=knows_others)
        else:
            attributes = COMBINATIONS[1] if self.attributes else None
            self.learner.join(player, attributes, knows_others=knows_others)
            self.slow.join(player, knows_others, VALUES[1] if self.attributes else ())

    @rule(player=st.sampled_from(PLAYERS))
    def retire(self, player):
        if player in self.slow.active:
            self.learner.retire(player)
            self.slow.retire(player)
        else:
            with pytest.raises(ValueError, match=r"no player|has retired"):
                self.learner.retire(player)

    @rule(arm=st.sampled_from(ARMS))
    def add_arm(self, arm):
        there = [*self.slow.offered, arm]
        if arm in self.slow.offered or sum(self.slow.limits(each)[0] for each in there) > 1 + 1e-9:
            with pytest.raises(ValueError, match=r"is here already|arms can have at most|least shares of the"):
                self.learner.add_arm(arm)
        else:
            self.learner.add_arm(arm)
            self.slow.add_arm(arm)

    @rule(arm=st.sampled_from(ARMS))
    def retire_arm(self, arm):
        if arm in self.slow.offered and len(self.slow.offered) > 1:
            self.learner.retire_arm(arm)
            self.slow.retire_arm(arm)
        else:
            with pytest.raises(ValueError, match=r"no arm|has retired|is the last one"):
                self.learner.retire_arm(arm)

    @rule(shares=st.sampled_from(SHARES))
    def set_shares(self, shares):
        if self.can_be_kept(shares, self.slow.floor, self.slow.offered, self.slow.arms):
            self.learner.set_shares(shares)
            self.slow.set_shares(shares)
        else:
            with pytest.raises(ValueError, match=r"shares has the arm|shares of the \d arms|arms can have at most"):
                self.learner.set_shares(shares)

    # ---------------------------------------------------------------- wrong calls

    @rule(which=st.integers(0, 9))
    def call_wrongly(self, which):
        """That nothing but the time has changed is seen by the comparison that follows every step."""
        self.report([], lambda: self.learner.observe([]))
        player, arm = (self.slow.players or ["north"])[0], self.slow.arms[0]
        wrong = [
            lambda: self.learner.choose("nobody"),
            lambda: self.learner.choose([player, "nobody"]),
            lambda: self.learner.choose([player, player]),
            lambda: self.learner.choose([], available=[]),
            lambda: self.learner.choose([], available=[arm, "nothing"]),
            lambda: self.learner.probabilities("nobody"),
            lambda: self.learner.observe("0-00000000"),
            lambda: self.learner.record([(player, arm, self.low), (player, arm, math.nan)]),
            lambda: self.learner.record([(player, arm, self.low), (player, "nothing", self.low)]),
            lambda: self.learner.join("\n"),
        ]
        with pytest.raises((ValueError, TypeError)):
            wrong[which]()

    # ---------------------------------------------------------------- files

    @rule(way=st.sampled_from(["load", "load", "replay", "Parquet"]), go_on=st.booleans(), choose=st.booleans())
    def come_back(self, way, go_on, choose):
        """A learner that was loaded or replayed is in the same state and decides the same."""
        self.slow.tick(self.clock.now)
        if way == "load" or not self.slow.keep_log:
            other = self.saved_and_loaded()
            other.counts()  # brings its time up to date
        else:
            other = self.replayed(way == "Parquet")
        self.compare(other)
        if choose:
            players = list(self.learner.players)
            foretold = self.foretell(players, None)
            decisions = self.learner.choose(players)
            assert other.choose(players) == decisions
            self.decided(decisions, players, foretold)
        self.learner, other = (other, self.learner) if go_on else (self.learner, other)
        self.compare(other)
        self.compare_logs(other)

    @rule(other_time=st.sampled_from([-3.0, 0.0, 4.5]))
    def read_the_log(self, other_time):
        self.clock.now += other_time
        self.compare_logs(self.learner)
