"""The GPU against the CPU: run by test_cuda.py in numba's CUDA simulator, and by you where there is a GPU.

NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 python -m pytest tests/on_cuda.py
python -m pytest tests/on_cuda.py
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from dataclasses import dataclass

import numba
import numpy as np
import pytest

import posse
from high_ts import HighSummaryTS, HighTS
from posse import schedule
from posse.policies import Law, Policy, Refresh, all_policies
from posse.policies.likeness.tables import SHARE
from posse.simulation import cuda
from posse.simulation.engine import PolicyRun

MEASURED = ("regret", "pulls", "late_pulls", "reward", "player_regret")
SIMULATED = bool(numba.config.ENABLE_CUDASIM)
# ∞ − ∞ loses every comparison, as it should, but Python warns of it where a GPU is silent.
pytestmark = pytest.mark.filterwarnings("ignore:.*invalid value encountered:RuntimeWarning")
if SIMULATED:
    from numba.cuda.simulator.kernel import BlockThread

    def is_alive(thread):
        """The simulator asks this in a loop without a pause; a short one lets the threads themselves go on."""
        time.sleep(2e-5)
        return threading.Thread.is_alive(thread)

    BlockThread.is_alive = is_alive
SHIPPED = [cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")]


def example(cls):
    own = {"epsilon": 0.15, "spread": 0.04, "own": 0.05, "effects": 0.1}
    return cls(*[own[name] for name in cls.constant_names()[:2] if name in own and cls is not posse.PosseTS])


def a_problem(players=3, arms=4, rewards="bernoulli", seed=3):
    return posse.Problem(np.random.default_rng(seed).random((players, arms)), rewards=rewards)


def assert_same(problems, policies, horizon, **options):
    """Every number that is measured is the same, bit for bit."""
    options = {"checkpoints": [0, 1, horizon // 2 + 1, horizon], "seed": 5} | options
    there = posse.simulate(problems, policies, horizon, backend="cuda", **options)
    here = posse.simulate(problems, policies, horizon, backend="cpu", **options)
    for name in MEASURED:
        assert np.array_equal(getattr(there, name), getattr(here, name)), name


@dataclass(frozen=True)
class BlendTS(Policy):
    """A user's policy: own data blended with everybody's mean, with sums of its own."""

    strength: float

    refresh = Refresh.ANY_PULL

    @staticmethod
    def contribution(n, s, strength):
        return math.sqrt(n), s / (n + strength)

    @staticmethod
    def index(n, s, N, S, M, log_T, strength):
        if n == 0.0:
            return math.inf, 0.0
        return (s + strength * (S / M)) / (n + strength), 1.0 / math.sqrt(N + log_T)


@dataclass(frozen=True)
class Nowhere(Policy):
    """A user's mistake."""

    refresh = Refresh.OWN_PULL

    @staticmethod
    def index(n, s, N, S, M, log_T):
        return math.nan, 1.0


@dataclass(frozen=True)
class NoLaw(Policy):
    """A prior of too little."""

    law = Law.BETA

    @staticmethod
    def index(n, s):
        return 0.5 + s, 1.0 + n - s


class Forgotten(NoLaw):
    """And of nothing."""

    @staticmethod
    def index(n, s):
        return s, n - s


class Boundless(Nowhere):
    """Another one."""

    @staticmethod
    def index(n, s, N, S, M, log_T):
        return 0.5, math.inf


@pytest.mark.parametrize("policy", [example(cls) for cls in SHIPPED], ids=lambda policy: policy.label)
def test_every_shipped_policy(policy):
    assert_same(a_problem(players=4, arms=7), policy, 24)


@pytest.mark.parametrize("cls", [cls for cls in SHIPPED if cls.of_value], ids=lambda cls: cls.__name__)
def test_players_with_attributes(cls):
    """Of two problems, whose players have other values, so that one has more columns."""
    known = {"attributes": {"region": "category", "age": [18, 40]}}
    values = [[{"region": "ab"[p % most], "age": 20 * p} for p in range(3)] + [{"age": 7}] for most in (1, 2)]
    means = a_problem(players=4, arms=3).means
    assert_same([posse.Problem(means, values=each, **known) for each in values], example(cls), 20)


def test_a_policy_of_the_users_own():
    assert_same(a_problem(), BlendTS(2.0), 20)


def test_a_policy_whose_index_is_not_a_number_is_named():
    with pytest.raises(ValueError, match=r"Nowhere gives an index that is not a number: center nan.*player 0, arm 0"):
        posse.simulate(a_problem(), Nowhere(), 9, backend="cuda")


