"""Files written by earlier versions: they load, and the learner goes on as the version that wrote them did."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from posse import Learner

FOLDER = Path(__file__).parent / "data" / "learner-schema-1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.parametrize("policy", EXPECTED)
def test_a_snapshot_of_schema_1_loads_and_goes_on(policy: str) -> None:
    learner = Learner.load(FOLDER / f"{policy}.json", clock=lambda: 100.0)
    _goes_on(learner, dict(EXPECTED[policy]))


@pytest.mark.parametrize("policy", EXPECTED)
def test_a_log_of_schema_1_replays_and_goes_on(policy: str) -> None:
    learner = Learner.replay(parquet.read_table(FOLDER / f"{policy}.parquet"), clock=lambda: 100.0)
    _goes_on(learner, dict(EXPECTED[policy]))


def _goes_on(learner: Learner, expected: dict) -> None:
    following = expected.pop("next")
    for player, probabilities in expected.items():
        assert learner.probabilities(player) == pytest.approx(probabilities, abs=1e-12)
    learner.choose(learner.players[0])
    assert [learner.choose("south").arm for _ in following] == following
