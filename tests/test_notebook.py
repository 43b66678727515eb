"""What a notebook and a terminal show of records: short, escaped, and the same numbers in both."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow
import pytest
from made_plans import small_plan

import posse
from posse import insight
from posse.experiments.records import from_result
from posse.learner import Counts
from posse.notebook import ROWS, Summary, matrix

HOSTILE = '<script>alert("1 & 2")</script>'
PROBLEM = posse.Problem([[0.9, 0.5], [0.8, 0.6]], epsilon=0.1)


class Page(HTMLParser):
    """The cells of the tables of a page; it must close what it opens."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.styles: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        self.styles += [value for _, value in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@functools.cache
def learner():
    made = posse.Learner(
        posse.IndTS(), [HOSTILE, "tea"], ["north", HOSTILE], holdout=0.2, outcomes={HOSTILE: posse.Outcome(at_most=0.1)}
    )
    for number in range(80):
        decision = made.choose(made.players[number % 2])
        made.observe(decision, float(decision.arm == "tea"), {HOSTILE: 1.0})
    return made


@functools.cache
def result():
    return posse.simulate(
        [PROBLEM, posse.Problem([[0.2, 0.5], [0.1, 0.6]])], [posse.IndTS(label=HOSTILE), posse.IndUCB()], 40
    )


RECORDS = {
    "problem": lambda: posse.Problem(np.full((30, 20), 0.25)),
    "result": result,
    "trace": lambda: posse.simulation.trace(PROBLEM, posse.IndUCB(), 20),
    "records": lambda: from_result(result(), HOSTILE),
    "learner": learner,
    "decision": lambda: learner().choose(HOSTILE),
    "counts": lambda: learner().counts(),
    "many counts": lambda: Counts(
        *(tuple(map(str, range(n))) for n in (50, 40)), np.ones((50, 40), int), np.ones((50, 40))
    ),
    "no counts": lambda: Counts(("north",), ("tea",), [[0]], [[0.0]]),
    "diagnosis": lambda: insight.diagnose(learner()),
    "evaluation": lambda: insight.evaluate(learner(), against=HOSTILE),
    "watch": lambda: insight.watch(learner()),
    "conclusion": lambda: insight.conclude(learner()),
    "plan": small_plan,
}


@pytest.mark.parametrize("name", RECORDS)
def test_html_is_small_and_escaped_and_has_no_colors_of_its_own(name):
    html = RECORDS[name]()._repr_html_()
    page = Page(html)
    assert page.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "small"}
    assert 2 <= len(page.rows) <= ROWS + 2
    assert max(map(len, page.rows)) <= 20
    assert len({len(row) for row in page.rows}) == 1
    assert not re.search("color|background", " ".join(page.styles))
    assert "\n" not in html
    assert len(html) < 15_000


@pytest.mark.parametrize("name", RECORDS)
def test_the_text_is_short_and_says_what_the_html_says(name):
    record = RECORDS[name]()
    text = repr(record)
    assert len(text.splitlines()) <= ROWS + 5
    assert max(map(len, text.splitlines())) <= (120 if name in ("counts", "many counts", "problem") else 130)
    assert not re.search(r"array\(|dtype|object at 0x", text)
    if name in ("problem", "learner", "decision"):  # they are often part of something else, so their text is one line
        assert "\n" not in text
        text = record._summary().text()
    for row in Page(record._repr_html_()).rows:
        assert [cell for cell in row if cell not in text] == []


def test_rows_and_columns_beyond_the_first_are_counted():
    many = Summary("many", [["", "x"], *([str(number), "1"] for number in range(ROWS + 7))])
    assert many.text().splitlines()[-1] == "… 7 more"
    assert Page(many.html()).rows[-1][0] == "… 7 more"
    long = matrix("", ["a"], ["x" * 40] * 5, lambda row, column: "0")
    assert long == [["", *["x" * 29 + "…"] * 3, "…"], ["a", "0", "0", "0", "…"]]
    assert len(matrix("", ["a"], ["x" * 27] * 4, lambda row, column: "0")[0]) == 5, "four columns fit a line"


def test_a_name_of_several_lines_stays_in_one():
    assert "two lines" in repr(Counts(("two\nlines",), ("tea",), [[3]], [[1.0]]))


def test_a_plot_has_the_mean_and_the_deviation_over_problems_in_the_order_of_the_policies():
    figure = result().plot()
    (axes,) = figure.axes
    assert [line.get_gid() for line in axes.get_lines()] == [HOSTILE, "Ind-UCB"]
    for line, band, regret in zip(axes.get_lines(), axes.collections, result().regret, strict=True):
        by_problem = [run[0] for run in regret]
        assert np.allclose(line.get_ydata(), [np.mean(column) for column in zip(*by_problem, strict=True)])
        assert line.get_xdata().tolist() == result().checkpoints.tolist()
        top = max(np.mean(column) + np.std(column, ddof=1) for column in zip(*by_problem, strict=True))
        assert np.isclose(band.get_paths()[0].vertices[:, 1].max(), top)
    assert [text.get_text() for text in figure.texts] == ["Means over 2 problems; bands: ± one standard deviation."]


def test_the_bands_of_a_plot_may_be_the_intervals_of_its_means():
    repeated = posse.simulate(PROBLEM, [posse.IndTS(), posse.IndUCB()], 10, replications=3)
    figure = repeated.plot(0.95)
    for band, regret in zip(figure.axes[0].collections, repeated.regret, strict=True):
        half = 4.302653 * np.std(regret[0], axis=0, ddof=1) / np.sqrt(3)  # Student's t, two degrees of freedom
        assert np.isclose(band.get_paths()[0].vertices[:, 1].max(), (np.mean(regret[0], axis=0) + half).max())
    assert figure.texts[0].get_text().endswith("bands: 95 % confidence intervals of the means.")
    assert posse.simulate(PROBLEM, posse.IndUCB(), 10).plot(0.95).texts[0].get_text() == "One replication."
    with pytest.raises(ValueError, match="level=1"):
        repeated.plot(1)


def test_a_plot_of_one_problem_is_over_its_replications():
    one = posse.simulate(PROBLEM, posse.IndUCB(), 10, replications=3).plot()
    assert one.texts[0].get_text().startswith("Means over 3 replications")
    assert posse.simulate(PROBLEM, posse.IndUCB(), 10).plot().texts[0].get_text() == "One replication."


def test_a_notebook_shows_figures_without_pyplot():
    for figure in (result().plot(), RECORDS["evaluation"]().figure(), small_plan().figure()):
        picture, about = figure._repr_png_()
        assert picture.startswith(b"\x89PNG")
        width = int.from_bytes(picture[16:20])
        assert 1 < width / about["width"] < 2


def test_the_figure_of_an_evaluation_has_a_line_for_each_target():
    evaluation = insight.evaluate(learner(), against="tea")
    names = [label.get_text() for label in evaluation.figure().axes[0].get_yticklabels()]
    assert len(names) == len({each.target for each in evaluation.estimates})


def test_other_libraries_take_the_table_as_an_arrow_stream():
    assert pyarrow.table(result()).equals(result().to_arrow())
