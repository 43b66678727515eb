"""The report holds everything in one file, says what the records say, and lets no label break out of its place."""

import csv
import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import posse
from posse.experiments import parse, run
from posse.experiments.battery.score import score
from posse.experiments.paper import claims
from posse.experiments.records import Records, from_result
from posse.experiments.report.comparison import compare
from posse.experiments.report.run_report import catalogue, write_report
from posse.experiments.report.tables import regret_table, regret_tables
from posse.experiments.settings import describe

HOSTILE = "\"><script>alert(1)</script><img src=http://x onerror=y> & '$"
TAGS = re.findall(
    r"\w+",
    """html head meta title style body main section nav h1 h2 h3 p a ul li dl dt dd div span strong code pre
    table caption thead tbody tr th td details summary figure figcaption img sub""",
)


def records_of(labels=None, values=(8, 5), study="subpar", **settings):
    policies = [posse.RobustAggTS(0.15), posse.RobustAgg(0.15), posse.IndTS(), posse.IndUCB()]
    for number, label in enumerate(labels or []):
        policies[number] = dataclasses.replace(policies[number], label=label)
    parts = [
        from_result(
            posse.simulate(
                posse.generate.subpar(v, count=3, players=4, seed=v), policies, 60, checkpoints=8, threads=1, **settings
            ),
            study,
        )
        for v in values
    ]
    return Records(pa.concat_tables(map(pa.table, parts)))


PROBLEM = posse.Problem([[0.9, 0.5, 0.1], [0.8, 0.6, 0.1]], epsilon=0.2)


def simulated(policies, problem=PROBLEM, **settings):
    return Records(from_result(posse.simulate(problem, policies, 30, threads=1, **settings), "own"))


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.ids |= {value for name, value in attributes if name == "id"}

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def records():
    return records_of()


@pytest.fixture(scope="module")
def folder(records, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    manifest = {
        "seed": "0",
        "versions": {"posse": "0.1", "numpy": "2"},
        "machine": "a laptop",
        "runs": [{"started": "2026-01-01", "on": "local", "units": 3, "finished": None, "seconds": 61.2}],
        "spec": 'title = "<small>"\n',
    }
    write_report(records, out, title="A small run", findings=claims.judge(records), manifest=manifest)
    return out


def check_self_contained(text):
    page = Page(text)
    assert set(page.tags) <= set(TAGS)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "src" or value.startswith("data:image/")
        assert name != "href" or (value.startswith("#") and value[1:] in page.ids)
        assert name != "style"
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"url\(|@import|https?:", style)
    return page


def test_the_page_needs_nothing_beside_it(folder):
    page = check_self_contained((folder / "report.html").read_text(encoding="utf-8"))
    assert {"run", "regret", "claims", "paper", "theory", "reproduce", "figure-1", "overview-regret"} <= page.ids
    text = "".join(page.text)
    for words in ("A small run", "a laptop", "61 s", 'title = "<small>"', "prefers-color-scheme: dark", "@media print"):
        assert words in text
    assert ("name", "viewport") in page.attributes


def test_words_are_explained_before_they_are_used(folder):
    text = "".join(Page((folder / "report.html").read_text(encoding="utf-8")).text)
    body = text[text.index("What was run") :]  # after the style
    for word, meaning in {
        "I5ε": "is the set of these arms",
        "I10ε": "the same with 10ε",
        "v = |I5ε|": "How many arms of a problem are subpar",
        "subpar": "more than 5ε for some player",
        "near-optimal": "neither optimal nor subpar",
    }.items():
        assert word in body
        assert meaning in body
        later = body.index(meaning) + len(meaning)
        assert word in body[later:], f"{word} is explained, but not used"
    assert body.index("near-optimal") < body.index("|I5ε| = 5, 8"), "the words come first"
    assert "_5ε" not in text


