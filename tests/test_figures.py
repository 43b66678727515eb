"""Figures show what the records say: the plotted numbers are checked, not only that a file exists."""

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from drawn_figures import FIVE, FOUR, bars, by_problem, lines, policies, study, whiskers
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from scipy import stats

import posse
from posse.experiments import settings
from posse.experiments.records import Records, from_result
from posse.experiments.report import figures, run_report, theory
from posse.figures import canvas
from posse.figures.policy_looks import looks
from posse.figures.style import OTHER_COLORS, PRINT
from posse.policies import all_policies
from posse.policies.labels import algorithm


@pytest.fixture(scope="module")
def records():
    chance = posse.schedule.Random(0.5)
    parts = [
        *(study("subpar", v) for v in (8, 5, 9)),
        *(study("players", 8, players=players) for players in (3, 6)),
        study("participation", 8, count=2, schedule=posse.schedule.Sequential(), horizon=120),
        study("participation", 8, count=2, schedule=chance),
        *(study("small-epsilon", v, epsilon=0.04) for v in (3, 9)),
    ]
    return Records(pa.concat_tables(map(pa.table, parts)))


def check_curves(axes, records, labels, **conditions):
    drawn = lines(axes)
    assert list(drawn) == labels
    for label, line in drawn.items():
        values = by_problem(records, "regret", policy=label, **conditions)
        np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
        rounds = records.where(**conditions)["rounds"][0]
        np.testing.assert_array_equal(line.get_xdata(), rounds)


def test_regret_curves_are_the_means_and_the_bands_one_standard_deviation(records):
    axes = figures.panel(records.where(study="subpar"), "regret", 8).axes[0]
    check_curves(axes, records, FOUR, study="subpar", n_subpar=8)
    for label, band in zip(FOUR, axes.collections, strict=True):
        values = by_problem(records, "regret", study="subpar", policy=label, n_subpar=8)
        mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
        (path,) = band.get_paths()
        for t, m, d in zip(lines(axes)[label].get_xdata(), mean, deviation, strict=True):
            heights = path.vertices[path.vertices[:, 0] == t, 1]
            assert heights.min() == pytest.approx(max(m - d, 0))
            assert heights.max() == pytest.approx(m + d)


def test_in_ones_own_study_the_bands_are_intervals_of_the_means():
    own = study("mine", 8)
    (entry,) = [entry for entry in run_report.catalogue(own) if entry.name == "mine"]
    assert "bands their 95 % confidence intervals" in entry.caption
    axes = entry.draw().axes[0]
    for label, band in zip(FIVE, axes.collections, strict=True):
        values = by_problem(own, "regret", policy=label)
        interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        (path,) = band.get_paths()
        for t, low, high in zip(lines(axes)[label].get_xdata(), *interval, strict=True):
            heights = path.vertices[path.vertices[:, 0] == t, 1]
            assert [heights.min(), heights.max()] == pytest.approx([max(low, 0), high])


def test_curves_are_named_where_they_end_and_names_do_not_touch(records):
    figure = figures.panel(records.where(study="subpar"), "regret", 8, with_v=True)
    canvas.label_ends(figure.axes[0])
    canvas.finish(figure)
    texts = figure.axes[0].texts
    assert sorted(text.get_text() for text in texts) == sorted(FIVE)
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.y0)
    assert all(above.y0 >= below.y1 - 1 for below, above in itertools.pairwise(boxes))
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)


def test_the_comparison_with_v_has_it_and_the_others_do_not(records):
    check_curves(
        figures.panel(records.where(study="subpar"), "regret", 5, with_v=True).axes[0],
        records,
        FIVE,
        study="subpar",
        n_subpar=5,
    )
    assert "RobustAgg-TS-V(0.15)" not in bars(figures.panel(records.where(study="subpar"), "pulls", 5).axes[0])


def test_pulls_are_percentages_of_all_pulls(records):
    drawn = bars(figures.panel(records.where(study="subpar"), "pulls", 8).axes[0])
    assert list(drawn) == FOUR
    for label, bar in drawn.items():
        pulls = by_problem(records, "pulls_by_kind", study="subpar", policy=label, n_subpar=8)
        shares = 100 * pulls / (4 * 60)
        np.testing.assert_allclose([patch.get_height() for patch in bar], shares.mean(axis=0))
        np.testing.assert_allclose(whiskers(bar), shares.std(axis=0, ddof=1), atol=1e-9)


