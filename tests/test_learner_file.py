"""A learner's file: what it holds, what is refused, and that a crash leaves a whole one."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from busy_learner import busy
from sizes import FULL

import posse
from posse.learner import SnapshotError
from posse.learner.snapshot import SCHEMA
from small_learner import new


class TestFile:
    def test_it_is_json_that_a_person_can_read(self, tmp_path):
        path = tmp_path / "learner.json"
        new().save(path)
        content = json.loads(path.read_text())
        assert (content["kind"], content["schema"], content["version"]) == ("posse learner", 4, posse.__version__)
        assert content["learner"]["setup"]["policy"] == {
            "name": "RobustAggTS",
            "module": "posse",
            "constants": {"epsilon": 0.1, "c1": 0.5, "c2": 1.0},
            "label": None,
        }

    def test_it_replaces_an_older_one_and_leaves_nothing_beside(self, tmp_path):
        learner = new()
        for _ in range(3):
            learner.choose("north")
            learner.save(tmp_path / "learner.json")
        assert [path.name for path in tmp_path.iterdir()] == ["learner.json"]
        assert posse.Learner.load(tmp_path / "learner.json").decisions == 3

    def test_others_choose_and_observe_while_it_is_written(self, tmp_path, monkeypatch):
        """The file has what was known when its writing began."""
        learner, written = new(), posse.learner.snapshot._write
        first = learner.choose("north")

        def choose_meanwhile(*arguments):
            thread = threading.Thread(target=lambda: learner.observe([(first, 1.0), (learner.choose("south"), 1.0)]))
            thread.start()
            thread.join(timeout=30)
            assert not thread.is_alive()
            written(*arguments)

        monkeypatch.setattr(posse.learner.snapshot, "_write", choose_meanwhile)
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json")
        assert (learner.decisions, learner.events) == (2, 1)
        assert (loaded.decisions, loaded.events) == (1, 0)
        assert loaded.log()["reward"].to_pylist() == [None]
        assert loaded.observe(first, 1.0) == 1

    def test_odd_places(self, tmp_path):
        learner = new()
        with pytest.raises(IsADirectoryError, match="is a folder"):
            learner.save(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            learner.save(tmp_path / "nowhere" / "learner.json")
        learner.save(tmp_path / "learner.json")
        (tmp_path / "learner.json").chmod(0o600)
        (tmp_path / "link.json").symlink_to(tmp_path / "learner.json")
        learner.choose("north")
        learner.save(tmp_path / "link.json")
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "learner.json").stat().st_mode & 0o777 == 0o600
        assert posse.Learner.load(tmp_path / "learner.json").decisions == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["learner.json", "link.json"]

    @pytest.mark.parametrize("keep", [0, 1, 50, 400, 700])
    def test_a_truncated_file_is_refused(self, tmp_path, keep):
        path = tmp_path / "learner.json"
        new().save(path)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(SnapshotError, match="damaged"):
            posse.Learner.load(path)

    def test_any_changed_digit_is_found(self, tmp_path):
        path = tmp_path / "learner.json"
        busy(posse.RobustAggTS(0.1), rounds=5)[0].save(path)
        text = path.read_text()
        start = text.index('"learner"')
        places = [place for place in range(start, len(text)) if text[place].isdigit()]
        found = 0
        for place in random.Random(0).sample(places, 60):
            digit = "7" if text[place] != "7" else "8"
            changed = text[:place] + digit + text[place + 1 :]
            if json.loads(changed) == json.loads(text):
                continue  # the last digit of a float that is read as the same one
            path.write_text(changed)
            with pytest.raises(SnapshotError):
                posse.Learner.load(path)
            found += 1
        assert found > 50

    def test_a_newer_schema_is_refused_with_the_reason(self, tmp_path):
        path = tmp_path / "learner.json"
        new().save(path)
        path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'))
        with pytest.raises(SnapshotError, match=rf"schema {SCHEMA + 1}.* use a newer one"):
            posse.Learner.load(path)

    def test_a_policy_that_keeps_other_statistics_by_now_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "learner.json"
        busy(posse.PosseTS(), rounds=5)[0].save(path)
        more = (*posse.PosseTS.statistics, posse.PosseTS.statistics[-1]._replace(name="more"))
        monkeypatch.setattr(posse.PosseTS, "statistics", more)
        with pytest.raises(SnapshotError, match=r"it has the statistics \['n', 's', 'q'\], but PosseTS keeps"):
            posse.Learner.load(path)

    def test_a_summary_with_other_numbers_is_made_anew(self, tmp_path):
        learner = busy(posse.PosseTS(), rounds=40)[0]
        state = learner.state
        state.known.of_arm[:] = 0  # as if nothing was ever estimated
        state.core.share_everything(state.known, state._log_T())
        learner.save(tmp_path / "learner.json")
        content = json.loads((tmp_path / "learner.json").read_text())
        known = content["learner"]["known"]
        known["of_arm"] = [numbers[:8] for numbers in known["of_arm"]]
        content["sha256"] = hashlib.sha256(json.dumps(content["learner"], sort_keys=True).encode()).hexdigest()
        (tmp_path / "older.json").write_text(json.dumps(content))
        again, older = (posse.Learner.load(tmp_path / name) for name in ("learner.json", "older.json"))
        for name in older.state.core.kept:
            assert np.array_equal(getattr(older.state.known, name), getattr(again.state.known, name)), name

    def test_something_else_is_refused(self, tmp_path):
        path = tmp_path / "learner.json"
        for text in ("[1, 2]", '{"kind": "cake"}', "null", "\x00\x01"):
            path.write_text(text)
            with pytest.raises(SnapshotError):
                posse.Learner.load(path)
        with pytest.raises(FileNotFoundError):
            posse.Learner.load(tmp_path / "nothing.json")

    def test_a_policy_that_is_not_imported_is_named(self, tmp_path):
        path = tmp_path / "learner.json"
        learner = new()
        learner.save(path)
        body = json.loads(path.read_text())["learner"]
        body["setup"]["policy"]["name"] = "MyOwnTS"
        content = {
            "kind": "posse learner",
            "schema": 3,
            "sha256": posse.learner.snapshot._digest(body),
            "learner": body,
        }
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"posse\.MyOwnTS is not known here; import the module"):
            posse.Learner.load(path)

    def test_a_label_of_its_own_is_kept(self, tmp_path):
        learner = new(posse.RobustAggTS(0.1, label="ours"))
        learner.save(tmp_path / "learner.json")
        assert posse.Learner.load(tmp_path / "learner.json").setup == learner.setup

    def test_a_reward_for_a_decision_made_after_the_save_is_not_taken_by_another(self, tmp_path):
        """After a crash, ids made between save and crash come again; their rewards must not go to other pairs."""
        learner = new(arms=[f"arm {k}" for k in range(20)])
        learner.save(tmp_path / "learner.json")
        lost = learner.choose("north")
        for player in ("north", "south"):
            loaded = posse.Learner.load(tmp_path / "learner.json")
            other = loaded.choose(player)
            assert lost.id != other.id
            with pytest.raises(ValueError, match=lost.id):
                loaded.observe(lost.id, 1.0)
            assert loaded.observe(other.id, 1.0) == 1


CRASHES = """
import os, random, signal, sys, time
import posse

