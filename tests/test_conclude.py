"""posse conclude: winners, chances and costs, words that follow from the numbers, the page and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import conclude_coverage
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from sizes import FULL

import posse
from posse.cli import main
from posse.insight import conclude, watch
from posse.insight.conclusion import text
from posse.insight.conclusion.chances import best_chances
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.hierarchy.model import fit
from posse.insight.watching.evidence import DecisionBlock
from posse.insight.watching.log_blocks import log_blocks
from posse.learner import Counts
from posse.service.api.answers import ConclusionResult

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"
ARMS, PLAYERS = ["today", "new", "free"], ["north", "south"]
MEANS = np.array([[0.1, 0.4, 0.9], [0.9, 0.4, 0.1]])


def learned(rounds, means=MEANS, seed=0, players=PLAYERS, **options):
    """A learner that has made so many decisions for each player."""
    learner = posse.Learner(posse.IndTS(), ARMS, players, seed=seed, clock=lambda: 0.0, **({"floor": 0.1} | options))
    random = np.random.default_rng(seed)
    low, high = options.get("reward_range", (0.0, 1.0))
    for _ in range(rounds):
        made, drawn = learner.choose(players), random.random(len(players))
        won = [drawn[p] < means[p, ARMS.index(each.arm)] for p, each in enumerate(made)]
        learner.observe({each.id: high if win else low for each, win in zip(made, won, strict=True)})
    return learner


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


def test_the_text_says_for_whom_and_which_number_is_which(split):
    found = conclude(split)
    assert "need different arms: free for 1 player, today for 1 player (each with a chance of at least 90 %)." in (
        found.verdict
    )
    means, traffic = split.counts(), split.counts().pulls.sum(axis=1)
    for arm in found.arms:  # the model's mean is that of each player's own rewards here, where there are many
        own = means.sums[:, ARMS.index(arm.name)] / means.pulls[:, ARMS.index(arm.name)]
        assert arm.expected == pytest.approx(np.average(own, weights=traffic), abs=0.05)
    headings, *rows = text.arm_table(found)
    assert headings[3:5] == ["likely mean", "mean within"]
    assert [float(row[3]) for row in rows] == pytest.approx([each.expected for each in text.ordered(found)], abs=1e-4)
    assert all(row[4].startswith("[") for row in rows)
    alike = conclude(learned(100, np.full((2, 3), 0.5)))
    assert "different arms" not in str(alike)  # negative control


def test_all_of_fifty_players_are_listed_by_their_likely_arm():
    players = [f"p{number}" for number in range(20)]
    found = conclude(learned(60, MEANS[np.arange(20) % 2], players=players))
    listed = text.likely_arms(found)
    assert {line.split()[3] for line in listed} == {player.likeliest for player in found.players}
    assert sum(line.count(",") + 1 for line in listed) == 20
    assert " ".join(listed[0].split()[:6]) in " ".join(str(found).split())
    assert text.likely_arms(conclude(learned(10))) == []


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


# ---------------------------------------------------------------- chances and costs


def test_chances_and_losses_are_those_of_the_draws_counted_one_by_one():
    pulls = np.array([[90, 30, 5], [10, 200, 9], [0, 0, 0]])
    sums = np.array([[40.0, 15, 1], [3, 120, 2], [0, 0, 0]])
    counts = Counts(("a", "b", "c"), ("x", "y", "z"), pulls, sums)
    offered, present = np.array([True, True, False]), np.array([[0.7, 0.3, 0], [0.1, 0.9, 0], [0, 0, 0]])
    found, model = best_chances(counts, offered, present), fit(counts)
    weights = model.weights["middle"] / model.weights["middle"].sum()
    traffic = [125 / 344, 219 / 344, 0.0]
    chances, overall, one, going = np.zeros((3, 3)), np.zeros(3), np.zeros(3), 0.0
    for weight, draw in zip(weights, model.draws, strict=True):
        average = [sum(traffic[p] * draw[p, arm] for p in range(3)) for arm in range(2)]
        overall[int(np.argmax(average))] += weight
        for p in range(3):
            chances[p, int(np.argmax(draw[p, :2]))] += weight
            for arm in range(3):
                one[arm] += weight * traffic[p] * (max(draw[p, :2]) - draw[p, arm])
            going += weight * traffic[p] * (max(draw[p, :2]) - present[p] @ draw[p])
    np.testing.assert_allclose(found.chances, chances, atol=1e-12)
    np.testing.assert_allclose(found.overall, overall, atol=1e-12)
    np.testing.assert_allclose(found.one_loss[:2], one[:2], atol=1e-12)
    assert found.going_loss == pytest.approx(going)
    assert found.own_loss <= found.one_loss[:2].min()
    assert found.chances.sum(axis=1) == pytest.approx(1)


def test_the_weight_of_others_is_small_with_much_own_data_and_1_without_any():
    sums = np.array([[2000.0, 2400], [2100, 2500], [12, 15], [0, 0]])
    pulls = np.array([[10_000, 10_000], [10_000, 10_000], [60, 60], [0, 0]])
    found = best_chances(Counts(tuple("abcd"), ("x", "y"), pulls, sums), np.ones(2, bool), np.zeros((4, 2)))
    assert (found.others[3] == 1).all()
    assert (found.others[2] > 0.5).all()
    assert (found.others[:2] < 0.6).all()


def test_chances_of_being_best_are_about_right():
    """Of arms that are drawn alike, one with a chance of q is the best in about q of the cases."""
    random = np.random.default_rng(5)
    said, right = [], []
    for _ in range(400 if FULL else 40):
        means = 1 / (1 + np.exp(-random.normal(-0.5, 0.3, 2)))
        pulls = np.full((1, 2), 100)
        counts = Counts(("a",), ("x", "y"), pulls, random.binomial(pulls, means).astype(float))
        said.append(best_chances(counts, np.ones(2, bool), np.zeros((1, 2))).overall[1])
        right.append(means[1] > means[0])
    said, right = np.array(said), np.array(right)
    assert abs(said.mean() - right.mean()) < 0.1
    assert np.mean((said - right) ** 2) < 0.2 < np.mean((1 - said - right) ** 2)  # turned round, they say nothing


# ---------------------------------------------------------------- words


def test_sentences_never_contradict_the_numbers(split):
    """Whatever the numbers are, an arm is to be shipped exactly where one is shown to be the best."""
    start, random = conclude(split), np.random.default_rng(0)
    for _ in range(300):
        winner = [None, "free", "new"][random.integers(3)]
        leader = winner or str(random.choice(ARMS))
        players = tuple(replace(each, winner=[None, *ARMS][random.integers(4)]) for each in start.players)
        arms = tuple(replace(each, chance=float(random.random())) for each in start.arms)
        losses = {name: float(random.random()) for name in ("ship_loss", "own_loss", "going_loss")}
        found = replace(start, winner=winner, leader=leader, players=players, arms=arms, since=9, **losses)
        verdict = found.verdict
        assert (f"Ship {winner} for everybody" in verdict) == (winner is not None)
        assert ("no arm is shown to be the best" in verdict.lower()) == (winner is None)
        for player in players:
            own = player.winner not in (None, winner)
            assert (player.name in verdict) == own
        open_, less = winner is None and not any(each.winner for each in players), found.going_loss > found.ship_loss
        assert verdict.startswith("Go on") == (open_ and not less), "never beside words that it earns less"
        assert verdict.split(".")[0] in str(found).replace("\n", " ")
        assert re.search(rf"Going on as now earns about [\d.]+ {'less' if less else 'more'}", text.costs(found)[1])
        assert ("the price of a guarantee" in text.costs(found)[1]) == (less and winner is None)
        doubted = winner is not None and max(arms, key=lambda each: each.chance).name != winner
        doubted &= max(each.chance for each in arms) > 0.5
        assert any("means seem to have changed" in each for each in text.cautions(found)) == doubted
        assert ("look closer" in verdict) == doubted  # the verdict stands alone on pages and in answers


def test_an_arm_that_breaks_a_bound_is_not_shipped_without_a_word():
    learner = learned(300, MEANS[:1].repeat(2, axis=0), outcomes={"refund": posse.Outcome(range=(0, 1), at_most=0.1)})
    rows = zip(learner.log()["decision"].to_pylist(), learner.log()["arm"].to_pylist(), strict=True)
    for decision, arm in rows:
        learner.observe(decision, outcomes={"refund": float(arm == "free")})
    found = conclude(learner)
    assert found.alarms == (("refund", "free"),)
    assert found.verdict.endswith("better than every other arm. But first look at refund: free breaks its bound.")
    assert "refund" not in replace(found, leader="new", winner="new", players=()).verdict


def test_percentages_never_round_to_certainty():
    assert text.percent(0.0) == "0 %"
    assert text.chance(0.0) == "< 0.1 %"
    assert text.chance(1.0) == "> 99.9 %"
    assert text.percent(0.0123) == "1.2 %"


# ---------------------------------------------------------------- the page and the command


def test_the_page_has_everything_and_needs_nothing(split):
    refund = posse.Outcome(range=(0, 1), at_most=0.1)
    learner = learned(80, MEANS[:1].repeat(2, axis=0), control="today", holdout=0.2, outcomes={"refund": refund})
    page = conclude(learner).page(watch(learner), title="<b>Banner</b>", asked="Does it sell?")
    assert "&lt;b&gt;Banner" in page
    assert "<b>" not in page
    for part in (
        "Does it sell?",
        "The arms",
        "Compared with the control today, free earns",
        "holdout",
        "refund",
        "Guards and checks",
    ):
        assert part in page
    assert f"posse {posse.__version__}" in page
    assert conclude(learner).digest in page
    assert not re.search(r"<script|https?:|src=|url\(", page)
    alone = conclude(split).page()
    assert "Guards and checks" not in alone
    assert page.count("<svg") == alone.count("<svg") == 6


def test_a_page_of_many_arms_and_players_leaves_some_out():
    arms, players = [f"arm {k}" for k in range(20)], [f"player {p}" for p in range(30)]
    learner = posse.Learner(posse.IndTS(), arms, players, seed=0, clock=lambda: 0.0)
    for _ in range(5):
        learner.observe({each.id: 1.0 for each in learner.choose(players)})
    found = conclude(learner)
    assert "10 more arms are left out" in found.page()
    assert "<p>It ended in May.</p>" in found.page(ended="It ended in May.")
    assert "… 26 more" in found.page()
    assert "… 18 more" in str(found)


def test_the_command(split, tmp_path, capsys):
    log, page, numbers = (tmp_path / name for name in ("log.parquet", "page.html", "found.json"))
    pyarrow.parquet.write_table(split.log(), log)
    assert main(["conclude", str(log), "--html", str(page), "--title", "Banner", "--json", str(numbers)]) == 0
    assert capsys.readouterr().out.startswith("Ship free for north")
    assert "<title>Banner</title>" in page.read_text()
    written = json.loads(numbers.read_text())
    assert written["verdict"] == conclude(split).verdict
    assert written["players"][0]["winner"] == "free"
    assert main(["conclude", str(log), "--html", str(tmp_path / "page.txt")]) == 2
    assert "page.txt" in capsys.readouterr().err


# ---------------------------------------------------------------- many experiments


def test_many_experiments_at_once_are_what_one_is():
    """The vectorised simulation decides as the library does, if both make the same guesses."""
    setting = replace(conclude_coverage.LEADS[2], lead=0.4)
    seen = []

    class Recorded(conclude_coverage.ManyEvidence):
        def add(self, player, arm, chances, reward, guess):
            seen.append((player, arm[0], chances[0], reward[0], guess[0]))
            super().add(player, arm, chances, reward, guess)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conclude_coverage, "ManyEvidence", Recorded)
        *_, last = conclude_coverage.run(setting, 3, 500)
    player, arm, chances, reward, guesses = (np.array(each) for each in zip(*seen, strict=True))
    evidence = ConclusionEvidence(3)
    evidence._guess = SameGuesses(guesses)
    evidence.add_answers(DecisionBlock(player, arm, chances, reward))
    winner, since = evidence.winners(np.ones(3, bool))
    assert winner[0] == 2
    assert since[0] == last.evidence.winners()[0, 0, 2] > 0
    np.testing.assert_allclose(
        evidence.sums[0, :, 2, 0], last.evidence.sums[0, 0, :, 0, 2] + last.evidence.sums[0, 1, :, 0, 0] - 500
    )


class SameGuesses:
    """Guesses that are given, one row at a time, so that the evidence is looked at after each."""

    def __init__(self, guesses):
        self.guesses, self.count = guesses, 0

    def follow(self, block):
        for row in range(block.arm.size):
            yield block.taken(slice(row, row + 1)), self.guesses[row : row + 1]
            self.count += 1


@pytest.mark.parametrize("setting", [conclude_coverage.NULL[3], conclude_coverage.NULL[6]], ids=lambda each: each.name)
def test_wrong_winners_are_rare_and_a_naive_test_has_many(setting):
    everybody, player, naive = conclude_coverage.wrong_winners(setting, *((2000, 1000) if FULL else (400, 250)))
    assert everybody <= 0.025
    assert not player > 0.025
    assert naive > 0.2


def test_wrong_probabilities_are_noticed_as_wrong_winners(monkeypatch):
    """A negative control: arms are not chosen with the probabilities that are logged, so experiments go wrong."""
    add = conclude_coverage.ManyEvidence.add

    def tilted(pulls, sums, player):
        return np.tile([0.0, 1.0], (len(pulls), 1)), np.ones((len(pulls), 2))

    def add_equal(self, player, arm, chances, reward, guess):
        add(self, player, arm, np.full_like(chances, 0.5), reward, 0 * guess)

    setting = replace(conclude_coverage.NULL[0], policy=tilted)
    assert conclude_coverage.wrong_winners(setting, 50, 300)[0] == 0
    monkeypatch.setattr(conclude_coverage.ManyEvidence, "add", add_equal)
    assert conclude_coverage.wrong_winners(setting, 50, 300)[0] > 0.9


def test_learners_ship_the_best_arm_in_the_end():
    found = conclude_coverage.needed_by_learner(posse.PosseTS(), 0.1, 2, 400)
    assert found.wrong == 0
    assert 0 < found.lost < 67  # less than with equal shares


def test_default_rewards_count_up_to_the_first_decision_that_waits():
    learner = learned(30, default_reward=0.0, patience=100.0)
    learner.choose("north")
    learner.observe(learner.choose("south"), 1.0)
    assert conclude(learner).answers == log_blocks(learner).answers.arm.size == 60


def test_it_says_what_checks_whether_rewards_arrive():
    def last(learner):
        return " ".join(str(conclude(learner)).split()).rpartition(" - ")[2]

    assert last(learned(30)).endswith("posse watch checks that.")
    assert last(learned(30, default_reward=0.0, patience=100.0)).endswith("nothing checks whether rewards get lost.")


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