def test_regret_by_kind_adds_up_to_the_final_regret(records):
    for label, bar in bars(figures.panel(records.where(study="subpar"), "regret by kind", 5).axes[0]).items():
        kinds = by_problem(records, "regret_by_kind", study="subpar", policy=label, n_subpar=5)
        heights = [patch.get_height() for patch in bar]
        np.testing.assert_allclose(heights, kinds.mean(axis=0)[1:])
        np.testing.assert_allclose(whiskers(bar), kinds.std(axis=0, ddof=1)[1:], atol=1e-9)
        final = by_problem(records, "final_regret", study="subpar", policy=label, n_subpar=5)
        assert sum(heights) == pytest.approx(final.mean())


def test_figure_1_has_regret_pulls_and_kinds_for_8_and_5(records):
    axes = figures.figure_1(records.where(study="subpar")).axes
    assert len(axes) == 6
    for row, v in enumerate((8, 5)):
        check_curves(axes[3 * row], records, FOUR, study="subpar", n_subpar=v)
        assert axes[3 * row + 1].get_ylabel() == "% of pulls"
        assert [len(bar) for bar in bars(axes[3 * row + 2]).values()] == [2] * 4


def test_overviews_go_from_the_most_subpar_arms_to_the_fewest(records):
    axes = figures.overview(records.where(study="subpar"), "regret", with_v=True).axes
    for panel, v in zip(axes, (9, 8, 5), strict=True):
        assert panel.get_title() == f"{v} subpar arms"
        check_curves(panel, records, FIVE, study="subpar", n_subpar=v)
    for kind in ("regret", "pulls", "regret by kind"):
        assert len(figures.overview(records.where(study="subpar"), kind).axes) == 3


def test_regret_over_players_in_total_and_for_each(records):
    total, each = figures.regret_by_players(records.where(study="players")).axes
    for axes, share in ((total, False), (each, True)):
        for box in (box for box in axes.containers if isinstance(box, ErrorbarContainer)):
            label = box.get_label()
            for size, height in zip((3, 6), box.lines[0].get_ydata(), strict=True):
                final = by_problem(records, "final_regret", study="players", policy=label, players=size)
                assert height == pytest.approx(final.mean() / (size if share else 1))


def test_theory_draws_the_median_of_given_bounds_and_leaves_out_what_a_log_scale_cannot_show(records):
    bounds = {"mine": {"arms at 10ε": lambda problem, T: len(problem.subpar_10), "T": lambda problem, T: T}}
    (axes,) = theory.theory_over(records.where(study="small-epsilon"), "n_subpar", bounds=bounds).axes
    drawn = lines(axes)
    counts = [
        np.median([len(p.subpar_10) for p in records.where(study="small-epsilon", n_subpar=v).problems()])
        for v in (3, 9)
    ]
    expected = [count if count > 0 else np.nan for count in counts]
    np.testing.assert_array_equal(drawn["bound: arms at 10ε"].get_ydata(), expected)
    np.testing.assert_array_equal(drawn["bound: T"].get_ydata(), [60, 60])
    for label in ("RobustAgg-TS(0.04)", "Ind-UCB"):
        final = [by_problem(records, "final_regret", study="small-epsilon", policy=label, n_subpar=v) for v in (3, 9)]
        np.testing.assert_allclose(drawn[label].get_ydata(), [values.mean() for values in final])


def test_theory_over_time_takes_each_checkpoint_as_a_horizon(records):
    (axes,) = theory.theory_over_time(records.where(study="subpar"), 8, {"mine": {"T": lambda problem, T: T}}).axes
    drawn = lines(axes)
    np.testing.assert_array_equal(drawn["bound: T"].get_xdata(), drawn["bound: T"].get_ydata())
    assert drawn["Ind-TS"].get_xdata()[-1] == 60
    final = by_problem(records, "final_regret", study="subpar", policy="Ind-TS", n_subpar=8)
    assert drawn["Ind-TS"].get_ydata()[-1] == pytest.approx(final.mean())


def test_theory_has_both_kinds_of_bounds_for_5_and_10_epsilon(records):
    for figure in (
        theory.theory_over(records.where(study="subpar"), "n_subpar"),
        theory.theory_over(records.where(study="players"), "players", 8),
    ):
        assert len(figure.axes) == 2
        for axes in figure.axes:
            names = [gid for gid in lines(axes) if gid.startswith("bound")]
            assert any("10ε" in name for name in names)
            assert any(" 5ε" in name for name in names)


def colours(figure):
    for axes in figure.axes:
        for gid, line in lines(axes).items():
            yield gid, to_rgb(line.get_color())
        for gid, bar in bars(axes).items():
            yield gid, to_rgb(bar.patches[0].get_facecolor())


def test_a_policy_has_its_colour_in_every_figure(records):
    seen = {}
    for entry in run_report.catalogue(records):
        for gid, colour in colours(entry.draw()):
            if not gid.startswith("bound"):
                seen.setdefault(algorithm(gid), set()).add(colour)
    assert seen == {policy.name: {to_rgb(policy.look.color)} for policy in policies()}


