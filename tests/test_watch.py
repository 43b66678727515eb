"""Watching a log: what alarms say, the words and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest

import posse
from posse.cli import main
from posse.insight import watch
from posse.insight.watching.api import guard_states
from posse.insight.watching.evidence import ShareEvidence
from posse.insight.watching.log_blocks import log_blocks
from posse.outcomes import Outcome

MEANS = {"red": 0.1, "blue": 0.3, "green": 0.2}


@pytest.fixture(scope="module")
def learner():
    random = np.random.default_rng(2)
    made = posse.Learner(
        posse.IndTS(),
        ["red", "blue", "green"],
        ["north", "south"],
        seed=4,
        holdout=0.2,
        control="red",
        shares={"red": (0.1, 0.5)},
        clock=lambda: 0.0,
    )
    for _ in range(1500):
        decision = made.choose(str(random.choice(["north", "south"])))
        if random.random() < 0.9:
            made.observe(decision, float(random.random() < MEANS[decision.arm]))
    return made


class TestWatch:
    def test_a_sound_experiment_has_no_alarm(self, learner):
        found = watch(learner)
        assert found.decisions == 1500
        assert found.alarms == ()
        assert [each.against for each in found.effects] == ["holdout", "red"]
        assert "choices follow their probabilities, as far as 1,500 decisions show" in str(found)
        assert "beyond" not in str(found)
        assert json.loads(json.dumps(found.to_dict()))["decisions"] == 1500
        assert len(found.figure().axes) == 4
        for check in found.checks:
            assert check.path[-1][0] == check.decisions
            assert sum(check.path[-1][1:]) == pytest.approx(0)

    def test_the_picture_shows_what_is_normal(self, learner):
        """At most as wide as the probabilities allow, and as wide as that where they are all the same."""
        found, blocks = watch(learner), log_blocks(learner)
        chances = blocks.choices.probabilities
        true = np.sqrt((chances * (1 - chances)).sum(axis=0).max())
        assert true <= found.checks[0].deviations[-1] < 1.3 * true
        alike = ShareEvidence(2, 0.01)
        alike.add(np.zeros(1000, int), np.tile([0.1, 0.9], (1000, 1)))
        assert list(alike.deviations())[-1] == pytest.approx(np.sqrt(1000 * 0.09))
        band = found.figure().axes[0].collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx(3 * found.checks[0].deviations[-1])

    def test_the_holdouts_law_keeps_the_limits(self, learner):
        blocks = log_blocks(learner)
        assert blocks.choices.equal[0] == pytest.approx([0.4, 0.3, 0.3])
        assert (blocks.choices.probabilities >= 0.2 * blocks.choices.equal - 1e-12).all()

    def test_answers_come_in_the_order_of_the_rewards(self):
        made = posse.Learner(posse.IndTS(), ["red", "blue"], ["north"], clock=lambda: 0.0)
        decisions = [made.choose("north") for _ in range(4)]
        for place in (2, 0, 3):
            made.observe(decisions[place], place / 4)
        assert log_blocks(made).answers.reward.tolist() == [0.5, 0.0, 0.75]

    def test_with_a_default_reward_the_order_is_that_of_the_decisions_and_arrivals_are_not_checked(self):
        times = iter(range(1000))
        made = posse.Learner(
            posse.IndTS(), ["red", "blue"], ["north"], default_reward=0.25, patience=500, clock=lambda: next(times)
        )
        decisions = [made.choose("north") for _ in range(5)]
        for place in (4, 1, 0):
            made.observe(decisions[place], place / 4)
        assert log_blocks(made).answers.reward.tolist() == [0.0, 0.25]
        found = watch(made)
        assert [each.about for each in found.checks] == ["choices"]
        assert "whether rewards arrive alike is not checked" in str(found)
        assert "neither a holdout nor a control" in str(found)

    def test_a_log_whose_arms_were_exchanged_is_found(self, learner, tmp_path, capsys):
        import pyarrow.parquet

        table = learner.log()
        arms = [
            "blue" if row % 8 == 0 else arm for row, arm in enumerate(table["arm"].to_pylist())
        ]  # what was done is not what was drawn
        place = table.schema.get_field_index("arm")
        pyarrow.parquet.write_table(table.set_column(place, "arm", [arms]), tmp_path / "log.parquet")
        assert main(["watch", str(tmp_path / "log.parquet"), "--level", "0.05"]) == 0
        shown = capsys.readouterr().out
        assert "ALARM: arm 'blue' is chosen too often" in shown
        assert "doubtful" in shown

    def test_rewards_are_in_their_own_units(self):
        made = [
            posse.Learner(posse.IndTS(), ["red", "blue"], ["north"], holdout=0.5, reward_range=each, clock=lambda: 0.0)
            for each in ((0, 1), (-5, 5))
        ]
        for each in made:
            for row in range(100):
                decision = each.choose("north")
                each.observe(decision, each.setup.low + (each.setup.high - each.setup.low) * (row % 3 == 0))
        small, large = (watch(each).effects[0] for each in made)
        assert [large.value, large.low, large.high] == pytest.approx(
            [10 * small.value, 10 * small.low, 10 * small.high]
        )

    def test_no_effect_is_larger_than_the_range_of_the_rewards(self):
        made = posse.Learner(posse.IndTS(), ["red", "blue"], ["north"], seed=1, holdout=0.5, reward_range=(0, 2))
        for row in range(8):
            made.observe(made.choose("north"), 2.0 * (row % 2))
        (effect,) = watch(made).effects
        assert (effect.low, effect.high) == (-2.0, 2.0)
        assert all(-2 <= low <= value <= high <= 2 for _, value, low, high in effect.path)

    def test_rewards_that_an_arm_loses_are_found(self):
        random = np.random.default_rng(3)
        made = posse.Learner(posse.IndTS(), MEANS, ["north"], seed=5, floor=0.1, clock=lambda: 0.0)
        for _ in range(1000):
            decision = made.choose("north")
            if random.random() < (0.2 if decision.arm == "green" else 0.9):
                made.observe(decision, 1.0)
        found = watch(made)
        assert [each.about for each in found.alarms] == ["rewards"]
        assert "ALARM: arm 'green' is among the decisions with rewards too rarely" in str(found)

    def test_guards_come_from_the_log(self):
        made = posse.Learner(
            posse.IndTS(), ["red", "blue"], ["north"], outcomes={"refund": Outcome(at_most=0.05)}, clock=lambda: 0.0
        )
        decisions = [made.choose("north") for _ in range(200)]
        for place, decision in enumerate(decisions):
            made.observe(decision, outcomes={"refund": float(decision.arm == "red" and place % 2)})
        red, blue = watch(made).guards
        assert (red.alarm, blue.alarm) == (True, False)
        assert red.decisions == sum(decision.arm == "red" for decision in decisions)
        assert blue.mean == 0 < 0.4 < red.mean
        assert made.alarms[0].arm == "red"
        assert "ALARM" in str(watch(made))

    def test_logs_without_probabilities_are_refused(self):
        with pytest.raises(ValueError, match="how likely every arm was"):
            watch({"player": ["a"], "arm": ["x"], "reward": [1.0], "propensity": [0.5]})
        with pytest.raises(ValueError, match="level=2"):
            watch({}, level=2)


def test_one_decision_shows_and_all_panels_have_the_same_decisions_below_each_other():
    learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=1, holdout=0.2, clock=lambda: 0.0)
    learner.observe(learner.choose("a"), 1.0)
    assert "as far as 1 decision shows (" in str(watch(learner))
    for _ in range(200):
        learner.observe(learner.choose("a"), 1.0)
    assert len({axes.get_xlim() for axes in watch(learner).figure().axes}) == 1


def test_guards_have_means_intervals_and_alarms():
    outcomes = {
        "refund": Outcome(at_most=0.05),
        "minutes": Outcome(range=(0, 60)),
        "stars": Outcome(range=(1, 5), at_least=3),
    }
    counts, sums = np.array([[100, 0]] * 3), np.array([[20.0, 0.0]] * 3)
    found = guard_states(outcomes, ["red", "blue"], counts, sums, {("stars", "red")}, 2)
    assert [(each.outcome, each.arm, each.alarm) for each in found] == [
        ("refund", "red", False),
        ("refund", "blue", False),
        ("stars", "red", True),
        ("stars", "blue", False),
    ]
    assert found[0].mean == 0.2
    assert found[0].low < 0.2 < found[0].high
    assert found[1].mean is None
    assert (found[1].low, found[1].high) == (0, 1)
    assert found[2].mean == pytest.approx(1.8)
    assert found[2].low < 1.8 < found[2].high
    assert not found[2].at_most


def test_an_arm_that_comes_later_leaves_the_intervals_of_guards_as_they_were():
    """Were they to grow, they would have been too narrow before: all looks together have one level."""
    outcomes = {"refund": Outcome(at_most=0.05)}
    before = guard_states(outcomes, ["red"], np.array([[100]]), np.array([[20.0]]), set(), 1)
    after = guard_states(outcomes, ["red", "blue"], np.array([[100, 9]]), np.array([[20.0, 1.0]]), set(), 1)
    assert after[:1] == before
    learner = posse.Learner(posse.IndTS(), ["red"], ["north"], outcomes=outcomes, clock=lambda: 0.0)
    for _ in range(20):
        learner.observe(learner.choose("north"), 1.0, {"refund": 0.0})
    found = watch(learner).guards
    learner.add_arm("blue")
    assert watch(learner).guards[:1] == found


def test_a_control_named_holdout_is_told_from_the_holdout():
    learner = posse.Learner(posse.IndTS(), ["holdout", "new"], ["web"], seed=1, holdout=0.2, control="holdout")
    for _ in range(40):
        learner.observe(learner.choose("web"), 1.0)
    found = watch(learner)
    assert [(each.against, each.control) for each in found.effects] == [("holdout", False), ("holdout", True)]
    assert str(found).count("the control 'holdout'") == 1
