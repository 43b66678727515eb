"""Specs: what a valid one means; test_spec_errors.py has the broken ones, test_spec_fuzzing.py random ones."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_spec import ATTRIBUTES, GROUPS, SMALL, small

import posse
from posse.experiments import load, parse
from posse.experiments.spec import study as study_module
from posse.experiments.spec.study import BLIND, KNOWS_GROUPS, UNIT_COST
from posse.simulation.engine import code_digest_of

SPECS = Path(study_module.__file__).parent / "shipped"


def run_all(text: str, folder: Path = Path()) -> list[dict]:
    return [row for unit in parse(text, folder).units() for row in pa.table(unit.run()).to_pylist()]


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
    for name, corner, players in (("named", "clinic", "ab"), ("numbered", "player", "12"), ("pandas", "", "01")):
        lines = [f"{player},{','.join(map(str, row))}" for player, row in zip(players, means, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{corner},x,y,z", *lines]))
    (tmp_path / "arms.csv").write_text("x,y,z\n" + (tmp_path / "m.csv").read_text())
    (tmp_path / "counted.csv").write_text("0,1,2\n" + (tmp_path / "m.csv").read_text())
    (tmp_path / "both.csv").write_text((tmp_path / "pandas.csv").read_text().replace("x,y,z", "0,1,2"))
    (tmp_path / "ids.csv").write_text("Clinic ID" + (tmp_path / "pandas.csv").read_text())
    for source in (
        "m.csv",
        "m.npy",
        *(f"{name}.csv" for name in ["arms", "named", "numbered", "pandas", "counted", "both", "ids"]),
    ):
        assert parse(text.replace("SOURCE", f'file = "{source}"'), tmp_path).units() == [inline]
    (two,) = parse(text.replace("SOURCE", 'file = "two.npy"'), tmp_path).units()
    assert two.problems.tables == (tuple(map(tuple, means)), tuple(map(tuple, means[::-1])))


@pytest.mark.parametrize(
    ("content", "means"),
    [
        ("0,1\n1,0\n", ((0, 1), (1, 0))),  # players whose rewards are certain, not a header
        ("0,1\n0.5,0.25\n", ((0.5, 0.25),)),
        ("store,web\n0.5,0.25\n", ((0.5, 0.25),)),  # an arm called store
        ("store,web\n1,0.25\n0,0.5\n", ((0.25,), (0.5,))),
        ("0,62;0,55\n0,5;1\n", ((0.62, 0.55), (0.5, 1))),  # as a spreadsheet writes it in many countries
        ("Größe;A,1;B\nKöln;0.1;0.2\nNord, Süd;0.25;0.5\n", ((0.1, 0.2), (0.25, 0.5))),
        ("0.1\t0.2\n0.1\t0.3\n", ((0.1, 0.2), (0.1, 0.3))),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_what_is_a_name_in_a_csv_and_what_a_mean(tmp_path, content, means, encoding):
    (tmp_path / "m.csv").write_text(content, encoding=encoding)
    assert posse.Problem.from_csv(tmp_path / "m.csv") == posse.Problem(means)
    text = small(SMALL[SMALL.index("family") : SMALL.index("[[study.policies")], 'file = "m.csv"\n')
    assert parse(text, tmp_path).units()[0].problems.tables == (means,)


def test_a_problem_from_a_csv_file_takes_the_options_of_a_problem_and_names_the_file(tmp_path):
    file = tmp_path / "m.csv"
    file.write_text("clinic,A,B\nnorth,0.1,0.2\nsouth,0.1,0.3\n")
    assert posse.Problem.from_csv(str(file), epsilon=0.2, rewards="uniform").epsilon == 0.2
    file.write_text("clinic,A,B\nnorth,0.1,0.2\nsouth,0.1,30\n")
    with pytest.raises(
        ValueError, match=r"m\.csv: means\[south, B\]=30\.0, but a mean is .* divide percentages by 100"
    ):
        posse.Problem.from_csv(file)


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


def test_players_have_attributes():
    text = small('family = "subpar"\nn_subpar = 2', ATTRIBUTES).replace("players = 4\n", "explained = [0, 0.8]\n")
    for unit, explained in zip(parse(text).units(), (0.0, 0.8), strict=True):
        options = {"attributes": {"region": 2, "age": [30]}, "spread": 0.3, "explained": explained}
        assert unit.problems.make(3) == posse.generate.structured(count=3, seed=3, arms=3, **options)
        assert unit.problems.players == 4, "as many as there are combinations"
        assert pickle.loads(pickle.dumps(unit)) == unit
    shares = text.replace("[0, 0.8]", "{ region = [0.5, 0.7] }")
    assert [unit.problems.parameters["explained"] for unit in parse(shares).units()] == [
        {"region": 0.5},
        {"region": 0.7},
    ]


def test_the_spread_of_problems_with_attributes_is_that_of_their_means():
    """Not ε/√12: ε holds for the largest effects that there can be."""
    text = small('family = "subpar"\nn_subpar = 2', ATTRIBUTES).replace("RobustAggTS", "HierTS")
    text = text.replace('epsilon = "problem"', 'spread = "problem"').replace("players = 4\n", "players = 80\n")
    (unit,) = parse(text).units()
    assert unit.policies[0].spread == pytest.approx(0.3 / math.sqrt(12), rel=0.1)
    assert unit.problems.make(3)[0].epsilon > 0.5


def test_who_is_not_told_the_attributes_meets_the_same_problems_and_noise():
    text = small('family = "subpar"\nn_subpar = 2', ATTRIBUTES).replace("horizon = 40", "horizon = 40\nblind = true")
    rows = run_all(text)
    assert [row for row in rows if row["policy"] != BLIND] == run_all(text.replace("blind = true", ""))
    blind = [row for row in rows if row["policy"] == BLIND]
    problems = [problem.without_attributes() for problem in parse(text).units()[0].problems.make(3)]
    result = posse.simulate(problems, posse.PosseTS(), 40, seed=3)
    assert [row["final_regret"] for row in blind] == result.final_regret[0, :, 0].tolist()
    told, untold = parse(text).units()
    assert (told.blind, untold.blind) == (False, True)
    assert dataclasses.replace(untold, blind=False).id != untold.id
    assert "blind" not in told.describe()


def test_the_blind_are_told_nothing(monkeypatch):
    seen = []
    monkeypatch.setattr(
        study_module, "simulate", lambda problems, **_: seen.append([bool(p.attributes) for p in problems])
    )
    text = small('family = "subpar"\nn_subpar = 2', ATTRIBUTES).replace("horizon = 40", "horizon = 40\nblind = true")
    for unit in parse(text).units():
        unit.simulate(unit.problems.make(3))
    assert seen == [[True] * 3, [False] * 3]


def test_a_study_may_have_policies_beside_those_of_all():
    text = (
        "[defaults]\npolicies = [{ name = 'IndTS' }]\n" + SMALL[SMALL.index("[[study]]") : SMALL.index("[[study.pol")]
    )
    assert [policy.label for policy in parse(text).units()[0].policies] == ["Ind-TS"]
    text += '\n[[study.extra_policies]]\nname = "HierTS"\nspread = [0.1, 0.2]'
    assert [policy.label for policy in parse(text).units()[0].policies] == ["Ind-TS", "HierTS(0.1)", "HierTS(0.2)"]


def test_traffic_by_zipfs_law_has_as_many_turns_as_are_asked_for():
    (unit,) = parse(small("horizon = 40", "turns = 100\nschedule = { zipf = 1 }")).units()
    assert unit.horizon == math.ceil(100 * 4 / (1 + 1 / 2 + 1 / 3 + 1 / 4))


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


@pytest.mark.parametrize("family", posse.generate.FAMILIES)
def test_a_unit_makes_only_its_own_problems_and_knows_whether_they_change(family, monkeypatch):
    """A unit far down a long study must cost no more than the first one."""
    monkeypatch.setattr(study_module, "UNIT_COST", 1)
    first, *_, last = parse(small('"subpar"\nn_subpar = 2' if family != "subpar" else "", f'"{family}"')).units()
    made = []
    plain = posse.generate.Problem
    monkeypatch.setattr(posse.generate, "Problem", lambda *given, **more: made.append(1) or plain(*given, **more))
    (problem,) = last.problems.make(last.seed)
    assert len(made) == 1
    assert problem != first.problems.make(first.seed)[0]
    assert last.timed == bool(problem.changes)


def test_rows_do_not_depend_on_the_cut(monkeypatch):
    text = small("horizon = 40", "horizon = 40\nreplications = 3")
    whole = run_all(text)
    monkeypatch.setattr(study_module, "UNIT_COST", 1)
    units = parse(text).units()
    assert len(units) == 9

    def key(row):
        return row["problem"], row["policy"], row["replication"]

    assert sorted((row for unit in units for row in pa.table(unit.run()).to_pylist()), key=key) == sorted(
        whole, key=key
    )


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
    assert unit.id == "2bf26710ca282cbcbbf5e547"


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
