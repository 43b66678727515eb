"""The store: whole files or none, and nothing damaged or foreign is used or lost."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posse.cli import main
from posse.experiments import ResultStore, SpecError, StoreError, load, parse, read, run
from posse.experiments.records import SCHEMA, Records
from posse.experiments.runs import store
from posse.experiments.runs.remaining import Remaining
from posse.experiments.runs.store import file_content
from posse.experiments.settings import describe, settings

TEXT = """
[[study]]
name = "one"
horizon = [20, 30, 40]
problems = { family = "subpar", n_subpar = 1, count = 2, players = 2, arms = 3 }
policies = [{ name = "RobustAggTS", epsilon = "problem" }, { name = "IndTS" }]
"""


@pytest.fixture(scope="module")
def spec():
    return parse(TEXT)


@pytest.fixture(scope="module")
def tables(spec):
    return {unit.id: unit.run() for unit in spec.units()}


@pytest.fixture
def full(tmp_path, spec, tables):
    filled = ResultStore(tmp_path / "out")
    for unit in reversed(spec.units()):
        filled.write(unit, file_content(unit, tables[unit.id]))
    return filled


def test_what_is_written_is_read(full, spec, tables, monkeypatch):
    units = spec.units()
    assert Remaining(full, units).tasks == []
    assert all(full.path(unit).exists() for unit in units)
    expected = joined(spec, tables)
    assert full.read(spec) == expected
    full.write_manifest({"units": [unit.id for unit in units]})
    assert full.read() == expected
    monkeypatch.setattr(store, "FILES_JOINED", 2)
    assert full.read() == expected


def joined(spec, tables):
    return Records(pa.concat_tables([pa.table(tables[unit.id]) for unit in spec.units()]))


def test_plain_pyarrow_reads_it(full, spec, tables):
    unit = spec.units()[0]
    path = full.path(unit)
    table, file = pq.read_table(path), pq.ParquetFile(path)
    assert table.schema.equals(pa.schema(SCHEMA))
    assert table.to_pylist() == pa.table(tables[unit.id]).to_pylist()
    assert list(table.schema.metadata) == [b"posse"]
    told = json.loads(table.schema.metadata[b"posse"])
    assert (told["schema"], told["unit"]) == (3, unit.describe())
    columns = [file.metadata.row_group(0).column(number) for number in range(len(SCHEMA.names))]
    assert {column.compression for column in columns} == {"ZSTD"}
    assert {column.path_in_schema for column in columns} == {
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name for field in table.schema
    }


def rewritten(path):
    """What a version of posse that had pyarrow for it would have written in place of a file."""
    file, content = pq.ParquetFile(path), pa.BufferOutputStream()
    said = file.metadata.metadata[b"posse"]
    digest = json.loads(said)["digest"].encode()
    with pq.ParquetWriter(content, file.schema_arrow, compression="zstd", store_schema=False) as writer:
        writer.write_table(file.read())
        writer.add_key_value_metadata({b"posse": said.replace(digest, store._BLANK)})
    blank = content.getvalue().to_pybytes()
    assert store._digest(path.read_bytes().replace(digest, store._BLANK)) == digest
    return blank.replace(store._BLANK, store._digest(blank))


def test_a_folder_with_files_that_pyarrow_wrote_goes_on(full, spec, tables):
    first, second, third = spec.units()
    for unit in (first, second):
        full.path(unit).write_bytes(rewritten(full.path(unit)))
    full.path(third).unlink()
    before = {path: path.read_bytes() for path in full.files()}
    assert [task.unit for task in Remaining(full, spec.units()).tasks] == [third]
    assert run(spec, full.folder) == joined(spec, tables)
    full.write(first, file_content(first, tables[first.id]))
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(StoreError, match="something else"):
        full.write(first, file_content(first, tables[second.id]))
    grown = parse(TEXT.replace("count = 2", "count = 3"))
    remaining = Remaining(full, grown.units())
    assert {part.problems.numbers for task in remaining.tasks for part in task.parts} == {range(2, 3)}
    assert run(grown, full.folder).where(problem=[0, 1]) == joined(spec, tables)


def test_old_and_new_files_beside_each_other(full, spec, tables):
    """Those of schema version 1 have other columns."""
    shutil.copy(next((Path(__file__).parent / "data" / "schema-1").glob("*.parquet")), full.folder)
    found = full.read()
    assert len(found) == len(joined(spec, tables)) + 8
    assert pa.table(found)["lock_ins"].null_count == 8


def test_the_same_rows_give_the_same_bytes(full, spec, tables):
    for unit in spec.units():
        table = pa.table(tables[unit.id])
        parts = Records(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
        assert {file_content(unit, parts) for _ in range(20)} == {full.path(unit).read_bytes()}


def test_some_units_are_missing(full, spec):
    unit = spec.units()[1]
    full.path(unit).unlink()
    assert [task.unit for task in Remaining(full, spec.units()).tasks] == [unit]
    assert len(full.read()) == 8
    with pytest.raises(StoreError, match=f"misses 1 of 3 units, such as unit {unit.id}"):
        full.read(spec)


def test_an_empty_folder_and_none(tmp_path):
    with pytest.raises(StoreError, match="holds no results"):
        ResultStore(tmp_path).read()
    for way in (read, lambda folder: ResultStore(folder).read()):
        with pytest.raises(StoreError, match=r"there is no folder .*new"):
            way(tmp_path / "new")
    assert list(tmp_path.iterdir()) == [], "who only reads makes no folder"


def test_results_are_read_from_the_folder_of_a_command_or_their_own(tmp_path, spec):
    records = run(spec, tmp_path / "study" / "results")
    for folder in (tmp_path / "study", tmp_path / "study" / "results", str(tmp_path / "study")):
        found = read(folder)
        assert list(found.rows("policy", "final_regret")) == list(records.rows("policy", "final_regret"))
    with pytest.raises(SpecError, match=r"study is a folder, .*`posse\.experiments\.read` reads"):
        load(tmp_path / "study")


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "out").write_text("hello")
    with pytest.raises(StoreError, match="is a file"):
        ResultStore(tmp_path / "out")


def refused(full, spec, path, words):
    """Whoever reads it gets an error that names the file, and a run computes it anew and keeps what was there."""
    before = path.read_bytes()
    for act in (lambda: full.read(spec), full.read):
        with pytest.raises(StoreError, match=words) as caught:
            act()
        assert str(path) in str(caught.value)
    remaining = Remaining(full, spec.units())
    assert [full.path(task.unit) for task in remaining.tasks] == [path]
    assert path.read_bytes() == before
    remaining.make_room()
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == before


def test_any_flipped_byte_is_noticed(full, spec):
    path = full.path(spec.units()[1])
    good = path.read_bytes()
    random.seed(1)
    places = {*range(8), *range(len(good) - 12, len(good)), *random.sample(range(len(good)), 300)}
    for place in sorted(places):
        path.write_bytes(good[:place] + bytes([good[place] ^ (1 << random.randrange(8))]) + good[place + 1 :])
        with pytest.raises(StoreError, match=path.name):
            full.read()
    refused(full, spec, path, "damaged")


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_a_truncated_file(full, spec, kept, tables):
    unit = spec.units()[1]
    path = full.path(unit)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(StoreError, match=path.name):
        full.write(unit, file_content(unit, tables[unit.id]))
    refused(full, spec, path, "damaged")


def test_foreign_files_and_files_of_another_experiment_are_not_used(full, spec, tables):
    (other,) = parse(TEXT.replace("[20, 30, 40]", "50")).units()
    full.write(other, file_content(other, other.run()))
    for name in ("sales.parquet", "unit-sales.parquet"):
        pq.write_table(pa.table({"a": [1]}), full.folder / name)
    remaining = Remaining(full, spec.units())
    assert remaining.tasks == []
    remaining.make_room()
    assert {"sales.parquet", "unit-sales.parquet"} < {path.name for path in full.folder.iterdir()}
    assert [path.name for path in (full.folder / "earlier").iterdir()] == [full.path(other).name]
    assert full.read(spec) == joined(spec, tables)


def test_a_renamed_file(full, spec):
    first, second, _ = spec.units()
    shutil.copy(full.path(first), full.path(second))
    refused(full, spec, full.path(second), "does not contain the unit that its name says")


def test_another_schema_version(full, spec, tables, monkeypatch):
    unit = spec.units()[0]
    full.path(unit).unlink()
    with monkeypatch.context() as patched:
        patched.setattr(store, "SCHEMA_VERSION", 99)
        full.write(unit, file_content(unit, tables[unit.id]))
    refused(full, spec, full.path(unit), "schema version 99")


def test_results_of_schema_version_1_are_read_without_lock_ins():
    """Written by the version of posse that had it."""
    old = ResultStore(Path(__file__).parent / "data" / "schema-1")
    records = old.read()
    assert len(records) == 8
    assert records.distinct("lock_ins") == [None]
    again = [row for unit in parse(old.manifest()["spec"]).units() for row in pa.table(unit.run()).to_pylist()]
    regrets = ("regret", "final_regret", "regret_by_kind")  # added up in another order then
    for new, known in zip(again, pa.table(records).to_pylist(), strict=True):
        assert new | {"lock_ins": None} == known | {name: new[name] for name in regrets}
        for name in regrets:
            assert new[name] == pytest.approx(known[name], rel=1e-14)


def test_results_of_schema_version_2_get_their_family_from_the_description_of_their_unit():
    """Two values of a parameter without a column, which the rows of that version do not tell apart."""
    old = ResultStore(Path(__file__).parent / "data" / "schema-2")
    records = old.read()
    assert [describe(setting) for setting, _ in settings(records)] == ["odd = 1", "odd = 2"]
    again = [row for unit in parse(old.manifest()["spec"]).units() for row in pa.table(unit.run()).to_pylist()]
    assert again == pa.table(records).to_pylist()


def test_results_of_an_older_version_are_reported_compared_and_computed_anew(tmp_path, capsys):
    """Their ids were made without the code; so they are readable, but do not answer for the code of today."""
    shutil.copytree(Path(__file__).parent / "data" / "schema-1", tmp_path / "old" / "results")
    assert main(["report", str(tmp_path / "old")]) == 0
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "old")]) == 0
    assert "the same" in capsys.readouterr().out
    old = ResultStore(tmp_path / "old" / "results")
    spec = parse(old.manifest()["spec"])
    assert [task.parts for task in Remaining(old, spec.units()).tasks] == [spec.units()]
    run(spec, old.folder)
    assert Remaining(old, spec.units()).tasks == []
    assert old.read().distinct("lock_ins") != [None]


def test_results_are_not_replaced_by_others(full, spec, tables):
    first, second, _ = spec.units()
    before = full.path(first).read_bytes()
    full.write(first, file_content(first, tables[first.id]))
    with pytest.raises(StoreError, match="something else"):
        full.write(first, file_content(first, tables[second.id]))
    assert full.path(first).read_bytes() == before


def test_other_files_are_left_alone(full, spec):
    (full.folder / "report.html").write_text("mine")
    run(spec, full.folder)
    assert (full.folder / "report.html").read_text() == "mine"


def test_leftovers_of_killed_writers_go(full, spec):
    leftover = full.folder / ".unit-0123.parquet.77.tmp"
    leftover.write_bytes(b"half")
    full.read()
    run(spec, full.folder)
    assert not leftover.exists()


def test_a_writer_at_work_is_not_disturbed(full, spec):
    with full.lock():
        unfinished = full.folder / ".unit-0123.parquet.77.tmp"
        unfinished.write_bytes(b"half")
        ResultStore(full.folder).read(spec)
        assert unfinished.exists()
        with pytest.raises(StoreError, match="another run is at work"), ResultStore(full.folder).lock():
            pass


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_nothing(tmp_path, spec, tables, monkeypatch, step):
    def fail(*arguments):
        raise OSError("disk full")

    empty = ResultStore(tmp_path)
    unit = spec.units()[0]
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        empty.write(unit, file_content(unit, tables[unit.id]))
    assert list(tmp_path.iterdir()) == []


def test_the_manifest(full):
    assert full.manifest() == {}
    full.write_manifest({"title": "ε"})
    assert full.manifest()["title"] == "ε"
    for content in ("{", "[]", '{"name": "someone else\'s"}'):
        (full.folder / "manifest.json").write_text(content)
        with pytest.raises(StoreError, match=r"manifest\.json"):
            full.manifest()


def test_an_unfinished_folder_says_how_much_is_there(full, spec):
    full.write_manifest({"units": [unit.id for unit in spec.units()]})
    everything = read(full.folder)  # without a warning, which would be an error here
    full.path(spec.units()[0]).unlink()
    with pytest.warns(UserWarning, match=r"out has 2 of 3 units; run it again to complete it"):
        some = read(full.folder)
    assert 0 < len(some) < len(everything)