# In the simulator a root of a negative number is an error of Python's.
@pytest.mark.parametrize("policy", [NoLaw()] if SIMULATED else [NoLaw(), Forgotten()], ids=str)
def test_a_policy_whose_beta_law_is_none_is_named(policy):
    with pytest.raises(
        ValueError, match=r"gives a=\S+, b=\S+ of a Beta law for player 0, arm \d with n=.*, but expected"
    ):
        posse.simulate(a_problem(), policy, 9, backend="cuda")


def test_a_policy_whose_scale_is_infinite_is_named():
    with pytest.raises(ValueError, match=r"Boundless gives the scale inf for player 0, arm 0 with n=.*, but expected"):
        posse.simulate(a_problem(), Boundless(), 9, backend="cuda")


@pytest.mark.parametrize("policy", [HighTS(), HighSummaryTS()], ids=lambda policy: policy.label)
@pytest.mark.parametrize("anytime", [False, True])
def test_a_policy_with_statistics_of_its_own(policy, anytime):
    assert_same(a_problem(rewards="uniform"), policy, 15, anytime=anytime)


def test_indices_from_a_beta_law():
    assert_same(a_problem(rewards="uniform"), posse.BetaTS(), 15)


@pytest.mark.parametrize("policy", [posse.RobustAggTS(0.2, c1=0.01), posse.HierTS(0.1), posse.PosseTS()], ids=str)
@pytest.mark.parametrize(
    "who",
    [
        schedule.Sequential(),
        schedule.Sequential("random"),
        schedule.Random([0.9, 0.2, 0.5]),
        schedule.Fixed(np.random.default_rng(1).random((16, 3)) < 0.5),
        schedule.Late(0.5, 2),
        schedule.Arrivals(),
    ],
    ids=str,
)
def test_every_schedule(policy, who):
    assert_same(a_problem(), policy, 16, schedule=who)


@pytest.mark.parametrize(
    "rewards",
    [
        posse.rewards.Beta(2.0),
        posse.rewards.Uniform(0.4),
        posse.rewards.Deterministic(),
        posse.rewards.OneNoisy(2.0),
        posse.rewards.Jackpot(0.1),
    ],
    ids=str,
)
def test_every_reward_family(rewards):
    assert_same(a_problem(rewards=rewards), [posse.RobustAggTS(0.2), posse.IndUCB()], 15)


@pytest.mark.parametrize("cls", [posse.RobustAggTS, posse.RobustAgg, posse.PosseTS], ids=lambda cls: cls.__name__)
def test_the_anytime_form(cls):
    assert_same(a_problem(), example(cls), 12, anytime=True)


@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.RobustPosseTS(0.9)], ids=str)
def test_players_in_groups(policy):
    """So clearly that PosseTS finds them: the parts of its estimate that few pulls do not reach."""
    problem = posse.Problem(np.repeat([[0.95, 0.05, 0.5], [0.05, 0.95, 0.5]], 4, axis=0))
    run = PolicyRun(problem, policy, schedule.Concurrent(), 20, seed=5)
    run.advance(20)
    shares = run.state.of_player[:8, SHARE : SHARE + 2]
    assert shares.max(axis=0).min() > 0.9
    assert shares[:4] == pytest.approx(1 - shares[4:], abs=0.1)
    assert_same(problem, policy, 20)


def with_attributes(kinds, players=8, arms=3, seed=1):
    """A problem whose players have these attributes, some of them missing; the first one says which arm is good."""
    chance = np.random.default_rng(seed)
    examples = {"region": "abc", "device": DEVICE["device"], "age": [10, 30, 50, 70]}
    values = [
        {name: examples[name][chance.integers(2 + seed % 2)] for name in kinds if chance.random() < 0.9}
        for _ in range(players)
    ]
    good = [sum(map(ord, str(each.get(next(iter(kinds)))))) % arms for each in values]
    means = np.where(np.arange(arms) == np.array(good)[:, np.newaxis], 0.9, 0.1)
    return posse.Problem(means, attributes=kinds, values=values)


REGION, AGE, DEVICE = {"region": "category"}, {"age": [20, 40, 60]}, {"device": ["phone", "desktop", "tv"]}


def test_problems_with_other_attributes_in_one_call():
    """Problems in one call have other numbers of columns, other attributes, or none; what they do is estimated."""
    problems = [
        with_attributes(REGION),
        with_attributes(REGION, seed=7),
        with_attributes(REGION | AGE),
        a_problem(8, 3),
        with_attributes(AGE | DEVICE, seed=3),
    ]
    assert len({problem.coded().part_of.size for problem in problems}) == 5
    run = PolicyRun(problems[0], posse.PosseTS(), schedule.Concurrent(), 8, seed=5)
    run.advance(8)
    assert np.abs(run.state.of_value).max() > 0.1
    assert_same(problems, posse.PosseTS(), 8)


