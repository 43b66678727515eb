"""Limits on arms' shares, a control and a burn-in: the rule, what is drawn, what is refused, and what logs say."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from scipy import stats
from sizes import FULL
from slow_races import limited

import posse
from posse.insight.evaluation.api import evaluate
from posse.learner import kernel
from posse.learner.shares import check_shares, equal_shares
from small_learner import ARMS, new, state

SHARES = {"tea": (0.05, 0.3), "coffee": 0.2}


def random_case(chance):
    """Chances of winning and limits of one to six arms, often with zeros, ties, fixed shares and too little room."""
    arms = chance.randint(1, 6)
    wins = [chance.choice([0.0, 1.0, 1e-12, chance.random(), chance.random() ** 9]) for _ in range(arms)]
    wins = [each / (sum(wins) or 1.0) for each in wins] if any(wins) else [1 / arms] * arms
    least = [chance.choice([0.0, 0.0, chance.random() / arms]) for _ in range(arms)]
    most = [chance.choice([low, 1.0, 1.0, low + (1 - low) * chance.random() / 2]) for low in least]
    return wins, least, most


def limited_fast(wins, least, most):
    share = np.full(len(wins), math.nan)
    kernel.limit(np.array(least), np.array(most), np.array(wins), share)
    return share.tolist()


class TestRule:
    def test_it_is_the_one_that_slow_python_follows(self):
        chance = random.Random(1)
        for _ in range(5000 if FULL else 1000):
            wins, least, most = random_case(chance)
            share = limited_fast(wins, least, most)
            assert share == pytest.approx(limited(wins, least, most), abs=1e-12)
            assert sum(share) == pytest.approx(1, abs=1e-12)
            grown = max(1.0, 1 / sum(most)) if sum(most) else math.inf
            for low, each, high in zip(least, share, most, strict=True):
                assert low - 1e-15 <= each <= high * grown + 1e-15 or grown == math.inf

    @pytest.mark.parametrize(
        ("wins", "least", "most", "expected"),
        [
            ([0.7, 0.2, 0.1], [0.1] * 3, [1.0] * 3, [0.59, 0.24, 0.17]),  # only a floor
            ([0.7, 0.2, 0.1], [0.0] * 3, [0.4, 1.0, 1.0], [0.4, 0.4, 0.2]),  # 0.3 too much, two to one
            ([0.8, 0.1, 0.1], [0.0] * 3, [0.4, 0.3, 1.0], [0.4, 0.3, 0.3]),
            ([0.9, 0.1, 0.0], [0.0] * 3, [0.4, 0.2, 1.0], [0.4, 0.2, 0.4]),
            ([1.0, 0.0, 0.0], [0.0] * 3, [0.4, 0.2, 0.6], [0.4, 0.15, 0.45]),  # nothing is wanted: by room
            ([0.9, 0.1], [0.0, 0.0], [0.2, 0.3], [0.4, 0.6]),  # too little room: greatest shares grow
            ([0.5, 0.5], [0.0, 0.0], [0.0, 0.0], [0.5, 0.5]),
        ],
    )
    def test_by_hand(self, wins, least, most, expected):
        assert limited_fast(wins, least, most) == pytest.approx(expected, abs=1e-12)

    def test_without_named_arms_probabilities_are_what_they_were_bit_for_bit(self):
        """A floor and a holdout mix as ever; limits that say the same agree, but not in the last bit."""
        learner = new(posse.IndTS(), floor=0.05, holdout=0.1)
        learner.record([("north", "tea", 1.0)] * 3 + [("north", "cocoa", 0.0)])
        bare = new(posse.IndTS())
        bare.record([("north", "tea", 1.0)] * 3 + [("north", "cocoa", 0.0)])
        uniform, rest = 0.1 / 3 + (1 - 0.1) * 0.05, (1 - 0.1) * (1 - 3 * 0.05)
        for arm, share in bare.probabilities("north").items():
            assert learner.probabilities("north")[arm] == uniform + rest * share
        before = learner.probabilities("north")
        learner.set_shares(dict.fromkeys(ARMS, (0.05, 1.0)))
        assert learner.probabilities("north") == pytest.approx(before, abs=1e-14)


def p_value(counts, shares):
    return stats.chisquare(counts, np.array(shares) * sum(counts)).pvalue


def counted(decisions):
    return [sum(decision.arm == arm for decision in decisions) for arm in ARMS]


class TestDecisions:
    def test_frequencies_are_the_logged_probabilities_within_the_limits(self):
        learner = new(posse.IndTS(), shares=SHARES, control="coffee", holdout=0.3, seed=2)
        learner.record([("north", "tea", 1.0)] * 60 + [("north", "cocoa", 0.4)] * 50)
        decisions = [learner.choose("north") for _ in range(4000)]
        shares = list(decisions[0].probabilities.values())
        assert shares == pytest.approx([0.3, 0.2, 0.5], abs=1e-12)
        assert p_value(counted(decisions), shares) > 1e-4
        held = [decision for decision in decisions if decision.holdout]
        assert stats.binomtest(len(held), len(decisions), 0.3).pvalue > 1e-4
        equal = limited([1 / 3] * 3, [0.05, 0.2, 0.0], [0.3, 0.2, 1.0])
        assert p_value(counted(held), equal) > 1e-4
        assert p_value(counted(held), [1 / 3] * 3) < 1e-9  # the negative control
        pair = [learner.choose("north", available=["coffee", "tea"]) for _ in range(2000)]
        assert pair[0].probabilities == pytest.approx({"tea": 0.6, "coffee": 0.4})  # 0.3 and 0.2 cannot fill the whole
        assert p_value(counted(pair)[:2], [0.6, 0.4]) > 1e-4

    def test_the_first_decisions_have_equal_shares_and_rest_on_nothing(self):
        learner = new(posse.HierTS(0.1), burn_in=600, floor=0.01, seed=3)
        learner.record([(player, "tea", 1.0) for player in learner.players for _ in range(300)])
        learner.record([(player, arm, 0.0) for player in learner.players for arm in ARMS[1:] for _ in range(300)])
        decisions = [one for _ in range(220) for one in learner.choose(["north", "south", "east"])]
        first, rest = decisions[:600], decisions[600:]
        assert {tuple(one.probabilities.values()) for one in first} == {(0.01 + 0.97 * (1 / 3),) * 3}
        assert p_value(counted(first), [1 / 3] * 3) > 1e-4
        assert {one.shared for one in first} == {0.0} != {one.shared for one in rest}
        assert p_value(counted(rest), [1 / 3] * 3) < 1e-9  # the negative control
        assert rest[0].probabilities["tea"] > 0.9

    def test_a_ramp_changes_the_next_decision_and_nothing_before(self):
        learner = new(posse.IndTS(), shares={"tea": 0.05})
        assert learner.probabilities("north")["tea"] == 0.05
        events = learner.events
        learner.set_shares({"tea": (0.2, 0.4)})
        assert 0.2 <= learner.choose("north").probabilities["tea"] <= 0.4
        assert (learner.shares, learner.events) == ({"tea": (0.2, 0.4)}, events + 1)
        assert learner.setup.shares == {"tea": (0.05, 0.05)}
        learner.set_shares({})
        assert learner.probabilities("north")["tea"] == pytest.approx(1 / 3)

    def test_arms_come_and_go_within_the_limits(self):
        learner = new(posse.IndTS(), shares={"tea": 0.5, "coffee": 0.3, "cocoa": 0.2})
        learner.retire_arm("coffee")
        assert learner.probabilities("north") == pytest.approx({"tea": 5 / 7, "cocoa": 2 / 7})
        learner.retire_arm("cocoa")
        assert learner.probabilities("north") == {"tea": 1.0}
        learner.add_arm("cocoa")  # though the greatest shares of those that are here are less than 1
        assert learner.probabilities("north") == pytest.approx({"tea": 5 / 7, "cocoa": 2 / 7})
        learner.add_arm("juice")
        assert learner.probabilities("north") == pytest.approx({"tea": 0.5, "cocoa": 0.2, "juice": 0.3})
        with pytest.raises(ValueError, match=r"greatest shares of the 3 arms add up to 0\.9, but expected at least 1"):
            learner.set_shares({"tea": 0.5, "cocoa": 0.2, "juice": (0.0, 0.2)})
        learner.add_arm("coffee")
        assert learner.probabilities("north") == pytest.approx({"tea": 0.5, "coffee": 0.3, "cocoa": 0.2, "juice": 0.0})


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"shares": {"juice": 0.1}}, "shares has the arm 'juice', but the arms are tea, coffee(,| and) cocoa"),
            ({"shares": {"tea": 0.6, "coffee": (0.5, 1)}}, r"least shares of the 3 arms add up to 1\.1"),
            ({"shares": {"tea": 0.6}, "floor": 0.3}, r"least shares of the 3 arms add up to 1\.2"),
            ({"shares": dict.fromkeys(ARMS, (0, 0.3))}, r"greatest shares of the 3 arms add up to 0\.9"),
            ({"shares": {"tea": (0.3, 0.2)}}, r"share of arm 'tea' is \(0\.3, 0\.2\), but the least cannot be above"),
            ({"shares": {"tea": (0.3,)}}, r"share of arm 'tea' is \(0\.3,\), but expected one number or \(least"),
            ({"shares": {"tea": -0.1}}, r"share of arm 'tea'=-0\.1, but expected"),
            ({"shares": {"tea": "half"}}, "share of arm 'tea'='half', but expected"),
            ({"shares": [0.3]}, r"shares=\[0\.3\], but expected {arm: share}"),
            ({"control": "juice"}, "control='juice', but the arms are tea, coffee"),
            ({"burn_in": -1}, "burn_in=-1"),
            ({"burn_in": 2.5}, "burn_in=2.5"),
        ],
    )
    def test_a_set_up_that_cannot_be_kept(self, given, message):
        with pytest.raises((ValueError, TypeError), match=message):
            new(posse.IndTS(), **given)
        if given.keys() == {"shares"}:
            learner = new(posse.IndTS(), shares={"tea": 0.1})
            before = state(learner)
            with pytest.raises((ValueError, TypeError), match=message):
                learner.set_shares(given["shares"])
            assert (state(learner), learner.shares, learner.changes) == (before, {"tea": (0.1, 0.1)}, [])

    def test_an_arm_that_is_one_too_many(self):
        learner = new(posse.IndTS(), shares={"tea": 0.5}, floor=0.2)
        with pytest.raises(ValueError, match=r"least shares of the 4 arms add up to 1\.1"):
            learner.add_arm("juice")
        assert learner.arms == tuple(ARMS)

    def test_a_share_has_no_sign(self):
        """Or a probability in an answer, or in a log, would read −0.0."""
        assert str(check_shares({"tea": -0.0, "coffee": (-0.0, 1)})) == "{'tea': (0.0, 0.0), 'coffee': (0.0, 1.0)}"

    def test_shares_that_add_up_to_1_but_for_rounding(self):
        learner = posse.Learner(posse.IndTS(), range(10), ["a"], shares=dict.fromkeys(range(10), 0.1))
        assert learner.choose("a").probabilities == pytest.approx(dict.fromkeys(map(str, range(10)), 0.1))
        assert new(posse.IndTS(), shares={"tea": 0.7, "coffee": 0.2, "cocoa": 0.1}).choose("north")


def adaptive_log(seed, rounds=300, **options):
    """A learner's log under limits that change halfway, with its true means."""
    rng, means = np.random.default_rng(seed), {"tea": 0.6, "coffee": 0.4, "cocoa": 0.5}
    learner = posse.Learner(posse.IndTS(), ARMS, ["a", "b"], seed=seed, clock=lambda: 0.0, **options)
    for number in range(rounds):
        if number == rounds // 2:
            learner.set_shares({"tea": (0.1, 0.15), "coffee": 0.3})
        for decision in learner.choose(["a", "b"]):
            learner.observe(decision, float(rng.random() < means[decision.arm]))
    return learner.log(), means


