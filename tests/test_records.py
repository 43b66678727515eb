"""Records: columns as NumPy arrays, rows as Python's values, and tables of other libraries in and out."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from made_evaluation import row, table

import posse
from posse.experiments import Records
from posse.experiments.records import SCHEMA, from_result


@pytest.fixture(scope="module")
def result():
    problems = posse.generate.subpar(1, count=2, players=3, arms=4, seed=2)
    return posse.simulate(problems, [posse.IndTS(), posse.IndUCB()], 30, replications=2, checkpoints=5, threads=1)


@pytest.fixture(scope="module")
def records(result):
    return from_result(result, "mine")


def test_a_column_is_an_array_of_what_was_measured(result, records):
    order = [(a, b, r) for b in range(2) for a in range(2) for r in range(2)]
    for name in ("regret", "final_regret", "reward"):
        measured = getattr(result, name)
        np.testing.assert_array_equal(records[name], np.array([measured[place] for place in order]))
    assert records["policy"].tolist() == [result.labels[a] for a, _, _ in order]
    assert records["means"].shape == (8, 12)
    np.testing.assert_array_equal(records["rounds"], np.tile(result.checkpoints, (8, 1)))
    kinds = {name: records[name].dtype.kind for name in ("study", "problem", "epsilon", "anytime", "rounds", "regret")}
    assert kinds == {"study": "U", "problem": "i", "epsilon": "f", "anytime": "b", "rounds": "i", "regret": "f"}
    with pytest.raises(KeyError, match="no column 'reward_'; there are study, policy,"):
        records["reward_"]


def test_rows_are_plain_values(records):
    wanted = ("study", "problem", "epsilon", "anytime", "regret")
    (first, *_) = records.rows(*wanted)
    assert [type(value) for value in first] == [str, int, float, bool, tuple]
    assert list(records.rows(*wanted)) == [
        tuple(tuple(value) if isinstance(value, list) else value for value in (each[name] for name in wanted))
        for each in pa.table(records).to_pylist()
    ]
    assert records.distinct("rounds") == [tuple(records["rounds"][0].tolist())]


def test_parts_have_the_rows_that_were_asked_for(records):
    assert records.where(policy="Ind-TS", problem=[1]) == records.take([4, 5])
    assert records.keep(records["replication"] == 1) == records.take([1, 3, 5, 7])
    assert records.matching(policy=[]) == records.take([]) == records.matching(policy="nobody")
    assert len(records.take([])) == 0
    assert records.take([])["regret"].size == 0
    groups = records.groups("policy", "problem")
    assert list(groups) == [("Ind-TS", 0), ("Ind-UCB", 0), ("Ind-TS", 1), ("Ind-UCB", 1)]
    assert groups["Ind-UCB", 0] == records.take([2, 3])


def test_what_is_missing_is_none():
    records = table([row("a", 1, 0, lock_ins=3), row("b", 1, 0)])
    assert records["lock_ins"].tolist() == records.distinct("lock_ins") == [3, None]
    assert records["rewards"].tolist() == [None, None]


def test_lists_of_several_lengths_are_rows_but_no_array():
    records = table([row("a", 1, 0, rounds=[5, 10]), row("b", 1, 0)])
    assert list(records.rows("rounds")) == [((5, 10),), ((10,),)]
    assert records.where(policy="a")["rounds"].tolist() == [[5, 10]]
    with pytest.raises(ValueError, match="reshape"):
        records["rounds"]


def test_a_table_of_another_library_comes_in_and_goes_out(records):
    arrow = pa.table(records)
    assert arrow.schema.equals(pa.schema(SCHEMA), check_metadata=True)
    assert Records(arrow) == records
    assert Records(arrow.select(SCHEMA.names[::-1]).append_column("more", [[1] * 8])) == records
    large = {"study": pa.large_string(), "means": pa.large_list(pa.float64()), "problem": pa.int32()}
    other = pa.schema([(field.name, large.get(field.name, field.type)) for field in arrow.schema])
    assert Records(arrow.cast(other)) == records
    assert Records(arrow.slice(3, 2)) == records.take([3, 4])
    assert len(Records(arrow.slice(0, 0))) == 0


def test_records_are_equal_if_every_bit_is(records):
    assert records == pickle.loads(pickle.dumps(records))
    assert records != records.take(range(7))
    assert records != "records"
    rows = [row("a", 1, 0, regret=[float("nan")])]
    assert table(rows) == table(rows)
    assert table(rows) != table([row("a", 1, 0, regret=[0.0])])


def test_a_table_of_an_older_version_lacks_what_was_not_measured_then(records):
    old = Records(pa.table(records).drop_columns(["lock_ins", "family"]))
    assert (old.distinct("lock_ins"), old.distinct("family")) == ([None], [None])
    np.testing.assert_array_equal(old["regret"], records["regret"])
    with pytest.raises(KeyError, match="study"):
        Records(pa.table(records).drop_columns("study"))