def test_attributes_over_time_and_beside_policies_that_are_not_told():
    problem = with_attributes(REGION | AGE)
    policies = [posse.PosseTS(forget=9), posse.IndUCB(), posse.IndTSV()]
    assert_same([problem, a_problem(8, 3)], policies, 7, anytime=True)


def test_attributes_where_a_run_has_a_block(monkeypatch):
    monkeypatch.setattr(cuda, "WARP", 1)
    assert_same([with_attributes(REGION | AGE), a_problem(8, 3)], posse.PosseTS(), 8)


def test_a_horizon_told_wrong():
    assert_same(a_problem(), posse.PosseTS(), 12, told_horizon=1000)


def over_time(players=3, arms=3):
    """A problem that changes twice, and one that changes once."""
    chance = np.random.default_rng(2)
    return [
        posse.Problem(chance.random((players, arms)), changes={t: chance.random((players, arms)) for t in rounds})
        for rounds in ([5, 11], [9])
    ]


KINDS = posse.RobustAggTS, posse.RobustAgg, posse.HierTS, posse.PosseTS, posse.BetaTS, posse.IMED


@pytest.mark.parametrize("policy", [example(cls) for cls in KINDS], ids=lambda policy: policy.label)
def test_every_kind_of_policy_over_time(policy):
    """Means that change, late rewards and forgetting; with a player that may be absent while its rewards come."""
    late = posse.simulation.Feedback(2, 3)
    who = schedule.Random([0.9, 0.5, 0.7])
    assert_same(over_time(), dataclasses.replace(policy, forget=12), 16, feedback=late, schedule=who)


@pytest.mark.parametrize("anytime", [False, True])
def test_one_thing_over_time_alone(anytime, monkeypatch):
    """In pieces, so that launches begin between changes; beside problems and policies without any."""
    monkeypatch.setattr(cuda, "FIRST_PIECE", 1)
    policies = [posse.RobustAggTS(0.3), posse.RobustAggTS(0.3, forget=9)]
    assert_same([*over_time(), a_problem(3, 3)], policies, 12, anytime=anytime)
    for late in ({"delay": 3}, {"batch": 4}, {"delay": 99}):
        feedback = posse.simulation.Feedback(**late)
        assert_same(a_problem(), [posse.IndUCB(), posse.RobustAggTS(0.3)], 9, anytime=anytime, feedback=feedback)


def test_a_block_for_each_run_over_time(monkeypatch):
    monkeypatch.setattr(cuda, "WARP", 1)
    late = posse.simulation.Feedback(1, 2)
    policies = [posse.RobustAggTS(0.3, forget=10), posse.IndTSV(forget=10), posse.RobustAgg(0.3, forget=10)]
    assert_same(over_time(), policies, 12, feedback=late)


def test_a_batch_that_is_too_large():
    large = posse.simulation.Feedback(batch=200_000)
    with pytest.raises(ValueError, match=r"batches of 600000 rewards, but a GPU adds up at most 524287; use the CPU"):
        posse.simulate(a_problem(), posse.IndUCB(), 300_000, backend="cuda", feedback=large)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 19), (35, 2)], ids=str)
def test_few_and_many_players_and_arms(shape):
    """One of each; more arms than two blocks of random words; more players than a warp has lanes."""
    assert_same(a_problem(*shape), [posse.RobustAggTS(0.5), posse.RobustAgg(0.5)], 3 if shape[0] > 9 else 12)


@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.RobustPosseTS(0.9)], ids=str)
def test_a_summary_of_more_players_than_a_warp_has_lanes(policy, monkeypatch):
    """In a large block, where a warp adds up a sum over players, the last of whom do not fill it."""
    monkeypatch.setattr(cuda, "BLOCK", 32)
    assert_same(a_problem(35, 3), policy, 4)


@pytest.mark.parametrize("anytime", [False, True])
def test_a_block_for_each_run(anytime, monkeypatch):
    """As runs with many players have it, with several groups of threads for each."""
    monkeypatch.setattr(cuda, "WARP", 1)
    assert_same(a_problem(), [posse.RobustAggTS(0.3), posse.IndTSV()], 8, anytime=anytime)


@pytest.mark.parametrize("anytime", [False, True])
def test_many_runs_side_by_side(anytime, monkeypatch):
    """Several in a block, the last of which has a run less, beside a policy whose runs do not wait for each other."""
    monkeypatch.setattr(cuda, "MANY_RUNS", 0)
    policies = [posse.RobustAggTS(0.3), posse.HierTS(0.1), posse.IndTSV()]
    assert_same(a_problem(), policies, 8, anytime=anytime, replications=3)


