"""What takes longer than a page may, and the process that does it: what sharing saved, and users' own policies."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from scenes import SHOPS, WINDOWS, learner_of_shops, snapshot_of
from test_dashboard import Page

import posse
from posse.policies.user import import_file
from posse.service.dashboard import experiment_page
from posse.service.dashboard.analysis import diagnosis, savings
from posse.service.dashboard.analysis_process import AnalysisProcess, arguments
from posse.service.dashboard.templates import render
from stores import Clock


@pytest.fixture(scope="module")
def shops():
    """A snapshot after two thousand decisions of twelve shops."""
    return snapshot_of(*learner_of_shops(2000))


def _diagnosed(snapshot):
    return diagnosis(*arguments("diagnosis", snapshot))


def _saved(snapshot):
    return savings(*arguments("savings", snapshot))


def _analysis_text(kind, snapshot, found):
    amount = experiment_page.amount_of(snapshot)
    return Page(render(f"parts/{kind}.html", **{kind: found}, snapshot=snapshot, amount=amount)).text


def test_the_diagnosis_in_words():
    alike = [learner_of_shops(3000, policy, SHOPS[:6]) for policy in (posse.PosseTS(), posse.PosseTS(0.9))]
    broken = learner_of_shops(8000, posse.PosseTS(0.05))
    states = [_diagnosed(snapshot_of(*each))["state"] for each in (*alike, broken)]
    assert states == ["free", "fine", "alarm"]
    snapshot = snapshot_of(*broken)
    text = _analysis_text("diagnosis", snapshot, _diagnosed(snapshot))
    assert text.startswith("▲ No: ε = 0.05 is broken")
    assert "Gare du Nord" in text
    snapshot = snapshot_of(*learner_of_shops(20, players=("Lyon",)))
    text = _analysis_text("diagnosis", snapshot, _diagnosed(snapshot))
    assert text == "There is nobody to compare with."


# ---------------------------------------------------------------- what sharing saved


def test_sharing_saves_where_players_are_alike(shops):
    found = _saved(shops)
    assert found["low"] > 0
    assert found["state"] == "more"
    assert "earned by sharing" in _analysis_text("savings", shops, found)


@pytest.fixture(scope="module")
def estimated_and_true():
    """The estimates' middle, low and high ends, and the true expected saving, of 24 experiments with known means."""
    found = []
    for run in range(24):
        random = np.random.default_rng(100 + run)
        apart, rounds = (0.0, 0.03, 0.1)[run % 3], (100, 400)[run % 2]
        means = np.clip(random.uniform(0.3, 0.6, 5) + random.normal(0, apart, (10, 5)), 0.02, 0.98)
        problem = posse.Problem(means)
        traced = posse.simulation.trace(problem, posse.PosseTS(), rounds, replication=run)
        learner = posse.Learner(posse.PosseTS(), arms=list("abcde"), players=list("0123456789"), clock=Clock())
        for player in range(10):
            arms, rewards = traced.arms[:, player], traced.rewards[:, player]
            learner.record(
                [(str(player), "abcde"[arm], float(reward)) for arm, reward in zip(arms, rewards, strict=True)]
            )
        said = _saved(snapshot_of(learner, Clock()))
        pair = [posse.PosseTS(), posse.IndTSV()]
        result = posse.simulate(problem, pair, rounds, replications=40, checkpoints=1, threads=1, anytime=True)
        true = float((result.final_regret[1] - result.final_regret[0]).mean())
        found.append((said["middle"], said["low"], said["high"], true))
    return np.array(found).T


def test_the_range_holds_what_sharing_really_saves(estimated_and_true):
    middle, low, high, true = estimated_and_true
    assert ((low <= true) & (true <= high)).mean() > 0.85
    assert 0.8 < middle.sum() / true.sum() < 1.25


def test_the_range_does_not_hold_twice_as_much(estimated_and_true):
    _, low, high, true = estimated_and_true
    assert ((low <= 2 * true) & (2 * true <= high)).mean() < 0.7


def test_sharing_blindly_costs_where_players_are_not():
    random = np.random.default_rng(5)
    learner = posse.Learner(posse.NaiveAgg(), arms=list("abc"), players=list("uvwxyz"), clock=Clock())
    likes = [number % 3 for number in range(6)]
    past = [
        (player, arm, float(random.random() < (0.9 if likes[place] == number else 0.1)))
        for place, player in enumerate("uvwxyz")
        for number, arm in enumerate("abc")
        for _ in range(60)
    ]
    learner.record(past)
    snapshot = snapshot_of(learner, Clock())
    snapshot.chosen = np.full((6, 3), 200)
    found = _saved(snapshot)
    assert found["high"] < 0
    assert f"−{-found['middle']:,.0f} lost by sharing" in _analysis_text("savings", snapshot, found)


