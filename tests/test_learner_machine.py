"""Whatever is done to a learner, in whatever order, it is where slow and obvious Python says that it is."""

from __future__ import annotations

import io
import math
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sizes import FULL

import posse
from high_ts import HighTS
from posse.learner import ConflictingReward, UnknownDecision
from posse.policies import Refresh
from posse.policies.statistics import STEP
from slow_learner import Refused, SlowLearner

PLAYERS = ["north", "south", "east", "Москва", "a b, 'c'"]
CROWD = [f"{number} of a crowd" for number in range(9)]  # who are there from the beginning, where joins must be few
ARMS = ["tea", "coffee", "cocoa", "☕"]
POLICIES = [
    posse.RobustAggTS(0.1),
    posse.RobustAggTS(0.5, c1=0.01),
    posse.RobustAggTSV(0.2, c1=0.01),
    posse.RobustAgg(0.1),
    posse.NaiveAgg(),
    posse.IndTS(),
    posse.IndUCB(),
    posse.HierTS(0.2),
    posse.PosseTS(),
    posse.BetaTS(),
    posse.KLUCB(),
    posse.KLUCBPlusPlus(),
    posse.IMED(),
    posse.BayesUCB(),
    HighTS(),
    posse.RobustAggTS(0.5, c1=0.01, forget=8),
    posse.RobustAgg(0.1, forget=20),
    posse.HierTS(0.2, forget=16),
    posse.PosseTS(forget=24),
    HighTS(forget=8),
    posse.RobustPosseTS(0.4, 50),
]
ONE_OF_EACH_KIND = (1, 3, 7, 8, 9, 12, 14, 15, 18)
RANGES = [(0.0, 1.0), (0.0, 1.0), (-10.0, 40.0), (3, 4)]
ERRORS = {"unknown": UnknownDecision, "conflict": ConflictingReward, "value": ValueError}
NO_IDS = ["", "7", "0-00000000", "999-00000000", " 0-00000000", "north"]

setups = st.fixed_dictionaries(
    {
        "arms": st.integers(1, 3).map(lambda count: ARMS[:count]),
        "players": st.integers(0, 3).map(lambda count: PLAYERS[:count]),
        "horizon": st.sampled_from([None, 5, 1000]),
        "range": st.sampled_from(RANGES),
        "floor": st.sampled_from([0.0, 0.05, 0.25]),
        "holdout": st.sampled_from([0.0, 0.0, 0.3, 1.0]),
        "shares": st.integers(0, 7),
        "burn_in": st.sampled_from([0, 0, 4]),
        "defaults": st.sampled_from([(None, None), (0.0, 20.0), (0.5, 4.5)]),
        "limit": st.sampled_from([3, 5, 20]),
        "keep_log": st.sampled_from([True, True, False]),
        "seed": st.integers(0, 5),
        "attributes": st.booleans(),
    }
)
SHARES = [  # those that cannot be kept are refused
    {},
    {"tea": (0.05, 0.3)},
    {"tea": 0.2},
    {"coffee": (0.0, 0.4), "tea": (0.1, 0.5)},
    {"tea": 0.5, "coffee": 0.5, "cocoa": (0.0, 0.2)},
    {"cocoa": 0.0},
    {"tea": (0.0, 0.2), "coffee": (0.0, 0.2), "cocoa": (0.0, 0.3), "☕": (0.0, 0.2)},
]
ATTRIBUTES = {"region": "category", "age": [18, 50]}
COMBINATIONS = [{}, {"age": 7}, {"region": "south", "age": 18}, {"region": "a, b", "age": 49.9}]
SHOWN = [(None, None), (None, "below 18"), ("south", "18 to 50"), ("a, b", "18 to 50")]
VALUES = [(None, None), (None, 0), ("south", 1), ("a, b", 1)]
NAMES = ["no attributes", "age=below 18", "region=south, age=18 to 50", 'region="a, b", age=18 to 50']
eighths = st.integers(0, 8)
kinds = st.sampled_from([float, float, np.float64, np.float32, Fraction, Decimal])