class TestLogs:
    def test_intervals_of_judged_policies_hold(self):
        """With limits, a burn-in and a holdout, by all decisions and by those held out alone."""
        runs, level = (300, 0.1) if FULL else (30, 0.1)
        missed = {True: 0, False: 0}
        for seed in range(runs):
            log, means = adaptive_log(seed, shares={"tea": (0.05, 0.2)}, burn_in=100, holdout=0.4)
            for holdout in missed:
                found = evaluate(log, [*ARMS, "uniform"], holdout=holdout, level=level, estimator="ips")
                truths = means | {"uniform": 0.5}
                missed[holdout] += sum(
                    not found.of(arm).low <= mean <= found.of(arm).high for arm, mean in truths.items()
                )
        for count in missed.values():
            assert stats.binomtest(count, 4 * runs, level, alternative="greater").pvalue > 1e-4

    def test_held_out_decisions_follow_the_equal_shares_of_their_time(self):
        log, means = adaptive_log(1, 2000, shares={"tea": (0.05, 0.2)}, burn_in=100, holdout=0.4)
        about = json.loads(log.schema.metadata[b"posse"])
        rows = [row for row in log.to_pylist() if row["holdout"]]
        rounds = np.array([row["round"] for row in rows])
        equal = equal_shares(about, rounds, np.ones((len(rows), 3), bool))
        laws = limited([1 / 3] * 3, [0.05, 0, 0], [0.2, 1, 1]), limited([1 / 3] * 3, [0.1, 0.3, 0], [0.15, 0.3, 1])
        for law, part in zip(laws, (rounds <= 1000, rounds > 1000), strict=True):
            assert equal[part] == pytest.approx(np.tile(law, (part.sum(), 1)))
            counts = [sum(row["arm"] == arm for row, mine in zip(rows, part, strict=True) if mine) for arm in ARMS]
            assert p_value(counts, law) > 1e-4
        del about["setup"]["shares"]  # the negative control: nobody says what the holdout was drawn from
        about["changes"] = [change for change in about["changes"] if change["kind"] != "shares"]
        wrong = log.replace_schema_metadata({"posse": json.dumps(about)})
        misses = [
            not found.low <= means["tea"] <= found.high
            for found in (evaluate(each, "tea", holdout=True, estimator="ips").of("tea") for each in (log, wrong))
        ]
        assert misses == [False, True]

    def test_decisions_among_some_arms_are_judged_by_what_was_on_offer(self):
        learner = new(posse.IndTS(), holdout=1.0)
        decisions = [learner.choose("north", available=None if n % 2 else ["tea", "coffee"]) for n in range(400)]
        learner.observe({decision: float(decision.arm == "tea") for decision in decisions})
        found = evaluate(learner.log(), ["tea", "coffee"], holdout=True, estimator="ips")
        assert found.of("tea").low <= 1.0 <= found.of("tea").high
        assert found.of("tea").value == pytest.approx(1.0, abs=0.15)  # 5/6 if each arm had one third

    def test_a_saved_learner_and_a_replayed_log_have_the_limits_of_now(self, tmp_path):
        learner = new(posse.IndTS(), shares=SHARES, control="coffee", burn_in=2, clock=lambda: 0.0)
        learner.add_arm("juice")
        learner.set_shares({"juice": 0.25, "tea": (0.1, 0.2)})
        learner.choose("north")
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json", clock=lambda: 0.0)
        replayed = posse.Learner.replay(learner.log(), clock=lambda: 0.0)
        for other in (loaded, replayed):
            assert (other.shares, other.setup) == (learner.shares, learner.setup)
            assert other.log().equals(learner.log(), check_metadata=True)
        expected = learner.choose(["north", "south"])
        assert loaded.choose(["north", "south"]) == replayed.choose(["north", "south"]) == expected

    def test_what_is_not_used_is_not_in_the_set_up(self):
        assert not {"shares", "control", "burn_in"} & new(posse.IndTS()).setup.to_dict().keys()