def test_problems_and_replications_in_pieces(monkeypatch):
    """Several problems, some replications, and a first launch of a single round."""
    monkeypatch.setattr(cuda, "FIRST_PIECE", 1)
    problems = [a_problem(seed=seed) for seed in (1, 2)]
    assert_same(problems, [posse.RobustAggTS(0.3), posse.RobustAgg(0.3)], 10, replications=[2, 0])


def test_counters_that_do_not_fit_into_shared_memory(monkeypatch):
    monkeypatch.setattr(cuda, "SHARED_BYTES", 8)
    assert_same(a_problem(), posse.IndTS(), 12)


def test_less_memory_makes_smaller_batches(monkeypatch):
    tries = []
    allocate = cuda._allocate

    def stingy(runs, shapes, stream):
        tries.append(runs)
        if runs > 2:
            raise MemoryError
        return allocate(runs, shapes, stream)

    monkeypatch.setattr(cuda, "_allocate", stingy)
    assert_same(a_problem(), posse.IndUCB(), 5, replications=5)
    assert set(tries) == {5, 2, 3, 1}


def test_not_even_one_run_fits(monkeypatch):
    def full(runs, shapes, stream):
        raise MemoryError("no room")

    monkeypatch.setattr(cuda, "_allocate", full)
    with pytest.raises(MemoryError, match="no room"):
        posse.simulate(a_problem(), posse.IndUCB(), 5, backend="cuda")


def test_it_can_be_interrupted_and_reports_progress(monkeypatch):
    monkeypatch.setattr(cuda, "FIRST_PIECE", 1)
    seen = []

    def stop(fraction):
        seen.append(fraction)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posse.simulate(a_problem(), posse.IndUCB(), 30, backend="cuda", progress=stop)
    assert len(seen) == 1
    assert 0 < seen[0] < 1
    assert_same(a_problem(), posse.IndUCB(), 5)


def test_auto_takes_the_gpu(monkeypatch):
    used = []
    run = cuda.run_on_gpu
    monkeypatch.setattr(cuda, "run_on_gpu", lambda *work: used.append(1) or run(*work))
    posse.simulate(a_problem(), posse.IndUCB(), 2, backend="auto")
    assert used


def test_a_wrong_kernel_would_be_noticed():
    """Negative control: a policy that differs by one term is told apart."""
    problem = a_problem()
    there = posse.simulate(problem, posse.IndUCB(2.1), 60, backend="cuda")
    here = posse.simulate(problem, posse.IndUCB(2.0), 60, backend="cpu")
    assert not np.array_equal(there.pulls, here.pulls)


def test_an_experiment_on_the_gpu_writes_the_same_results(tmp_path):
    spec = posse.experiments.parse(
        """
        [[study]]
        name = "small"
        horizon = 8
        checkpoints = 2
        problems = { family = "subpar", players = 2, arms = 3, n_subpar = [1, 2], count = 2 }
        policies = [{ name = "RobustAggTS", epsilon = "problem" }, { name = "IndUCB" }]
        [[study]]
        name = "groups"
        horizon = 8
        checkpoints = 2
        told = 10
        knows_groups = true
        problems = { family = "structured", players = 3, arms = 2, groups = 2, count = 2 }
        policies = [{ name = "IndUCB" }]
        """
    )
    there = posse.experiments.run(spec, tmp_path / "gpu", backend="cuda")
    here = posse.experiments.run(spec, tmp_path / "cpu")
    assert len(there) == 12
    ordered = [
        records.take(np.lexsort([records[name] for name in ("policy", "problem", "n_subpar", "study")]))
        for records in (there, here)
    ]
    assert ordered[0] == ordered[1]


@pytest.mark.skipif(SIMULATED, reason="of full size, for a real GPU")
@pytest.mark.parametrize("policy", [example(cls) for cls in SHIPPED], ids=lambda policy: policy.label)
def test_the_papers_problems_at_full_size(policy):
    """All 300 problems × 50,000 rounds. Rounding differs in logarithms alone, so no run is expected to differ."""
    problems = [problem for v in range(10) for problem in posse.generate.subpar(v, count=30, seed=1)]
    there = posse.simulate(problems, policy, 50_000, backend="cuda")
    here = posse.simulate(problems, policy, 50_000)
    assert (there.pulls != here.pulls).any(axis=(-1, -2)).sum() == 0
    assert [name for name in MEASURED if not np.array_equal(getattr(there, name), getattr(here, name))] == []
