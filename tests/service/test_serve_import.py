"""`posse serve --import my_policies.py`: experiments with a user's own policy, over HTTP and through restarts."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import httpx
import pytest
from fleet import FULL, Fleet, fleet, run_posse

from high_ts import HighSummaryTS, HighTS
from posse import Learner

POLICY = """
from dataclasses import dataclass

from posse.policies import Policy


@dataclass(frozen=True)
class Hopeful(Policy):
    hope: float
    fade: float = 1.0

    @staticmethod
    def index(n, s, N, S, M, log_T, hope, fade):
        return s / max(n, 1.0) + hope / (1.0 + fade * n), 0.1
"""
PATH = "/v1/experiments/teas"
BODY = {"name": "teas", "arms": ["tea", "coffee"], "players": ["north"], "seed": 7}


def choose(url: str) -> dict:
    answer = httpx.post(f"{url}{PATH}/decisions", json={"player": "north"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["decisions"][0]


def replace_worker(service: Fleet) -> None:
    """Kill the only worker, and wait until another takes its place."""
    (worker,) = service.workers()
    service.kill(worker)
    while service.workers() in ([], [worker]):
        time.sleep(0.05)


def test_an_experiment_with_a_policy_of_ones_own_survives_a_restart(tmp_path):
    file = tmp_path / "hopeful_policies.py"
    file.write_text(POLICY)
    database, option = f"sqlite:///{tmp_path}/posse.db", ("--import", str(file))
    with fleet(database, tmp_path, 1, *option) as service:
        schema = httpx.get(f"{service.url}/openapi.json").json()["components"]["schemas"]
        assert schema["HopefulConstants"]["required"] == ["hope"]
        wrong = httpx.post(f"{service.url}/v1/experiments", json={**BODY, "policy": {"name": "Hopeful"}})
        assert wrong.status_code == 422
        assert "constants" in wrong.text
        body = {**BODY, "policy": {"name": "Hopeful", "constants": {"hope": 0.5}}}
        made = httpx.post(f"{service.url}/v1/experiments", json=body, timeout=60)
        assert made.status_code == 201, made.text
        assert made.json()["policy"] == {
            "name": "Hopeful",
            "constants": {"hope": 0.5, "fade": 1.0},
            "label": "Hopeful(0.5)",
        }
        first = choose(service.url)
        replace_worker(service)
        second = choose(service.url)
        assert (first["round"], second["round"]) == (1, 2)
        until = time.monotonic() + 60
        while (page := httpx.get(f"{service.url}/experiments/teas", timeout=60)).status_code == 503:  # it compiles
            assert time.monotonic() < until, page.text
        assert page.status_code == 200
    with fleet(database, tmp_path, 1, *option) as service:
        assert choose(service.url)["round"] == 3
    alone = run_posse("db", "verify", "--database", database)
    assert alone.returncode == 1
    assert "hopeful_policies.Hopeful is not known here" in alone.stdout + alone.stderr
    verified = run_posse("db", "verify", "--database", database, *option)
    assert (verified.returncode, verified.stdout) == (0, "all is well: 3 decisions\n"), verified.stderr


@pytest.mark.parametrize(
    "policy", [HighSummaryTS(), *([HighTS(weight=0.25)] if FULL else [])], ids=lambda policy: policy.name
)
def test_statistics_of_ones_own_survive_a_kill_and_a_restart(tmp_path, policy):
    file = Path(__file__).parents[1] / "high_ts.py"
    database, option = f"sqlite:///{tmp_path}/posse.db", ("--import", str(file))
    arms, players = ["tea", "coffee", "water"], ["north", "south"]
    learner = Learner(policy, arms=arms, players=players, seed=7)
    constants = {name: getattr(policy, name) for name in policy.constant_names()}
    body = {**BODY, "arms": arms, "players": players, "policy": {"name": type(policy).__name__, "constants": constants}}

    def go_on(url: str, rounds: int) -> None:
        """Some rounds of the service and the learner, which must choose alike. Some rewards never come."""
        for _ in range(rounds):
            answer = httpx.post(f"{url}{PATH}/decisions", json={"players": players}, timeout=60)
            assert answer.status_code == 200, answer.text
            made, expected = answer.json()["decisions"], learner.choose(players)
            for one, other in zip(made, expected, strict=True):  # the ids differ, because part of an id is random
                assert {**one, "id": other.id} == dataclasses.asdict(other)
            rewards = [(5 * one.round + 3 * len(one.arm)) % 8 / 8 for one in expected]
            if expected[0].round % 5:
                learner.observe({one.id: reward for one, reward in zip(expected, rewards, strict=True)})
                pairs = [{"decision": one["id"], "reward": reward} for one, reward in zip(made, rewards, strict=True)]
                answer = httpx.post(f"{url}{PATH}/rewards", json={"rewards": pairs}, timeout=60)
                assert answer.json()["taken"] == len(pairs), answer.text

    with fleet(database, tmp_path, 1, *option) as service:
        made = httpx.post(f"{service.url}/v1/experiments", json=body, timeout=60)
        assert made.status_code == 201, made.text
        go_on(service.url, 12)
        replace_worker(service)
        go_on(service.url, 12)
    with fleet(database, tmp_path, 1, *option) as service:
        go_on(service.url, 12)
    verified = run_posse("db", "verify", "--database", database, *option)
    assert (verified.returncode, verified.stdout) == (0, "all is well: 72 decisions\n"), verified.stderr


def test_a_file_that_cannot_be_imported_is_said_before_anything_starts(tmp_path):
    file = tmp_path / "broken_policies.py"
    file.write_text("x = 1\nx.nothing\n")
    database = f"sqlite:///{tmp_path}/posse.db"
    for command in (("serve", "--port", "0"), ("db", "verify"), ("token", "create", "--scope", "read")):
        ran = run_posse(*command, "--database", database, "--import", str(file))
        assert ran.returncode == 2
        assert "broken_policies.py, line 2: AttributeError" in ran.stderr
        assert len(ran.stderr.splitlines()) <= 3
    assert not (tmp_path / "posse.db").exists()
