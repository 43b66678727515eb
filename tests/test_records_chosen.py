"""Rows of records chosen by their values, and records in short."""

from __future__ import annotations

import pytest
from made_evaluation import row, table

ROWS = [
    row(label, 8, problem, final, horizon=horizon)
    for label, final in (("RobustAgg-TS(0.1)", 10.0), ("RobustAgg-TS(0.2)", 20.0), ("Ind-TS", 40.0))
    for horizon in (100, 1000)
    for problem in range(2)
]


def test_a_policy_is_found_by_its_label_its_name_or_its_class():
    records = table(ROWS)
    assert records.where(policy="Ind-TS")["final_regret"].tolist() == [40.0] * 4
    assert records.where(policy="IndTS")["final_regret"].tolist() == [40.0] * 4
    for name in ("RobustAgg-TS", "RobustAggTS"):
        assert records.where(policy=name).distinct("policy") == ["RobustAgg-TS(0.1)", "RobustAgg-TS(0.2)"]
    assert len(records.where(policy=["IndTS", "RobustAgg-TS(0.2)"], horizon=100)) == 4


def test_a_value_that_is_not_there_is_an_error_that_names_those_that_are():
    records = table(ROWS)
    with pytest.raises(ValueError, match=r"^no rows with policy='PosseTS'; there are 'RobustAgg-TS\(0\.1\)', "):
        records.where(policy="PosseTS")
    with pytest.raises(ValueError, match=r"^no rows with horizon=500; there are 100, 1000$"):
        records.where(horizon=500)
    with pytest.raises(KeyError, match="no column 'rounds_'"):
        records.where(rounds_=5)
    assert len(records.where(horizon=[100, 500])) == 6, "of a list, some may be missing"
    assert len(records.where(policy=[])) == 0
    assert len(records.matching(policy="IndTS")) == 0, "this one takes values as they are"


def test_the_short_form_has_a_mean_for_each_setting():
    final = {100: 40.0, 1000: 90.0}
    rows = [row("Ind-TS", 8, problem, final[horizon], horizon=horizon) for horizon in final for problem in range(2)]
    shown = [line.split() for line in repr(table(rows)).splitlines()]
    assert shown[1] == ["study", "setting", "policy", "runs", "mean", "final", "regret"]
    assert shown[2:] == [
        ["subpar", "T", "=", "100", "Ind-TS", "2", "40.0"],
        ["subpar", "T", "=", "1,000", "Ind-TS", "2", "90.0"],
    ]
    one = repr(table(rows[:2])).splitlines()
    assert one[1].split() == ["study", "policy", "runs", "mean", "final", "regret"], "one setting needs no column"
