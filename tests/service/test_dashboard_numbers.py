"""What the dashboard says, against slower ways to know it: snapshots, beliefs, sentences, what sharing saved."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from scenes import BEGIN, SHOPS, WINDOWS, learner_of_shops, snapshot_of

import posse
from posse.learner import Learner
from posse.service.commands import Change, Choose, Create, Observe
from posse.service.dashboard import experiment_page, forms, history, words
from posse.service.dashboard.analysis import conclusion
from posse.service.dashboard.analysis_process import arguments
from posse.service.dashboard.snapshots import Snapshots, beliefs
from posse.service.dashboard.templates import _templates, render
from posse.service.storage import database, queries
from posse.service.storage.transaction import commit
from stores import BACKENDS, Clock, stores


@pytest.fixture(scope="module")
def shops():
    """A snapshot after two thousand decisions of twelve shops."""
    return snapshot_of(*learner_of_shops(2000))


# ---------------------------------------------------------------- read from the store


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with stores(request.param, tmp_path, clock=Clock(BEGIN)) as (store,):
        yield store


def _decide(store, rounds, seconds=0.7, answered=0.8, seed=3):
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        made = commit(store, Choose("shops", SHOPS[:4]))
        store.clock.now += seconds
        commit(
            store,
            Observe("shops", [(each.id, float(random.random() < 0.4)) for each in made if random.random() < answered]),
        )


def test_a_snapshot_is_what_the_log_says(store, monkeypatch):
    monkeypatch.setattr("posse.service.dashboard.snapshots.FRESH", 0.0)
    monkeypatch.setattr("posse.service.dashboard.snapshots.REST", 0.0)
    commit(store, Create("shops", posse.PosseTS(), WINDOWS, SHOPS))
    snapshots = Snapshots(store)
    for rounds, pause in ((0, 0), (1, 15), (7, 0), (60, 400), (90, 0), (10, 9000), (0, 65)):  # stretches double
        _decide(store, rounds, seed=rounds)
        store.clock.now += pause
        seen = snapshots.of("shops")
        table = store.read(queries.log_table, "shops")
        expected = snapshot_of(Learner.replay(table, store.clock), store.clock)
        for name in ("pulls", "sums"):
            np.testing.assert_allclose(getattr(seen.counts, name), getattr(expected.counts, name), err_msg=name)
        for name in ("chosen", "estimates", "lows", "highs", "sampled"):
            np.testing.assert_allclose(getattr(seen, name), getattr(expected, name), err_msg=name)
        assert (seen.decisions, seen.rewards, seen.waiting) == (expected.decisions, expected.rewards, expected.waiting)
        assert seen.choices.size == expected.choices.size
        np.testing.assert_array_equal(seen.choices.counts, expected.choices.counts)
        np.testing.assert_array_equal(seen.choices.everybody, expected.choices.everybody)
        assert seen.recent == expected.recent
        assert seen.late.oldest == expected.late.oldest
        log = table.to_pylist()
        for name, when in (("decisions", "decided_at"), ("rewards", "observed_at")):
            happened = [row[when] for row in log if row[when] is not None]
            edges = [*seen.traffic.times[:-1], math.inf]
            np.testing.assert_array_equal(getattr(seen.traffic, name), np.histogram(happened, edges)[0], err_msg=name)


def test_looking_reads_no_more_as_the_log_grows(store, monkeypatch):
    commit(store, Create("shops", posse.IndTSV(), WINDOWS, SHOPS))
    monkeypatch.setattr(history, "SAMPLE", 16)
    _decide(store, 40)
    past = history.History(1)
    with database.reading(store.engine) as connection:
        short = past.choices(connection, 160, np.arange(12), 5)
        monkeypatch.setattr(history, "STRETCHES", 4)
        long = history.History(1).choices(connection, 160, np.arange(12), 5)
    assert short.everybody.sum() == 160
    assert long.size == 64
    assert long.everybody.sum() == 16 * 3  # of each of three stretches only a part


def test_a_snapshot_is_kept_for_a_moment_but_a_pause_shows_at_once(store):
    commit(store, Create("shops", posse.IndTSV(), WINDOWS, SHOPS))
    snapshots = Snapshots(store)
    first = snapshots.of("shops")
    _decide(store, 1)
    assert snapshots.of("shops") is first
    commit(store, Change("shops", status="paused"))
    assert snapshots.of("shops").status == "paused"
    assert snapshots.of("shops").decisions == 4


# ---------------------------------------------------------------- beliefs


def _covered(narrower: float) -> float:
    """How often intervals, made so much narrower, hold the true mean; over runs of PosseTS and Ind-TS-V."""
    held = []
    for policy in (posse.PosseTS(), posse.IndTSV()):
        for run in range(12):
            random = np.random.default_rng(run)
            means = np.array([0.5, 0.6, 0.3]) + random.normal(0, 0.05, (6, 3))
            learner = posse.Learner(policy, arms=list("abc"), players=list("uvwxyz"), seed=run)
            for number in range(600):
                made = learner.choose("uvwxyz"[number % 6])
                mean = means[number % 6, "abc".index(made.arm)]
                learner.observe(made.id, float(random.random() < mean))
            estimates, *ends = beliefs(learner.state)
            low, high = (estimates + narrower * (end - estimates) for end in ends)
            held.append((low <= means) & (means <= high))
    return float(np.mean(held))


def test_intervals_hold_the_true_mean_about_as_often_as_they_say():
    assert _covered(1.0) > 0.9


def test_intervals_half_as_wide_do_not():
    assert _covered(0.5) < 0.8


def test_estimates_are_in_the_units_of_the_rewards():
    learner = posse.Learner(posse.PosseTS(), arms=["a", "b"], players=["p"], reward_range=(-10, 30))
    for number in range(200):
        made = learner.choose("p")
        learner.observe(made.id, 20.0 if made.arm == "a" else number % 2 * 1.0)
    estimate, low, high = (table[0, 0] for table in beliefs(learner.state))
    assert estimate == pytest.approx(20, abs=1)
    assert low <= estimate <= high <= 30


@pytest.mark.parametrize(
    "policy", [posse.RobustAggTS(0.1), posse.RobustAgg(0.1), posse.IndUCB(), posse.IMED(), posse.HierTS(0.05)]
)
def test_what_every_policy_believes_can_be_shown(policy):
    learner, clock = learner_of_shops(0, policy)
    for decisions in (0, 300):
        if decisions:
            learner, clock = learner_of_shops(decisions, policy)
        snapshot = snapshot_of(learner, clock)
        text = _matrix(snapshot)
        assert text.count('<th scope="row">') == 12
        assert "nan" not in text
        assert "inf" not in text
        json.dumps(experiment_page.chart(snapshot), allow_nan=False)


# ---------------------------------------------------------------- sentences


def _matrix(snapshot) -> str:
    shown = experiment_page.matrix(snapshot, _chances(snapshot))
    return render("parts/matrix.html", snapshot=snapshot, matrix=shown, amount=experiment_page.amount_of(snapshot))


def _chances(snapshot) -> np.ndarray:
    return experiment_page.chances_of(snapshot, _concluded(snapshot))


def _concluded(snapshot) -> dict:
    return conclusion(*arguments("conclusion", snapshot)) if snapshot.rewards else {"state": "early"}


def _lead(snapshot) -> str:
    lead = experiment_page.lead(snapshot, _chances(snapshot))
    return _text("parts/lead.html", snapshot=snapshot, lead=lead, conclusion=_concluded(snapshot))


def _text(template: str, **values) -> str:
    from test_dashboard import Page

    return Page(render(template, **values)).text


def test_the_lead_says_for_how_many_what_looks_best(shops):
    lead = experiment_page.lead(shops, _chances(shops))
    assert sum(players for _, players in lead["favorites"]) + lead["undecided"] == 12
    text = _lead(shops)
    assert text.startswith(_concluded(shops)["verdict"])
    assert "12 players choose among 5 arms. So far " in text
    best, players = lead["favorites"][0]
    assert f"{best.name} looks best for {'all' if players == 12 else players}" in text
    assert "of what their choices rest on was learned by other players." in text


def test_no_two_sentences_contradict_each_other(shops):
    found = _concluded(shops)
    chances, favorites = _chances(shops), experiment_page.favorite_arms(_chances(shops))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    for place, row in enumerate(_matrix(shops).split('<th scope="row">')[1:]):
        for arm, cell in enumerate(row.split("<td ")[1:]):
            assert ("looks best" in cell) == (favorites[place] == arm) == (chances[place, arm] > 0.5)
            assert f"best: {words.chance(chances[place, arm])}".replace("<", "&lt;").replace(">", "&gt;") in cell
    leader = max(found["arms"], key=lambda arm: arm["chance"])
    assert leader["name"] in found["verdict"]


def test_players_and_arms_that_came_after_the_analysis_have_no_chances_yet(shops):
    older = {"chances": np.full((2, 3), 1 / 3)}
    found = experiment_page.chances_of(shops, older)
    assert np.isfinite(found).sum() == 6
    assert experiment_page.favorite_arms(found).tolist() == [-1] * 12
    assert not np.isfinite(experiment_page.chances_of(shops, {"state": "waiting"})).any()


def test_with_very_many_players_the_lead_asks_some_of_them_what_is_shared(monkeypatch):
    learner, clock = learner_of_shops(600)
    learner.retire(SHOPS[0])
    whole = snapshot_of(learner, clock)
    monkeypatch.setattr("posse.service.dashboard.snapshots.SAMPLED", 5)
    some = snapshot_of(learner, clock)
    assert (whole.sample.tolist(), some.sample.tolist()) == (list(range(1, 12)), [1, 4, 7, 10])
    assert np.array_equal(some.sampled.probabilities, whole.sampled.probabilities[::3])
    chances = _chances(some)
    lead = experiment_page.lead(some, chances)
    assert sum(players for _, players in lead["favorites"]) + lead["undecided"] == 11
    assert "11 players choose among 5 arms." in _lead(some)
    assert experiment_page.matrix(some, chances)["rows"] == experiment_page.matrix(whole, chances)["rows"]


def test_the_lead_of_what_has_not_begun():
    learner, clock = learner_of_shops(0, players=("Lyon",))
    empty = posse.Learner(posse.PosseTS(), arms=["a", "b"], clock=clock)
    for one, expected in (
        (learner, "1 player chooses among 5 arms. Nothing has been tried yet."),
        (empty, "No player has joined yet; 2 arms wait to be tried."),
    ):
        assert _lead(snapshot_of(one, clock)) == expected


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (posse.IndTSV(), "Every player learns from its own rewards only."),
        (posse.PosseTS(), "It learns how alike players are and how noisy rewards are, and shares as far as it helps."),
        (
            posse.PosseTS(0.1),
            "It learns how alike players are and how noisy rewards are, and shares as far as it helps.",
        ),
        (posse.RobustAggTS(0.1), "Players share, relying on your promise that they differ by at most ε = 0.1."),
        (posse.NaiveAgg(), "See the documentation of posse."),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_the_method_is_told_in_words(policy, said):
    learner, clock = learner_of_shops(0, policy)
    assert _text("parts/method.html", snapshot=snapshot_of(learner, clock)) == said


def test_a_cell_says_whose_data_decides(shops):
    rows = _matrix(shops).split('<th scope="row">')[1:]
    for place, row in enumerate(rows):
        assert f">{SHOPS[place]}<" in row
        cells = row.split("<td ")[1:]
        for arm, cell in enumerate(cells):
            weight, own = shops.indices([place]).weights[0, arm], shops.counts.pulls[place, arm] > 0
            assert (">own data<" in cell) == (weight < 0.1 and own)
            assert (">shared data<" in cell) == (weight >= 0.9)
            assert ("hardly known<" in cell) == (weight < 0.1 and not own)
            start, width = map(float, re.search(r'class="range" x="([^"]*)" y="2" width="([^"]*)"', cell).groups())
            middle = float(re.search(r'class="middle" x="([^"]*)"', cell)[1]) + 1
            assert 0 <= start <= middle <= start + width <= 100.8
        assert sum("looks best" in cell for cell in cells) <= 1


def _said(macro: str, number: float) -> str:
    return str(getattr(_templates().get_template("macros.html").module, macro)(number))


def test_numbers_in_everyday_words():
    assert [_said("ago", seconds) for seconds in (0.4, 40)] == ["just now", "40 s ago"]
    assert [_said("part_of", share) for share in (0.32, 0.01, 0.97)] == ["about a third", "almost none", "almost all"]
    sources = ["own data", "mostly own", "own and shared", "mostly shared", "shared data"]
    assert [_said("data_source", weight) for weight in (0.02, 0.3, 0.5, 0.7, 1)] == sources


def test_arms_beyond_the_colors_share_the_last_one():
    learner, clock = learner_of_shops(300, posse.IndTSV(), arms=tuple(f"arm {number}" for number in range(15)))
    snapshot = snapshot_of(learner, clock)
    colors = [arm.color for arm in experiment_page.shown_arms(snapshot)]
    assert [colors.count(color) for color in range(7)] == [1] * 7
    assert colors.count(7) == 8
    shown = experiment_page.chart(snapshot)
    assert shown["names"][-1] == "8 other arms"
    np.testing.assert_allclose(np.sum(shown["shares"], axis=0), 1, atol=1e-3)
    assert experiment_page.matrix(snapshot, _chances(snapshot))["hidden_arms"] == 3


def test_no_picture_has_a_part_that_is_not_over():
    learner, clock = learner_of_shops(321)  # stretches of eight decisions; one in the last
    shown = experiment_page.chart(snapshot := snapshot_of(learner, clock))
    assert snapshot.choices.size == 8
    assert shown["upto"] == list(range(8, 321, 8))
    assert {len(line) for line in (*shown["shares"], *shown["ribbons"])} == {40}
    assert len(shown["traffic"]["decisions"]) == len(shown["traffic"]["times"]) == 59
    assert shown["traffic"]["times"][-1] < clock.now  # of 60 windows, all but the one that goes on
    one = experiment_page.chart(snapshot_of(*learner_of_shops(1)))
    assert one["upto"] == [1]


def test_late_and_missing_rewards_are_told(shops):
    text = _text("parts/rewards.html", snapshot=shops, amount=experiment_page.amount_of(shops))
    assert "decisions wait for a reward; the oldest has waited" in text
    learner, clock = learner_of_shops(200, posse.IndTSV(), default_reward=0.0, patience=60.0)
    clock.now += 61
    snapshot = snapshot_of(learner, clock)
    text = _text("parts/rewards.html", snapshot=snapshot, amount=experiment_page.amount_of(snapshot))
    assert "A decision without a reward after 60 s counts as 0.00; so did" in text


def test_shares_can_be_saved_as_they_are_written():
    """However small they are: the page of an experiment shows them in the form that changes them."""
    shares = {"a": (1e-7, 0.3), "b: 5": (2.5e-12, 1.0), "c": (1 / 3, 1 / 3)}
    found = forms.shares_of(forms.written_shares(shares))
    assert found == {arm: pytest.approx(limits, rel=1e-9, abs=0) for arm, limits in shares.items()}


def test_a_form_names_policies_in_plain_words():
    made, wrong = forms.experiment_of({"name": "x", "arms": "a\nb", "sharing": "alone"})
    assert (made["policy"], wrong) == (posse.IndTSV(), {})
    made, _ = forms.experiment_of({"name": "x", "arms": "a\nb", "reward": "number", "low": "−5", "high": "20"})
    assert (made["policy"], made["reward_range"]) == (posse.PosseTS(), (-5.0, 20.0))