path, crashes, chance = sys.argv[1], int(sys.argv[2]), random.Random(1)
between = 0
warm = posse.Learner.load(path)
warm.observe(warm.choose("north").id, 0.5)
for crash in range(crashes):
    learner = posse.Learner.load(path)
    before = learner.decisions
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        while True:
            learner.observe(learner.choose("north").id, 0.5)
            learner.save(path)
            os.write(write, b"%d " % learner.decisions)
    time.sleep(chance.random() * 0.02)
    between += os.path.exists(path + ".new")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        acknowledged = int((pipe.read().split() or [before])[-1])
    loaded = posse.Learner.load(path)
    assert acknowledged <= loaded.decisions <= acknowledged + 1, (crash, acknowledged, loaded.decisions)
    assert loaded.counts().pulls.sum() == loaded.decisions
print(between, loaded.decisions)
"""


def test_crashes_during_save_each_leave_a_whole_file(tmp_path):
    """Processes that save all the time are killed at random moments; what they were told is saved is there."""
    path = tmp_path / "learner.json"
    learner = new()
    for _ in range(300):
        learner.observe(learner.choose("south").id, 0.25)
    learner.save(path)
    crashes = 1000 if FULL else 200
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(CRASHES), str(path), str(crashes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    in_the_middle, decisions = map(int, done.stdout.split())
    assert in_the_middle > crashes // 20  # kills that met a save at work
    assert decisions > 300 + crashes // 50
