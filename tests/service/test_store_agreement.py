"""The store decides what the learner decides, event by event, whoever of several workers is asked."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import posse
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Observe, Record, TakeDefaults
from posse.service.storage import queries
from posse.service.storage.transaction import commit
from stores import ARMS, SHOPS, Clock, new, stores

POLICIES = [
    posse.PosseTS(),
    posse.HierTS(0.1),
    posse.RobustAgg(0.1),
    posse.RobustAggTS(0.1),
    posse.IndUCB(),
    posse.IMED(),
]


class Pair:
    """A learner and an experiment that are told the same."""

    def __init__(self, workers, clock, policy, seed, **options):
        self.workers, self.clock, self.chance = workers, clock, random.Random(seed)
        new(workers[0], policy, seed=seed, **options)
        self.learner = posse.Learner(
            policy,
            ARMS,
            SHOPS,
            seed=seed,
            clock=clock,
            waiting_limit=workers[0].read(queries.experiment, "teas").setup.waiting_limit,
            **options,
        )
        self.learner.counts()  # its time begins now, as the experiment's does
        self.open = []

    @property
    def worker(self):
        return self.chance.choice(self.workers)

    def choose(self, players, available=None):
        expected = self.learner.choose(players, available)
        assert commit(self.worker, Choose("teas", players, available)) == expected
        self.open += expected

    def observe(self, count):
        self.chance.shuffle(self.open)
        told, self.open = self.open[:count], self.open[count:]
        waiting = {row.serial for row in self.learner.ledger.waiting.values()}
        reports = [(one.id, self.chance.randint(0, 8) / 8) for one in told if int(one.id.split("-")[0]) in waiting]
        due = self.learner.setup.patience is not None
        late = [one for one in reports if due and self.overdue(one[0])]
        reports = [one for one in reports if one not in late]
        if reports:
            self.learner.observe(reports)
            assert {outcome.status for outcome in commit(self.worker, Observe("teas", reports))} == {"taken"}

    def overdue(self, identity):
        row = self.learner.ledger.waiting[int(identity.split("-")[0])]
        return row.decided_at + self.learner.setup.patience <= self.clock.now

    def compare(self):
        """Everything that decides is the same, in every worker's eyes and in the table of numbers."""
        worker = self.worker
        commit(worker, TakeDefaults("teas"))
        self.learner.counts()
        state = worker.read(queries.live_experiment, "teas").state
        ours = self.learner.state
        for name in ours.known._fields:
            if name not in ("work", "pulled_at"):  # scratch, and rounds that only the simulator counts by
                assert getattr(state.known, name).tobytes() == getattr(ours.known, name).tobytes(), name
        assert np.array_equal(state.waiting, ours.waiting)
        assert (state.rounds, state.decisions, state.events) == (ours.rounds, ours.decisions, ours.events)
        assert list(state.player_roster) == list(ours.player_roster)
        assert list(state.arm_roster) == list(ours.arm_roster)
        assert state.shares == ours.shares


CASES = [(policy, workers, "sqlite") for policy in POLICIES for workers in (1, 2)]
CASES += [(policy, 2, "postgresql") for policy in (POLICIES[0], POLICIES[3])]


@pytest.mark.parametrize(("policy", "workers", "backend"), CASES, ids=lambda value: getattr(value, "label", str(value)))
def test_decisions_and_state_are_the_learners_event_by_event(policy, workers, backend, tmp_path):
    clock = Clock()
    with stores(backend, tmp_path, workers, clock) as opened:
        limited = {"shares": {"tea": (0.1, 0.5)}, "control": "tea", "burn_in": 9} if workers > 1 else {}
        pair = Pair(opened, clock, policy, seed=5, default_reward=0.25, patience=30, floor=0.01, holdout=0.1, **limited)
        for step in range(45):
            clock.now += pair.chance.random() * 4
            players = list(pair.learner.players)
            pair.choose(pair.chance.sample(players, pair.chance.randint(1, len(players))))
            pair.observe(len(pair.open) // 2)
            if step % 10 == 9:
                pair.compare()
            if step == 15:
                for player in ("west", "far west"):
                    pair.learner.join(player)
                commit(pair.worker, Change("teas", join=["west", "far west"]))
                pair.learner.add_arm("juice")
                commit(pair.worker, Change("teas", add_arms=["juice"]))
            if step == 25 and limited:
                shares = {"tea": 0.2, "juice": (0.05, 0.3)}
                pair.learner.set_shares(shares)
                assert commit(pair.worker, Change("teas", shares=shares)).shares == pair.learner.shares
            if step == 30:
                pair.learner.retire_arm("coffee")
                pair.learner.retire("north")
                commit(pair.worker, Change("teas", retire_arms=["coffee"], retire=["north"]))
                pair.learner.join("back", knows_others=False)
                commit(pair.worker, Change("teas", join=["back"], knows_others=False))
            if step == 40:
                past = [("north", "tea", 0.5), ("south", "coffee", 1.0)]
                pair.learner.record(past)
                assert commit(pair.worker, Record("teas", past)) == 2
                pair.choose(["south"], available=["tea", "juice"])
        pair.compare()
        assert pair.learner.counts().pulls.sum() > 50
        assert verify(opened[0]) == []
        log = pair.worker.read(queries.log_table, "teas")
        assert log.equals(pair.learner.log())
        replayed = posse.Learner.replay(log, clock=clock)
        assert replayed.choose(["south", "east"]) == pair.learner.choose(["south", "east"])


def test_another_seed_decides_otherwise(tmp_path):
    """The negative control: agreement is not for want of anything that could differ."""
    clock = Clock()
    with stores("sqlite", tmp_path, 1, clock) as (store,):
        new(store, seed=3)
        learner = posse.Learner(posse.RobustAggTS(0.1), ARMS, SHOPS, seed=4, clock=clock)
        ours = [commit(store, Choose("teas", ["north"]))[0].arm for _ in range(40)]
        assert ours != [learner.choose("north").arm for _ in range(40)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("choose"), st.lists(st.sampled_from(SHOPS), min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("observe"), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.floats(0, 40)),
        st.tuples(st.just("compare"), st.none()),
    ),
    max_size=25,
)


@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.RobustAgg(0.1)], ids=lambda policy: policy.label)
@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, workers=st.integers(1, 3))
def test_whatever_happens_the_store_is_where_the_learner_is(policy, tmp_path_factory, steps, workers):
    clock = Clock()
    with stores("sqlite", tmp_path_factory.mktemp("store"), workers, clock) as opened:
        pair = Pair(opened, clock, policy, seed=len(steps), default_reward=0.0, patience=20)
        for kind, value in steps:
            if kind == "choose":
                pair.choose(value)
            elif kind == "observe":
                pair.observe(value)
            elif kind == "wait":
                clock.now += value
            else:
                pair.compare()
        pair.compare()
        assert verify(opened[0]) == []
