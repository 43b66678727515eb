"""A spec that is changed between runs in one folder: what is still valid is used again, and nothing else is."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import files

from posse.experiments import ResultStore, RunError, parse, run
from posse.experiments.runs.remaining import Remaining
from posse.experiments.spec import study
from posse.experiments.spec.study import Unit

HEAD = """
seed = {seed}

[[study]]
name = "{name}"
horizon = [{horizon}]
replications = {replications}
checkpoints = {checkpoints}
problems = {{ {problems} }}
"""
FAMILY = 'family = "subpar", n_subpar = [1, 2], count = {count}, players = 3, arms = 4, epsilon = {epsilon}'
GIVEN = "means = [[[0.1, 0.2], [0.2, 0.3]], [[0.5, 0.4], [0.6, 0.6]]{more}]"
ROBUST = '[[study.policies]]\nname = ["RobustAggTS", "RobustAgg"]\nepsilon = {epsilon}\n'
ALONE = '[[study.policies]]\nname = "IndTS"\n'
NEW = '[[study.policies]]\nname = "IndUCB"\n'
RENAMED = '[[study.policies]]\nname = "IndTS"\nlabel = "alone"\n'


def text(policies=(ROBUST, ALONE), problems=FAMILY, name="one", epsilon=0.15, count=5, assumed=0.15, more="", **values):
    values = {"seed": 5, "horizon": "300", "replications": 3, "checkpoints": 9} | values
    head = HEAD.format(name=name, problems=problems.format(count=count, epsilon=epsilon, more=more), **values)
    return head + "".join(policies).format(epsilon=assumed)


START = text()
GROWN = {  # the spec of the first run, that of the second, and the policies that the second simulates
    "a policy more": (START, text([ROBUST, ALONE, NEW]), {"Ind-UCB"}),
    "a policy first": (START, text([NEW, ROBUST, ALONE]), {"Ind-UCB"}),
    "a policy less": (START, text([ALONE]), set()),
    "another order": (START, text([ALONE, ROBUST]), set()),
    "a label": (START, text([ROBUST, RENAMED]), set()),
    "a policy twice": (START, text([ROBUST, ALONE, RENAMED]), set()),
    "a study's name": (START, text(name="two"), set()),
    "a study more": (START, START + text(name="two")[len("\nseed = 5\n\n") :], set()),
    "another epsilon": (START, text(assumed=0.1), {"RobustAgg-TS(0.1)", "RobustAgg(0.1)"}),
    "a horizon more": (START, text(horizon="300, 400"), {"all"}),
    "fewer problems": (START, text(count=2), set()),
    "more problems": (START, text(count=9), {"all"}),
    "fewer replications": (START, text(replications=2), set()),
    "more of everything": (START, text([NEW, ALONE], count=9, replications=4), {"all"}),
    "a title": (START, 'title = "new"\n' + START, set()),
    "a longer horizon": (START, text(horizon="400"), {"all"}),
    "other problems": (START, text(epsilon=0.1), {"all"}),
    "other checkpoints": (START, text(checkpoints=5), {"all"}),
    "another seed": (START, text(seed=6), {"all"}),
    "a table more": (text(problems=GIVEN), text(problems=GIVEN, more=", [[0.3, 0.4], [0.6, 0.6]]"), {"all"}),
    "a table and a policy": (
        text(problems=GIVEN),
        text([ROBUST, ALONE, NEW], problems=GIVEN, more=", [[0.3, 0.4], [0.6, 0.6]]"),
        {"all"},
    ),
}


@pytest.fixture
def simulated(monkeypatch):
    """The runs that are simulated: the policy's label, and all that they depend on."""
    done: list[tuple[str, ...]] = []
    plain = Unit.simulate

    def noted(unit, problems, **how):
        settings = unit.horizon, unit.checkpoints, unit.seed
        for policy, problem, replication in itertools.product(unit.policies, problems, range(*unit.replications)):
            depends = (problem.means.tolist(), problem.epsilon, replication, type(policy), policy.constants())
            done.append((policy.label, str((settings, depends))))
        return plain(unit, problems, **how)

    monkeypatch.setattr(Unit, "simulate", noted)
    return done


@pytest.fixture
def small_units(monkeypatch):
    """Of two or three problems, which are cut otherwise if there are more policies."""
    monkeypatch.setattr(study, "UNIT_COST", 700_000)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # many files, and no crash to survive


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("how", GROWN)
def test_a_run_grown_in_steps_is_the_run_made_at_once(how, tmp_path, simulated):
    first, second, policies = GROWN[how]
    before = run(parse(first), tmp_path / "grown", threads=1)
    kept = files(tmp_path / "grown")
    old = set(simulated)
    simulated.clear()
    grown = run(parse(second), tmp_path / "grown", threads=1)
    new = list(simulated)
    at_once = run(parse(second), tmp_path / "at once", threads=1)
    assert grown == at_once
    after = files(tmp_path / "grown")
    assert after == files(tmp_path / "at once"), "who reads all files of the folder reads this spec's runs, and once"
    earlier = files(tmp_path / "grown" / "earlier")
    assert kept.items() <= (after | earlier).items(), "nothing is thrown away or changed"
    assert {label for label, *_ in new} == (set(at_once.distinct("policy")) if policies == {"all"} else policies)
    assert not old.intersection(new), "nothing is simulated again"
    assert len(new) == len(set(new))
    simulated.clear()
    assert run(parse(first), tmp_path / "grown", threads=1) == before
    assert simulated == [], "the earlier form finds its results again"
    assert files(tmp_path / "grown") == kept


