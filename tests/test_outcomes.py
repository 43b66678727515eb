"""Outcomes beside the reward: reported at any time, counted once, kept in logs and files, guarded by their bounds."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest

import posse
from posse.confidence import STEPS, evidence_above
from posse.insight import evaluate
from posse.learner import ConflictingReward, UnknownDecision
from posse.outcomes import Alarm, Outcome, declared

ARMS = ["tea", "coffee", "cocoa"]
OUTCOMES = {"refund": Outcome(at_most=0.1, action="retire"), "minutes": {"range": (0, 60), "at_least": 20}, "note": {}}


def new(**options):
    options = {"arms": ARMS, "players": ["north", "south"], "seed": 3, "outcomes": OUTCOMES, **options}
    return posse.Learner(posse.IndTS(), clock=lambda: 1000.0, **options)


def driven(steps=250, bad="coffee", **options):
    """A learner whose decisions have outcomes in any order: of one arm there are many refunds."""
    learner, chance, waiting = new(**options), random.Random(5), []
    for _ in range(steps):
        decision = learner.choose(chance.choice(["north", "south"]))
        waiting.append(decision)
        learner.observe(decision, outcomes={"refund": chance.random() < (0.6 if decision.arm == bad else 0.05)})
        if chance.random() < 0.7:
            late = waiting.pop(chance.randrange(max(len(waiting) - 10, 0), len(waiting)))
            learner.observe(late, chance.random() < 0.5, {"minutes": 30 + 30 * chance.random()})
        elif waiting:
            learner.observe(waiting[0], outcomes={"note": 1})
    return learner


# ---------------------------------------------------------------- the guard, beside an oracle


def slow_evidence(values, outcome):
    """The mixture's product, factor by factor, as posse/confidence.py has it."""
    bound = outcome.on_unit(outcome.bound)
    units = [outcome.on_unit(value) for value in values]
    if outcome.at_least is not None:
        bound, units = 1 - bound, [1 - unit for unit in units]
    total = 0.0
    for step in STEPS.tolist():
        odds = bound / (1 - bound) * math.exp(step)
        theta, product = odds / (1 + odds), 1.0
        for unit in units:
            product *= (theta / bound) ** unit * ((1 - theta) / (1 - bound)) ** (1 - unit)
        total += product / len(STEPS)
    return total


def test_alarms_come_when_the_oracle_says_so():
    learner, chance = new(), random.Random(1)
    outcomes, values, raised, offered = declared(OUTCOMES), {}, [], set(ARMS)
    for _ in range(220):
        decision = learner.choose("north")
        told = {"refund": float(chance.random() < {"tea": 0.02, "coffee": 0.5, "cocoa": 0.3}[decision.arm])}
        told |= {"minutes": chance.random() * {"tea": 20, "coffee": 60, "cocoa": 60}[decision.arm], "note": 1.0}
        learner.observe(decision, chance.random() < 0.5, told)
        for name in ("refund", "minutes"):
            values.setdefault((name, decision.arm), []).append(told[name])
            found = slow_evidence(values[name, decision.arm], outcomes[name])
            if found >= len(ARMS) * 2 / 0.05 and (name, decision.arm) not in raised:
                raised.append((name, decision.arm))
                if name == "refund" and len(offered) > 1:
                    offered.discard(decision.arm)
        assert [each[:2] for each in learner.alarms] == raised
        assert set(learner.arms) == offered
    assert {name for name, _ in raised} == {"refund", "minutes"}  # both kinds of bounds
    assert len(offered) < len(ARMS)
    kinds = [(change["event"], change["kind"]) for change in learner.changes]
    assert (learner.alarms[0].event, "alarm") in kinds
    assert (learner.alarms[0].event + 1, "retire arm") in kinds or learner.alarms[0].outcome == "minutes"


def test_an_alarm_is_raised_once_and_a_retired_arm_may_come_back():
    learner = driven()
    assert learner.alarms == (Alarm("refund", "coffee", learner.alarms[0].event),)
    assert learner.arms == ("tea", "cocoa")
    learner.add_arm("coffee")
    for _ in range(30):
        learner.observe(learner.choose("north", available=["coffee"]), outcomes={"refund": 1})
    assert len(learner.alarms) == 1
    assert "coffee" in learner.arms


def test_the_last_arm_is_never_retired():
    learner = new(arms=["only"], outcomes={"refund": Outcome(at_most=0.01, action="retire")})
    for _ in range(20):
        learner.observe(learner.choose("north"), outcomes={"refund": True})
    assert [each.arm for each in learner.alarms] == ["only"]
    assert learner.arms == ("only",)


