"""Specs made at random: a valid one runs, a broken one is told by field, and mangled text is no crash."""

from __future__ import annotations

import contextlib
import copy
import json
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posse.experiments import SpecError, parse
from posse.experiments.spec.shipped_specs import shipped, to_toml
from posse.experiments.spec.study import Unit

unit_interval = st.floats(0, 1, allow_subnormal=False)


def grid(values, most=2):
    return st.one_of(values, st.lists(values, min_size=1, max_size=most, unique_by=json.dumps))


@st.composite
def problem_tables(draw):
    if draw(st.booleans()):
        players, arms = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        row = st.lists(unit_interval, min_size=arms, max_size=arms)
        return {"means": draw(st.lists(row, min_size=players, max_size=players))}
    family = draw(st.sampled_from(["subpar", "uniform", "structured"]))
    if family == "structured":
        known = [{"region": 2}, {"region": 3, "age": [1, 2.5]}, {"device": ["phone", "desktop"], "region": 2}]
        share = st.one_of(unit_interval, st.fixed_dictionaries({"region": unit_interval}))
        always = {"family": st.just(family), "attributes": st.sampled_from(known), "arms": grid(st.integers(1, 4))}
        options = {"players": grid(st.integers(1, 5)), "missing": grid(unit_interval), "explained": grid(share)}
        return draw(st.fixed_dictionaries(always, optional=options))
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
        assert len(table) == len(unit.policies) * unit.problems.count * (last - first)
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