def test_looks_can_be_told_apart_without_colour():
    own = [f"own {number}" for number in range(7)]
    variants = [f"RobustAgg-TS(0.1, c2={c2})" for c2 in (0.25, 1, 4)]
    five = looks(FIVE)
    assert list(looks(reversed(FIVE)).items()) == list(reversed(five.items())), "the order is kept, and changes no look"
    assert len({look.line for look in five.values()}) == len({look.hatch for look in five.values()}) == 5
    found = looks([*own, *variants, *FIVE])
    assert len({(look.color, look.line) for look in found.values()}) == len(found)
    assert looks(["own 3"])["own 3"] == looks(["Ind-TS", "own 3"])["own 3"]


def test_a_policy_says_itself_how_it_looks():
    assert looks(["PosseTS"])["PosseTS"] == posse.PosseTS.look
    assert looks(["RobustAgg-TS(0.1)"])["RobustAgg-TS(0.1)"] == posse.RobustAggTS.look

    @dataclass(frozen=True)
    class Likewise(posse.IndTS):
        """It has no look of its own, and must not pass for its parent."""

        name = "Likewise"

    assert looks(["Likewise"])["Likewise"].color in OTHER_COLORS
    assert Likewise().look == posse.IndTS.look


def test_settings_are_what_was_asked_for(records):
    problems = posse.generate.uniform(count=6, players=3, arms=5, epsilon=0.1)
    uniform = from_result(posse.simulate(problems, posse.IndTS(), 20, threads=1), "mine")
    assert len(uniform.distinct("n_subpar")) > 1
    assert [setting for setting, _ in settings.settings(uniform)] == [{}]
    found = [setting for setting, _ in settings.settings(records.where(study="subpar"))]
    assert found == [{"n_subpar": 8}, {"n_subpar": 5}, {"n_subpar": 9}]
    turns = settings.settings(records.where(study="participation"))
    assert [list(setting) for setting, _ in turns] == [["schedule"], ["schedule"]]  # which tells the horizon too
    assert sum(len(part) for _, part in turns) == len(records.where(study="participation"))


