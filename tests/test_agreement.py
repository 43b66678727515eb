"""The engine against the oracle in naive.py: decision for decision, for every policy, schedule and reward family."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import posse
from posse import schedule
from posse.policies import all_policies
from posse.simulation import trace
from strategies import POLICIES, problems, schedules, with_attributes

EXAMPLES = 15 if os.environ.get("POSSE_SMALL") else 60


def assert_same(policy, problem, horizon, who, seed=0, anytime=False):
    run = trace(problem, policy, horizon, seed=seed, schedule=who, anytime=anytime)
    oracle = naive.run(policy, problem, horizon, who, seed=seed, anytime=anytime)
    for t, pulled in enumerate(oracle):
        assert set(np.flatnonzero(run.active[t])) == set(pulled), f"active players in round {t + 1}"
        for player, (arm, reward) in pulled.items():
            assert run.arms[t, player] == arm, f"arm of player {player} in round {t + 1}"
            assert run.rewards[t, player] == reward, f"reward of player {player} in round {t + 1}"


def test_every_shipped_policy_has_an_oracle_here():
    shipped = {cls.__name__ for cls in all_policies() if cls.__module__.startswith("posse.policies.")}
    assert shipped == set(naive.ALGORITHMS) == set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(data=st.data())
def test_engine_agrees_with_oracle(name, data):
    problem = data.draw(problems())
    horizon = data.draw(st.integers(1, 40))
    who = data.draw(schedules(problem.players, horizon))
    policy = data.draw(POLICIES[name])
    seed = data.draw(st.integers(0, 2**64))
    assert_same(policy, problem, horizon, who, seed, anytime=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["PosseTS", "RobustPosseTS"])
@settings(max_examples=EXAMPLES // 4, deadline=None, derandomize=True)
@given(data=st.data())
def test_so_it_does_where_players_have_attributes(name, data):
    problem = data.draw(with_attributes(problems(max_players=9, max_arms=4)))
    horizon = data.draw(st.integers(1, 30))
    who = data.draw(schedules(problem.players, horizon))
    policy = data.draw(POLICIES[name])
    assert_same(policy, problem, horizon, who, data.draw(st.integers(0, 9)), anytime=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["PosseTS", "RobustPosseTS"])
def test_so_it_does_where_attributes_explain_much(name):
    """And the oracle would notice: what the attributes do changes decisions."""
    options = {"attributes": {"region": 3, "age": [20, 40, 60]}, "explained": 0.9, "interactions": 0.05}
    problem = posse.generate.structured(players=16, arms=4, spread=0.8, **options, count=1, seed=2)[0]
    policy = posse.PosseTS() if name == "PosseTS" else posse.RobustPosseTS(0.9)
    assert_same(policy, problem, 60, schedule.Concurrent())
    runs = [trace(each, policy, 60) for each in (problem, problem.without_attributes())]
    assert not np.array_equal(runs[0].arms, runs[1].arms)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "who", [schedule.Concurrent(), schedule.Sequential("random"), schedule.Random(0.4)], ids=lambda who: str(who)
)
def test_agreement_over_a_longer_run(name, who):
    """Long enough that RobustAgg-TS passes from the aggregate to the individual posterior."""
    if os.environ.get("POSSE_SMALL"):
        horizon, players = 60, 3
    else:
        horizon, players = 700, 6
    problem = posse.generate.subpar(3, players=players, arms=7, epsilon=0.15, seed=3)[0]
    given = {
        "RobustAggTS": {"epsilon": 0.15, "c1": 0.2},
        "RobustAggTSV": {"epsilon": 0.15, "c1": 0.2},
        "RobustAgg": {"epsilon": 0.15},
        "HierTS": {"spread": 0.04},
        "RobustPosseTS": {"epsilon": 0.15, "rounds": 700},
        "MixedTS": {"own": 0.04, "effects": 0.1},
    }
    assert_same(getattr(posse, name)(**given.get(name, {})), problem, horizon, who, seed=5)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (33, 2), (65, 9)], ids=str)
def test_agreement_at_the_edges(name, shape):
    """One player, one arm, one round; more players than a tile; more arms than a block of random words."""
    means = np.random.default_rng(7).random(shape)
    given = {"RobustAggTS": [1.0], "RobustAggTSV": [0.0], "RobustAgg": [1.0], "RobustPosseTS": [0.2]}
    given |= {"HierTS": [0.1], "MixedTS": [0.1, 0.1]}
    policy = getattr(posse, name)(*given.get(name, []))
    for horizon in (1, 2, 12):
        assert_same(policy, posse.Problem(means), horizon, schedule.Concurrent())


def test_the_oracle_notices_a_wrong_engine():
    """Negative control: a policy that differs by one term is caught."""
    problem = posse.generate.subpar(3, players=4, arms=6, seed=3)[0]
    wrong = posse.RobustAggTS(0.15, c1=0.5, c2=1.01)
    run = trace(problem, wrong, 300, schedule=schedule.Concurrent())
    oracle = naive.run(posse.RobustAggTS(0.15), problem, 300, schedule.Concurrent())
    assert any(run.arms[t, p] != arm for t, pulled in enumerate(oracle) for p, (arm, _) in pulled.items())


def test_trace_and_simulate_are_the_same_run():
    problem = posse.generate.subpar(3, players=4, arms=6, seed=3)[0]
    for name in POLICIES:
        policy = getattr(posse, name)(
            *([0.15] if name in ("RobustAggTS", "RobustAggTSV", "RobustAgg", "HierTS", "RobustPosseTS") else []),
            *([0.1, 0.1] if name == "MixedTS" else []),
        )
        for who in (schedule.Concurrent(), schedule.Random(0.5)):
            run = trace(problem, policy, 50, seed=2, replication=1, schedule=who)
            result = posse.simulate(problem, policy, 50, seed=2, replications=[1], schedule=who, checkpoints=[50])
            counted = np.array([[(run.arms[:, p] == i).sum() for i in range(6)] for p in range(4)])
            assert np.array_equal(result.pulls[0, 0, 0], counted)
            assert result.reward[0, 0, 0] == np.nansum(run.rewards)