class Clock:
    """A clock that stands until it is moved, forwards or backwards."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Machine(RuleBasedStateMachine):
    """A learner and its oracle, side by side."""

    learner_class = posse.Learner
    policy = POLICIES[0]
    exact = 1e-12
    crowd = 0

    @initialize(setup=setups)
    def begin(self, setup):
        self.low, self.high = setup["range"]
        default, patience = setup["defaults"]
        default = None if default is None else self.reward(int(8 * default))
        self.clock, self.ids = Clock(), []
        self.attributes = {}  # what the log shows of each player, if there are attributes
        same = {"arms": setup["arms"], "horizon": setup["horizon"]}
        same["players"] = setup["players"] + CROWD[: self.crowd]
        policy = self.policy
        if isinstance(policy, (posse.RobustAggTS, posse.RobustAgg, posse.HierTS, posse.RobustPosseTS)):
            first, *rest = policy.constants()  # ε or spread, in the units of the rewards
            policy = type(policy)(first * (self.high - self.low), *rest, forget=policy.forget)
        mixed = {"floor": setup["floor"], "holdout": setup["holdout"], "patience": patience}
        shares = SHARES[setup["shares"] % len(SHARES)]
        mixed |= {"shares": {}, "burn_in": setup["burn_in"]}
        if self.can_be_kept(shares, setup["floor"], setup["arms"], setup["arms"]):
            mixed["shares"] = shares
        given, told = same["players"], {}
        if setup["attributes"]:
            self.attributes = dict(zip(NAMES, SHOWN, strict=True)) | dict.fromkeys(PLAYERS + CROWD, SHOWN[1])
            told = {"kinds": ATTRIBUTES, "values": [VALUES[1]] * len(given)}
            given = dict.fromkeys(given, COMBINATIONS[1])
        self.learner = self.learner_class(
            policy,
            **same | {"players": given},
            **mixed,
            attributes=told.get("kinds"),
            player_limit=9 + self.crowd,
            seed=setup["seed"],
            reward_range=(self.low, self.high),
            default_reward=default,
            waiting_limit=setup["limit"],
            keep_log=setup["keep_log"],
            clock=self.clock,
        )
        self.slow = SlowLearner(
            policy,
            **same,
            **mixed,
            **told,
            low=self.low,
            high=self.high,
            default=default,
            limit=setup["limit"],
            keep_log=setup["keep_log"],
        )

    @staticmethod
    def can_be_kept(shares, floor, arms, known):
        """Whether these arms can keep their limits."""
        limits = [shares.get(arm, (floor, 1.0)) for arm in arms]
        least, most = zip(*(each if isinstance(each, tuple) else (each, each) for each in limits), strict=True)
        return shares.keys() <= set(known) and sum(least) < 1 + 1e-9 and sum(most) > 1 - 1e-9

    def reward(self, eighth):
        return self.low + (self.high - self.low) * eighth / 8

    def identity(self, back):
        """The id of one of the last decisions."""
        return self.ids[-1 - back % len(self.ids)]

    # ---------------------------------------------------------------- decisions

    def foretell(self, players, available):
        """What the oracle says of a round: for each player, probabilities and weights."""
        self.slow.tick(self.clock.now)
        self.slow.rounds += 1
        offered = self.slow.offered if available is None else set(available)
        return [
            (
                self.slow.probabilities(player, offered, self.slow.rounds, burns_in),
                {arm: 0.0 if burns_in else self.slow.weight(player, arm, self.slow.rounds) for arm in offered},
            )
            for burns_in, player in zip(self.burn_in(len(players)), players, strict=True)
        ]

    def burn_in(self, decisions):
        """For each of the next decisions, whether it belongs to the burn-in."""
        return [len(self.ids) + place < self.slow.burn_in for place in range(decisions)]

    @property
    def near(self):
        """How near probabilities are: limits move tiny ones by much more than their own errors."""
        return 1e-5 if self.slow.shares else 1e-9

    def check_decision(self, decision, probabilities, weights):
        assert decision.round == self.slow.rounds
        assert list(decision.probabilities) == list(probabilities)
        assert decision.propensity == decision.probabilities[decision.arm] > 0
        assert sum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
        for arm, probability in decision.probabilities.items():
            assert probability >= self.slow.limits(arm)[0] - 1e-15
            if len(decision.probabilities) == len(self.slow.arms):
                assert probability <= self.slow.limits(arm)[1] + 1e-15
        assert decision.probabilities == pytest.approx(probabilities, abs=self.near)
        if decision.holdout:
            assert self.slow.holdout > 0
            assert decision.shared == 0
        else:
            assert self.slow.holdout < 1
            assert decision.shared == pytest.approx(weights[decision.arm], abs=1e3 * self.exact)
        assert decision.id not in self.ids

    def decided(self, decisions, players, foretold):
        assert [decision.player for decision in decisions] == players
        for decision, (probabilities, weights) in zip(decisions, foretold, strict=True):
            self.check_decision(decision, probabilities, weights)
            self.ids.append(decision.id)
        self.slow.decided(decisions)

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

    def saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.json"
            self.learner.save(path)
            return self.learner_class.load(path, clock=self.clock)

    def replayed(self, through_parquet):
        table = self.learner.log()
        if through_parquet:
            file = io.BytesIO()
            pyarrow.parquet.write_table(table, file)
            table = pyarrow.parquet.read_table(file)
        return self.learner_class.replay(table, clock=self.clock)

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

    # ---------------------------------------------------------------- comparison

    @invariant()
    def nothing_differs(self):
        if self.slow.time >= self.clock.now:  # looking brings the learner's time up to date: leave that to the rules
            self.compare(self.learner)

    def compare(self, learner):
        slow = self.slow
        assert learner.players == tuple(player for player in slow.players if player in slow.active)
        assert learner.arms == tuple(arm for arm in slow.arms if arm in slow.offered)
        assert (learner.rounds, learner.events, learner.decisions) == (slow.rounds, slow.events, len(self.ids))
        assert learner.ledger.given_up == slow.given_up()
        assert len(learner.ledger.waiting) == len(slow.waiting()) <= slow.limit
        assert learner.shares == {arm: slow.limits(arm) for arm in slow.shares}
        counts = learner.counts()
        assert (counts.players, counts.arms) == (tuple(slow.players), tuple(slow.arms))
        width = self.high - self.low
        for player in slow.players:
            indices = learner.indices(player) if player in slow.active else {}
            for arm in slow.arms:
                self.compare_pair(learner, player, arm)
                place = slow.players.index(player), slow.arms.index(arm)
                assert counts.pulls[place] == slow.own(player, arm)[0]
                assert counts.sums[place] == pytest.approx(slow.money(player, arm), abs=width * 1e-5)
                if player in slow.active and arm in slow.offered:
                    expected = slow.index(player, arm, slow.rounds + 1)
                    assert indices[arm] == pytest.approx(expected, rel=self.exact, abs=self.exact)

    def compare_logs(self, other):
        self.slow.tick(self.clock.now)
        for learner in (self.learner, other):
            if self.slow.keep_log:
                expected = self.slow.log()
                for entry in expected if self.attributes else []:
                    entry |= zip(ATTRIBUTES, self.attributes[entry["player"]], strict=True)
                assert learner.log().to_pylist() == expected
            else:
                with pytest.raises(ValueError, match="keeps no log"):
                    learner.log()

    def compare_pair(self, learner, player, arm):
        """What is kept inside, of those who are gone too."""
        p, a = self.slow.players.index(player), self.slow.arms.index(arm)
        n, s = self.slow.own(player, arm)
        assert (learner.state.known.statistics[0, a, p], learner.state.known.statistics[1, a, p] / 2**24) == (n, s)
        assert learner.state.waiting[a, p] == self.slow.waiting_for(player, arm)
        if self.slow.policy.refresh is Refresh.OWN_PULL:
            assert tuple(learner.state.known.seen[:, a, p]) == self.slow.seen(player, arm)


def run(machine, examples, number=0):
    """Run a machine, with other random numbers for each number; without shrinking, which would take minutes."""
    limits = settings(
        max_examples=examples,
        stateful_step_count=50,
        phases=[Phase.generate],
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(number)(machine), settings=limits)


@pytest.mark.parametrize(
    "number", range(len(POLICIES)) if FULL else ONE_OF_EACH_KIND, ids=lambda number: POLICIES[number].label
)
def test_whatever_happens_the_learner_is_where_the_oracle_is(number):
    policy = POLICIES[number]
    exact = 1e-12 if policy.summary is None else 1e-10  # a summary is a long computation
    examples = 12 if policy.summary is None and policy.forget is None else 4  # whose oracles are slow
    run(type("Machine", (Machine,), {"policy": policy, "exact": exact}), examples, number)


def crowded(policy, **more):
    """A machine in which players may join who are too few for a summary."""
    return type("Machine", (Machine,), {"policy": policy, "exact": 1e-10, "crowd": len(CROWD)} | more)


@pytest.mark.parametrize(
    "policy", [posse.PosseTS(), posse.PosseTS(forget=24), posse.RobustPosseTS(0.4, 50)], ids=lambda policy: policy.label
)
def test_whoever_joins_a_crowd_is_taken_for_a_newcomer(policy):
    run(crowded(policy), 2)


class MakesASummaryForEverybody(posse.Learner):
    def join(self, player, *given, **more):
        super().join(player, *given, **more)
        state = self.state
        state.known.of_player[len(state.values) - 1] = 0.0
        state.core.share_everything(state.known, 0.0)


def test_a_learner_that_makes_a_summary_for_everybody_is_caught():
    """The negative control."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(crowded(posse.PosseTS(), learner_class=MakesASummaryForEverybody), 6)