def test_the_head_names_the_authors_and_says_that_a_small_form_is_one(records, folder, tmp_path):
    head = "".join(Page((folder / "report.html").read_text(encoding="utf-8").partition("<nav")[0]).text)
    for words in ("Zhi Wang, Chicheng Zhang and Kamalika Chaudhuri", "in our words", "ICML 2022", "AISTATS 2021"):
        assert words in head
    assert "small form of the paper's evaluation: 60 rounds and 3 problems" in head
    assert "mean little" in head
    own = write_report(records.where(n_subpar=8), tmp_path, title="mine").read_text(encoding="utf-8")
    assert "Chaudhuri" not in own.partition("<nav")[0], "a study of one's own is nobody else's"


def test_every_figure_is_there_with_a_text_for_those_who_cannot_see_it(folder):
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("img") == page.tags.count("figure") == page.tags.count("figcaption") > 5
    assert all(value for name, value in page.attributes if name == "alt")
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"figure-1.svg", "regret-v5.png"} <= names


def test_the_lowest_regret_of_each_row_is_marked_and_the_numbers_are_the_means(records, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="regret">') : page.index('<section id="claims">')]
    for v in (8, 5):
        final = {}
        for policy, regret in records.where(n_subpar=v).rows("policy", "final_regret"):
            final.setdefault(policy, []).append(regret)
        line = section[section.index(f"{v} subpar arms") :].split("</tr>")[0]
        best = min(final, key=lambda label: np.mean(final[label]))
        (marked,) = re.findall("<strong>(.*?)</strong>", line)
        shown = [float(number.replace(",", "")) for number in re.findall(r"± ([\d.,]+)<", line)]
        assert float(marked.replace(",", "")) == pytest.approx(np.mean(final[best]), rel=0.01)
        assert shown == pytest.approx(
            [np.std(final[label], ddof=1) for label in ("RobustAgg-TS(0.15)", "RobustAgg(0.15)", "Ind-TS", "Ind-UCB")],
            abs=0.51,
        )


def test_the_claims_have_their_verdicts(records, folder):
    findings = claims.judge(records)
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="claims">') : page.index('<section id="paper">')]
    cases = section[section.index("<details>") :]
    assert section.count('<tr class="extension"') == len({each.claim for each in findings if each.claim.extension}) > 5
    for verdict in ("holds", "does not hold", "undecided"):
        count = sum(finding.verdict == verdict for finding in findings)
        assert cases.count(f'class="verdict {verdict.replace(" ", "-")}"') == count
    with open(folder / "tables" / "claims.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(findings)


def test_the_tables_are_csv(records, folder):
    with open(folder / "tables" / "final-regret.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    for row in rows:
        final = records.where(policy=row["policy"], n_subpar=int(row["n_subpar"]))["final_regret"]
        assert float(row["mean"]) == pytest.approx(final.mean())
        assert float(row["standard_deviation"]) == pytest.approx(final.std(ddof=1))
        assert (row["problems"], row["replications"], row["over"]) == ("3", "1", "problems")
        assert float(row["standard_error"]) == pytest.approx(final.std(ddof=1) / np.sqrt(3))
        assert (float(row["median_run"]), float(row["worst_run"])) == pytest.approx((np.median(final), final.max()))
        assert float(row["lock_ins_a_run"]) == records.where(policy=row["policy"])["lock_ins"].mean()
        assert (row["schedule"], row["delay"], row["batch"]) == ("Concurrent()", "0", "1")
        first = records.where(policy="RobustAgg-TS(0.15)", n_subpar=int(row["n_subpar"]))["final_regret"]
        names = [f"{unit}_difference{end}" for unit in ("regret", "percent") for end in ("", "_low", "_high")]
        if row["policy"] == "RobustAgg-TS(0.15)":
            assert [row[name] for name in ("reference", *names)] == [""] * 7
        else:
            assert row["reference"] == "RobustAgg-TS(0.15)"
            found = [float(row[name]) for name in names]
            assert found[0] == pytest.approx((final - first).mean())
            assert found[3] == pytest.approx(100 * (final.mean() / first.mean() - 1))
            assert found[1] < found[0] < found[2]
            assert found[4] < found[3] < found[5]
    assert sum(int(row["lowest"]) for row in rows) == 2
    with open(folder / "tables" / "by-kind.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 * 3
    shares = [float(row["percent_of_pulls_mean"]) for row in rows]
    np.testing.assert_allclose(np.reshape(shares, (-1, 3)).sum(axis=1), 100)
    with open(folder / "tables" / "theory.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    problem = records.where(n_subpar=8).problems()[0]
    terms = np.log(60) / problem.gaps[problem.gaps > 0]
    assert float(rows[0]["gap-dependent: each player alone"]) == pytest.approx(terms.sum())


def test_labels_titles_and_specs_cannot_break_out(tmp_path):
    rows = records_of([HOSTILE, "</style>", "</title><b>"], values=(8,), study=HOSTILE)
    manifest = {"spec": f"</pre>{HOSTILE}", "machine": HOSTILE, "seed": HOSTILE, "versions": {HOSTILE: HOSTILE}}
    finding = claims.ClaimFinding(
        claims.Claim("id", HOSTILE, HOSTILE), HOSTILE, HOSTILE, 0.1, -np.inf, np.inf, 3, 1.0, "undecided", HOSTILE
    )
    page = write_report(rows, tmp_path, title=f"</title>{HOSTILE}", findings=[finding], manifest=manifest)
    text = page.read_text(encoding="utf-8")
    assert "".join(check_self_contained(text).text).count(HOSTILE) >= 6
    for file in (tmp_path / "figures").iterdir():
        assert file.resolve().parent == (tmp_path / "figures").resolve()
        assert b"<script" not in file.read_bytes()


def test_the_report_is_the_same_bytes_again_and_needs_records_only(records, tmp_path):
    one = write_report(records.where(n_subpar=8), tmp_path / "a", title="x").read_bytes()
    assert one == write_report(records.where(n_subpar=8), tmp_path / "b", title="x").read_bytes()
    assert b'id="claims"' not in one


def test_one_problem_is_one_and_late_rewards_have_columns_of_their_own_and_a_note(tmp_path):
    policies = [posse.IndTS(), posse.IndUCB()]
    late = posse.simulation.Feedback(delay=1000, batch=3)
    parts = [
        from_result(posse.simulate(PROBLEM, policies, 30, replications=5, feedback=feedback), "own")
        for feedback in (posse.simulation.Feedback(), late)
    ]
    rows = Records(pa.concat_tables(map(pa.table, parts)))
    write_report(rows, tmp_path, title="late")
    with open(tmp_path / "tables" / "final-regret.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [(row["problems"], row["replications"], row["over"]) for row in found] == [("1", "5", "replications")] * 4
    assert [(row["schedule"], row["delay"], row["batch"]) for row in found] == [
        *[("Concurrent()", "0", "1")] * 2,
        *[("Concurrent()", "1000", "3")] * 2,
    ]
    page = "".join(Page((tmp_path / "report.html").read_text(encoding="utf-8")).text)
    assert "1 problem each, 5 replications" in page
    note = "a policy without randomness (Ind-UCB) repeats its choice"
    assert note in " ".join(page.split())
    assert note in " ".join(regret_table(rows).split())
    at_once = rows.where(schedule="Concurrent()")
    assert note not in " ".join(regret_table(at_once).split())
    drawn = rows.where(policy="Ind-TS")
    assert note not in " ".join(regret_table(drawn).split())


def test_the_report_has_median_worst_run_and_lock_ins(records, folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index("Single runs: median") :]
    part = records.where(n_subpar=8, policy="Ind-UCB")
    shown = re.search(r"8 subpar arms.*?</tr>", section, re.DOTALL)[0]
    median, worst, locked = re.findall("<td>(.*?)</td>", shown)[3].split(" / ")
    final = part["final_regret"]
    assert (float(median), float(worst)) == pytest.approx((np.median(final), final.max()), rel=0.01)
    assert float(locked) == pytest.approx(part["lock_ins"].mean(), rel=0.01)
    old = pa.table(part).drop_columns("lock_ins").append_column("lock_ins", pa.nulls(3, pa.int64()))
    (table,) = regret_tables(Records(old))
    assert table.rows[0][2]["Ind-UCB"].single_runs.endswith(" / –"), "an older version did not measure them"


def test_the_reference_can_be_chosen(records):
    (table,) = regret_tables(records, "IndTS")
    assert table.reference == "Ind-TS"
    for _, part, cells in table.rows:
        assert cells["Ind-TS"].difference is None
        a, b = (part.where(policy=label)["final_regret"] for label in ("Ind-TS", "Ind-UCB"))
        assert cells["Ind-UCB"].difference.mean == pytest.approx((b - a).mean())
        assert cells["Ind-UCB"].relative.mean == pytest.approx(b.mean() / a.mean() - 1)
    assert "relative to Ind-TS, paired" in regret_table(records, "Ind-TS")
    with pytest.raises(ValueError, match=r"reference 'nobody', but the policies are 'RobustAgg-TS\(0\.15\)', "):
        regret_tables(records, "nobody")
    two = simulated([posse.RobustAgg(0.1), posse.RobustAgg(0.2)])
    with pytest.raises(ValueError, match=r"'RobustAgg' may be 'RobustAgg\(0\.1\)' or 'RobustAgg\(0\.2\)'"):
        regret_tables(two, "RobustAgg")


def test_the_terminal_table_fits_lines_up_and_marks_the_lowest(records):
    wide = records_of([f"{letter * 70} {letter}" for letter in "abc"], study="s" * 300)
    for text in (regret_table(records), regret_table(wide)):
        assert max(map(len, text.splitlines())) <= 110
        rows = [line for line in text.splitlines() if re.match(r"\d subpar arms", line)]
        assert sum("*" in row for row in rows) == 2
        assert text.count("±") == 2 * 4 + 1
    (table,) = regret_tables(records)
    for setting, _, cells in table.rows:
        best = min(cells.values(), key=lambda cell: cell.mean)
        assert best.starred in next(
            line for line in regret_table(records).splitlines() if line.startswith(f"{setting['n_subpar']} ")
        )


def test_differences_are_those_of_the_claims_table(records):
    """Of the other policies to the first that is written, paired over problems, with the same 95 % interval."""
    written = ["Ind-TS", "RobustAgg-TS(0.15)"]
    parts = [pa.table(records.where(policy=label)) for label in written]
    (table,) = regret_tables(Records(pa.concat_tables(parts)))
    assert (table.policies, table.reference, table.compared) == (written, written[0], written[1:])
    findings = {each.case: each for each in claims.judge(records) if each.measure == "final regret"}
    for setting, _, cells in table.rows:
        found, wanted = cells[written[1]].relative, findings[f"RobustAgg-TS / Ind-TS, v = {setting['n_subpar']}"]
        values = wanted.difference, wanted.low, wanted.high, wanted.problems
        assert (found.mean, found.low, found.high, found.units) == pytest.approx(values, rel=1e-12)
    lines = regret_table(records).splitlines()
    assert "relative to RobustAgg-TS(0.15), paired over problems, with 95 % intervals" in lines


def test_spread_is_over_problems_or_over_the_replications_of_one(records):
    over = {1: "replications", 2: "problems"}
    for count, words in over.items():
        result = posse.simulate(
            posse.generate.subpar(8, count=count), [posse.IndTS(), posse.IndUCB()], 20, replications=3, threads=1
        )
        rows = from_result(result, "own")
        (table,) = regret_tables(rows)
        (cells,) = (cells for *_, cells in table.rows)
        assert table.over == words
        assert {cell.count for cell in cells.values()} == {3 if count == 1 else 2}
        assert cells["Ind-UCB"].difference.units == cells["Ind-UCB"].relative.units == (3 if count == 1 else 2)
        assert "[" not in cells["Ind-UCB"].percent
        assert f"Fewer than 4 {words} are too few for an interval." in regret_table(rows).splitlines()
        assert f"over {words}" in regret_table(rows)
        assert all(f"means over {words}," in entry.caption for entry in catalogue(rows))


def test_where_the_first_policy_differs_from_row_to_row_the_text_says_so():
    tables = [
        from_result(
            posse.simulate(
                posse.generate.subpar(8, count=2, epsilon=epsilon),
                [posse.RobustAgg(epsilon), posse.IndTS()],
                20,
                threads=1,
            ),
            "own",
        )
        for epsilon in (0.1, 0.15)
    ]
    (table,) = regret_tables(Records(pa.concat_tables(map(pa.table, tables))))
    assert (table.reference, table.compared) == ("the row's RobustAgg", ["Ind-TS"])
    assert table.references == ["RobustAgg(0.1)", "RobustAgg(0.15)"]
    assert table.policies == ["RobustAgg(0.1)", "RobustAgg(0.15)", "Ind-TS"]


def test_a_single_run_and_a_missing_policy_are_fine(records, tmp_path):
    one = records.where(n_subpar=8, problem=0, policy="Ind-TS")
    gap = records.where(n_subpar=5, problem=0)
    rows = Records(pa.concat_tables([pa.table(one), pa.table(gap)]))
    assert "104 ± –*" in regret_table(one), "the spread of a single run is not known"
    assert "–" in regret_table(rows)
    assert write_report(rows, tmp_path, title="few").exists()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: write_report("results", "out", title="x"), "records"),
        (lambda: compare("one", "other"), "first"),
        (lambda: score("results", []), "records"),
    ],
)
def test_something_else_than_records_is_refused(function, name):
    with pytest.raises(TypeError, match=f"^{name}='.*', but expected Records, from"):
        function()


def test_no_records_no_report(records, tmp_path):
    with pytest.raises(ValueError, match="no records"):
        write_report(records.matching(policy="nobody"), tmp_path, title="x")


@pytest.mark.parametrize(
    ("family", "name", "values"),
    [
        ('"structured", players = 3, arms = 4', "odd", (1, 2)),
        ('"changing", players = 2, arms = 3, times = 3', "every", (10, 30)),
        ('"structured", players = 4, arms = 3, attributes = { region = 2 }', "explained", (0.2, 0.9)),
    ],
)
def test_every_value_of_a_list_is_a_setting_of_its_own(tmp_path, family, name, values):
    """Also of parameters without a column, although problems have the same numbers, ε and perhaps first means."""
    text = """
    [[study]]
    name = "grid"
    horizon = 60
    problems = {{ family = {}, {} = {}, count = 4 }}
    policies = [{{ name = "IndTS" }}, {{ name = "IndUCB" }}]
    """
    records = run(parse(text.format(family, name, list(values))), tmp_path / "all")
    (table,) = regret_tables(records)
    assert [describe(setting) for setting, *_ in table.rows] == [f"{name} = {value}" for value in values]
    for value, (_, _, cells) in zip(values, table.rows, strict=True):
        alone = run(parse(text.format(family, name, value)), tmp_path / str(value))
        ((_, _, expected),) = regret_tables(alone)[0].rows
        for label, cell in cells.items():
            assert (cell.mean, cell.deviation, cell.count) == (expected[label].mean, expected[label].deviation, 4)
            assert cell.relative == expected[label].relative
    assert len(compare(records, records)) == 4


def test_a_policy_that_does_the_same_is_called_so(tmp_path):
    same = [posse.IndTS(label="one"), posse.IndTS(label="another")]
    (table,) = regret_tables(simulated(same, replications=5))
    assert table.rows[0][-1]["another"].percent == "the same"


def test_where_means_change_no_figure_shows_regret_by_kind():
    """It is unknown there, and a figure without bars would say that there is none."""
    problems = posse.generate.changing(players=2, arms=3, every=10, count=2)
    names = [entry.name for entry in catalogue(simulated(posse.IndTS(), problems))]
    assert names == ["own", "own-pulls"]


def test_few_decisions_are_not_told_as_none(tmp_path):
    page = write_report(simulated(posse.IndTS()), tmp_path, title="Small").read_text(encoding="utf-8")
    assert "1 run of 1 algorithm, up to 60 decisions." in page
