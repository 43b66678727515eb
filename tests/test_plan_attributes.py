"""Plans of players with attributes: what telling them to PosseTS is worth."""

from __future__ import annotations

import json

import numpy as np
import pytest

import posse
from posse.attribute_effects import AttributeEffects
from posse.cli import main
from posse.insight import diagnose, plan
from posse.insight.planning.planned_run import guessed_problems
from posse.learner import Counts
from posse.simulation import simulate

GUESS = {"players": 24, "arms": 2, "decisions": 150, "epsilon": 0.4, "effect": 0.0, "problems": 12, "policies": []}


def test_guessed_attributes_explain_their_share_and_keep_epsilon():
    for share in (0.0, 0.5, 1.0):
        known = AttributeEffects({"segment": 4}, players=40, arms=3, explained=share)
        problems = guessed_problems(40, 3, 0.2, 0.05, 0.3, count=60, seed=1, known=known)
        found = []
        for problem in problems:
            assert np.ptp(problem.means, axis=0).max() <= 0.2 + 1e-12
            value = np.array([problem.values[player][0] for player in range(40)])
            groups = [problem.means[value == each] for each in np.unique(value)]
            assert [len(group) for group in groups] == [10, 10, 10, 10]
            inside = np.mean([group.var(axis=0, ddof=1) for group in groups], axis=0)
            found.append((problem.means.var(axis=0, ddof=1).sum(), inside.sum()))
        total, inside = np.sum(found, axis=0)
        assert 1 - inside / total == pytest.approx(share, abs=0.08)


def test_untold_is_the_same_simulation_without_attributes():
    found = plan(**GUESS, explained=0.9, values=3)
    assert found.problems[0].attributes.kinds.keys() == {"segment"}
    bare = [problem.without_attributes() for problem in found.problems]
    again = simulate(bare, [posse.PosseTS(), posse.IndTS()], 150, seed=0)
    assert found.lost_untold == pytest.approx(again.final_regret[0, :, 0])
    assert found.lost[found.alone] == pytest.approx(again.final_regret[1, :, 0]), "the others do not use attributes"
    assert found.worth.mean == pytest.approx(1 - found.lost[found.learned].mean() / found.lost_untold.mean())
    assert found.worth.low > 0.1
    text = str(found)
    assert "It explains 90 % of the variance" in text
    assert "the same, attributes not told" in text
    assert "Telling PosseTS the attributes saves" in " ".join(text.split())
    told = found.to_dict()["attributes"]
    assert told["lost_untold"]["mean"] == pytest.approx(found.lost_untold.mean())
    assert told["worth"]["low"] == pytest.approx(found.worth.low)
    assert "PosseTS, not told" in {line.get_gid() for line in found.figure().axes[0].lines}


def test_an_attribute_that_explains_nothing_is_worth_nothing_and_none_is_not_mentioned():
    found = plan(**GUESS, explained=0)
    assert found.worth.low <= 0
    assert "Telling PosseTS the attributes saves" not in str(found)
    without = plan(**GUESS)
    assert without.worth is None
    assert without.to_dict()["attributes"] is None
    assert "attribute" not in str(without)


def history(missing=()):
    """Sixteen players of two regions that like different arms. The last two have little data."""
    region = tuple(None if n in missing else ("north", "south")[n % 2] for n in range(16))
    means = np.where(np.arange(16)[:, None] % 2 == 0, (0.2, 0.5), (0.5, 0.2))
    pulls = np.full((16, 2), 300)
    pulls[-2:] = 3
    sums = np.random.default_rng(0).binomial(pulls, means).astype(float)
    return Counts(tuple(f"p{n}" for n in range(16)), ("x", "y"), pulls, sums, attributes={"region": region})


def test_a_history_brings_its_attributes_and_players_are_like_those_with_the_same():
    found = plan(history(missing=(3,)), decisions=100, problems=20, policies=[])
    assert [values[0] for values in found.problems[0].values[:4]] == ["north", "south", "north", None]
    means = np.mean([problem.means for problem in found.problems], axis=0)
    assert means[14] == pytest.approx([0.2, 0.5], abs=0.05), "with three rewards an arm, by what its region does"
    alone = plan(history(), attributes=(), decisions=100, problems=20, policies=[])
    apart = np.mean([problem.means for problem in alone.problems], axis=0)
    assert abs(apart[14] - (0.2, 0.5)).max() > abs(means[14] - (0.2, 0.5)).max()
    assert alone.worth is None
    assert found.worth.low > 0.2
    assert "The players have attributes: region." in " ".join(found.assumed)
    costs = diagnose(history(), costs=True).costs
    assert costs is not None
    assert costs.worth is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": 13}, "values=13, but expected"),
        ({"values": 1}, "values=1, but expected"),
        ({"explained": 1.5}, "explained=1.5, but expected"),
        ({"attributes": ["region"]}, r"attributes=\['region'\], but those are of a history"),
        ({"history": history(), "explained": 0.5}, "explained=0.5, but with a history this comes from the data"),
        ({"history": history(), "attributes": "age"}, "attributes='age', but the attributes there are region"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan(**arguments)


def test_the_command(capsys):
    options = ["--players", "12", "--arms", "2", "--decisions", "50", "--problems", "2", "--policy", "PosseTS"]
    assert main(["plan", *options, "--explained", "0.5", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["attributes"]["worth"].keys() == {"mean", "low", "high"}