class CountsARepeatedRewardTwice(posse.Learner):
    def observe(self, decision, reward=None):
        new = super().observe(decision, reward)
        if isinstance(decision, str) and not new:
            self.state.known.statistics[0, 0, 0] += 1
        return new


class SeesOthersWhenItChooses(posse.Learner):
    def _wait(self, row):
        super()._wait(row)
        self.state.known.seen[:, row.arm, row.player] = self.state.known.totals[:, row.arm] * [1.0, STEP]


class SeesOthersOfABatchTooEarly(posse.Learner):
    def _observe(self, answered, defaulted=False):
        events = self.events + bool(answered)
        for one in answered:
            super()._observe([one], defaulted)
        self.state.events = events


class TakesABatchUntilAReportIsWrong(posse.Learner):
    def observe(self, decision, reward=None):
        if isinstance(decision, list):
            return sum(posse.Learner.observe(self, *report) for report in decision)
        return super().observe(decision, reward)


class GivesUpOneTooLate(posse.Learner):
    def _begin(self, *arguments):
        super()._begin(*arguments)
        self.ledger.waiting_limit += 1


class CountsTheRetired(posse.Learner):
    def retire(self, player):
        super().retire(player)
        self.state.player_roster.count += 1


class ForgetsTheFloor(posse.Learner):
    def _begin(self, setup, *arguments):
        super()._begin(setup, *arguments)
        object.__setattr__(self.setup, "floor", 0.0)


class ForgetsThatACombinationJoined(posse.Learner):
    def _change(self, kind, name, knows_others=True, values=None, *more):
        super()._change(kind, name, knows_others, values, *more)
        if values is not None:
            self.changes[-1].pop("attributes")


class LoadsWithTheSharesOfTheStart(posse.Learner):
    @classmethod
    def load(cls, path, clock):
        learner = super().load(path, clock)
        learner.state.limit(learner.setup.shares)
        return learner


class LoadsWithoutWhatWaits(posse.Learner):
    @classmethod
    def load(cls, path, clock):
        learner = super().load(path, clock)
        learner.state.waiting[:] = 0
        return learner


BROKEN = [broken for broken in posse.Learner.__subclasses__() if broken is not MakesASummaryForEverybody]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_learner_with_a_fault_is_caught(broken):
    """The negative controls."""
    machine = type("Machine", (Machine,), {"learner_class": broken})
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(machine, 60)
