"""What posse conclude says: words that follow from the numbers, the page and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest
from made_conclusions import ARMS, MEANS, learned

import posse
from posse.cli import main
from posse.insight import conclude, watch
from posse.insight.conclusion import text


@pytest.fixture(scope="module")
def split():
    """Players with different best arms."""
    return learned(450)


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


def test_it_says_what_checks_whether_rewards_arrive():
    def last(learner):
        return " ".join(str(conclude(learner)).split()).rpartition(" - ")[2]

    assert last(learned(30)).endswith("posse watch checks that.")
    assert last(learned(30, default_reward=0.0, patience=100.0)).endswith("nothing checks whether rewards get lost.")


def test_a_single_player_is_not_everybody():
    for rounds, begins in ((350, "Ship free: it is better than"), (20, "No arm is shown to be the best yet; most")):
        found = conclude(learned(rounds, MEANS[:1], players=["north"]))
        assert found.verdict.startswith(begins)
        said = " ".join(str(found).split())
        assert re.search(r"Shipping free loses .* compared with the best arm\. Going on", said)
        assert "everybody" not in said


def test_a_log_that_failed_a_check_says_so_above_its_table(split):
    found, fault = conclude(split), "Find the fault first"
    for shown in (str(found), found.page(), repr(found)):
        assert fault not in shown
    wrong = replace(found, doubts=("ALARM: arm 'free' is chosen too often",))
    for shown, table in ((str(wrong), "share now"), (wrong.page(), "<table"), (repr(wrong), "share now")):
        assert shown.count(fault) == 1
        assert shown.index(fault) < shown.index(table)
