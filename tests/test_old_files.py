"""Files written by earlier versions: they load, and the learner goes on as the version that wrote them did.

PosseTS has another model since: it goes on from the same rewards, with what the model now makes of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from posse import Learner, PosseTS
from posse.insight import diagnose, evaluate

DATA = Path(__file__).parent / "data"
FOLDERS = [DATA / "learner-schema-1", DATA / "learner-schema-2"]  # by the schema of the snapshots
OLD = {
    f"{folder.name[8:]} {policy}": (folder / policy, expected)
    for folder in FOLDERS
    for policy, expected in json.loads((folder / "expected.json").read_text()).items()
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_snapshot_loads_and_goes_on(old: str) -> None:
    path, expected = OLD[old]
    learner = Learner.load(path.with_suffix(".json"), clock=lambda: 100.0)
    if path.name == "PosseTS":
        expected = _with_a_new_summary(path)
    _goes_on(learner, dict(expected))


def _with_a_new_summary(path: Path) -> dict:
    """What is expected of a snapshot whose PosseTS kept other numbers: that they are made anew from the statistics."""
    saved = json.loads(path.with_suffix(".json").read_text())["learner"]
    numbers = saved.get("known", saved)["of_arm"]
    assert len(numbers[0]) != len(PosseTS.shared)
    learner = Learner.replay(parquet.read_table(path.with_suffix(".parquet")), clock=lambda: 100.0)
    state = learner.state
    state.known.of_arm[:] = 0  # as if nothing was ever estimated
    state.core.share_everything(state.known, state._log_T())
    expected = {player: learner.probabilities(player) for player in learner.players}
    learner.choose(learner.players[0])
    return expected | {"next": [learner.choose("south").arm for _ in range(20)]}


@pytest.mark.parametrize("old", OLD)
def test_somebody_may_join_an_old_snapshot(old: str) -> None:
    """What is known of who joins is not in it."""
    path, _ = OLD[old]
    learner = Learner.load(path.with_suffix(".json"), clock=lambda: 100.0)
    replayed = Learner.replay(parquet.read_table(path.with_suffix(".parquet")), clock=lambda: 100.0)
    for each in (learner, replayed):
        each.join("new")
    assert learner.probabilities("new") == pytest.approx(replayed.probabilities("new"), abs=1e-12)


@pytest.mark.parametrize("old", OLD)
def test_an_old_log_replays_and_goes_on(old: str) -> None:
    path, expected = OLD[old]
    table = parquet.read_table(path.with_suffix(".parquet"))
    learner = Learner.replay(table, clock=lambda: 100.0)
    assert learner.log().drop_columns(["probabilities"]).equals(table)
    assert learner.log()["probabilities"].null_count == table.num_rows
    _goes_on(learner, dict(expected))


@pytest.mark.parametrize("old", OLD)
def test_insight_reads_old_logs_and_new_ones_alike(old: str) -> None:
    path, _ = OLD[old]
    learner = Learner.load(path.with_suffix(".json"), clock=lambda: 100.0)
    before, after = path.with_suffix(".parquet"), learner.log()
    found, again = (evaluate(log, "tea", players=["north", "south", "east"]) for log in (before, after))
    assert [each.value for each in found.estimates] == pytest.approx(
        [each.value for each in again.estimates], nan_ok=True
    )
    assert found.of("tea").interval == again.of("tea").interval
    assert str(diagnose(before, epsilon=0.5)) == str(diagnose(after, epsilon=0.5))


@pytest.mark.parametrize("policy", ["RobustAggTS", "IndTS"])  # the second keeps no log
def test_files_from_before_there_were_outcomes_go_on(policy: str) -> None:
    path = DATA / "learner-schema-3" / policy
    expected = json.loads((path.parent / "expected.json").read_text())[policy]
    known, reward = expected.pop("known")
    loaded = [Learner.load(path.with_suffix(".json"), clock=lambda: 100.0)]
    if policy == "RobustAggTS":
        table = parquet.read_table(path.with_suffix(".parquet"))
        loaded.append(Learner.replay(table, clock=lambda: 40.0))
        assert loaded[1].log().equals(table)
        loaded[1]._clock = lambda: 100.0
    for learner in loaded:
        assert learner.observe(known, reward) == 0
        assert (learner.alarms, learner.state.guard.tallies.size) == ((), 0)
        _goes_on(learner, dict(expected))


def _goes_on(learner: Learner, expected: dict) -> None:
    following = expected.pop("next")
    for player, probabilities in expected.items():
        assert learner.probabilities(player) == pytest.approx(probabilities, abs=1e-11)  # PosseTS takes more turns now
    learner.choose(learner.players[0])
    assert [learner.choose("south").arm for _ in following] == following
