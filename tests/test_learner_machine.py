"""Whatever is done to a learner, in whatever order, it is where slow and obvious Python says that it is."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from learner_machine import Machine
from learner_pair import CROWD
from sizes import FULL

import posse
from high_ts import HighTS
from posse.policies.statistics import STEP

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
