"""What attributes explain of how players differ: against slow integration, by coverage, in words and pictures."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pyarrow
import pytest
from sizes import FULL

from posse.cli import main
from posse.insight import diagnose
from posse.insight.hierarchy.grid import ZERO
from posse.insight.hierarchy.model import fit
from posse.insight.hierarchy.propagation import VAGUE
from posse.insight.hierarchy.shares import LOG_PRIOR, SCALES, Part, attribute_shares, sum_of_squares
from posse.insight.logs import read_log
from posse.learner import Counts

MIDDLE = ZERO["middle"]


# The oracle: every combination of scales, each with the covariance of all cells


def slow_posterior(t, y, codes):
    """How likely each part is nothing, the means of the cells, and of the parts' sums of squares, by enumeration.

    The cells y are normal with precision t around the mean of the arm + effects of attributes + the rest.
    """
    players, arms = t.shape
    prior = np.concatenate([[math.log(MIDDLE)], math.log(1 - MIDDLE) + LOG_PRIOR])
    alike = [(code[:, None] == code) & (code >= 0)[:, None] for code in codes] + [np.eye(players, dtype=bool)]
    parts = np.array([np.kron(like, np.eye(arms)) for like in alike])
    combinations = np.array(list(itertools.product(range(len(prior)), repeat=len(alike))))
    squares = np.concatenate([[0.0], SCALES**2])[combinations]  # [combination, part]
    true = np.einsum("ck,kij->cij", squares, parts) + VAGUE**2 * np.kron(np.ones((players, players)), np.eye(arms))
    seen = true + np.diag(1 / t.ravel())
    inverse = np.linalg.inv(seen)
    fits = inverse @ y.ravel()
    logs = prior[combinations].sum(axis=1) - 0.5 * (np.linalg.slogdet(seen)[1] + fits @ y.ravel())
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    center = np.kron(np.eye(players) - 1 / players, np.eye(arms) - 1 / arms)
    sums = []
    for part, square in zip(parts, squares.T, strict=True):
        mean = square[:, None] * fits @ part
        spread = square[:, None, None] * part - square[:, None, None] ** 2 * (part @ inverse @ part)
        sums.append(np.einsum("ci,ij,cj->c", mean, center, mean) + np.einsum("ij,cji->c", center, spread))
    zero = weights @ (combinations == 0)
    return zero, weights @ np.einsum("cij,cj->ci", true, fits), np.array(sums) @ weights


@pytest.mark.parametrize(("second", "exchange"), [([0, 1, 0, 1, 0, -1], False), ([0, 0, 1, 1, 2, 2], True)])
def test_the_sampler_has_the_posterior_of_enumeration(second, exchange):
    """With an attribute that a player lacks, and with two that are the same, which need exchanges."""
    random = np.random.default_rng(5)
    codes = [np.array([0, 0, 1, 1, 2, 2]), np.array(second)]
    t = random.uniform(10, 60, (6, 2))
    y = np.array([[0.6, -0.6], [-0.6, 0.6], [0.1, 0.0]])[codes[0]] + random.standard_normal((6, 2)) / np.sqrt(t)
    part, drawn = Part(codes, np.ones(2)), []
    for _ in range(6000):
        part.update(t, t * y, 0.0, random)
        if exchange:
            part.exchange(t, t * y, 0.0, random)
        left = part.draw(t, t * y, random)
        sums = [sum_of_squares(e, m.sum(axis=0)) for m, e in zip(part.members, part.effects, strict=True)]
        sums.append(sum_of_squares(left, np.ones(6)))
        drawn.append([part.scales == 0, (part.explained + left).ravel(), sums])
    zero, cells, squares = (np.mean(each, axis=0) for each in zip(*drawn, strict=True))
    expected = slow_posterior(t, y, codes)
    assert zero == pytest.approx(expected[0], abs=0.03)
    assert cells == pytest.approx(expected[1], abs=0.02)
    assert squares == pytest.approx(expected[2], abs=0.04)
    assert np.abs(expected[0] - MIDDLE).max() > 0.1, "the data says something"


def test_sums_of_squares_are_those_of_an_analysis_of_variance():
    random = np.random.default_rng(0)
    effects, code = random.standard_normal((3, 4)), random.integers(0, 3, 20)
    cells = effects[code]
    rest = cells - cells.mean(axis=0) - cells.mean(axis=1, keepdims=True) + cells.mean()
    assert sum_of_squares(effects, np.bincount(code, minlength=3)) == pytest.approx((rest**2).sum())
    assert sum_of_squares(cells[:, :1], np.ones(20)) == pytest.approx(20 * cells[:, 0].var())


# What the intervals promise


def made(random, players=30, arms=3, pulls=200, values=(4, 3), effect=0.4, own=0.2, base=0.2):
    """Counts of players whose first attribute explains something, and the true shares of contrasts."""
    codes = [random.permutation(players) % each for each in values]
    of_value = (effect * random.standard_normal((values[0], arms)))[codes[0]]
    of_player = own * random.standard_normal((players, arms))
    logits = math.log(base / (1 - base)) + of_value + of_player + 0.3 * random.standard_normal((players, 1))
    table = np.full((players, arms), pulls)
    attributes = {
        name: tuple(f"{name} {each}" for each in code) for name, code in zip(("region", "device"), codes, strict=True)
    }
    names = tuple(f"p{n}" for n in range(players)), tuple(f"a{n}" for n in range(arms))
    sums = random.binomial(table, 1 / (1 + np.exp(-logits))).astype(float)
    squares = np.array([sum_of_squares(each, np.ones(players)) for each in (of_value, 0 * of_value, of_player)])
    return Counts(*names, table, sums, attributes=attributes), squares / max(squares.sum(), 1e-12)


@pytest.mark.parametrize(
    "setting", [{"effect": 0.3, "own": 0.3}, {"values": (2, 2), "players": 20, "effect": 0.0, "own": 0.4}]
)
def test_intervals_hold_and_narrow_ones_would_not_and_nothing_is_not_taken_for_something(setting):
    runs, held, narrow, wrong = 12 if FULL else 6, np.zeros(3), np.zeros(3), 0
    for run in range(runs):
        counts, true = made(np.random.default_rng([3, run]), **setting)
        found = attribute_shares(counts, fit(counts)).contrasts.interval()
        held += (found.low <= true + 1e-9) & (true <= found.high + 1e-9)
        narrow += np.abs(true - found.value) <= (found.high - found.low) / 10
        wrong += (found.low[:2] > 0)[true[:2] == 0].sum()
    assert (held >= 0.8 * runs).all()
    assert narrow.min() < 0.7 * runs
    assert wrong == 0


# What is said


def clear_counts(missing=()):
    """Twelve players: in the south y is best, elsewhere x, and the device does nothing."""
    region = tuple("south" if n % 3 == 0 else "north" if n % 3 == 1 else "east" for n in range(12))
    means = np.array([[0.2, 0.35] if each == "south" else [0.35, 0.2] for each in region])
    pulls = np.full((12, 2), 900)
    attributes = {
        "device": tuple(None if n in missing else ("phone", "desktop")[n // 2 % 2] for n in range(12)),
        "region": region,
    }
    sums = np.random.default_rng(1).binomial(pulls, means).astype(float)
    return Counts(tuple(f"p{n}" for n in range(12)), ("x", "y"), pulls, sums, attributes=attributes)


def test_the_text_says_what_explains_most_and_which_arm_is_best_by_value():
    text = " ".join(str(diagnose(clear_counts())).split())
    assert "What explains it? Of how players differ in what the arms do, region explains 100 % (" in text
    assert "Not shown to explain any of it: device." in text
    assert "Of how players differ in level, " in text or "Players are not shown to differ in level" in text
    assert "The best arm by region: region players best arm ahead of by" in text
    assert "south 4 y x +0.1" in text
    assert "north 4 x y +0.1" in text
    assert "What explains it?" not in str(diagnose(clear_counts(), attributes=[]))


def test_players_that_are_alike_leave_nothing_to_explain():
    pulls = np.full((12, 2), 400)
    counts = Counts(tuple("abcdefghijkl"), ("x", "y"), pulls, pulls * 0.3, attributes={"region": ("n", "s") * 6})
    text = " ".join(str(diagnose(counts)).split())
    assert "Players are not shown to differ in what the arms do, so there is nothing to explain." in text
    assert "The best arm by" not in text


def test_what_makes_an_attribute_say_little_is_said():
    counts = clear_counts(missing=(0, 1))
    attributes = {**counts.attributes, "shop": counts.players, "country": ("here",) * 12}
    full = Counts(counts.players, counts.arms, counts.pulls, counts.sums, attributes=attributes)
    found = diagnose(full)
    text = " ".join(str(found).split())
    assert "No device is known of 2 players, and it explains nothing there." in text
    assert "shop has 12 values for 12 players, too many to tell from the players' own." in text
    assert "Every player has the same country." in text
    assert found.to_dict()["attributes"]["country"]["contrasts"]["high"] == pytest.approx(0, abs=1e-9)


def test_an_arm_without_rewards_and_players_on_one_arm_each():
    counts = clear_counts()
    wide = Counts(
        counts.players,
        ("new", *counts.arms),
        np.hstack([np.zeros((12, 1), int), counts.pulls]),
        np.hstack([np.zeros((12, 1)), counts.sums]),
        attributes=counts.attributes,
    )
    assert diagnose(wide).to_dict()["attributes"]["region"]["values"]["south"]["best"] == "y"
    alone = np.zeros((12, 2), int)
    alone[np.arange(12), np.arange(12) % 2] = 900
    apart = Counts(counts.players, counts.arms, alone, alone * 0.3, attributes=counts.attributes)
    found = diagnose(apart).to_dict()["attributes"]["region"]
    assert found["contrasts"] is None
    assert found["levels"]["low"] == 0


def test_the_figures_have_a_bar_for_each_attribute_and_one_for_the_rest():
    found = diagnose(clear_counts())
    assert len(found.figure().axes) == 3
    assert len(found.figure(shares=False).axes) == 2
    axes = found.shares_figure().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["region", "device", "players' own"]
    assert axes.patches[0].get_width() > 90
    assert "The share of each attribute" in found.report()
    with pytest.raises(ValueError, match="the players have no attributes; give attributes="):
        diagnose(clear_counts(), attributes=[]).shares_figure()


# Where attributes come from

LOG = {
    "player": ["a", "b", "c", "a", "b", "c"],
    "arm": ["x", "x", "y", "y", "y", "x"],
    "reward": [1, 0, 1, 0, 1, 0],
    "region": ["north", "south", None, "north", None, None],
}


def test_a_log_brings_the_attributes_that_are_named_or_that_its_learner_declared():
    assert read_log(LOG).attributes == {}
    assert read_log(LOG, attributes="region").counts().attributes == {"region": ("north", "south", None)}
    for declared in ({"region": "category"}, [["region", "category"]]):
        about = {"setup": {"attributes": declared}, "players": ["c", "b", "a"]}
        table = pyarrow.table(LOG).replace_schema_metadata({"posse": json.dumps(about)})
        assert read_log(table).attributes == {"region": (None, "south", "north")}
    assert read_log(table, attributes=()).attributes == {}
    assert read_log(table.drop_columns(["region"])).attributes == {}
    assert read_log(table, by="region").groups == ("no region", "north", "south")


def test_a_csv_file_has_empty_texts_for_missing_values(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("player,arm,reward,region\na,x,1,north\nb,y,0,\na,y,0,north\nb,x,1,\n")
    assert read_log(path, attributes=["region"]).attributes == {"region": ("north", None)}
    assert main(["diagnose", str(path), "--attributes", "region", "--no-costs", "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)["attributes"]) == ["region"]


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        (
            {"region": ["north", "south", "east", "west", "south", "east"]},
            ["region"],
            r"player 'a' has region='north' in row 1 and 'west' in another, but .*--player player,region",
        ),
        ({}, ["device"], "the log has no column 'device'"),
        ({}, ["arm"], "attributes='arm', but rows can be grouped only by what was known before"),
        ({}, ["reward"], "attributes='reward', but rows can be grouped only by what was known before"),
    ],
)
def test_what_is_wrong_with_attributes_is_named(changed, attributes, message):
    with pytest.raises(ValueError, match=message):
        diagnose({**LOG, **changed}, attributes=attributes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"region": ("north",)}, "attribute 'region' has 1 values, but expected one for each of the 12 players"),
        ({"region": (*("north",) * 11, 3)}, "player 'p11' has region=3, but expected a text, or None if missing"),
        ({"region": (*("north",) * 11, "")}, "player 'p11' has region=''"),
    ],
)
def test_counts_check_their_attributes(attributes, message):
    counts = clear_counts()
    with pytest.raises(ValueError, match=message):
        Counts(counts.players, counts.arms, counts.pulls, counts.sums, attributes=attributes)
    with pytest.raises(ValueError, match="attributes='age', but the attributes there are device, region"):
        diagnose(counts, attributes="age")
