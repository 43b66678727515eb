"""What a plan says: its sentences, its table, its numbers and its figure."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
import scipy.stats
from made_plans import small_plan

from posse.insight import Plan, plan


@pytest.fixture
def small() -> Plan:
    return small_plan()


def with_losses(found: Plan, **lost: np.ndarray) -> Plan:
    """The plan as if some policies had lost other amounts."""
    regret = found.result.regret.copy()
    for name, values in lost.items():
        regret[getattr(found, name), :, 0, -1] = values
    return dataclasses.replace(found, result=dataclasses.replace(found.result, regret=regret))


def test_savings_are_a_ratio_of_means_with_its_interval(small):
    alone, sharing = small.lost[small.alone], small.lost[small.right]
    found = small.saving(small.right)
    assert found.mean == pytest.approx(1 - sharing.sum() / alone.sum())
    parts = sharing - sharing.mean() / alone.mean() * alone
    half = scipy.stats.t.ppf(0.975, 7) * parts.std(ddof=1) / np.sqrt(8) / alone.mean()
    assert [found.low, found.high] == pytest.approx([found.mean - half, found.mean + half])
    assert small.saving(small.alone).mean == 0


def test_the_interval_of_a_saving_covers_as_often_as_it_says(small):
    """Over 400 plans with known losses; an interval of half the width would not."""
    random = np.random.default_rng(0)
    covered, half = 0, 0
    for _ in range(400):
        alone = random.gamma(20, 5, 8)
        saving = with_losses(small, alone=alone, right=0.7 * alone + random.normal(0, 10, 8)).saving(small.right)
        covered += saving.low < 0.3 < saving.high
        half += abs(saving.mean - 0.3) < (saving.high - saving.low) / 4
    low, high = scipy.stats.binom.interval(0.999, 400, 0.95)
    assert low <= covered <= high
    assert half < low


def test_it_says_first_what_posse_ts_saves(small):
    saving = small.saving(small.learned)
    saved = f"PosseTS, which needs no ε, saves {100 * saving.mean:.0f} % [{100 * saving.low:.0f}, "
    assert small.conclusions()[1].startswith(saved)


def test_it_says_that_sharing_pays_where_it_does(small):
    saving = small.saving(small.right)
    assert saving.low > 0
    match = re.fullmatch(
        r"Sharing with ε = 0\.05 \(RobustAgg-TS\) saves (\d+) % \[(\d+), (\d+)\] of what learning alone loses\.",
        small.conclusions()[2],
    )
    assert [int(shown) for shown in match.groups()] == [
        round(100 * value) for value in (saving.mean, saving.low, saving.high)
    ]


def test_it_says_that_sharing_does_not_pay_where_it_does_not():
    found = plan(players=6, arms=3, decisions=2000, epsilon=0.25, effect=0.02, problems=20)
    saving = found.saving(found.right)
    assert saving.high < 0
    sentence = found.conclusions()[2]
    assert sentence.startswith("Sharing with a stated ε does not pay here: with ε = 0.25 (RobustAgg-TS) it loses ")
    assert f"{-100 * saving.mean:.0f}" in sentence or f"{-100 * saving.mean:.1f}" in sentence
    assert "a third of that ε" in found.conclusions()[3]
    assert "more than learning alone; the best single arm" in " ".join(found.conclusions())


def test_it_says_where_only_another_epsilon_pays(small):
    alone = np.full(8, 100.0) + np.linspace(-1, 1, 8)
    least = dict(zip(small.sweep, small.sweep_epsilons, strict=True))
    regret = with_losses(small, alone=alone, right=1.2 * alone).result.regret.copy()
    for policy in set(small.sweep) - {small.right}:
        regret[policy, :, 0, -1] = (0.7 if policy == min(least, key=least.get) else 1.1) * alone
    found = dataclasses.replace(small, result=dataclasses.replace(small.result, regret=regret))
    assert re.fullmatch(
        r"Sharing with ε = 0\.05 \(RobustAgg-TS\) loses 20\.00 % .* more than learning alone; "
        r"the ε tried that does best, 0\.005, saves 30\.00 % .*\.",
        found.conclusions()[2],
    )


def test_it_says_so_where_no_difference_shows(small):
    alone = small.lost[small.alone]
    noise = np.array([9.0, -9, 9, -9, 9, -9, 9, -9])
    found = with_losses(small, right=alone + noise)
    assert found.conclusions()[2].startswith("Sharing with a stated ε makes no clear difference here")


def test_it_says_what_a_wrong_epsilon_changes(small):
    few = np.linspace(-1, 1, 8)
    alone = np.full(8, 100.0) + few
    third = next(n for n, e in zip(small.sweep, small.sweep_epsilons, strict=True) if np.isclose(3 * e, 0.05))

    def said(right: float, wrong: float) -> str:
        regret = with_losses(small, alone=alone, right=alone - 100 + right).result.regret.copy()
        regret[third, :, 0, -1] = wrong - few
        return dataclasses.replace(small, result=dataclasses.replace(small.result, regret=regret)).conclusions()[3]

    start = "With a third of that ε it loses "
    assert said(50, 70) == start + "20 [19, 21] more than with the right one, but less than learning alone."
    assert said(50, 120) == start + "70 [69, 71] more than with the right one, and more than learning alone."
    assert said(50, 30) == start + "20 [19, 21] less than with the right one, and less than learning alone."
    assert said(150, 120) == start + "30 [29, 31] less than with the right one, but more than learning alone."
    assert said(50, 50) == start + (
        "about as much as with the right one (0 [−1, 1] more), and less than learning alone."
    )


def test_the_text_has_assumptions_then_a_table_then_conclusions(small):
    assumed, shown, concluded = str(small).split("\n\n")
    assert "4 players, 2 arms, 300 decisions each: 1,200 in all." in assumed
    assert "The best arm earns 0.4 a decision on average over players, the others 0.2" in assumed
    assert "8 problems were drawn so, seed 3" in assumed
    rows = shown.splitlines()[2:]
    shown = [*(small.labels[n] for n in small.compared), "equal shares", "equal shares, then best"]
    for row, policy in zip(rows, shown, strict=True):
        assert row.startswith(f"{policy} ")
        lost = small.mean_lost(policy).mean
        assert f" {lost:.0f} " in row or f" {lost:.1f} " in row
        assert f" {100 * lost / small.attainable.mean():.1f} %" in row
    assert concluded.replace("\n  ", " ").splitlines() == [f"- {sentence}" for sentence in small.conclusions()]
    assert max(map(len, str(small).splitlines())) <= 120


def test_the_dictionary_is_json_and_has_the_numbers(small):
    found = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert found["epsilon"] == 0.05
    assert [row["policy"] for row in found["policies"]] == [small.labels[n] for n in small.compared]
    assert found["policies"][0]["lost"]["mean"] == small.mean_lost(small.alone).mean
    assert sum(found["policies"][2]["lost_by_player"]) == pytest.approx(found["policies"][2]["lost"]["mean"])
    assert found["policies"][2]["lost_over_time"][-1] == pytest.approx(found["policies"][2]["lost"]["mean"])
    assert [row["epsilon"] for row in found["wrong_epsilon"]] == small.sweep_epsilons.tolist()
    assert found["conclusions"] == small.conclusions()


def test_the_figure_shows_every_policy_and_every_epsilon(small):
    figure = small.figure()
    traffic, wrong = figure.axes
    lines = {line.get_gid(): line for line in traffic.get_lines() if line.get_gid() not in (None, "leader")}
    assert set(lines) == {*(small.labels[n] for n in small.compared), "equal shares", "equal shares, then best"}
    assert lines["equal shares"].get_ydata() == pytest.approx(
        small.lost_by_random.mean() * np.array([0, small.test.part, 1])
    )
    assert lines["equal shares, then best"].get_ydata()[-1] == pytest.approx(small.test.lost.mean())
    assert lines["Ind-TS"].get_ydata()[-1] == pytest.approx(small.lost[small.alone].mean())
    assert lines["Ind-TS"].get_xydata()[0].tolist() == [0, 0]
    assert lines["Ind-TS"].get_xdata()[-1] == 300
    sweep = next(line for line in wrong.get_lines() if line.get_gid() == "sweep")
    assert sweep.get_xdata().tolist() == small.sweep_epsilons.tolist()
    assert sweep.get_ydata() == pytest.approx(small.lost[list(small.sweep)].mean(axis=1))
    assert wrong.get_xscale() == "log"
    assert {text.get_text() for text in traffic.texts} == set(lines)
    figure.canvas.draw()


def test_it_says_after_how_many_decisions_the_experiment_can_end(small):
    half, late = (float(f"{small.decisions_to_ship(0.5, part):.2g}") for part in (0.5, 0.8))
    said = small.conclusions()[-1]
    assert f"after about {half:,.0f} decisions with equal shares and " in said
    assert f"; in 80 % of them after about {late:,.0f} decisions and " in said
    assert "with a policy and --floor 0.05" in said
    assert said.endswith("The run has 1,200 decisions. With neither floor nor holdout there may be no end.")
    forced = dataclasses.replace(small, floor=0.1, days=3).conclusions()[-1]
    least = small.decisions_to_ship(0.1)
    assert (
        f"and about {float(f'{least:.2g}'):,.0f} decisions ({least / 400:.2g} days) with these least shares" in forced
    )
    assert "no end" not in forced
    alike = plan(players=2, arms=2, decisions=20, problems=2, effect=0.0, epsilon=1e-6, policies=[])
    assert "for everybody after more than 4,000 decisions with equal shares" in alike.conclusions()[-1]
