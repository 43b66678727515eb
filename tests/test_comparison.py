"""Two runs side by side: what is paired, what is not, and what the table says of it."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import posse
from posse.experiments.records import Records, from_result
from posse.experiments.report.comparison import compare, comparison_text

PROBLEM = posse.Problem([[0.9, 0.5, 0.1], [0.8, 0.6, 0.1]], epsilon=0.2)
THIRD = posse.Problem([[0.9, 0.3, 0.1], [0.8, 0.4, 0.1]], epsilon=0.2)


def simulated(policies, problem=PROBLEM, **settings):
    return Records(from_result(posse.simulate(problem, policies, 30, threads=1, **settings), "own"))


def test_two_runs_are_compared_over_what_both_have():
    """A has 100 replications and B the first 20 of them: both means are over these 20, so that nothing differs."""
    a, b = (simulated(posse.IndTS(), replications=count) for count in (100, 20))
    (row,) = compare(a, b)
    assert row.first == row.second == pytest.approx(b["final_regret"].mean())
    assert row.first != pytest.approx(a["final_regret"].mean()), "the other eighty say something else"
    assert (row.runs, row.common, row.other_problems) == ((100, 20), 20, 0)
    *_, line, note = comparison_text([row], "A", "B").splitlines()
    assert re.search(r"the same +20 of 100 and 20$", line)
    assert "over the runs in both" in note


def test_other_problems_are_no_pairs():
    """The same ε, shape, seed and number, but other means."""
    other = posse.Problem([[0.9, 0.4, 0.1], [0.8, 0.6, 0.1]], epsilon=0.2)
    a, b = (simulated(posse.IndTS(), problem, replications=5) for problem in (PROBLEM, other))
    (row,) = compare(a, b)
    assert (row.difference, row.common, row.other_problems) == (None, 0, 5)
    assert re.search(r"the problems differ +0 of 5 and 5$", comparison_text([row], "A", "B").splitlines()[-2])
    a, b = (simulated(posse.IndTS(), [PROBLEM, second], replications=5) for second in (THIRD, other))
    (row,) = compare(a, b)
    assert (row.difference.mean, row.common, row.other_problems) == (0, 5, 5)
    assert "5 of 10 and 10; 5 others have another problem" in comparison_text([row], "A", "B")


def test_too_few_for_an_interval_has_none():
    for count, words in ((1, r"\(one run: no interval\)"), (3, r"\(too few for an interval\)"), (4, r"\[")):
        rows = simulated([posse.IndTS(), posse.IndUCB()], replications=count)
        a, b = (pa.table(rows.where(policy=label)).drop_columns("policy") for label in ("Ind-TS", "Ind-UCB"))
        column = pa.array(["same"] * count)
        (row,) = compare(*(Records(part.append_column("policy", column)) for part in (a, b)))
        assert re.search(rf"[+-][0-9.]+ {words}", comparison_text([row], "A", "B"))


def test_problems_of_one_setting_may_differ_in_their_numbers_of_subpar_arms():
    problems = posse.generate.uniform(players=2, arms=4, count=6)
    assert len({len(problem.subpar_5) for problem in problems}) > 1
    rows = simulated(posse.IndTS(), problems)
    (row,) = compare(rows, rows)
    assert (row.setting, row.common, row.difference.units) == ("", 6, 6)


def test_one_run_that_is_the_same_is_called_so():
    rows = simulated(posse.IndTS())
    assert "the same" in comparison_text(compare(rows, rows), "A", "B")