@pytest.mark.usefixtures("small_units")
def test_of_two_files_with_other_tables_under_one_number_the_right_one_is_used(tmp_path):
    """Their names, and so their order, are as good as random."""
    for number in range(6):
        tables = [f"[[0.5, 0.4], [0.{digit}{number}, 0.6]]" for digit in (1, 3, 8)]
        pairs = [f"means = [{tables[0]}, {other}]" for other in tables[1:]]
        for pair in pairs:
            run(parse(text(problems=pair)), tmp_path / "grown")
        last = parse(text([ROBUST, ALONE, NEW], problems=pairs[1]))
        assert run(last, tmp_path / "grown") == run(last, tmp_path / str(number))


@pytest.mark.usefixtures("small_units")
def test_in_many_steps_with_an_interrupt(tmp_path, monkeypatch):
    plain = Unit.simulate
    last = parse(text([ROBUST, ALONE, NEW], horizon="200, 300", count=8))
    for spec in (START, text([ALONE]), text(horizon="300, 200"), text([NEW], count=8), last.text, START):
        calls = []

        def interrupted(unit, problems, calls=calls, **how):
            calls.append(unit)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return plain(unit, problems, **how)

        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt, RunError):
            patched.setattr(Unit, "simulate", interrupted)
            run(parse(spec), tmp_path / "grown", threads=1)
    grown = run(last, tmp_path / "grown")
    assert grown == run(last, tmp_path / "at once")
    assert files(tmp_path / "grown") == files(tmp_path / "at once")


def test_a_good_file_of_an_earlier_form_takes_the_place_of_a_damaged_one(tmp_path):
    run(parse(START), tmp_path)
    run(parse(text(seed=6)), tmp_path)
    (first, *_) = sorted((tmp_path / "earlier").iterdir())
    content = first.read_bytes()
    (tmp_path / first.name).write_bytes(content[:-9])
    run(parse(START), tmp_path)
    assert (tmp_path / first.name).read_bytes() == content
    assert (tmp_path / f"{first.name}.damaged").read_bytes() == content[:-9], "that one is kept too"


def said(folder, spec):
    return str(Remaining(ResultStore(folder), parse(spec).units()))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (START, "90 of 90 runs are there already"),
        (
            text([ROBUST, ALONE, NEW]),
            "90 of 120 runs are there already\ncomputed: 30 runs of Ind-UCB, because the policy is new here",
        ),
        (text([ALONE]), "30 of 30 runs are there already"),
        (text(assumed=0.1), "computed: 60 runs of RobustAgg-TS(0.1), RobustAgg(0.1), because the policy is new here"),
        (
            text(horizon="300, 400"),
            "90 of 180 runs are there already\ncomputed: 90 runs, because horizon = 400 is new",
        ),
        (text(seed=6, epsilon=0.1), "computed: 90 runs, because problems.epsilon = 0.1, seed = 6 are new"),
        (
            text(count=9),
            "90 of 162 runs are there already\ncomputed: 72 runs, because these problems or replications are new",
        ),
        (text(horizon="200, 201, 202, 203, 204, 205, 206, 207, 208, 209"), "and 2 more reasons"),
    ],
)
def test_it_says_what_is_computed_and_why(spec, words, tmp_path):
    run(parse(START), tmp_path)
    assert words in said(tmp_path, spec)


def test_it_says_nothing_of_an_empty_folder_and_what_an_interrupted_run_left(tmp_path):
    assert said(tmp_path, START) == ""
    run(parse(START), tmp_path)
    next(tmp_path.glob("unit-*")).unlink()
    assert said(tmp_path, START).endswith("computed: 45 runs, because they were not done before")


def test_it_says_that_an_older_version_computed_what_is_there(tmp_path):
    shutil.copytree(Path(__file__).parent / "data" / "schema-1", tmp_path / "old")
    old = ResultStore(tmp_path / "old")
    assert said(old.folder, old.manifest()["spec"]).endswith(
        "computed: 8 runs, because other code computed what is there"
    )


def test_it_says_so_of_the_same_code_with_another_schema_too(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(study, "SCHEMA_VERSION", 2)
        run(parse(START), tmp_path)
    assert said(tmp_path, START).endswith("computed: 90 runs, because other code computed what is there")


def test_foreign_and_damaged_files_are_named_and_stop_nothing(tmp_path, capsys):
    run(parse(START), tmp_path)
    good = files(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "sales.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "unit-sales.parquet")
    broken = tmp_path / next(iter(good))
    broken.write_bytes(broken.read_bytes()[:-7])
    (tmp_path / "manifest.json").write_text("mine")
    records = run(parse(START), tmp_path, progress=True)
    shown = capsys.readouterr().err
    assert f"{broken} is damaged (its digest does not fit its content): set aside as {broken.name}.damaged" in shown
    assert "unit-sales.parquet is not a file of posse's: not used" in shown
    assert "manifest.json is damaged" in shown
    assert "45 of 90 runs are there already\ncomputed: 45 runs, because a file is damaged" in shown
    assert good.items() <= files(tmp_path).items()
    assert Path(f"{broken}.damaged").read_bytes() == good[broken.name][:-7]
    assert (tmp_path / "manifest.json.damaged").read_text() == "mine"
    assert ResultStore(tmp_path).read() == records
