"""posse conclude: which arm is shown to be the best, from a learner's log and from a trial's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from made_conclusions import ARMS, MEANS, PLAYERS, learned

import posse
from posse.cli import main
from posse.insight import conclude, watch
from posse.insight.conclusion import text
from posse.insight.watching.log_blocks import log_blocks
from posse.service.api.answers import ConclusionResult

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"


@pytest.fixture(scope="module")
def split():
    """Players with different best arms."""
    return learned(450)


def test_each_player_gets_the_arm_that_is_shown_to_be_its_best(split):
    found = conclude(split)
    assert [player.winner for player in found.players] == ["free", "today"]
    assert all(0 < player.since <= found.answers == 900 for player in found.players)
    assert found.winner is None  # on average over both, no arm is better by much
    assert found.verdict.startswith(
        "Ship free for north, and today for south: it is better than every other arm there."
    )
    assert [player.likeliest for player in found.players] == ["free", "today"]
    assert found.own_loss < found.ship_loss


def test_one_arm_for_everybody():
    found = conclude(learned(350, MEANS[:1].repeat(2, axis=0)))
    assert found.winner == found.leader == "free"
    assert found.verdict == "Ship free for everybody: it is better than every other arm."
    assert found.arm("free").chance > 0.99
    assert found.arm("free").low < 0.9 < found.arm("free").high
    assert {each.against for each in found.differences} == {"today", "new"}
    for each in found.differences:
        true = 0.9 - MEANS[0, ARMS.index(each.against)]
        assert 0 < each.low < true < each.high
    assert found.going_loss > found.ship_loss


def test_without_a_difference_nothing_is_shown_and_a_tolerance_ends_it():
    learner = learned(700, np.full((2, 3), 0.5), floor=0.3)
    strict, close = conclude(learner), conclude(learner, tolerance=0.3)
    assert strict.winner is None
    assert strict.verdict.startswith("No arm is shown to be the best for everybody yet; most likely it is ")
    assert close.winner is not None
    assert close.verdict == f"Ship {close.winner} for everybody: no other arm is better by more than 0.3."
    assert all(player.winner in (None, close.winner) for player in close.players)  # if it will do, it is the one


def test_a_retired_arm_need_not_be_beaten_and_cannot_be_shipped():
    learner = learned(350, MEANS[:1].repeat(2, axis=0), floor=0.3)
    learner.retire_arm("free")
    found = conclude(learner)
    assert found.offered == ("today", "new")
    assert found.winner == found.leader == "new"
    assert found.arm("free").chance == 0
    learner.add_arm("free")
    assert conclude(learner).winner == "free"
    learner.retire_arm("free")
    learner.retire_arm("new")
    assert conclude(learner).verdict == "There is nothing to decide: today is the only arm on offer."


def test_what_a_retired_arm_got_goes_to_the_others():
    """The best arm, which nearly always was chosen, retires: what going on earns is about the two that are left."""
    learner = learned(300, np.tile([0.1, 0.3, 0.9], (2, 1)))
    learner.retire_arm("free")
    found = conclude(learner)
    assert [arm.offered for arm in found.arms] == [True, True, False]
    assert sum(arm.share for arm in found.arms) == pytest.approx(1)
    means = [arm.expected for arm in found.arms]
    going = found.arm("today").share * (means[1] - means[0])
    assert found.going_loss - found.ship_loss == pytest.approx(going, abs=0.02) != pytest.approx(0, abs=0.02)
    learner.retire_arm("new")
    assert conclude(learner).arm("today").share == pytest.approx(1)


def test_an_arm_that_is_never_tried_is_named_because_nothing_more_can_be_shown():
    random = np.random.default_rng(1)
    for policy, named in ((posse.IndUCB(), True), (posse.IndTS(), False)):
        learner = posse.Learner(policy, ["x", "y"], ["a"], seed=1, floor=0.05 * (not named), clock=lambda: 0.0)
        for _ in range(200):
            made = learner.choose("a")
            learner.observe(made, float(random.random() < (0.6 if made.arm == "y" else 0.4)))
        found = conclude(learner)
        assert (
            "It will hardly bring a guarantee, because the share of x is below 1 %" in text.costs(found)[1]
        ) == named


def test_few_rewards_say_little_and_nothing_impossible():
    """Nobody without rewards is said to be left out, and no difference is beyond the range of rewards."""
    learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a", "b"], seed=1, clock=lambda: 0.0, reward_range=(0, 10))
    learner.observe(learner.choose("a"), 10)
    found = conclude(learner)
    assert found.alone == 0
    assert (found.differences[0].low, found.differences[0].high) == (-10, 10)


def test_rewards_in_other_units():
    plain, wide = (conclude(learned(150, reward_range=each)) for each in ((0.0, 1.0), (-50.0, 150.0)))
    assert [player.winner for player in wide.players] == [player.winner for player in plain.players]
    for one, other in zip(plain.arms, wide.arms, strict=True):
        assert other.mean == pytest.approx(200 * one.mean - 50)
        assert other.low == pytest.approx(200 * one.low - 50)
    assert wide.differences[0].high == pytest.approx(200 * plain.differences[0].high)
    assert wide.ship_loss == pytest.approx(200 * plain.ship_loss, rel=1e-6)


def test_no_reward_yet_and_a_log_without_probabilities():
    learner = posse.Learner(posse.IndTS(), ARMS, PLAYERS, seed=0)
    learner.choose("north")
    found = conclude(learner)
    assert found.verdict == "There is nothing to conclude yet: no decision has a reward."
    assert str(found).startswith(found.verdict)
    assert found.page().count(found.verdict) == 1
    with pytest.raises(ValueError, match="how likely every arm was"):
        conclude({"player": ["a"], "arm": ["x"], "reward": [1.0], "propensity": [0.5]})
    with pytest.raises(ValueError, match=r"tolerance=2, but expected"):
        conclude(learner, tolerance=2)


def test_the_fingerprint_is_that_of_the_log_and_not_of_its_file(split, tmp_path):
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(split.log(), path)
    assert conclude(split).digest == conclude(path).digest != conclude(learned(50)).digest
    assert re.fullmatch(r"[0-9a-f]{64}", conclude(split).digest)


def test_default_rewards_count_up_to_the_first_decision_that_waits():
    learner = learned(30, default_reward=0.0, patience=100.0)
    learner.choose("north")
    learner.observe(learner.choose("south"), 1.0)
    assert conclude(learner).answers == log_blocks(learner).answers.arm.size == 60


def test_a_log_with_equal_shares_is_concluded_and_watched_like_a_holdout(tmp_path, capsys):
    """The same decisions, once as a learner's log and once as a file from elsewhere."""
    log = learned(300, np.array([[0.1, 0.2, 0.6], [0.2, 0.1, 0.5]]), holdout=1.0).log()
    file = tmp_path / "test.csv"
    names = {"shop": "player", "banner": "arm", "sold": "reward"}
    pyarrow.csv.write_csv(pyarrow.table({new: log[old] for new, old in names.items()}), file)
    columns = {"player": "shop", "arm": "banner", "reward": "sold", "propensity": "1/3"}
    there, here = conclude(log), conclude(file, **columns)
    assert there.verdict == here.verdict == "Ship free for everybody: it is better than every other arm."
    assert there.since == here.since
    ends = [{each.against: each.low for each in found.differences} for found in (there, here)]
    assert ends[0] == pytest.approx(ends[1])
    assert [each.decisions for each in watch(file, **columns).checks] == [600, 600]
    options = [part for name, value in columns.items() for part in (f"--{name}", value)]
    assert main(["conclude", str(file), *options, "--html", str(tmp_path / "page.html")]) == 0
    assert main(["watch", str(file), *options]) == 0
    assert "arms were drawn with fixed shares throughout" in capsys.readouterr().out
    for propensity in ("propensity", 0.5):
        with pytest.raises(ValueError, match=r"say so: --propensity 1/3 .*, because the log has 3 arms"):
            conclude(file, **columns | {"propensity": propensity})


