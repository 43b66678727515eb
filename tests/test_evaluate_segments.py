"""The best arms by attribute, learned from a log and judged by it: against a slow version, honest, with coverage."""

from __future__ import annotations

import numpy as np
import pyarrow
import pytest
from sizes import FULL

import posse
from posse.cli import main
from posse.insight import diagnose, evaluate
from posse.insight.evaluation.estimators import FOLDS, PRIOR
from posse.insight.evaluation.rows import usable
from posse.insight.evaluation.targets import FIRST_JUDGE, target_of
from posse.insight.logs import read_log

ARMS = ("x", "y", "z")
CHANCES = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])  # of even and of odd players


def made(seed, rows=600, players=8, means=None, chances=CHANCES):
    """A randomised log whose players have a region and a device, its true means, and the players of its rows."""
    random = np.random.default_rng(seed)
    region = np.arange(players) % 2
    if means is None:
        means = np.where(region[:, None] == 0, (0.3, 0.5, 0.4), (0.5, 0.3, 0.4)) + random.uniform(
            -0.05, 0.05, (players, 3)
        )
    player = random.integers(players, size=rows)
    chances = chances[player % 2]
    arm = (random.random(rows)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    log = {
        "player": [f"p{each}" for each in player],
        "arm": [ARMS[each] for each in arm],
        "propensity": chances[np.arange(rows), arm],
        "reward": (random.random(rows) < means[player, arm]) * 1.0,
        "region": [("north", "south")[region[each]] for each in player],
        "device": [("phone", None, "desktop")[each % 3] for each in player],
    }
    return pyarrow.table(log), means


def rows_of(log, attributes=("region", "device")):
    return usable(read_log(log, also=["propensity"], attributes=attributes), None)


# The oracle: row by row, with loops


def slow_model(cells, players, arm):
    """The mean of an arm for the first player, shrunk to that of all these players."""
    every = [reward for player in players for reward in cells.get((player, arm), [])]
    center = (sum(every) + PRIOR / 2) / (len(every) + PRIOR)
    own = cells.get((players[0], arm), [])
    return (sum(own) + PRIOR * center) / (len(own) + PRIOR)


def slow_value(rows, segment_of):
    """The doubly robust value of the best arm by segment, each row judged by what the parts before say."""
    dealt, part = {}, []
    for player, arm in zip(rows.player, rows.arm, strict=True):
        part.append((2, 0, 3, 1, 4)[dealt.get((player, arm), 0) % 5])
        dealt[player, arm] = dealt.get((player, arm), 0) + 1
    everyone, judged, scores = sorted(set(rows.player)), {}, []
    for row in sorted(range(len(part)), key=lambda row: part[row]):
        if part[row] < 2:
            continue
        player, arm, before = rows.player[row], rows.arm[row], {}
        for other in range(len(part)):
            if part[other] < part[row]:
                before.setdefault((rows.player[other], rows.arm[other]), []).append(rows.reward[other])
        alike = [other for other in everyone if segment_of[other] == segment_of[player]]
        values = [
            sum(
                sum(len(before.get((other, a), [])) for a in range(3))
                * slow_model(before, [other, *(p for p in alike if p != other)], each)
                for other in alike
            )
            for each in range(3)
        ]
        judged[row] = int(np.argmax(values))
    dealt, fold = {}, {}
    for row in judged:  # the model of rewards is cross-fitted among the rows that judge
        cell = rows.player[row], rows.arm[row]
        fold[row] = dealt.get(cell, 0) % FOLDS
        dealt[cell] = dealt.get(cell, 0) + 1
    for row, best in judged.items():
        cells = {}
        for other in judged:
            if fold[other] != fold[row]:
                cells.setdefault((rows.player[other], rows.arm[other]), []).append(rows.reward[other])
        q = slow_model(cells, [rows.player[row], *(p for p in everyone if p != rows.player[row])], best)
        scores.append(q + (best == rows.arm[row]) * (rows.reward[row] - q) / rows.propensity[row])
    return np.mean(scores)


@pytest.mark.parametrize("name", ["best", "best by region", "best by player", "segments", "best by device"])
def test_the_value_is_that_of_the_slow_version(name):
    log, _ = made(1, rows=300)
    rows = rows_of(log)
    known = {"best": (), "best by player": ("player",), "segments": ("region", "device")}
    columns = {**rows.attributes, "player": rows.players}
    parts = known.get(name, (name.removeprefix("best by "),))
    segment_of = [tuple(columns[part][player] for part in parts) for player in range(8)]
    found = evaluate(log, name, attributes=["region", "device"], estimator="dr").of(name)
    assert found.value == pytest.approx(slow_value(rows, segment_of), abs=1e-12)


# Honest


def test_what_is_learned_is_not_judged_by_its_own_luck():
    """All arms are alike. A table of each player's best arm in the log looks better than it is."""
    learned, own_luck = [], []
    for seed in range(30):
        log, _ = made(seed, rows=400, means=np.full((8, 3), 0.5))
        rows = rows_of(log)
        learned.append(evaluate(log, "best by player", attributes=["region"]).of("best by player").value)
        sums = np.zeros((8, 3))
        np.add.at(sums, (rows.player, rows.arm), rows.reward)
        best = {rows.players[p]: rows.arms[int(np.argmax(sums[p] / np.maximum(rows.pulls()[p], 1)))] for p in range(8)}
        own_luck.append(evaluate(log, best).of("table").value)
    assert np.mean(learned) == pytest.approx(0.5, abs=0.02)
    assert np.mean(own_luck) > 0.55


@pytest.mark.parametrize(("rows", "name"), [(600, "best by region"), (600, "best by player"), (90, "segments")])
def test_intervals_hold(rows, name):
    runs, held, difference, narrow = 120 if FULL else 45, 0, 0, 0
    for seed in range(runs):
        log, means = made(seed, rows=rows, chances=CHANCES if rows > 100 else CHANCES[[0, 0]])
        data = rows_of(log)
        target = target_of(name, data)
        judges = target.part >= FIRST_JUDGE
        player, part = data.player[judges], target.part[judges] - FIRST_JUDGE
        plays = target.probabilities.reshape(3, 8, 3)[part, player]
        found = evaluate(log, name, against="y", attributes=["region", "device"]).of(name)
        value = float((plays * means[player]).sum(axis=1).mean())
        held += found.low <= value <= found.high
        difference += found.difference.low <= value - means[player, 1].mean() <= found.difference.high
        narrow += abs(found.value - value) <= (found.high - found.low) / 8
    assert held >= 0.91 * runs
    assert difference >= 0.91 * runs
    assert narrow < 0.75 * runs


def test_few_rows_are_judged_by_betting():
    log, _ = made(3, rows=60, chances=CHANCES[[0, 0]])
    found = evaluate(log, "best", attributes=["region"]).of("best")
    assert found.interval == "betting"
    assert 0 <= found.low < found.value < found.high <= 1


# A learner's log


@pytest.fixture(scope="module")
def learner():
    random = np.random.default_rng(0)
    learner = posse.Learner(posse.IndTS(), ["x", "y"], [f"p{n}" for n in range(4)], 600, floor=0.05, seed=1)
    for _ in range(600):
        for player in learner.players:
            decision = learner.choose(player)
            mean = (0.3, 0.6) if player in ("p0", "p1") else (0.6, 0.3)
            learner.observe(decision, float(random.random() < mean[decision.arm == "y"]))
    return learner


def test_in_a_learners_log_the_first_half_says_what_is_best_and_the_second_judges_it(learner):
    log = learner.log()
    region = ["north" if player in ("p0", "p1") else "south" for player in log["player"].to_pylist()]
    log = log.append_column("region", [region])
    found = evaluate(log, ["best by region", "best"], attributes="region", against="best", by="region")
    best = found.of("best by region")
    assert best.value == pytest.approx(0.6, abs=0.08)
    assert best.low <= 0.6 <= best.high
    assert best.interval == "weighted"
    assert best.rows <= 1200
    assert best.difference.low > 0
    assert found.players == ("north", "south")
    assert "what the first 1,200 rows say is best is judged by the others" in " ".join(found.notes)
    assert "best by region, as all rows say: y for north; x for south" in found.notes


# What is said and refused


def test_without_a_target_the_learned_ones_come_last_and_only_with_attributes():
    log, _ = made(2)
    names = list(dict.fromkeys(each.target for each in evaluate(log, attributes=["region", "device"]).estimates))
    assert names == ["logged", "uniform", *ARMS, "best", "best by region", "best by device", "segments"]
    names = list(dict.fromkeys(each.target for each in evaluate(log, attributes=["region"]).estimates))
    assert names[-2:] == ["best", "best by region"]
    assert "best" not in {each.target for each in evaluate(log).estimates}


def test_an_arm_may_be_called_best():
    log, _ = made(2)
    log = log.set_column(1, "arm", [["best" if each == "x" else each for each in log["arm"].to_pylist()]])
    assert evaluate(log, "best").of("best").value == evaluate(made(2)[0], "x").of("x").value
    names = {each.target for each in evaluate(log, attributes=["region"]).estimates}
    assert names == {"logged", "uniform", "best", "y", "z", "best by region"}


@pytest.mark.parametrize(
    ("target", "attributes", "message"),
    [
        ("best by age", ["region"], r"'best by age', but the log's attributes are region; .*--attributes"),
        ("segments", None, "'segments', but the log's attributes are none"),
        ("best by region", ["region", "nowhere"], "the log has no column 'nowhere'"),
    ],
)
def test_what_cannot_be_learned_is_refused(target, attributes, message):
    with pytest.raises(ValueError, match=message):
        evaluate(made(2)[0], target, attributes=attributes)


def test_a_segment_needs_an_arm_that_all_its_players_played():
    log = {"player": ["a", "b"] * 20, "arm": ["x", "y"] * 20, "propensity": [1.0, 0.999] * 20, "reward": [1, 0] * 20}
    with pytest.raises(ValueError, match="no overlap: best needs an arm that every player of all players has played"):
        evaluate(log, "best")


def test_in_an_adaptive_log_the_best_arm_by_player_is_that_of_the_model_of_the_players():
    """b is better for everybody, but its first twelve rewards for p0 were 0, so the learner gave it up there."""
    rng = np.random.default_rng(6)
    columns = {"player": [], "arm": [], "reward": [], "propensity": []}
    for number in range(10):
        rows = [("a", each, 0.7) for each in rng.random(150) < 0.3] + [
            ("b", each, 0.3) for each in rng.random(150) < 0.5
        ]
        if number == 0:
            rows = [("b", False, 0.3)] * 12 + rows[:150]
        rng.shuffle(rows)
        for arm, reward, propensity in rows:
            for name, value in zip(columns, (f"p{number}", str(arm), float(reward), float(propensity)), strict=True):
                columns[name].append(value)
    order = rng.permutation(len(columns["arm"]))
    log = {name: [values[place] for place in order] for name, values in columns.items()}
    found = evaluate(log, "best by player", adaptive=True)
    assert found.learned["best by player"] == {f"p{number}": "b" for number in range(10)}
    assert found.to_dict()["learned"] == found.learned
    assert evaluate(log, "best by player", adaptive=False).learned["best by player"]["p0"] == "a"  # plain means
    assert diagnose(log).effects.value[list(diagnose(log).players).index("p0")] > 0  # b minus a


def test_the_command(tmp_path, capsys):
    import pyarrow.csv

    path = tmp_path / "log.csv"
    pyarrow.csv.write_csv(made(2)[0], path)
    options = [
        "--attributes",
        "region,device",
        "--by",
        "device",
        "--policy",
        "best by region, device",
        "--policy",
        "best",
    ]
    assert main(["evaluate", str(path), *options, "--against", "best"]) == 0
    said = capsys.readouterr().out
    assert "3 values of device" in said
    assert "no device" in said
    assert "learned from the log are best by region, device, best: rows are dealt to 5 parts" in " ".join(said.split())
