"""Saving, loading, the log and its replay."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow.parquet
import pytest
from sizes import FULL

import posse
from posse.insight.logs import read_log
from posse.learner import SnapshotError
from posse.learner.roster import Roster
from posse.learner.snapshot import SCHEMA
from posse.policies import all_policies
from posse.policies.statistics import COUNT
from posse.testing import example
from small_learner import ARMS, Clock, new, state

POLICIES = [example(cls) for cls in all_policies() if cls.__module__.startswith("posse.policies.")]


def test_who_is_here_as_somebody_holds_it_does_not_change_when_others_come_and_go():
    chance, roster, here, held = random.Random(1), Roster("player", []), [], []
    for step in range(200):
        held.append((roster.here, list(here)))
        place = chance.randrange(2 * len(here) + 1)
        if place >= len(here):
            roster.add(f"p{len(here)}")
            here.append(True)
        else:
            (roster.retire if here[place] else roster.add)(f"p{place}")
            here[place] = not here[place]
        assert (roster.count, roster.current(f"p{here.index(True)}")) == (sum(here), here.index(True)), step
    assert len(here) > 100
    assert all(array.tolist() == values for array, values in [*held, (roster.here, here)])
    part = roster.copy_of(["p7", "nobody", "p7", "p3"])
    assert list(part) == [("p7", here[7]), ("p3", here[3])]
    assert part.count == roster.count


def busy(policy, seed=0, rounds=60, **options):
    """A learner that has seen everything: history, late and missing rewards, joiners, retirements, defaults."""
    chance, clock = random.Random(seed), Clock()
    learner = new(policy, clock=clock, default_reward=0.0, patience=50, waiting_limit=30, **options)
    learner.record([("north", "tea", 0.5), ("south", "tea", 0.25)])
    waiting = []
    for t in range(rounds):
        clock.now += chance.random() * 3
        names = chance.sample(learner.players, chance.randint(0, len(learner.players)))
        waiting += learner.choose(names)
        chance.shuffle(waiting)
        taken, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :][:15]
        known = {row.serial for row in learner.ledger.waiting.values()}
        learner.observe([(d.id, chance.randint(0, 8) / 8) for d in taken if int(d.id.split("-")[0]) in known])
        if t == 20:
            learner.join("west")
            learner.join("far west", knows_others=False)
            learner.add_arm("juice")
        if t == 30:
            learner.set_shares({"cocoa": (0.05, 0.4), "juice": 0.1})
        if t == 40:
            learner.retire("north")
            learner.retire_arm("coffee")
    return learner, clock


def future(learner, steps=30):
    """What a learner decides from here on, told 1 for every decision."""
    seen = []
    for _ in range(steps):
        decisions = learner.choose(learner.players)
        seen += [(d.id, d.arm, d.propensity, d.shared) for d in decisions]
        learner.observe([(d.id, 1.0) for d in decisions])
    return seen


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
class TestEveryPolicy:
    @pytest.mark.parametrize("rewards", [0, 1, 3])
    def test_one_that_knows_next_to_nothing_can_be_saved(self, policy, rewards, tmp_path):
        learner = new(policy)
        for _ in range(rewards):
            learner.observe(learner.choose("north").id, 1.0)
        learner.save(tmp_path / "learner.json")
        assert state(posse.Learner.load(tmp_path / "learner.json")) == state(learner)

    def test_a_loaded_learner_goes_on_as_if_it_had_never_stopped(self, policy, tmp_path):
        learner, clock = busy(policy)
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json", clock=clock)
        assert state(loaded) == state(learner)
        assert future(loaded) == future(learner)

    def test_replaying_the_log_gives_the_same_state(self, policy, tmp_path):
        learner, clock = busy(policy)
        path = tmp_path / "log.parquet"
        pyarrow.parquet.write_table(learner.log(), path)
        table = pyarrow.parquet.read_table(path)
        again = posse.Learner.replay(table, clock=clock)
        assert state(again) == state(learner)
        assert again.log().equals(table, check_metadata=True)
        assert future(again) == future(learner)


class TestLog:
    def test_its_columns_are_the_documented_ones(self):
        learner, _ = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        assert table.column_names == [
            "decision",
            "round",
            "player",
            "arm",
            "propensity",
            "probabilities",
            "holdout",
            "shared",
            "reward",
            "observed",
            "defaulted",
            "decided_at",
            "observed_at",
        ]
        rows = table.to_pylist()
        assert [row["round"] for row in rows] == sorted(row["round"] for row in rows)
        past = [row for row in rows if row["decision"] is None]
        assert [(row["player"], row["propensity"], row["reward"]) for row in past] == [
            ("north", None, 0.5),
            ("south", None, 0.25),
        ]
        assert sum(row["reward"] is None for row in rows) == len(learner.ledger.waiting)

    @pytest.mark.parametrize("policy", [posse.RobustAggTS(0.1), posse.IndUCB()])
    def test_it_has_the_probability_of_every_arm_that_was_available(self, policy, tmp_path):
        """None for an arm that was not available; 0 for one that was, but could not be chosen."""
        learner = new(policy)
        learner.record([("north", "tea", 1.0)] * 9)
        decisions = [learner.choose("north"), learner.choose("south", available=["cocoa", "tea"])]
        learner.add_arm("juice")
        learner.retire_arm("coffee")
        decisions += learner.choose(["north", "east"])
        learner.observe([(decision.id, 0.5) for decision in decisions[:3]])
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json")
        for table in (learner.log(), loaded.log(), posse.Learner.replay(learner.log()).log()):
            assert table["probabilities"].to_pylist()[:9] == [None] * 9
            logged = table["probabilities"].to_pylist()[9:]
            assert [len(row) for row in logged] == [3, 3, 4, 4]
            for row, decision in zip(logged, decisions, strict=True):
                named = dict(zip([*ARMS, "juice"], row, strict=False))
                assert {arm: p for arm, p in named.items() if p is not None} == decision.probabilities
                assert named[decision.arm] == decision.propensity

    def test_a_log_longer_than_one_part_is_whole(self, tmp_path, monkeypatch):
        monkeypatch.setattr(posse.learner.ledger, "PART", 100)
        learner, clock = busy(posse.RobustAggTS(0.1))
        learner.save(tmp_path / "learner.json")
        loaded = posse.Learner.load(tmp_path / "learner.json", clock=clock)
        assert loaded.log().equals(learner.log(), check_metadata=True)
        assert loaded.log().num_rows > 50
        assert future(loaded) == future(learner)
        assert loaded.log().equals(learner.log())

    def test_counts_of_the_log_are_the_learners(self):
        learner, _ = busy(posse.RobustAggTS(0.1))
        counts = read_log(learner.log()).counts()
        assert counts.pulls.tolist() == learner.state.known.statistics[COUNT].T.tolist()
        assert counts.epsilon == 0.1

    def test_a_log_with_missing_rows_is_refused(self):
        learner, _ = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        answered = [row for row, reward in enumerate(table["reward"].to_pylist()) if reward is not None]
        rows = range(table.num_rows)
        for kept in (
            [row for row in rows if row not in answered[5:25]],
            [row for row in rows if row != answered[-1]],
            [*rows, table.num_rows - 1],
            [0, *list(rows)[:-1]],
        ):
            with pytest.raises(ValueError, match=r"the log was written with \d+ rows|lacks event"):
                posse.Learner.replay(table.take(kept))
        with pytest.raises(ValueError, match="no column 'shared'"):
            posse.Learner.replay(table.drop_columns(["shared"]))

    def test_the_order_of_rows_does_not_matter(self):
        learner, clock = busy(posse.RobustAggTS(0.1))
        table = learner.log()
        again = posse.Learner.replay(table.take(list(range(table.num_rows))[::-1]), clock=clock)
        assert list(again.ledger.waiting) == list(learner.ledger.waiting)
        assert future(again) == future(learner)

    def test_time_goes_on_where_it_was(self):
        clock = Clock()
        learner = new(clock=clock, default_reward=0.0, patience=60)
        learner.choose("north")
        clock.now = 500
        again = posse.Learner.replay(learner.log(), clock=clock)
        clock.now = 561
        again.choose("north")
        assert again.counts().pulls.sum() == 0

    def test_another_table_is_refused(self):
        with pytest.raises(ValueError, match="not a learner's log"):
            posse.Learner.replay(new().log().replace_schema_metadata(None))


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
