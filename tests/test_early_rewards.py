"""With a default reward, a reward that is reported counts at once and a default only later: analyses wait for both."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pyarrow.csv
import pytest

import posse
from posse.insight import conclude, diagnose, evaluate, logs, watch
from posse.learner import Counts

DAY, RATE = 86_400.0, 0.1
SHOPS = [f"shop {number}" for number in range(4)]


def sold(days=14, each=40, seed=3, **options):
    """A learner to which only sales are reported, at once; nothing else within eight days is no sale."""
    now, random = [0.0], np.random.default_rng(seed)
    options = {"floor": 0.2, "default_reward": 0.0, "patience": 8 * DAY, **options}
    learner = posse.Learner(posse.IndTS(), ["a", "b", "c"], SHOPS, seed=1, clock=lambda: now[0], **options)
    for day in range(days):
        now[0] = day * DAY
        made = [decision for _ in range(each) for decision in learner.choose(SHOPS)]
        now[0] += DAY / 2
        learner.observe([(decision, 1.0) for decision in made if random.random() < RATE])
    return learner


@pytest.fixture(scope="module")
def learner():
    return sold()


def text(found):
    return " ".join(str(found).split())


def values(found):
    return [(each.low, each.high) for each in found.estimates if each.player is None and each.target in "abc"]


def test_rates_are_right_while_the_newest_decisions_wait(learner):
    assert all(low < RATE < high for low, high in values(evaluate(learner)))
    assert all(arm.low < RATE < arm.high for arm in conclude(learner).arms)
    found = diagnose(learner)
    assert found.pulls.sum() == 6 * 4 * 40  # six days are complete
    assert found.means.mean() == pytest.approx(RATE, abs=0.03)
    assert found.bound == 0


def test_counting_them_at_once_would_mislead(learner, monkeypatch):
    monkeypatch.setattr(logs, "early_rewards", lambda reward, is_decision: np.zeros(reward.size, bool))
    assert all(low > RATE for low, _ in values(evaluate(learner)))
    assert diagnose(learner).means.mean() > 1.7 * RATE


def test_all_analyses_leave_out_the_same_and_say_so(learner):
    early = int(learner.counts().pulls.sum()) - 6 * 4 * 40
    assert early > 50
    concluded = conclude(learner)
    assert concluded.answers == sum(arm.answers for arm in concluded.arms) == evaluate(learner).rows == 960
    assert watch(learner).answered == 960
    for found in (concluded, evaluate(learner), diagnose(learner), watch(learner)):
        assert f"{early} rewards of decisions made after the oldest one that still waits are left out" in text(found)
    assert f"{early} rewards" in concluded.page()
    assert concluded.to_dict()["notes"] == diagnose(learner).to_dict()["notes"]


def test_before_the_first_patience_is_over_there_is_nothing_to_say():
    young = sold(3, seed=4)  # its first decision sells nothing
    assert "no decision has a reward that counts" in conclude(young).verdict
    assert "are left out for now" in text(conclude(young))
    assert "nobody to compare" in text(diagnose(young))
    with pytest.raises(ValueError, match="are left out for now"):
        evaluate(young)


def test_rewards_of_the_past_and_outcomes_do_not_wait():
    learner = sold(1, 5, seed=4, outcomes={"refund": posse.Outcome()})
    learner.record([("shop 0", "a", 1.0), ("shop 1", "a", 0.0)])
    assert diagnose(learner).pulls.sum() == 2
    decision = learner.choose("shop 0")
    learner.observe(decision, outcomes={"refund": 1.0})
    assert evaluate(learner, decision.arm, reward="refund").rows == 1


def test_a_file_without_metadata_is_cut_as_well_but_not_one_from_elsewhere(learner, tmp_path):
    table = learner.log()
    plain = table.drop_columns(["probabilities"])
    pyarrow.csv.write_csv(plain, tmp_path / "log.csv")
    assert evaluate(tmp_path / "log.csv", adaptive=True).rows == 960
    assert diagnose(tmp_path / "log.csv").pulls.sum() == 960
    loans = plain.select(["player", "arm", "reward", "defaulted", "propensity"]).replace_schema_metadata(None)
    assert diagnose(loans).pulls.sum() == learner.counts().pulls.sum()


def test_a_learner_without_a_log_says_that_nothing_is_left_out():
    found = diagnose(sold(2, keep_log=False))
    assert "There is no log, so the newest rewards cannot be left out" in text(found)
    assert found.pulls.sum() > 0


def test_no_decision_is_given_up_where_a_default_reward_is_taken(tmp_path):
    learner = sold(12, waiting_limit=100)
    assert learner.ledger.given_up == 0
    complete = diagnose(learner)
    assert complete.pulls.sum() == 4 * 4 * 40
    assert complete.means.mean() == pytest.approx(RATE, abs=0.04)
    learner.save(tmp_path / "learner.json")
    loaded = posse.Learner.load(tmp_path / "learner.json", clock=lambda: 11 * DAY)
    again = posse.Learner.replay(learner.log(), clock=lambda: 11 * DAY)
    for other in (loaded, again, sold(12)):
        np.testing.assert_array_equal(other.counts().pulls, learner.counts().pulls)
        assert len(other.ledger.waiting) == len(learner.ledger.waiting) > 100
    without = sold(2, 20, waiting_limit=100, default_reward=None, patience=None)  # negative control
    assert without.ledger.given_up > 0


def test_a_log_of_before_in_which_such_decisions_were_given_up_is_called_wrong(learner):
    table = learner.log()
    about = json.loads(table.schema.metadata[b"posse"]) | {"given_up": 77}
    table = table.replace_schema_metadata({"posse": json.dumps(about)})
    for found in (conclude(table), evaluate(table), diagnose(table), watch(table)):
        assert "77 decisions were given up by an older posse" in text(found)


# ---------------------------------------------------------------- a policy that forgets


def test_what_a_policy_forgets_counts_for_all_analyses_and_where_there_is_no_log_they_say_so():
    """Guarantees are about all rewards: what is left of them is new with every half-life, and some day misleads."""

    def forgetful(**options):
        policy = posse.IndTS(forget=50)
        learner = posse.Learner(policy, ["a", "b"], SHOPS, seed=1, holdout=0.2, clock=lambda: 0.0, **options)
        for number in range(120):
            learner.observe(dict.fromkeys(learner.choose(SHOPS), number % 2))
        return learner

    learner = forgetful()
    assert learner.counts().pulls.sum() < conclude(learner).answers == diagnose(learner).pulls.sum()
    found = diagnose(forgetful(keep_log=False))
    assert found.pulls.sum() < conclude(learner).answers
    assert "no interval or alarm is guaranteed at more than one look" in text(found)


# ---------------------------------------------------------------- how much rewards vary


@pytest.fixture(scope="module")
def rates():
    """Rates of a day near 3 %, which differ between shops, in steps of the learner's grid."""
    learner = posse.Learner(posse.IndTS(), ["a", "b"], SHOPS, seed=1, floor=0.3, clock=lambda: 0.0)
    random = np.random.default_rng(5)
    for _ in range(30):
        for decision in learner.choose(SHOPS):
            better = 0.02 * (decision.arm == "b") * (decision.player in SHOPS[:2])
            learner.observe(decision, random.binomial(400, 0.03 + better) / 400)
    return learner


def test_a_learner_and_its_log_agree(rates):
    one, other = diagnose(rates), diagnose(rates.log())
    assert one.model.contrast_p == pytest.approx(other.model.contrast_p, rel=1e-3)
    assert one.model.contrast_p < 1e-4
    assert one.effect == pytest.approx(other.effect, abs=1e-5)


def test_counts_alone_say_what_they_take_for_granted(rates):
    counts = rates.counts()
    bare = Counts(counts.players, counts.arms, counts.pulls, counts.sums)
    found = diagnose(bare)
    assert "Counts alone do not say how much rewards vary" in text(found)
    assert found.model.contrast_p > 0.05  # as if rewards were 0 and 1
    assert "Counts alone" not in text(diagnose(counts))
    assert diagnose(SimpleNamespace(counts=lambda: counts)).model.contrast_p < 1e-4


def test_another_range_changes_squares_with_it(rates):
    one, other = diagnose(rates.counts(), reward_range=(-1, 4)), diagnose(rates.log(), reward_range=(-1, 4))
    np.testing.assert_allclose(one.data.counts.squares, other.data.counts.squares, rtol=1e-6)
