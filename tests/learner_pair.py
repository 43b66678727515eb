"""A learner and its oracle, side by side: how they begin, what is foretold of a decision, and how they are compared."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

import posse
from posse.policies import Refresh
from slow_learner import SlowLearner
from small_learner import Clock

PLAYERS = ["north", "south", "east", "Москва", "a b, 'c'"]
CROWD = [f"{number} of a crowd" for number in range(9)]  # who are there from the beginning, where joins must be few
ARMS = ["tea", "coffee", "cocoa", "☕"]
RANGES = [(0.0, 1.0), (0.0, 1.0), (-10.0, 40.0), (3, 4)]

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
        "defaults": st.sampled_from([(None, None), (None, None), (0.0, 20.0), (0.5, 4.5)]),
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


class LearnerPair(RuleBasedStateMachine):
    """What is done to both is up to a class below this one."""

    learner_class = posse.Learner
    policy = posse.RobustAggTS(0.1)
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
        assert len(learner.ledger.waiting) == len(slow.waiting())
        assert len(slow.waiting()) <= slow.limit or slow.default is not None
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
