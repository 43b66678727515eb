"""Logs out and in, copies, schemas, and the commands for them."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import pyarrow.parquet
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import posse
import posse.service.storage.migrations
from posse.cli import main
from posse.cli.service import _first_token
from posse.policies.refresh import Refresh
from posse.service.admin.rebuild import rebuild
from posse.service.admin.transfer import export_log, import_log
from posse.service.admin.verify import verify
from posse.service.commands import Change, Choose, Erase, Observe, Record, TakeDefaults
from posse.service.storage import database, queries
from posse.service.storage import schema as tables
from posse.service.storage.errors import Damaged, ExperimentExists
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit
from stores import BACKENDS, SHOPS, Clock, answered, counts, new, stores
from test_learner_state import busy

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("schema-*.db"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("policy", [posse.PosseTS(), posse.RobustAggTS(0.1)], ids=lambda policy: policy.label)
def test_a_learners_log_becomes_an_experiment_that_goes_on_like_it(policy, backend, tmp_path):
    learner, clock = busy(policy)
    learner.choose([])  # a round that no row tells of
    pyarrow.parquet.write_table(learner.log(), tmp_path / "log.parquet")
    with stores(backend, tmp_path, 2, clock) as (store, other):
        made = import_log(store, "teas", tmp_path / "log.parquet")
        assert (made.rounds, made.decisions, made.events) == (learner.rounds, learner.decisions, learner.events)
        assert other.read(queries.log_table, "teas")["probabilities"].equals(learner.log()["probabilities"])
        assert verify(other) == []
        for _ in range(5):
            decisions = learner.choose(learner.players)
            assert commit(other, Choose("teas", list(learner.players))) == decisions
            reports = [(one.id, 1.0) for one in decisions]
            learner.observe(reports)
            assert {outcome.status for outcome in commit(store, Observe("teas", reports))} == {"taken"}
        assert counts(other, "teas").pulls.tolist() == learner.counts().pulls.tolist()
        assert verify(store) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_defaults_are_taken_beyond_the_decisions_that_a_learner_gave_up(backend, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.service.storage.transaction.MANY", 5)
    clock = Clock()
    options = {"default_reward": 0.0, "patience": 60, "waiting_limit": 3, "clock": clock, "seed": 3}
    learner = posse.Learner(posse.PosseTS(), ["tea", "coffee"], SHOPS, **options)
    learner.ledger._gives_up = True  # as an older posse did
    for _ in range(2):
        decision = learner.choose("north")
        learner.observe(decision.id, 1.0)
        for _ in range(20):
            learner.choose("north")
    pyarrow.parquet.write_table(learner.log(), tmp_path / "log.parquet")
    with stores(backend, tmp_path, 2, clock) as (store, other):
        made = import_log(store, "teas", tmp_path / "log.parquet")
        assert (made.decisions, made.rewards, made.waiting) == (42, 2, 3)
        clock.now += 60
        for worker in (store, other):
            commit(worker, TakeDefaults("teas"))
            assert (other.read(queries.experiment, "teas").rewards, other.read(queries.experiment, "teas").waiting) == (
                5,
                0,
            )
        assert verify(store) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exported_log_comes_back_the_same(backend, tmp_path):
    clock = Clock()
    with stores(backend, tmp_path, 1, clock) as (store,):
        new(store, posse.PosseTS(), default_reward=0.0, patience=30)
        commit(store, Record("teas", [("north", "tea", 1.0)]))
        for step in range(20):
            clock.now += 3
            answered(store, player=SHOPS[step % 3])
            commit(store, Choose("teas", SHOPS))
            if step == 10:
                commit(store, Change("teas", join=["west"], add_arms=["juice"]))
                commit(store, Erase("teas", "west"))
                commit(store, Change("teas", shares={"juice": (0.1, 0.3), "tea": 0.2}))
        assert export_log(store, "teas", tmp_path / "a.parquet") == 81
        import_log(store, "again", tmp_path / "a.parquet")
        export_log(store, "again", tmp_path / "b.parquet")
        first, second = (pyarrow.parquet.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet"))
        assert first.equals(second, check_metadata=True)
        assert verify(store) == []
        with pytest.raises(ExperimentExists):
            import_log(store, "teas", tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("column", "place", "value"), [("decided_at", 3, 1e9), ("observed_at", 3, 1.0), ("round", 4, 0)]
)
def test_a_log_in_which_time_goes_back_is_refused(tmp_path, column, place, value):
    """`posse db verify` would call it damaged, and nothing could be rebuilt from it."""
    with stores("sqlite", tmp_path) as (store,):
        new(store)
        for _ in range(5):
            answered(store)
        export_log(store, "teas", tmp_path / "log.parquet")
        log = pyarrow.parquet.read_table(tmp_path / "log.parquet")
        values = log[column].to_pylist()
        values[place] = value
        field = log.schema.get_field_index(column)
        edited = log.set_column(field, log.schema.field(field), pyarrow.array(values, log.schema.field(field).type))
        pyarrow.parquet.write_table(edited, tmp_path / "edited.parquet")
        with pytest.raises(ValueError, match=r"before it at|made later"):
            import_log(store, "edited", tmp_path / "edited.parquet")
        assert [each.name for each in store.read(queries.experiments)] == ["teas"]


def test_what_is_no_log_is_refused_and_leaves_nothing(tmp_path):
    with stores("sqlite", tmp_path) as (store,):
        (tmp_path / "text.parquet").write_text("no")
        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other.parquet")
        learner, _ = busy(posse.IndTS(), rounds=10)
        pyarrow.parquet.write_table(learner.log().slice(3), tmp_path / "cut.parquet")
        for name in ("none", "text", "other", "cut"):
            with pytest.raises(ValueError, match=r"no file|can read|not a learner's log|rows"):
                import_log(store, "teas", tmp_path / f"{name}.parquet")
        assert store.read(queries.experiments) == []


FIRST_EXPERIMENTS = [
    *(f"DROP TABLE {name}" for name in ("stats", "summaries", "requests", "outcomes", "outcome_stats", "audit")),
    "CREATE INDEX decisions_by_key ON decisions (experiment, request_key, position)",
    *(
        f"ALTER TABLE experiments DROP COLUMN {name}"
        for name in ("rewards", "waiting", "status", "description", "shipped", "shares")
    ),
    "ALTER TABLE experiments ADD COLUMN paused SMALLINT",
    "ALTER TABLE changes DROP COLUMN detail",
    "ALTER TABLE experiments ADD COLUMN summary BYTEA",
    "ALTER TABLE players DROP COLUMN attributes",
]
FIRST_STATS = """
    CREATE TABLE stats (
        experiment INTEGER NOT NULL, player INTEGER NOT NULL, arm INTEGER NOT NULL, pulls BIGINT NOT NULL,
        sums BIGINT NOT NULL, squares BIGINT NOT NULL, own_pulls BIGINT NOT NULL, own_sums BIGINT NOT NULL,
        waiting BIGINT NOT NULL, seen_n DOUBLE PRECISION NOT NULL, seen_s DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, player, arm)
    )
