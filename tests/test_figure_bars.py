"""Bars can be seen, whatever their size, and the numbers over them can be read."""

import itertools

import pyarrow as pa
import pytest
from drawn_figures import FIVE, bars, by_problem, study, whiskers

from posse.experiments.records import Records
from posse.experiments.report import figures


def made(pulls, regret, label="Ind-TS"):
    """Two problems with 8 subpar arms: these pulls and regrets by kind of arm, those of subpar arms ± a tenth."""
    table = pa.table(study("subpar", 8, count=2, horizon=5))
    rows = [row for row in table.to_pylist() if row["policy"] == label and row["replication"] == 0]
    for row, factor in zip(rows, (0.9, 1.1), strict=True):
        row["pulls_by_kind"] = [*pulls[:2], round(factor * pulls[2])]
        row["regret_by_kind"] = [*regret[:2], factor * regret[2]]
    return Records(pa.Table.from_pylist(rows, schema=table.schema))


SMALL_BARS = [  # kind, of 10,000 pulls or beside a regret of 1,000, and what the right scale shows of the left one
    ("pulls", 40, 0.005),
    ("pulls", 80, 0.01),
    ("pulls", 150, 0.02),
    ("pulls", 3000, 1.0),
    ("regret by kind", 4, 0.005),
    ("regret by kind", 90, 0.1),
    ("regret by kind", 101, 0.2),
    ("regret by kind", 300, 1.0),
    ("regret by kind", 5000, 1.0),
]


@pytest.mark.parametrize(("kind", "subpar", "scale"), SMALL_BARS)
def test_bars_too_small_to_see_have_a_scale_on_which_they_are_seen(kind, subpar, scale):
    rows = made((9000 - subpar, 1000, subpar), (0.0, 1000.0, subpar))
    axes = figures.panel(rows, kind, 8).axes[0]
    shown = {text.xy[1]: float(text.get_text().replace(",", "")) for text in axes.texts if text.get_gid()}
    assert axes.spines["right"].get_visible() == bool(shown) == (scale < 1)
    assert shown == pytest.approx({height: height * scale for height in shown})
    (bar,) = bars(axes).values()
    values = by_problem(rows, "pulls_by_kind" if kind == "pulls" else "regret_by_kind")
    values = 100 * values / values.sum(axis=1, keepdims=True) if kind == "pulls" else values
    mean, deviation = values.mean(axis=0)[-1], values.std(axis=0, ddof=1)[-1]
    assert bar[-1].get_height() * scale == pytest.approx(mean)
    assert whiskers(bar)[-1] * scale == pytest.approx(deviation)
    if scale < 1:
        assert 0.3 < (mean + deviation) / scale / axes.get_ylim()[1] <= 1
        assert axes.get_xticklabels()[-1].get_text() == "subpar (right scale)"
    assert figures._short_number(mean) in {text.get_text() for text in axes.texts if not text.get_gid()}


def test_a_kind_of_arm_that_nobody_has_is_said_to_be_none():
    axes = figures.panel(made((9900, 0, 100), (0.0, 0.0, 50.0)), "pulls", 8).axes[0]
    assert [text.xy[0] for text in axes.texts if text.get_text() == "none"] == [1]
    (bar,) = bars(axes).values()
    assert len(bar) == 2


@pytest.mark.parametrize("kind", ["pulls", "regret by kind"])
def test_numbers_over_bars_do_not_touch(kind):
    parts = [pa.table(made((9000, 995, 5), (0.0, 12345, 0.05), label)) for label in FIVE]
    figure = figures.panel(Records(pa.concat_tables(parts)), kind, 8, with_v=True)
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if not text.get_gid()]
    assert len(texts) == (15 if kind == "pulls" else 10)
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.x0)
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
