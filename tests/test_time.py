"""Means that change, late rewards and policies that forget, decision for decision as in the oracle, slow_time.py."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import FULL
from slow_time import SlowRun, kept, step_at

import posse
from high_ts import HighSummaryTS, HighTS
from posse import schedule
from posse.policies.state import fades_at
from posse.policies.statistics import part_of
from posse.simulation import Feedback, trace
from strategies import POLICIES, problems, schedules

SOME = "PosseTS", "RobustAggTS", "IndTSV", "HierTS", "BetaTS"  # one of each kind
EXAMPLES = 8 if os.environ.get("POSSE_SMALL") else 12
SWAP = posse.Problem([[0.9, 0.5, 0.1], [0.8, 0.6, 0.2]], changes={31: [[0.1, 0.5, 0.9], [0.2, 0.6, 0.8]]})


@st.composite
def changing(draw):
    first = draw(problems(max_players=4, max_arms=4))
    rounds = draw(st.lists(st.integers(2, 45), max_size=3, unique=True))
    chance = np.random.default_rng(draw(st.integers(0, 99)))
    changes = {t: chance.random(first.means.shape) for t in rounds}
    return posse.Problem(first.means, rewards=first.rewards, changes=changes)


feedbacks = st.builds(Feedback, st.integers(0, 9), st.integers(1, 9)) | st.just(Feedback())
half_lives = st.none() | st.integers(8, 60)


def assert_same(policy, problem, horizon, who, feedback, seed=0, anytime=False):
    slow = SlowRun(policy, problem, horizon, who, feedback, seed, anytime)
    fast = trace(problem, policy, horizon, seed=seed, schedule=who, anytime=anytime, feedback=feedback)
    for t, pulled in enumerate(slow.decided):
        assert {p: (fast.arms[t, p], fast.rewards[t, p]) for p in np.flatnonzero(fast.active[t])} == pulled, t + 1
    options = {"seed": seed, "schedule": who, "anytime": anytime, "feedback": feedback}
    result = posse.simulate(problem, policy, horizon, **options)
    assert result.final_regret.item() == pytest.approx(slow.regret, abs=1e-9)
    assert result.player_regret.sum() == pytest.approx(slow.regret, abs=1e-9)
    assert result.reward.item() == pytest.approx(np.nansum(fast.rewards))
    assert result.pulls.sum() == (fast.arms >= 0).sum()
    late = fast.arms[3 * horizon // 4 :]
    assert result.late_pulls.sum() == (late >= 0).sum()


@pytest.mark.parametrize("name", POLICIES if FULL else SOME)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_policy_over_time(name, data):
    problem, horizon = data.draw(changing()), data.draw(st.integers(1, 50))
    policy = dataclasses.replace(data.draw(POLICIES[name]), forget=data.draw(half_lives))
    who, feedback = data.draw(schedules(problem.players, horizon)), data.draw(feedbacks)
    assert_same(policy, problem, horizon, who, feedback, data.draw(st.integers(0, 99)), data.draw(st.booleans()))


@pytest.mark.parametrize("policy", [HighTS(forget=9), HighSummaryTS(forget=9)], ids=lambda policy: policy.label)
def test_statistics_of_a_users_own_are_forgotten_too(policy):
    assert_same(policy, SWAP, 60, schedule.Concurrent(), Feedback(2, 3))


@pytest.mark.parametrize("policy", [posse.PosseTS(forget=150), posse.RobustAggTS(0.2, forget=150)], ids=str)
def test_over_a_longer_run(policy):
    """More than 64 pulls of an arm, and more than one half-life."""
    problem = posse.generate.changing("drift", players=3, arms=3, every=90, times=5, step=0.2, seed=4)[0]
    assert_same(policy, problem, 500, schedule.Concurrent(), Feedback(5, 10))


def test_the_oracle_notices_a_wrong_engine():
    """Negative controls: one round more of delay, of a batch, of the half-life or of a segment."""

    def arms(forget=20, feedback=Feedback(4, 3), change=31):
        problem = posse.Problem(SWAP.means, changes={change: SWAP.at(99).means}, stream=1)
        return SlowRun(posse.PosseTS(forget=forget), problem, 60, schedule.Concurrent(), feedback).decided

    others = [arms(forget=21), arms(feedback=Feedback(5, 3)), arms(feedback=Feedback(4, 4)), arms(change=32)]
    assert all(arms() != other for other in others)


@given(st.integers(0, 2**29), st.integers(0, 2**24), st.integers(0, 7))
def test_forgetting_is_exact_and_keeps_means(n, mean, turn):
    values = [n, n * mean, n * mean // 3]
    left, *_ = kept(values, turn, 0)
    assert [part_of(value, left, n) for value in values] == kept(values, turn, 0)
    assert part_of(n * mean, left, n) == left * mean


def test_a_half_life_halves_and_nothing_stays_for_ever():
    """Eight steps, for pairs at every turn: large counts to a half, small ones so on average, and 1 to nothing."""
    left = {n: [] for n in (1, 2, 5, 1000)}
    for n, place in itertools.product(left, range(8)):
        values = [n, 5 * n, 5 * n]
        for step in range(1, 9):
            values = kept(values, place, step)
        left[n].append(values[0])
    assert left[1] == [0] * 8
    assert np.mean(left[5]) == pytest.approx(2.5, abs=0.5)
    assert left[1000] == pytest.approx([500] * 8, abs=2)


@given(st.integers(1, 500), st.integers(8, 300))
def test_a_half_life_has_eight_steps(t, half_life):
    assert fades_at(t, half_life) == (step_at(t, half_life) or 0)
    assert fades_at(half_life, half_life) == 8


def test_regret_is_against_the_best_arm_of_the_moment():
    """Known numbers: a deterministic problem on which nothing is learnt."""
    problem = posse.Problem([[0.5]], changes={11: [[0.9]], 21: [[0.1]]}, rewards="deterministic")
    result = posse.simulate(problem, posse.IndUCB(), 30, checkpoints=[10, 15, 30])
    assert result.regret.ravel().tolist() == [0, 0, 0]
    assert result.reward.item() == pytest.approx(5 + 9 + 1, abs=1e-5)
    two = posse.Problem([[1.0, 0.0]], changes={11: [[0.0, 1.0]]}, rewards="deterministic")
    never = Feedback(delay=1000)
    result = posse.simulate(two, posse.IndUCB(), 30, checkpoints=[10, 15, 30], feedback=never)
    assert result.pulls.ravel().tolist() == [30, 0]  # nothing ever arrives, so the first arm is pulled for ever
    assert result.regret.ravel().tolist() == [0, 5, 20]
    assert result.player_regret.item() == 20
    assert result.lock_ins().item() == 1


def test_a_changing_problem_is_a_value():
    same = posse.Problem(SWAP.means, changes=dict(SWAP.changes))
    assert same == SWAP == pickle.loads(pickle.dumps(SWAP))
    assert hash(same) == hash(SWAP)
    plain = posse.Problem(SWAP.means)
    assert plain != SWAP
    assert plain.stream != SWAP.stream
    assert SWAP.at(30).means.tolist() == SWAP.means.tolist() == SWAP.at(1).means.tolist()
    assert SWAP.at(31).means.tolist() == [[0.1, 0.5, 0.9], [0.2, 0.6, 0.8]]
    assert "1 change," in repr(SWAP)
    assert [first for first, _ in SWAP.segments] == [1, 31]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({1: [[0.5]]}, "round of a change=1, but expected a whole number of at least 2"),
        ({9: [[0.5, 0.5]]}, r"the change in round 9: means have shape \(1, 2\), but those of round 1 have \(1, 1\)"),
        ({9: [[1.5]]}, r"the change in round 9: means\[0, 0\]=1.5"),
        ([[0.5]], "expected {round: means"),
        (0, "changes=0, but expected {round: means"),
        ({2**63: [[0.5]]}, f"round of a change={2**63}, but expected a whole number of at least 2 and at most {2**56}"),
    ],
)
def test_changes_that_make_no_sense(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        posse.Problem([[0.5]], changes=changes)


def test_epsilon_holds_at_every_moment():
    later = {9: [[0.5], [0.9]]}
    assert posse.Problem([[0.5], [0.6]], changes=later).epsilon == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"the change in round 9: epsilon=0.2, but arm 0 differs by 0.4"):
        posse.Problem([[0.5], [0.6]], 0.2, changes=later)


def test_options_that_make_no_sense():
    with pytest.raises(ValueError, match="delay=-1, but expected"):
        Feedback(delay=-1)
    with pytest.raises(ValueError, match="batch=0, but expected"):
        Feedback(batch=0)
    with pytest.raises(TypeError, match="feedback=100, but expected"):
        posse.simulate(SWAP, posse.IndTS(), 10, feedback=100)
    with pytest.raises(ValueError, match="forget=7, but expected a whole number of at least 8"):
        posse.PosseTS(forget=7)


def test_labels_tell_what_forgets():
    assert posse.PosseTS(forget=500).label == "PosseTS(forget=500)"
    assert posse.RobustAggTS(0.1, forget=500).label == "RobustAgg-TS(0.1, forget=500)"


def test_results_with_other_feedback_are_not_merged():
    one, two = (posse.simulate(SWAP, posse.IndTS(), 10, feedback=Feedback(delay)) for delay in (0, 1))
    with pytest.raises(ValueError, match="cannot merge results with feedback"):
        one.merge(two)


@pytest.mark.parametrize("policy", [draw(forget=12) for draw in (posse.PosseTS, posse.IndUCB, posse.BetaTS)], ids=str)
def test_a_learner_that_is_told_each_round_at_once_is_where_the_simulator_is(policy):
    run = trace(SWAP, policy, 60)
    learner = posse.Learner(policy, ["a", "b", "c"], ["p", "q"], 60)
    for t in range(60):
        found = np.array([list(learner.indices(name).values()) for name in "pq"])
        np.testing.assert_allclose(found[..., 0], run.centers[t], rtol=1e-12)
        np.testing.assert_allclose(found[..., 1], run.scales[t], rtol=1e-12)
        learner.record([("pq"[p], "abc"[run.arms[t, p]], run.rewards[t, p]) for p in range(2)])


def test_a_learner_that_forgets_is_saved_and_replayed(tmp_path):
    learner = posse.Learner(posse.RobustAggTS(0.2, forget=10), ["a", "b"], ["p", "q"], seed=3)
    for number in range(23):
        learner.observe(learner.choose("pq"[number % 2]), number % 3 == 0)
    learner.save(tmp_path / "saved.json")
    again, replayed = posse.Learner.load(tmp_path / "saved.json"), posse.Learner.replay(learner.log())
    for other in (again, replayed):
        assert other.setup.policy == learner.setup.policy
        assert other.counts().pulls.tolist() == learner.counts().pulls.tolist()
        for number in range(9):
            assert other.probabilities("pq"[number % 2]) == learner.probabilities("pq"[number % 2])
    assert learner.counts().pulls.sum() < 23 == len(learner.log())


def test_the_order_of_rewards_within_a_step_does_not_matter():
    rewards = [("p", "a", 1.0), ("q", "a", 0.25), ("p", "b", 0.5), ("q", "b", 0.0), ("p", "a", 0.125)] * 8
    known = []
    for order in (rewards, rewards[::-1]):
        learner = posse.Learner(posse.RobustAgg(0.2, forget=320), ["a", "b"], ["p", "q"])
        for reward in order:
            learner.record([reward])
        known.append(learner.counts())
    assert known[0].pulls.tolist() == known[1].pulls.tolist() != [[16, 8], [8, 8]]
    assert known[0].sums.tolist() == known[1].sums.tolist()


SPEC = """
[[study]]
name = "over time"
horizon = 60
checkpoints = 2
feedback = ["at-once", { delay = [3, 5] }, { batch = 4 }]
problems = { family = "changing", kind = ["swap", "season"], every = 20, players = 2, arms = 3, count = 2 }
policies = [{ name = "IndTS" }, { name = "IndTS", forget = [10, 20] }]
"""


def test_a_spec_has_all_of_it(tmp_path):
    spec = posse.experiments.parse(SPEC)
    units = spec.units()
    assert {unit.feedback for unit in units} == {Feedback(), Feedback(3), Feedback(5), Feedback(batch=4)}
    assert [policy.label for policy in units[0].policies] == ["Ind-TS", "Ind-TS(forget=10)", "Ind-TS(forget=20)"]
    assert len({unit.id for unit in units}) == len(units) == 8
    records = posse.experiments.run(spec, tmp_path)
    late = records.where(policy="Ind-TS(forget=10)", schedule="Concurrent(); rewards 3 rounds late")
    (problem,) = posse.generate.changing("swap", players=2, arms=3, every=20)
    result = posse.simulate(problem, posse.IndTS(forget=10), 60, feedback=Feedback(3))
    assert result.final_regret.item() in late["final_regret"]
    assert np.isnan(records["regret_by_kind"]).all()


def test_units_without_any_of_it_keep_their_ids():
    text = SPEC.replace('feedback = ["at-once", { delay = [3, 5] }, { batch = 4 }]', "").replace(
        ", forget = [10, 20]", ", c2 = 2"
    )
    described = posse.experiments.parse(text).units()[0].describe()
    assert "feedback" not in described
    assert all("forget" not in policy for policy in described["policies"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ batch = 4 }", "{ batch = 0 }", r"line 6: .*batch=0, but expected a whole number of at least 1"),
        ("{ batch = 4 }", "{ bach = 4 }", r"line 6: .*expected 'at-once' or { delay = 100 } or { batch = 100 }"),
        ("[10, 20]", "2", r"line 8: .*forget=2, but expected a whole number of at least 8"),
        (
            '"season"',
            '"sesson"',
            r"line 7: .*kind='sesson' .did you mean season.., but expected 'swap', 'drift', 'season'",
        ),
        ("every = 20", "every = 0", r"line 7: .*every=0, but expected a whole number of at least 1"),
    ],
)
def test_mistakes_in_a_spec_are_named(old, new, message):
    with pytest.raises(posse.experiments.SpecError, match=message):
        posse.experiments.parse(SPEC.replace(old, new))


@pytest.mark.parametrize("kind", ["swap", "drift", "season"])
def test_families_that_change(kind):
    problems = posse.generate.changing(kind, players=3, arms=5, every=10, times=24, count=3, spread=0.1, seed=2)
    assert problems[:2] == posse.generate.changing(
        kind, players=3, arms=5, every=10, times=24, count=2, spread=0.1, seed=2
    )
    for problem in problems:
        assert [first for first, _ in problem.segments] == [1 + 10 * k for k in range(25)]
        tables = np.array([each.means for _, each in problem.segments])
        assert tables.min() >= 0.15 - 1e-12
        assert tables.max() <= 0.85 + 1e-12
        moved = np.abs(np.diff(tables, axis=0))
        assert moved.max() > 0
        if kind == "drift":
            assert moved.max() <= 0.1 + 1e-12
        else:
            assert tables[24] == pytest.approx(tables[0])
        if kind == "swap":
            assert (tables[1].mean(axis=0).argmax(), tables[0].mean(axis=0).argmax()) == (
                tables[0].mean(axis=0).argmin(),
                tables[1].mean(axis=0).argmin(),
            )