def test_false_alarms_are_rare_at_every_look_and_a_naive_test_has_many():
    rng, experiments, looks, bound = np.random.default_rng(2), 600, 400, 0.1
    values = rng.random((experiments, looks)) < bound
    counts, sums = np.arange(1, looks + 1), values.cumsum(axis=1)
    ever = (evidence_above(counts, sums, bound) >= math.log(1 / 0.05)).any(axis=1).mean()
    assert ever <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / experiments)
    naive = (sums - counts * bound) / np.sqrt(counts * bound * (1 - bound)) > 1.645
    assert naive[:, 20:].any(axis=1).mean() > 0.2  # the control
    worse = (rng.random((experiments, looks)) < 0.25).cumsum(axis=1)
    assert (evidence_above(counts, worse, bound)[:, -1] >= math.log(1 / 0.05)).mean() > 0.9


# ---------------------------------------------------------------- reports


def test_outcomes_come_at_any_time_and_are_counted_once():
    learner = new()
    decision = learner.choose("north")
    assert learner.observe(decision, outcomes={"refund": False}) == 1
    assert learner.observe(decision, 1.0, {"refund": 0, "minutes": 30}) == 1
    assert learner.observe(decision.id, outcomes={"note": 1}) == 1  # after the reward
    assert learner.observe(decision.id, 1, {"refund": 0.0, "minutes": 30, "note": True}) == 0
    assert learner.log().select(["reward", *OUTCOMES]).to_pylist() == [
        {"reward": 1.0, "refund": 0.0, "minutes": 30.0, "note": 1.0}
    ]


def test_a_wrong_report_changes_nothing():
    learner = new()
    first, second = (learner.choose("north") for _ in range(2))
    learner.observe(first, 1.0, {"refund": 1})
    before = learner.log()
    for error, text, report in (
        (ConflictingReward, "already has refund=1; 0 is refused", (first, None, {"refund": 0})),
        (ConflictingReward, "already has the reward 1", (first, 0.0, {"minutes": 3})),
        (ValueError, "outcome 'price' was not declared; declared: refund, minutes, note", (first, None, {"price": 1})),
        (ValueError, r"minutes of decision .*=61.*expected a number in \[0, 60\]", (second, 1.0, {"minutes": 61})),
        (TypeError, "expected a number in", (second, None, {"minutes": "long"})),
        (UnknownDecision, "not known", ("7-00000000", None, {"minutes": 3})),
        (TypeError, "outcomes=3, but expected", (second, 1.0, 3)),
    ):
        with pytest.raises(error, match=text):
            learner.observe([(second, 1.0, {"minutes": 5}), report])
        with pytest.raises(error, match=text):
            learner.observe(*report)
    with pytest.raises(ConflictingReward, match="already has minutes=5; 6 is refused"):
        learner.observe([(second, None, {"minutes": 5}), (second, None, {"minutes": 6})])
    with pytest.raises(TypeError, match="reward=None"):
        learner.observe(second)
    with pytest.raises(TypeError, match="many decisions with one reward or outcome"):
        learner.observe([(second, 1.0)], outcomes={"minutes": 5})
    assert learner.log().equals(before)


class Frame:
    """A data frame of a library that writes NaN where nothing is."""

    def __init__(self, values):
        self.values, self.columns = values, list(values)

    def __getitem__(self, name):
        return self.values[name]


def test_batches_and_tables_have_a_column_for_each_outcome():
    made = new().choose(["north", "south"])
    rows = {"decision": [one.id for one in made], "reward": [1.0, None], "minutes": [None, 12.0], "weather": ["?", "!"]}
    expected = None
    for reports in (
        [(made[0], 1.0), (made[1], None, {"minutes": 12.0})],
        pa.table(rows),
        Frame({name: [math.nan if value is None else value for value in rows[name]] for name in list(rows)[:3]}),
    ):
        learner = new()
        learner.choose(["north", "south"])
        assert learner.observe(reports) == 2
        expected = expected or learner.log()
        assert learner.log().equals(expected)
    learner = new()
    learner.choose(["north", "south"])
    assert learner.observe(pa.table(rows).select(["decision", "minutes"]).slice(1)) == 1  # no column of rewards
    with pytest.raises(TypeError, match="reward of decision"):
        learner.observe(pa.table(rows).select(["decision", "reward"]))


