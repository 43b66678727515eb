"""Specs: what a valid one means, and that a broken one is told by line and field."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import math
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import posse
from posse.experiments import SpecError, load, parse
from posse.experiments.spec import study as study_module
from posse.experiments.spec.shipped_specs import shipped, to_toml
from posse.experiments.spec.study import KNOWS_GROUPS, UNIT_COST, Unit
from posse.simulation.engine import code_digest_of

SPECS = Path(study_module.__file__).parent / "shipped"

SMALL = """
title = "Small"
seed = 3

[[study]]
name = "one"
horizon = 40

[study.problems]
family = "subpar"
n_subpar = 2
count = 3
players = 4
arms = 3

[[study.policies]]
name = "RobustAggTS"
epsilon = "problem"

[[study.policies]]
name = "IndTS"
"""


def small(old: str = "", new: str = "") -> str:
    assert old in SMALL
    return SMALL.replace(old, new) if old else SMALL


def run_all(text: str, folder: Path = Path()) -> list[dict]:
    return [row for unit in parse(text, folder).units() for row in unit.run().to_pylist()]


# What a spec means -----------------------------------------------------------------------------------------------


def test_rows_are_those_of_a_plain_simulation():
    rows = run_all(SMALL)
    problems = posse.generate.subpar(2, count=3, seed=3, players=4, arms=3)
    result = posse.simulate(problems, [posse.RobustAggTS(0.15), posse.IndTS()], 40, seed=3)
    assert [row["final_regret"] for row in rows] == result.final_regret[:, :, 0].T.ravel().tolist()
    assert [row["problem"] for row in rows] == [0, 0, 1, 1, 2, 2]
    assert {row["policy"] for row in rows} == {"RobustAgg-TS(0.15)", "Ind-TS"}
    assert {(row["study"], row["seed"], row["horizon"]) for row in rows} == {("one", "3", 40)}


def test_lists_are_a_grid():
    text = small(
        "horizon = 40",
        'horizon = [10, 20]\nschedule = ["sequential", { random = [0.2, 0.7] }]\nanytime = [true, false]',
    )
    text = text.replace("n_subpar = 2", "n_subpar = [0, 2]").replace(
        "arms = 3", 'arms = 3\nrewards = ["uniform", { beta = [2, 9] }]'
    )
    units = parse(text).units()
    points = {
        (u.horizon, str(u.schedule), u.anytime, u.problems.parameters["n_subpar"], u.problems.parameters["rewards"])
        for u in units
    }
    assert len(points) == 2 * 3 * 2 * 2 * 3
    assert {str(unit.schedule) for unit in units} == {
        "Sequential(order='turn')",
        "Random(probability=0.2)",
        "Random(probability=0.7)",
    }


def test_a_chance_for_each_player_is_a_list_within_the_list():
    (unit,) = parse(small("horizon = 40", "horizon = 40\nschedule = { random = [[0.1, 0.2, 0.3, 0.4]] }")).units()
    assert unit.schedule == posse.schedule.Random([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("schedule", "horizon"),
    [('"concurrent"', 40), ('"sequential"', 160), ('"sequential-random"', 160), ("{ random = 0.5 }", 80)],
)
def test_turns_give_a_player_so_many_rounds(schedule, horizon):
    (unit,) = parse(small("horizon = 40", f"turns = 40\nschedule = {schedule}")).units()
    assert unit.horizon == horizon


def test_policy_constants_make_policies():
    text = SMALL.replace('name = "IndTS"', 'name = "IndTS"\nc2 = [1, 4]')
    (unit,) = parse(text).units()
    assert unit.policies == (posse.RobustAggTS(0.15), posse.IndTS(1), posse.IndTS(4))


def test_own_epsilon_follows_each_problem():
    text = """
    [[study]]
    name = "given"
    horizon = 10
    problems = { means = [[[0.5, 0.2], [0.6, 0.2]], [[0.9, 0.1], [0.9, 0.4]], [[0.5], [0.5], [0.75]]] }
    policies = [{ name = "RobustAggTS", epsilon = "problem" }]
    """
    rows = run_all(text)
    assert [row["policy"] for row in rows] == ["RobustAgg-TS(0.1)", "RobustAgg-TS(0.3)", "RobustAgg-TS(0.25)"]
    assert [row["problem"] for row in rows] == [0, 1, 2]
    assert [row["players"] for row in rows] == [2, 2, 3]


def test_means_inline_from_csv_and_npy_are_the_same(tmp_path):
    means = [[0.5, 0.25, 1.0], [0.625, 0.25, 0.0]]
    (tmp_path / "m.csv").write_text("\n".join(",".join(map(str, row)) for row in means) + "\n")
    np.save(tmp_path / "m.npy", np.array(means))
    np.save(tmp_path / "two.npy", np.array([means, means[::-1]]))
    text = small(SMALL[SMALL.index("family") : SMALL.index("[[study.policies")], "SOURCE\n")
    (inline,) = parse(text.replace("SOURCE", f"means = {means}")).units()
    for source in ("m.csv", "m.npy"):
        assert parse(text.replace("SOURCE", f'file = "{source}"'), tmp_path).units() == [inline]
    (two,) = parse(text.replace("SOURCE", 'file = "two.npy"'), tmp_path).units()
    assert two.problems.tables == (tuple(map(tuple, means)), tuple(map(tuple, means[::-1])))


def test_structured_problems_and_their_own_epsilon():
    text = small('family = "subpar"\nn_subpar = 2', 'family = "structured"\nlevel = [0.0, 0.2]\nodd = 1')
    units = parse(text).units()
    for unit, level, epsilon in zip(units, (0.0, 0.2), (0.65, 0.85), strict=True):
        expected = posse.generate.structured(count=3, seed=3, players=4, arms=3, level=level, odd=1)
        assert unit.problems.make(3) == expected
        assert unit.policies[0].epsilon == pytest.approx(epsilon)
        assert unit.describe()["problems"] == {
            **{"family": "structured", "rewards": "Bernoulli()", "epsilon": None, "players": 4, "arms": 3},
            **{"spread": 0.05, "low": 0.2, "high": 0.8, "level": level, "unlike": 0.0},
            **{"groups": 1, "odd": 1, "oddity": "reversed"},
        }
    assert len({unit.id for unit in units}) == 2


def test_the_defaults_of_structured_problems_are_those_of_the_generator():
    (unit,) = parse(small('family = "subpar"\nn_subpar = 2', 'family = "structured"')).units()
    assert unit.problems.make(5) == posse.generate.structured(count=3, seed=5, players=4, arms=3)


def test_structured_problems_with_many_options():
    options = 'scale = ["logit", "log"]\nlevel = 1.5\ncenters = [0.2, 0.3, 0.1]\nodd = 1\noddity = "swapped"'
    text = small('family = "subpar"\nn_subpar = 2', f'family = "structured"\nrewards = {{ jackpot = 0.02 }}\n{options}')
    for unit, scale in zip(parse(text).units(), ("logit", "log"), strict=True):
        options = {"scale": scale, "level": 1.5, "centers": (0.2, 0.3, 0.1), "odd": 1, "oddity": "swapped"}
        expected = {"count": 3, "players": 4, "arms": 3, "rewards": posse.rewards.Jackpot(0.02), **options}
        assert unit.problems.make(3) == posse.generate.structured(**expected, seed=3)
        assert options.items() <= unit.describe()["problems"].items()


GROUPS = 'family = "structured"\ngroups = 2\nmajority = 0.75'


def test_who_knows_the_groups_plays_each_as_a_problem_of_its_own():
    """The slow way: one group of one problem at a time, and the sums by hand."""
    text = small('family = "subpar"\nn_subpar = 2', GROUPS).replace("horizon = 40", "horizon = 40\nknows_groups = true")
    text = text.replace("horizon = 40", "horizon = 40\nreplications = 2\nanytime = true\ncheckpoints = 3")
    rows = run_all(text)
    assert [row for row in rows if row["policy"] != KNOWS_GROUPS] == run_all(text.replace("knows_groups = true", ""))
    known = [row for row in rows if row["policy"] == KNOWS_GROUPS]
    assert [(row["problem"], row["replication"]) for row in known] == list(itertools.product(range(3), range(2)))
    for row in known:
        problem = parse(text).units()[0].problems.make(3)[row["problem"]]
        regret, reward, locked = np.zeros(3), 0.0, 0
        for group in ([0, 1, 2], [3]):
            part = posse.Problem(problem.means[group])
            options = {"replications": [row["replication"]], "anytime": True, "checkpoints": 3, "seed": 3}
            result = posse.simulate(part, posse.PosseTS(), 40, **options)
            regret += result.regret[0, 0, 0]
            reward += result.reward[0, 0, 0]
            locked += result.lock_ins()[0, 0, 0]
        assert np.allclose(row["regret"], regret, rtol=1e-12)
        assert (row["final_regret"], row["reward"]) == (pytest.approx(regret[-1]), reward)
        assert (row["lock_ins"], sum(row["pulls_by_kind"])) == (locked, 4 * 40)
        assert sum(row["regret_by_kind"]) == pytest.approx(regret[-1]), "players are in their places again"


def test_groups_that_lie_mixed_are_put_in_their_places_again():
    problem = posse.Problem([[0.9, 0.1], [0.2, 0.8], [0.8, 0.1]], groups=[1, 0, 1])
    unit = dataclasses.replace(parse(SMALL).units()[0], policies=(posse.PosseTS(),), by_group=True)
    result = unit.simulate([problem])
    apart = posse.simulate(posse.Problem(problem.means[[0, 2]]), posse.PosseTS(), 40, seed=3)
    alone = posse.simulate(posse.Problem(problem.means[[1]]), posse.PosseTS(), 40, seed=3)
    for name in ("pulls", "late_pulls", "player_regret"):
        assert np.array_equal(getattr(result, name)[:, :1, :, [0, 2]], getattr(apart, name))
        assert np.array_equal(getattr(result, name)[:, :1, :, [1]], getattr(alone, name))


def test_policies_may_be_told_another_horizon():
    right = small('name = "IndTS"', 'name = "IndUCB"')
    text = right.replace("horizon = 40", "horizon = 40\ntold = 2.5")
    (unit,) = parse(text).units()
    problems = posse.generate.subpar(2, count=3, seed=3, players=4, arms=3)
    result = posse.simulate(problems, unit.policies, 40, seed=3, told_horizon=100)
    rows = run_all(text)
    assert [row["final_regret"] for row in rows] == result.final_regret[:, :, 0].T.ravel().tolist()
    assert [row["final_regret"] for row in rows] != [row["final_regret"] for row in run_all(right)]


def test_an_own_spread_is_the_deviation_of_a_uniform_law_as_wide_as_epsilon():
    (unit,) = parse(small('name = "IndTS"', 'name = "HierTS"\nspread = "problem"')).units()
    assert unit.policies[1].spread == pytest.approx(np.random.default_rng(0).uniform(0, 0.15, 10**6).std(), rel=0.01)


@pytest.mark.parametrize(
    ("text", "schedule", "acts"),
    [
        ('"arrivals"', posse.schedule.Arrivals(), 2.5),
        ('"relay"', posse.schedule.Arrivals(stay=False), 1.0),
        ("{ late = 0.25 }", posse.schedule.Late(0.25), 3.75),
    ],
)
def test_players_that_come_later(text, schedule, acts):
    (unit,) = parse(small("horizon = 40", f"turns = 40\nschedule = {text}")).units()
    assert unit.schedule == schedule
    assert unit.horizon == math.ceil(40 * 4 / acts)
    pulls = posse.simulate(unit.problems.make(0)[:1], unit.policies, unit.horizon, schedule=schedule).pulls
    assert pulls[0].sum() / unit.horizon == pytest.approx(acts, abs=0.2)


def test_defaults_are_for_studies_that_do_not_say_otherwise():
    shared = '[defaults]\nreplications = 2\npolicies = [{ name = "NaiveAgg" }]\n\n[[study]]'
    study = parse(small("[[study]]", shared)).studies[0]
    assert study.replications == 2
    assert [choice.policy for choice in study.policies] == [posse.RobustAggTS, posse.IndTS]
    bare = SMALL[: SMALL.index("[[study.policies]]")].replace("[[study]]", shared)
    assert [choice.policy for choice in parse(bare).studies[0].policies] == [posse.NaiveAgg]


def test_tags_are_kept_and_change_no_result():
    tagged = parse(small("horizon = 40", 'horizon = 40\ntags = ["A", "paper"]'))
    assert tagged.studies[0].tags == ("A", "paper")
    assert [unit.id for unit in tagged.units()] == [unit.id for unit in parse(SMALL).units()]


def test_units_are_cut_small_and_cover_everything():
    text = small("horizon = 40", "horizon = 300000\nreplications = 40").replace("count = 3", "count = 7")
    units = parse(text).units()
    assert max(unit.cost for unit in units) <= UNIT_COST
    runs = [
        (problem, replication)
        for unit in units
        for problem in unit.problems.numbers
        for replication in range(*unit.replications)
    ]
    assert sorted(runs) == list(itertools.product(range(7), range(40)))
    assert len({unit.id for unit in units}) == len(units) > 1


def test_rows_do_not_depend_on_the_cut(monkeypatch):
    text = small("horizon = 40", "horizon = 40\nreplications = 3")
    whole = run_all(text)
    monkeypatch.setattr(study_module, "UNIT_COST", 1)
    units = parse(text).units()
    assert len(units) == 9

    def key(row):
        return row["problem"], row["policy"], row["replication"]

    assert sorted((row for unit in units for row in unit.run().to_pylist()), key=key) == sorted(whole, key=key)


def test_an_id_says_what_is_in_a_unit_and_not_where_it_stands():
    (unit,) = parse(SMALL).units()
    second = SMALL[SMALL.index("[[study]]") :].replace('"one"', '"zero"')
    two = parse(SMALL.replace("[[study]]", second + "\n[[study]]", 1)).units()
    assert two[1].id == unit.id != two[0].id
    assert pickle.loads(pickle.dumps(unit)).id == unit.id
    changed = [
        ("seed = 3", "seed = 4"),
        ("horizon = 40", "horizon = 41"),
        ("horizon = 40", "horizon = 40\ncheckpoints = 7"),
        ("horizon = 40", "horizon = 40\nanytime = true"),
        ("horizon = 40", "horizon = 40\nreplications = 2"),
        ("horizon = 40", "horizon = 40\ntold = 0.5"),
        ("horizon = 40", 'horizon = 40\nschedule = "sequential"'),
        ("players = 4", "players = 5"),
        ("n_subpar = 2", "n_subpar = 1"),
        ("count = 3", "count = 2"),
        ("count = 3", 'count = 3\nrewards = "uniform"'),
        ("count = 3", "count = 3\nepsilon = 0.1"),
        ('name = "IndTS"', 'name = "IndTS"\nlabel = "alone"'),
        ('name = "IndTS"', 'name = "IndTS"\nc2 = 2'),
    ]
    ids = [parse(small(*change)).units()[0].id for change in changed]
    assert len({unit.id, *ids}) == len(changed) + 1


def test_ids_are_stable(monkeypatch):
    """Stored results are found by these names: if this fails without a new schema version, stores are orphaned."""
    monkeypatch.setattr(study_module, "code_digest_of", lambda policy: f"code of {policy.label}")
    (unit,) = parse(SMALL).units()
    assert unit.id == "f9ea3bc3b8f9824c9eb3a0ce"


def test_an_id_holds_the_code_of_every_policy():
    (unit,) = parse(SMALL).units()
    codes = [policy["code"] for policy in unit.describe()["policies"]]
    assert codes == [code_digest_of(policy) for policy in unit.policies]
    assert len(set(codes)) == 2


def test_the_shipped_specs():
    paper = load(SPECS / "paper.toml")
    assert [study.name for study in paper.studies] == ["subpar", "participation", "players", "small-epsilon"]
    subpar = [unit for unit in paper.units() if unit.study == "subpar"]
    assert sum(unit.problems.count for unit in subpar) == 300
    assert {unit.horizon for unit in subpar} == {50_000}
    assert {policy.label for policy in subpar[0].policies} == {
        "RobustAgg-TS(0.15)",
        "RobustAgg-TS-V(0.15)",
        "RobustAgg(0.15)",
        "Ind-TS",
        "Ind-UCB",
    }
    example = load(SPECS / "example.toml")
    assert {policy.label for policy in example.units()[-1].policies} >= {"sharing", "alone"}


# What is wrong with a spec ---------------------------------------------------------------------------------------

FAMILY = 'family = "subpar"\nn_subpar = 2'
TWICE = 'label = "RobustAgg-TS(0.15)"'
BROKEN = [
    # (what to replace, by what, the line's text in the broken spec, what the message holds)
    ("horizon = 40", "horizons = 40", "horizons = 40", "did you mean horizon"),
    ("horizon = 40", "horizon = 0", "horizon = 0", "at least 1"),
    ("horizon = 40", 'horizon = "long"', 'horizon = "long"', "whole number"),
    ("horizon = 40", "horizon = true", "horizon = true", "whole number"),
    ("horizon = 40", "horizon = []", "horizon = []", "at least one value"),
    ("horizon = 40", "horizon = [5, 5]", "horizon = [5, 5]", "once"),
    ("horizon = 40", "horizon = 400000000000", "horizon = 400000000000", "player-rounds"),
    ("horizon = 40", "", "[[study]]", "horizon is missing"),
    ("horizon = 40", "horizon = 40\nturns = 3", "horizon = 40", "exactly one"),
    ("horizon = 40", "turns = 40\nschedule = { random = 0 }", "turns = 40", "more than"),
    ("horizon = 40", "horizon = 40\nreplications = [1, 2]", "replications = [1, 2]", "no grid"),
    ("horizon = 40", 'horizon = 40\nschedule = "sometimes"', 'schedule = "sometimes"', "sequential-random"),
    ("horizon = 40", "horizon = 40\nschedule = { random = 1.5 }", "schedule = { random = 1.5 }", "[0, 1]"),
    ("horizon = 40", "horizon = 40\nschedule = { random = [[0.1]] }", "schedule = { random = [[0.1]] }", "4 players"),
    ("horizon = 40", "horizon = 40\nschedule = { late = 2 }", "schedule = { late = 2 }", "[0, 1]"),
    ("horizon = 40", 'horizon = 40\ntags = "A"', 'tags = "A"', "list of texts"),
    ("horizon = 40", "horizon = 40\ntags = [1]", "tags = [1]", "text in quotes"),
    ("horizon = 40", "horizon = 40\ntold = 0", "told = 0", "above 0"),
    ("horizon = 40", "horizon = 40\nanytime = [false, true]\ntold = 0.5", "told = 0.5", "with anytime=true"),
    ("horizon = 40", "horizon = 40\ntold = [0.1, 10]", "told = [0.1, 10]", "no grid"),
    ("horizon = 40", "horizon = 40\nknows_groups = 1", "knows_groups = 1", "true or false"),
    ("horizon = 40", "horizon = 40\nknows_groups = true", "knows_groups = true", "only one group"),
    ("seed = 3", 'seed = 3\ndefaults = { name = "x" }', 'defaults = { name = "x" }', "no name"),
    ("seed = 3", "seed = 3\ndefaults = { horizons = 3 }", "[[study]]", "did you mean horizon"),
    ("n_subpar = 2", "n_subpar = 3", "n_subpar = 3", "at most 2"),
    ("n_subpar = 2", "n_subpar = [1, 7]", "n_subpar = [1, 7]", "at most 2"),
    ("count = 3", "count = 3\nepsilon = 0.19", "epsilon = 0.19", "at most 0.16"),
    ("count = 3", 'count = 3\nrewards = "normal"', 'rewards = "normal"', "bernoulli"),
    ("count = 3", "count = 3\nrewards = { beta = -1 }", "rewards = { beta = -1 }", "above 0"),
    ("players = 4", "players = 1000000", "players = 1000000", "at most 1000000"),
    ("count = 3", "count = 1000001", "count = 1000001", "at most 1000000"),
    ('family = "subpar"', 'family = "gaussian"', 'family = "gaussian"', "'subpar' or 'uniform'"),
    ('family = "subpar"', 'family = "uniform"', "n_subpar = 2", "not a field here"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\nodd = 5', "odd = 5", "at most 4"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\noddity = "strange"', 'oddity = "strange"', "swapped"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\nepsilon = 0.1', "epsilon = 0.1", "not a field here"),
    (FAMILY, 'family = "structured"\ncenters = 0.3', "centers = 0.3", "list of numbers"),
    (FAMILY, 'family = "structured"\ncenters = [0.3]', "centers = [0.3]", "each of 3 arms"),
    (FAMILY, 'family = "structured"\ncenters = [0.3, 2, 1]', "centers = [0.3, 2, 1]", "[0, 1]"),
    (FAMILY, 'family = "structured"\nlevel = 2', "level = 2", "[0, 1]"),
    (FAMILY, 'family = "structured"\nscale = "x"', 'scale = "x"', "'logit', 'log'"),
    (FAMILY, 'family = "structured"\nmajority = 0.5', "majority = 0.5", "no group may be empty"),
    ('family = "subpar"', "", "[study.problems]", "family, means and file"),
    ('name = "IndTS"', 'name = "IndTSS"', 'name = "IndTSS"', "BayesUCB"),
    ('name = "IndTS"', 'name = "IndTS"\nepsilon = 0.1', "epsilon = 0.1", "not a field here"),
    ('name = "IndTS"', 'name = "IndTS"\nc2 = 0', "c2 = 0", "above 0"),
    ('name = "IndTS"', 'name = "RobustAgg"', None, "epsilon is missing"),
    ('name = "IndTS"', f'name = "IndTS"\n{TWICE}', TWICE, "label of two policies"),
    ('name = "IndTS"', 'name = ["IndTS", "IndUCB"]\nlabel = "x"', 'label = "x"', "label of two policies"),
    ('name = "IndTS"', 'name = "IndTS"\nlabel = 3', "label = 3", "text in quotes"),
    ('epsilon = "problem"', 'epsilon = "own"', 'epsilon = "own"', '"problem"'),
    ('epsilon = "problem"', "epsilon = 1.5", "epsilon = 1.5", "at most 1"),
    ('epsilon = "problem"', "epsilon = [0.1, 7]", "epsilon = [0.1, 7]", "at most 1"),
    ('epsilon = "problem"', "epsilon = -0.1", "epsilon = -0.1", "at least 0"),
    ('epsilon = "problem"', "epsilon = nan", "epsilon = nan", "finite number"),
    ('epsilon = "problem"', "epsilon = 0.1\nc1 = -1", "c1 = -1", "above 0"),
    ("seed = 3", "seed = -3", "seed = -3", "at least 0"),
    ("seed = 3", "seed = 3.5", "seed = 3.5", "whole number"),
    ('title = "Small"', "title = 3", "title = 3", "text in quotes"),
    ("arms = 3", "arms = 3 4", "arms = 3 4", "TOML"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), BROKEN)
def test_an_error_names_the_line_and_what_is_allowed(old, new, line, words):
    text = small(old, new)
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert words in str(caught.value)
    if line is not None:
        assert text.split("\n")[caught.value.line - 1] == line
        assert f"line {caught.value.line}" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('schedule = "sequential"', "every player must act"),
        ('policies = [{ name = "PosseTS", label = "PosseTS, groups known" }]', "label of two policies"),
    ],
)
def test_what_does_not_go_with_known_groups(more, words):
    problems = f"problems = {{ {', '.join(GROUPS.split(chr(10)))}, players = 4 }}"
    text = f'[[study]]\nname = "g"\nhorizon = 9\nknows_groups = true\n{problems}\n{more}\n'
    if "policies" not in more:
        text += 'policies = [{ name = "PosseTS" }]'
    with pytest.raises(SpecError, match=words):
        parse(text)


def test_a_file_is_named_with_the_line(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(small('epsilon = "problem"', "epsilon = 1.5"), encoding="utf-8")
    with pytest.raises(SpecError, match=rf"^{path}, line 18: study 'one', policy 1: epsilon=1.5, .*at most 1"):
        load(path)
    path.write_text("horizon = = 3", encoding="utf-8")
    with pytest.raises(SpecError, match=rf"^{path}, line 1: not a TOML file"):
        load(path)


def test_a_mistake_in_the_defaults_is_named_where_it_is():
    shared = '[defaults]\n[[defaults.policies]]\nname = "RobustAgg"\nepsilon = 3\n\n[[study]]'
    text = SMALL[: SMALL.index("[[study.policies]]")].replace("[[study]]", shared)
    with pytest.raises(SpecError, match="epsilon=3, but expected at most 1") as caught:
        parse(text)
    assert text.split("\n")[caught.value.line - 1] == "epsilon = 3"


def test_something_else_than_text_is_refused():
    with pytest.raises(TypeError, match="expected the text of a spec; `load` reads a file"):
        parse(Path("spec.toml"))


def test_the_right_one_of_several_tables_is_named():
    second = SMALL[SMALL.index("[[study]]") :].replace('"one"', '"two"').replace("count = 3", "count = -3")
    text = SMALL + second
    with pytest.raises(SpecError, match="study 'two', problems: count=-3") as caught:
        parse(text)
    assert text.split("\n")[caught.value.line - 1] == "count = -3"
    assert caught.value.field == "study.problems.count"


def test_two_studies_of_one_name():
    with pytest.raises(SpecError, match="another study has that name"):
        parse(SMALL + SMALL[SMALL.index("[[study]]") :])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.csv", None, "none.csv"),
        ("words.csv", b"a,b\n0.1,0.2\n", "could not convert"),
        ("ragged.csv", b"0.1,0.2\n0.1\n", "player 1 has 1 arms"),
        ("high.csv", b"0.1,0.2\n0.1,2\n", "in [0, 1]"),
        ("empty.csv", b"", "row"),
        ("latin.csv", b"\xff\xfe0.1", "latin.csv"),
        ("damaged.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", "damaged.npy"),
        ("means.txt", b"0.1", ".csv or .npy"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    text = small(SMALL[SMALL.index("family") : SMALL.index("[[study.policies")], f'file = "{name}"\n')
    with pytest.raises(SpecError) as caught:
        parse(text, tmp_path)
    assert name in str(caught.value)
    assert words in str(caught.value)


def test_not_text(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"spec\.toml is not UTF-8"):
        load(tmp_path / "spec.toml")


@pytest.mark.parametrize(
    "text", ["", "x" * 10, "[" * 5000, "seed = " + "9" * 5000, "seed = 0x" + "f" * 5000, "study = 1"]
)
def test_strange_texts(text):
    with pytest.raises(SpecError):
        parse(text)


# Fuzzing ---------------------------------------------------------------------------------------------------------

unit_interval = st.floats(0, 1, allow_subnormal=False)


def grid(values, most=2):
    return st.one_of(values, st.lists(values, min_size=1, max_size=most, unique_by=json.dumps))


@st.composite
def problem_tables(draw):
    if draw(st.booleans()):
        players, arms = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        row = st.lists(unit_interval, min_size=arms, max_size=arms)
        return {"means": draw(st.lists(row, min_size=players, max_size=players))}
    family = draw(st.sampled_from(["subpar", "uniform"]))
    table = {
        "family": family,
        "count": draw(st.integers(1, 3)),
        "players": draw(grid(st.integers(1, 4))),
        "arms": draw(grid(st.integers(3, 5))),
        "epsilon": draw(grid(st.sampled_from([0.05, 0.1, 0.15]))),
        "rewards": draw(grid(st.sampled_from(["bernoulli", "uniform", "deterministic", {"beta": 3}]))),
    }
    return table | ({"n_subpar": draw(grid(st.integers(0, 2)))} if family == "subpar" else {})


policy_tables = st.lists(
    st.sampled_from(
        [
            {"name": "RobustAggTS", "epsilon": "problem"},
            {"name": "RobustAggTSV", "epsilon": 0.3, "c1": [0.5, 2]},
            {"name": "RobustAgg", "epsilon": ["problem", 0.07]},
            {"name": ["IndTS", "NaiveAgg"]},
            {"name": "IndUCB", "label": "mine"},
            {"name": "HierTS", "spread": 0.1},
        ]
    ),
    min_size=1,
    max_size=3,
    unique_by=json.dumps,
)


@st.composite
def documents(draw):
    """A valid spec as nested data."""
    studies = []
    for number in range(draw(st.integers(1, 2))):
        length = draw(st.sampled_from(["horizon", "turns"]))
        studies.append(
            {
                "name": f"study {number}",
                length: draw(grid(st.integers(1, 20))),
                "replications": draw(st.integers(1, 2)),
                "checkpoints": draw(st.integers(1, 30)),
                "anytime": draw(grid(st.booleans())),
                "schedule": draw(
                    grid(st.sampled_from(["concurrent", "sequential", "sequential-random", {"random": 0.4}]))
                ),
                "problems": draw(problem_tables()),
                "policies": draw(policy_tables),
            }
        )
    return {"title": draw(st.text(max_size=5)), "seed": draw(st.integers(0, 2**70)), "study": studies}


def value(item) -> str:
    if isinstance(item, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {value(each)}" for key, each in item.items()) + " }"
    if isinstance(item, list):
        return "[" + ", ".join(map(value, item)) + "]"
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(item).lower() if isinstance(item, bool) else repr(item)


def toml(document: dict) -> str:
    """A document as people would write it, with a line for each key."""
    lines = [f"{key} = {value(item)}" for key, item in document.items() if key != "study"]
    for study in document["study"]:
        lines += ["", "[[study]]"]
        lines += [f"{key} = {value(item)}" for key, item in study.items() if key not in ("problems", "policies")]
        if isinstance(study.get("problems"), dict):
            lines += ["[study.problems]", *(f"{key} = {value(item)}" for key, item in study["problems"].items())]
        for policy in study.get("policies", []):
            lines += ["[[study.policies]]", *(f"{key} = {value(item)}" for key, item in policy.items())]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["paper.toml", "battery.toml", "example.toml"])
def test_a_shipped_document_is_the_same_when_it_is_written_and_read(name):
    document = tomllib.loads(shipped(name))
    assert tomllib.loads(to_toml(document)) == document


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.recursive(
        st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    ).filter(lambda document: isinstance(document, dict))
)
def test_any_document_is_the_same_when_it_is_written_and_read(document):
    assert tomllib.loads(to_toml(document)) == document


relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@settings(relaxed, max_examples=20)
@given(documents())
def test_a_valid_spec_runs(document):
    units = parse(toml(document)).units()
    assert units
    for unit in units[:: max(1, len(units) // 3)]:
        table = unit.run()
        first, last = unit.replications
        assert table.num_rows == len(unit.policies) * unit.problems.count * (last - first)
        assert isinstance(unit, Unit)


BAD = {
    "name": [3, "", ["a"], True],
    "horizon": [0, -1, 1.5, "x", [], [1, 1], [3, "x"], True, {}, 10**30],
    "turns": [0, "x", [[]], 10**30],
    "replications": [0, "x", [1], 1e3],
    "checkpoints": [0, "x", [1], 10**6],
    "anytime": [1, "true", [], [True, True]],
    "schedule": ["always", 3, {"random": 2}, {"random": "x"}, {"often": 1}, {"random": 10**400}, [], {}],
    "problems": [3, [], "x", {}],
    "policies": [[], [{}], [{"name": "IndTS"}, {"name": "IndTS"}]],
    "count": [0, "x", [1], 2.0, 10**9],
    "players": [0, "x", [], 10**9],
    "arms": [0, "x", [3, 3], True],
    "epsilon": [-0.1, 1.5, "x", [], 10**400, True],
    "rewards": ["normal", 3, {"beta": 0}, {"beta": "x"}, {"gamma": 1}, {}],
    "n_subpar": [-1, 5, "x", 1.0],
    "means": [[], [[]], [[1, "x"]], [[0.1], [0.1, 0.2]], [[2]], 3, [[[0.1]], [0.1]], [[True]], [[10**400]]],
    "seed": [-1, "x", 1.5, [1], 2**200],
    "title": [3, ["x"]],
}


@settings(relaxed, max_examples=100)
@given(documents(), st.data())
def test_a_broken_spec_is_told_by_field(document, data):
    document = copy.deepcopy(document)
    study = data.draw(st.sampled_from(document["study"]))
    table = data.draw(st.sampled_from([document, study, study["problems"]]))
    keys = [key for key in table if key in BAD]
    key = data.draw(st.sampled_from(keys))
    if data.draw(st.booleans()):
        table[key] = data.draw(st.sampled_from(BAD[key]))
        expected = key
    else:
        table["colour"] = 1
        expected = "colour"
    text = toml(document)
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert 1 <= caught.value.line <= text.count("\n")


@settings(relaxed, max_examples=100)
@given(documents(), st.data())
def test_mangled_text_is_a_spec_or_an_error(document, data):
    text = toml(document)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 20)))
        text = (
            text[:start]
            + data.draw(st.one_of(st.text(max_size=3), st.sampled_from(list("[]{}=\"'.\n0-e"))))
            + text[end:]
        )
    check(text)


anything = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from(["subpar", "IndTS"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["random", "beta", "family", "means", "file", "name", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(relaxed, max_examples=100)
@given(documents(), st.data())
def test_any_value_anywhere_is_fine_or_an_error(document, data):
    document = copy.deepcopy(document)
    study = data.draw(st.sampled_from(document["study"]))
    table = data.draw(st.sampled_from([document, study, study["problems"], study["policies"][0]]))
    table[data.draw(st.sampled_from([key for key in table if key != "study"]))] = data.draw(anything)
    if not isinstance(study["policies"], list) or not all(isinstance(policy, dict) for policy in study["policies"]):
        study["policies"] = []
    check(toml(document))


def check(text: str) -> None:
    """A spec or a SpecError, and no other exception."""
    with contextlib.suppress(SpecError):
        parse(text).units()