def trial(shares, said, rows=6000, seed=4):
    """A trial with fixed shares, [player, arm]; what it says of them may be something else. The last arm is best."""
    random, shares = np.random.default_rng(seed), np.array(shares)
    player = random.integers(len(shares), size=rows)
    arm = (random.random(rows)[:, None] > shares.cumsum(axis=1)[player]).sum(axis=1)
    reward = random.random(rows) < np.array([0.2, 0.2, 0.35])[arm]
    names = {"player": np.array(["a", "b"])[player], "arm": np.array(["x", "y", "z"])[arm]}
    return pyarrow.table({**names, "reward": reward * 1.0, "propensity": np.array(said)[player, arm]})


EVEN, UNEVEN = [[0.5, 0.25, 0.25]] * 2, [[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]


@pytest.mark.parametrize("shares", [EVEN, UNEVEN], ids=["the same for all", "of each player"])
def test_a_trial_with_unequal_shares_is_concluded_and_watched(shares):
    log = trial(shares, shares)
    found = conclude(log)
    assert found.verdict == "Ship z for everybody: it is better than every other arm."
    assert all(arm.low < mean < arm.high for arm, mean in zip(found.arms, (0.2, 0.2, 0.35), strict=True))
    assert [check.alarm for check in watch(log).checks] == [None, None]
    with pytest.raises(ValueError, match="the same throughout"):
        conclude(log, propensity="empirical")
    with pytest.raises(ValueError, match="the same throughout"):
        conclude(trial(shares, np.array(shares) / 2))


@pytest.mark.skipif(not STROKE.exists(), reason="the stroke trial's data is not here")
def test_the_stroke_trial_is_concluded_by_its_own_shares_of_a_quarter_and_an_eighth():
    found = conclude(STROKE, reward="alive_14_days")
    assert (found.winner, found.doubts, len(found.players)) == (None, (), 36)
    assert {round(arm.share, 3) for arm in found.arms} == {0.125, 0.25}
    assert all(arm.low < arm.expected < arm.high < arm.low + 0.06 for arm in found.arms)
    wrong = conclude(STROKE, reward="alive_14_days", propensity="1/6")
    assert wrong.verdict.startswith("Nothing can be concluded. ALARM: ")


def test_nothing_is_concluded_from_a_log_whose_probabilities_are_not_what_was_done():
    """The verdict and the checks of the watch agree. Believed, the wrong shares would have shown a wrong mean of x."""
    log = trial(EVEN, [[1 / 3] * 3] * 2)
    found, checks = conclude(log), watch(log).checks
    assert found.winner is not None
    assert checks[0].alarm is not None
    assert found.verdict.startswith("Nothing can be concluded. ALARM: ")
    assert found.verdict in found.page(watch(log)).replace("&#39;", "'")
    assert text.costs(found) == []
    assert "guaranteed" not in str(found)
    assert "Find the fault first" in str(found)
    assert ConclusionResult(**found.to_dict()).doubts == list(found.doubts)


def test_a_log_that_lost_its_metadata_says_so(split):
    log = split.log().replace_schema_metadata()
    for function in (conclude, watch):
        with pytest.raises(ValueError, match=r"has the column 'probabilities', but not .* Pass learner.log\(\) itself"):
            function(log)