def test_a_decision_that_was_given_up_still_takes_outcomes():
    learner = new(waiting_limit=2)
    made = [learner.choose("north") for _ in range(4)]
    learner.observe(made[2], 1.0)
    assert learner.observe(made[0], outcomes={"minutes": 10}) == 1
    with pytest.raises(UnknownDecision, match="given up when 2 newer ones waited"):
        learner.observe(made[0], 1.0)
    log = learner.log()
    assert log["observed"].to_pylist() == [-1, -1, 1, None]
    assert log["reward"].null_count == 3
    again = posse.Learner.replay(log, clock=lambda: 1000.0)
    assert again.log().equals(log)
    assert again.observe(made[1], outcomes={"minutes": 10}) == 1
    with pytest.raises(UnknownDecision, match="given up"):
        again.observe(made[1], 1.0)
    assert evaluate(log, "tea").missing == 3


def test_memory_is_bounded_without_a_log():
    learner = new(waiting_limit=10, keep_log=False)
    for number in range(100):
        decision = learner.choose("north")
        learner.observe(decision, 1.0 if number % 2 else None, {"refund": 0, "minutes": 30})
    assert (len(learner.ledger.answers), len(learner.ledger.waiting)) == (10, 9)
    assert len(learner.ledger.outcomes) <= 2 * 20
    assert learner.state.guard.tallies[0].sum() == 200


# ---------------------------------------------------------------- logs and files


def test_a_log_and_a_file_bring_everything_back(tmp_path):
    learner = driven(waiting_limit=30)
    assert learner.alarms
    learner.save(tmp_path / "learner.json")
    log = learner.log()
    for again in (
        posse.Learner.load(tmp_path / "learner.json", clock=lambda: 1000.0),
        posse.Learner.replay(log, clock=lambda: 1000.0),
    ):
        assert again.log().equals(log, check_metadata=True)
        assert again.alarms == learner.alarms
        assert np.array_equal(again.state.guard.tallies, learner.state.guard.tallies)
        assert again.ledger.outcomes == learner.ledger.outcomes
        assert dict(again.ledger.answers) == dict(learner.ledger.answers)
        assert again.probabilities("north") == learner.probabilities("north")


def test_replay_does_not_decide_anew():
    """What the log says happened: an alarm that it does not have is not raised, and one that it has is."""
    log = driven().log()
    about = json.loads(log.schema.metadata[b"posse"])
    about["setup"]["outcomes"][0][1]["at_most"] = 0.9  # nothing would be shown to cross this
    again = posse.Learner.replay(log.replace_schema_metadata({"posse": json.dumps(about)}))
    assert [each.arm for each in again.alarms] == ["coffee"]
    about["setup"]["outcomes"] = [["price", {}]]
    with pytest.raises(ValueError, match="the log has no column 'price'"):
        posse.Learner.replay(log.replace_schema_metadata({"posse": json.dumps(about)}))


def test_outcomes_do_not_change_what_is_decided():
    plain, told = new(outcomes=None), new(outcomes={"minutes": {"range": (0, 60)}})
    for _ in range(50):
        one, other = plain.choose("north"), told.choose("north")
        assert one == other
        plain.observe(one, 1.0)
        told.observe(other, 1.0, {"minutes": 12})
    assert plain.log().equals(told.log().drop_columns(["minutes"]))


# ---------------------------------------------------------------- declarations


@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ({"reward": {}}, "outcome 'reward' has the name of a column of the log"),
        ({"id": {}}, "outcome 'id' has the name of a column"),
        ({"region": {}}, "outcome 'region' has the name of a column"),
        ({"a": {"at_most": 2}}, r"outcome 'a': at_most=2, but expected a number in \[0, 1\]"),
        ({"a": {"at_least": 1, "at_most": 0}}, "expected one bound or none"),
        ({"a": {"action": "retire"}}, "without a bound"),
        ({"a": {"action": "stop", "at_most": 1}}, "action='stop', but expected 'alarm' or 'retire'"),
        ({"a": {"range": (1, 0)}}, r"range=\(1, 0\), but expected"),
        ({"a": {"range": 1}}, "range=1, but expected"),
        ({"a": {"most": 1}}, "expected an Outcome, or some of range, at_most"),
        ({" ": {}}, "outcome ' ', but a name has"),
        (["refund"], r"outcomes=\['refund'\], but expected"),
        ({str(number): {} for number in range(21)}, "21 outcomes, but expected at most 20"),
    ],
)
def test_a_wrong_declaration_is_refused(outcomes, error):
    with pytest.raises((ValueError, TypeError), match=error):
        posse.Learner(arms=["a"], attributes={"region": "category"}, outcomes=outcomes)
