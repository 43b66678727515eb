"""Logs from spreadsheets: CSV files as several countries write them, cells that are no numbers, and totals."""

from __future__ import annotations

import re

import numpy as np
import pytest

from posse.insight.columns import Columns
from posse.insight.logs import read_log


@pytest.mark.parametrize(
    ("separator", "point"), [(";", ","), (";", "."), ("\t", ","), ("\t", "."), (",", ".")], ids=repr
)
def test_a_csv_file_may_be_written_as_spreadsheets_of_other_countries_do(separator, point, tmp_path):
    rows = [["player", "arm", "propensity", "reward"], ["a, b", "x", "0.5", "0.25"], ["c", "y", "0.5", "1"]]
    quoted = [[f'"{cell}"' if "," in cell else cell.replace(".", point) for cell in row] for row in rows]
    (tmp_path / "log.csv").write_text("".join(f"{separator.join(row)}\n" for row in quoted))
    log = read_log(tmp_path / "log.csv", also=["propensity"])
    assert (log.players, log.reward.tolist(), log.propensity.tolist()) == (("a, b", "c"), [0.25, 1.0], [0.5, 0.5])


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("date;player;arm;reward\n01.02.2024;a;v1.2;0,5\n02.02.2024;b;v1.2;0,25\n", [0.5, 0.25]),
        ('player,arm,reward,"note (a; b; c; d; e)"\na,x,0.5,n\nb,x,0.25,n\n', [0.5, 0.25]),
        ("player;arm;reward;note, a, b, c\na;x;0.5;n\nb;x;0.25;n\n", [0.5, 0.25]),
        ("\nplayer;arm;reward\na;x;0,5\nb;x;0,25\n", [0.5, 0.25]),
    ],
)
def test_marks_in_names_and_dates_do_not_mislead(text, reward, tmp_path):
    (tmp_path / "log.csv").write_text(text)
    assert read_log(tmp_path / "log.csv").reward.tolist() == reward


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16"])
def test_a_csv_file_may_have_another_encoding(encoding, tmp_path):
    """Beyond the first letters too."""
    text = "player;arm;Käufe\n" + "a;x;0,5\n" * 200_000 + "Köln;y;0,25\n"
    (tmp_path / "log.csv").write_bytes(text.encode(encoding))
    log = read_log(tmp_path / "log.csv", "Käufe")
    assert log.players == ("Köln", "a")
    assert log.reward[-1] == 0.25


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0,00", "1.234,50"], "column 'sales' must hold numbers, but row 2 has '1.234,50': write it without thou"),
        (["0,00", "1.234.567"], "row 2 has '1.234.567': write it without thousands separators"),
        (["1,5", "1.234"], "row 2 has '1.234': write it without thousands separators"),
        (
            ["12", "1.234"],
            "column 'sales' has 1.234, which may be 1234 with a thousands point or a fraction; write",
        ),
        (["36,21 €", "0,00 €"], "row 1 has '36,21 €': write the number without '€'"),
        (["$4", "$5"], "row 1 has '$4': write the number without '$'"),
        (["0,5", "20 %"], "row 2 has '20 %': write it as a fraction without %, such as 0.2 for 20 %"),
        (["nein", "ja", "nein"], "row 1 has 'nein': say \"sales == 'ja'\" for 1 where it is 'ja' and 0 elsewhere"),
    ],
)
def test_a_cell_that_is_no_number_is_named_with_the_remedy(cells, expected, tmp_path):
    rows = "".join(f"a;x;1.234;{cell}\n" for cell in cells)
    (tmp_path / "log.csv").write_text(f"player;arm;other;sales\n{rows}", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(expected)):
        read_log(tmp_path / "log.csv", "sales", reward_range=(0, 1e6))


@pytest.mark.parametrize("cells", [["0.123", "1.234"], ["1.234", "1.5"], ["12", "13"]])
def test_clear_fractions_are_read_and_thousands_elsewhere_do_not_matter(cells, tmp_path):
    rows = "".join(f"{name}.234;x;{cell}\n" for name, cell in zip("12", cells, strict=True))
    (tmp_path / "log.csv").write_text(f"player;arm;sales\n{rows}")
    log = read_log(tmp_path / "log.csv", "sales", reward_range=(0, 1e6))
    assert log.reward.tolist() == [float(cell) for cell in cells]
    assert log.players == ("1.234", "2.234")


def test_quoted_decimal_commas_between_commas(tmp_path):
    (tmp_path / "log.csv").write_text('player,arm,reward\na,x,"0,25"\n')
    with pytest.raises(ValueError, match=r"row 1 has '0,25': write '0\.25'"):
        read_log(tmp_path / "log.csv")


def test_totals_are_as_many_rows_as_there_were_trials():
    totals = {
        "player": ["a", "b", "a"],
        "arm": ["x", "x", "y"],
        "bought": [2, 0, None],
        "visitors": [3, 2, 1],
        "week": [8, 8, 9],
    }
    log = read_log(totals, Columns(reward="bought", trials="visitors"), by="week")
    assert log.player.tolist() == [0, 0, 0, 1, 1, 0]
    assert log.reward[:5].tolist() == [1, 1, 0, 0, 0]
    assert np.isnan(log.reward[5])
    assert log.group.tolist() == [0, 0, 0, 0, 0, 1]
    counts = log.counts()
    assert (counts.pulls.tolist(), counts.sums.tolist()) == ([[3, 0], [2, 0]], [[2, 0], [0, 0]])
    for wrong, expected in (
        ({"bought": [4, 0, 0]}, "row 1 has bought=4, but expected a whole number of at most visitors"),
        ({"bought": [0, 0.5, 0]}, "row 2 has bought=0.5, but expected a whole number of at most visitors"),
        ({"visitors": [3, 2, 1.5]}, "row 3 has visitors=1.5, but expected a whole number of trials"),
        ({"visitors": [3, None, 1]}, "row 2 has visitors=nan, but expected a whole number of trials"),
        ({"visitors": [3, 2, 10**9]}, "visitors is 1,000,000,005 in all rows, but expected at most 50,000,000"),
    ):
        with pytest.raises(ValueError, match=re.escape(expected)):
            read_log(totals | wrong, Columns(reward="bought", trials="visitors"))