def test_for_players_who_learn_alone_it_is_what_sharing_would_have_saved():
    found = _saved(snapshot_of(*learner_of_shops(1500, posse.IndTSV(), SHOPS[:8])))
    assert found["state"] == "alone"
    assert found["middle"] > 0


def test_too_little_data_gives_no_estimate():
    snapshot = snapshot_of(*learner_of_shops(30))
    found = _saved(snapshot)
    assert found == {"state": "early"}
    assert "Too early to say" in _analysis_text("savings", snapshot, found)


def test_with_one_arm_left_there_is_nothing_to_wait_for():
    learner, clock = learner_of_shops(300)
    for arm in learner.arms[1:]:
        learner.retire_arm(arm)
    snapshot = snapshot_of(learner, clock)
    found = _saved(snapshot)
    assert found == {"state": "one arm"}
    said = _analysis_text("savings", snapshot, found)
    assert "Only one arm is offered now" in said
    assert "Too early" not in said


def test_differences_that_no_pair_shows_do_not_contradict_the_verdict(shops):
    found = {"state": "free", "worst": None, "rows": [], "broken": [], "at_all": True, "p": 0.012, "notes": []}
    said = _analysis_text("diagnosis", shops, {**found, "in_level": False, "in_effect": False})
    assert "No two are shown to differ so far" in said
    assert "Together, the players show differences (p = 0.012), but no single pair is proved to differ" in said


def test_too_many_players_and_arms_are_analyzed_elsewhere(shops, monkeypatch):
    monkeypatch.setattr("posse.service.dashboard.analysis_process.LARGEST", 59)
    analyses = AnalysisProcess()
    found = analyses.latest("diagnosis", shops)
    analyses.close()
    assert "Export the log with posse db export" in _analysis_text("diagnosis", shops, found)


def test_analyses_run_in_the_background_and_come_back_when_their_process_is_killed(shops):
    analyses = AnalysisProcess()
    try:
        for _ in range(2):
            analyses._latest.clear()
            assert [row["arm"] for row in _awaited(analyses, shops)["rows"]] == list(WINDOWS)
            analyses._process.kill()
        analyses._latest.clear()
        dead = analyses._process
        while analyses._process in (dead, None):  # until the next one has the question
            assert analyses.latest("diagnosis", shops) == {"state": "waiting"}
            time.sleep(0.01)
        analyses._process.kill()  # and dies over it
        assert [row["arm"] for row in _awaited(analyses, shops)["rows"]] == list(WINDOWS)
    finally:
        analyses.close()
    assert analyses._process is None
    analyses._latest.clear()
    assert analyses.latest("diagnosis", shops) == {"state": "waiting"}
    assert not analyses._pending  # whoever asks after the end gets no new process


def _awaited(analyses, snapshot, kind="diagnosis"):
    until = time.monotonic() + 120
    while (found := analyses.latest(kind, snapshot))["state"] == "waiting" and time.monotonic() < until:
        time.sleep(0.05)
    assert found["state"] != "waiting"
    return found


def test_the_process_for_analyses_ends_with_whoever_started_it():
    process = subprocess.Popen(
        [sys.executable, "-m", "posse.service.dashboard.analysis_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdin.close()
    assert process.wait(timeout=120) == 0
    process.stdout.close()


def test_a_policy_of_the_users_own_is_analyzed_too(tmp_path):
    (tmp_path / "gentle_policies.py").write_text(USERS_POLICY)
    (gentle,) = import_file(tmp_path / "gentle_policies.py")
    snapshot = snapshot_of(*learner_of_shops(600, gentle(), SHOPS[:4]))
    analyses = AnalysisProcess()
    try:
        found = _awaited(analyses, snapshot, "savings")
    finally:
        analyses.close()
    assert found["policies"] == ["GentleTS", "Ind-TS-V"]


USERS_POLICY = """
import dataclasses, math, posse

@dataclasses.dataclass(frozen=True)
class GentleTS(posse.Policy):
    @staticmethod
    def index(n, s, N, S, M, log_T):
        return (S + 1) / (N + 2), 1 / math.sqrt(n + 4)
"""