"""


class TestSchema:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_the_migrations_lead_to_the_tables(self, backend, tmp_path):
        with stores(backend, tmp_path) as (store,):
            for _ in range(2):  # a new database, and one of the first version that was upgraded
                with store.engine.begin() as connection:
                    assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
                    for change in FIRST_EXPERIMENTS:
                        connection.exec_driver_sql(change)
                    connection.exec_driver_sql(FIRST_STATS)
                    connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
                database.upgrade(store.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""))
            assert store.read(database.version) == tables.SCHEMA
        script = ScriptDirectory(str(Path(posse.service.storage.migrations.__file__).parent))
        assert script.get_current_head() == tables.SCHEMA

    @pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
    def test_a_database_of_every_version_opens_and_goes_on(self, path, tmp_path):
        shutil.copy(path, tmp_path / "posse.db")
        store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}", create=True)
        assert {one.name for one in store.read(queries.experiments)} >= {"teas", "beers"}
        found = {(one.experiment, one.what.split(",")[0]) for one in verify(store)}
        for one in store.read(queries.experiments):
            first = path.stem.startswith("schema-1")  # which kept numbers in another form, as it kept summaries
            if first or one.setup.policy.refresh is Refresh.SCHEDULE:
                found = {finding for finding in found if finding[0] != one.name}
                with pytest.raises(Damaged, match="`posse db rebuild` makes it anew"):
                    answered(store, one.name, "south")
            else:  # all others go on
                answered(store, one.name, "south")
        assert not found
        rebuild(store)
        assert verify(store) == []
        for one in store.read(queries.experiments):
            answered(store, one.name, "south")
            posse.Learner.replay(store.read(queries.log_table, one.name))
        assert verify(store) == []
        store.close()

    def test_there_is_a_fixture_of_every_version(self):
        versions = Path(posse.service.storage.migrations.__file__).parent / "versions"
        there = {int(path.stem.split("-")[1]) for path in FIXTURES}
        assert there == {int(path.stem.removeprefix("v")) for path in versions.glob("v*.py")}

    def test_another_version_is_refused_with_what_to_do(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'posse.db'}"
        ServiceStore(url, create=True).close()
        for version, said in (("9999", "use a newer posse"), ("0000", "posse db upgrade")):
            store = ServiceStore(url)
            with store.engine.begin() as connection:
                connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
            with pytest.raises(ValueError, match=f"has schema {version}.*{said}"):
                ServiceStore(url)
            with pytest.raises(ValueError, match=f"has schema {version}"):
                database.check_version(store.engine)
            with store.engine.begin() as connection:
                connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{tables.SCHEMA}'")
            store.close()

    def test_opening_at_once_from_many_processes_makes_one_database(self, tmp_path):
        stores = [ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}", create=True) for _ in range(3)]
        new(stores[0])
        assert len(stores[2].read(queries.experiments)) == 1
        for store in stores:
            store.close()


class TestCommands:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("POSSE_DATABASE", f"sqlite:///{tmp_path / 'posse.db'}")

        def run(*words, status=0):
            assert main([str(word) for word in words]) == status
            said = capsys.readouterr()
            return said.err if status else said.out

        return run

    def test_a_database_from_its_making_to_its_copy(self, run, tmp_path):
        assert "posse db init" in run("db", "verify", status=2)
        assert run("db", "init") == f"schema {tables.SCHEMA}: a new database\n"
        assert run("db", "init") == run("db", "upgrade") == f"schema {tables.SCHEMA}: it was there already\n"
        store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}")
        new(store)
        answered(store)
        assert run("db", "verify") == "all is well: 1 decisions\n"
        assert "1 rows" in run("db", "export", "teas", tmp_path / "log.parquet")
        assert "1 decisions, 1 rewards" in run("db", "import", "again", tmp_path / "log.parquet")
        assert re.match(r"south is now erased-[0-9a-f]{16}\n", run("db", "erase", "teas", "south"))
        run("db", "backup", tmp_path / "copy.db")
        assert "exists already" in run("db", "backup", tmp_path / "copy.db", status=2)
        assert "there is no folder" in run("db", "backup", tmp_path / "none" / "copy.db", status=2)
        copy = f"sqlite:///{tmp_path / 'copy.db'}"
        assert run("db", "verify", "--database", copy, "--experiment", "teas") == "all is well: 2 decisions\n"
        with store.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE stats SET pulls = 7 WHERE player = 0 AND arm = 0")
        store.close()
        assert "2 findings" in run("db", "verify", status=1)
        assert "made anew" in run("db", "rebuild", "--experiment", "teas")
        assert "1 finding" in run("db", "verify", status=1)
        run("db", "rebuild")
        run("db", "verify")

    def test_an_experiment_from_its_pause_to_its_end(self, run, tmp_path):
        run("db", "init")
        store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}")
        new(store)
        answered(store)
        assert run("experiment", "pause", "teas") == "teas is paused\n"
        assert "so there is nothing to restore" in run("experiment", "restore", "teas", status=2)
        assert run("experiment", "resume", "teas") == run("experiment", "resume", "teas") == "teas is running\n"
        run("experiment", "describe", "teas", "Which drink?\nAsk Ada.")
        assert "can become paused or finished, but not archived" in run("experiment", "archive", "teas", status=2)
        said = run("experiment", "finish", "teas", "--ship", "tea", "--ship-for", "north=cocoa")
        assert said == "teas is finished, and every decision is tea for everybody else\n"
        assert [each.arm for each in commit(store, Choose("teas", SHOPS))] == ["cocoa", "tea", "tea"]
        assert run("experiment", "list") == "teas  finished  4 decisions  Which drink?\n"
        assert "finish and archive it first" in run("experiment", "delete", "teas", status=2)
        assert run("experiment", "archive", "teas") == "teas is archived\n"
        assert "so there is nothing to finish" in run("experiment", "finish", "teas", status=2)
        assert (run("experiment", "list"), run("experiment", "list", "--archived")[:14]) == ("", "teas  archived")
        assert run("experiment", "restore", "teas").startswith("teas is finished, and")
        run("experiment", "archive", "teas")
        assert run("db", "verify") == "all is well: 4 decisions\n"
        assert run("experiment", "delete", "teas") == "teas is deleted, with 4 decisions\n"
        store.close()
        trail = run("audit", "--experiment", "teas").splitlines()
        assert run("audit").splitlines() == trail
        assert [line.split("  ")[-1] for line in trail] == [
            *("RobustAgg-TS(0.1), 3 arms, 3 players", "pause", "resume", "describe", "finish and ship 'tea'"),
            *("archive", "restore", "archive", "4 decisions"),
        ]
        with pytest.raises(SystemExit):
            run("experiment", "finish", "teas", "--ship", "tea", "--ship-for", "north")

    def test_a_long_name_does_not_widen_every_line(self, run, tmp_path):
        run("db", "init")
        store = ServiceStore(f"sqlite:///{tmp_path / 'posse.db'}")
        new(store)
        new(store, name="x" * 200)
        store.close()
        assert run("experiment", "list").splitlines()[1].startswith("x" * 39 + "…  running")
        assert all(len(line) < 130 for line in run("audit").splitlines())

    def test_tokens_are_made_listed_and_revoked(self, run):
        run("db", "init")
        assert run("token", "create", "--scope", "decide", "--scope", "reward", "--expires", "90d").startswith(
            "posse_1_"
        )
        assert "decide+reward" in run("token", "list")
        assert run("token", "revoke", "1") == "token 1 is revoked\n"
        assert "revoked" in run("token", "list")
        assert "no token 5" in run("token", "revoke", "5", status=2)
        for wrong in ("soon", "0d", "36501d", "99999999999999999d"):
            with pytest.raises(SystemExit):
                run("token", "create", "--scope", "decide", "--expires", wrong)
        assert run("token", "create", "--scope", "decide", "--expires", "36500d").startswith("posse_2_")

    @pytest.mark.parametrize("terminal", [True, False])
    def test_who_starts_a_service_again_is_told_how_to_sign_in(self, run, tmp_path, monkeypatch, terminal):
        run("db", "init")
        run("token", "create", "--scope", "read")
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
        said = _first_token(f"sqlite:///{tmp_path / 'posse.db'}", "http://here")
        assert said.startswith("posse: sign in at http://here/login with a token;") if terminal else said == ""

    def test_tokens_are_listed_whenever_they_expire(self, run, tmp_path):
        """As an earlier version made them."""
        run("db", "init")
        for _ in range(2):
            run("token", "create", "--scope", "decide", "--expires", "90d")
        with contextlib.closing(sqlite3.connect(tmp_path / "posse.db")) as connection, connection:
            connection.execute("UPDATE tokens SET expires_at = 1e300")
        run("token", "revoke", "2")
        first, second = run("token", "list").splitlines()
        assert "expires after the year 9999" in first
        assert "revoked 20" in second