def test_files_have_names_and_are_the_same_bytes_again(records, tmp_path, monkeypatch):
    monkeypatch.setattr(run_report, "FEW", 5)
    few = records.where(study=["subpar", "players"], n_subpar=8)
    entries = run_report.catalogue(few)
    assert len(entries) > run_report.FEW
    for folder, processes in (("a", 1), ("b", 2)):
        drawn = []
        with run_report.drawing(entries, tmp_path / folder, processes=processes, progress=drawn.append):
            pass  # other work, while other processes draw
        assert drawn == sorted(drawn)
        assert (drawn[0], drawn[-1]) == (0, 1)
        assert processes > 1 or len(drawn) > len(entries)
    files, again = (sorted((tmp_path / folder).iterdir()) for folder in ("a", "b"))
    assert [file.name for file in files] == [file.name for file in again]
    assert {file.name for file in files} == {f"{each.name}.{ending}" for each in entries for ending in ("png", "svg")}
    assert {"regret-v8.svg", "with-v-v8.png", "theory-time-v8.svg", "players.png"} <= {file.name for file in files}
    for one, other in zip(files, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
        assert b"dc:date" not in one.read_bytes()


def test_what_makes_drawing_faster_changes_no_byte(records, monkeypatch):
    """A title whose place is given, and a PNG from the canvas that laid the figure out."""
    named = {entry.name: entry for entry in run_report.catalogue(records)}
    chosen = [named[name] for name in ("figure-1", "theory-subpar", "regret-v8")]
    fast = {
        entry.name: [canvas.to_bytes(figure, ending) for ending in ("svg", "png", "svg")]
        for entry in chosen
        for figure in [entry.draw()]
    }
    monkeypatch.setitem(PRINT, "axes.titley", None)
    for entry in chosen:
        svg, png, again = fast[entry.name]
        assert svg == again == canvas.to_bytes(entry.draw(), "svg"), entry.name
        figure = entry.draw()
        FigureCanvasAgg(figure)
        assert png == canvas.to_bytes(figure, "png"), entry.name


def test_the_paper_has_all_its_figures(records):
    names = {entry.name for entry in run_report.catalogue(records)}
    kinds = ("regret", "pulls", "regret-by-kind", "with-v")
    assert {f"{kind}-v{v}" for kind in kinds for v in (9, 8, 5)} <= names
    assert {"figure-1", *(f"overview-{kind}" for kind in kinds)} <= names
    assert {"players", "participation", "theory-subpar", "theory-players", "theory-small-epsilon"} <= names
    assert not any(entry.name.startswith("with") for entry in run_report.catalogue(records.where(policy=FOUR)))


def test_any_label_can_be_drawn():
    labels = [r"$\frac{", "_hidden", "a\nb", "<b>&amp;", "x" * 200, "$", "%s{}", "(", " "]
    problem = posse.generate.subpar(8, players=3)
    result = posse.simulate(problem, [posse.IndTS(label=label) for label in labels], 30, replications=2, threads=1)
    rows = from_result(result, "subpar")
    for entry in run_report.catalogue(rows):
        assert canvas.to_bytes(entry.draw(), "svg").startswith(b"<?xml")


def test_any_study_gets_its_sheets_page_by_page():
    parts = [
        from_result(
            posse.simulate(posse.generate.uniform(players=m, arms=3), posse.IndTS(), 10, threads=1), "my / study"
        )
        for m in range(1, 15)
    ]
    rows = Records(pa.concat_tables(map(pa.table, parts)))
    entries = {entry.name: entry for entry in run_report.catalogue(rows)}
    assert list(entries)[:2] == ["my-study", "my-study-2"]
    assert [len(entries[name].draw().axes) for name in list(entries)[:2]] == [12, 2]
    assert entries["my-study-2"].draw().axes[0].get_title() == "M = 13"


@pytest.mark.parametrize(
    ("study", "problem", "policy", "schedule"),
    [
        ("subpar", posse.Problem([[0.5]]), posse.IndTS(), posse.schedule.Concurrent()),  # no regret, no bound
        ("subpar", posse.generate.subpar(8)[0], posse.IndTS(), posse.schedule.Random(0.0)),  # no pulls
        ("subpar", posse.generate.subpar(8)[0], posse.RobustAggTSV(0.15), posse.schedule.Concurrent()),  # -V alone
        ("participation", posse.generate.subpar(8)[0], posse.IndTS(), posse.schedule.Sequential()),  # no other study
        ("players", posse.generate.subpar(8)[0], posse.IndTS(), posse.schedule.Concurrent()),  # one M
    ],
)
def test_little_data_is_enough(study, problem, policy, schedule):
    rows = from_result(posse.simulate(problem, policy, 5, schedule=schedule, threads=1), study)
    for entry in run_report.catalogue(rows):
        assert canvas.to_bytes(entry.draw(), "png")


def test_missing_data_is_named(records):
    with pytest.raises(ValueError, match=r"no rows with n_subpar=3; there are 8, 5, 9"):
        figures.panel(records.where(study="subpar"), "regret", 3)
    with pytest.raises(ValueError, match="2 different lists of checkpoints"):
        figures.panel(records.where(study="participation"), "regret", 8)


def test_a_figure_is_not_kept_anywhere(records):
    figure = figures.panel(records.where(study="subpar"), "regret", 8)
    assert isinstance(figure, Figure)
    assert figure.canvas.manager is None


def test_studies_whose_names_look_alike_do_not_share_files():
    problem = posse.generate.uniform(players=2, arms=3)[0]
    result = posse.simulate(problem, [posse.IndTS(), posse.IndUCB()], 20, checkpoints=4)
    tables = [from_result(result, study) for study in ("日本", "中国", "a b", "a-b")]
    names = [entry.name for entry in run_report.catalogue(Records(pa.concat_tables(map(pa.table, tables))))]
    assert len(names) == len(set(names)) == 12


def lab(color):
    """A color in CIELAB, where distances are about as large as people see them."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    to_xyz = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8727]]  # for a white of 1, 1, 1
    x, y, z = np.cbrt(np.maximum(to_xyz @ linear, 1e-3))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_a_policy_of_ones_own_has_a_colour_unlike_those_of_posse():
    shipped = [lab(cls.look.color) for cls in all_policies() if cls.__module__.startswith("posse.policies.")]
    for number, color in enumerate(OTHER_COLORS):
        others = [*shipped, *(lab(other) for other in OTHER_COLORS[:number])]
        assert min(np.linalg.norm(lab(color) - other) for other in others) > 18, color


@pytest.mark.parametrize("count", [1, 3, 8, 18])
@pytest.mark.parametrize("wide", [4, 30])
def test_the_legend_stays_within_the_figure_and_above_its_panels(count, wide):
    words = "a policy with a label of some length"
    policies = [posse.IndTS(label=f"{number} {words[: wide if number % 3 else 4]}") for number in range(count)]
    problems = posse.generate.subpar(2, count=2, players=2, arms=4)
    figure = posse.simulate(problems, policies, 10, threads=1).plot()
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert figure.axes[0].get_window_extent().y1 < box.y0
    assert figure.axes[0].get_window_extent().height > 0.4 * 3.4 * figure.dpi
