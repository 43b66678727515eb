"""Planning: what data gives, what is simulated, and what is said of it; test_plan_problems.py has the problems."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from test_plan_problems import drawn_counts

import posse
from posse.cli import main
from posse.insight import Plan, plan
from posse.insight.planning.planned_run import guessed_problems
from posse.insight.planning.policies import plan_policies
from posse.learner import Counts, Learner

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"
SMALL = {"players": 4, "arms": 2, "decisions": 300, "epsilon": 0.05, "effect": 0.2, "problems": 8}


@pytest.fixture(scope="module")
def small() -> Plan:
    return plan(**SMALL, seed=3)


def table(rewards: np.ndarray, seed: int = 0):
    import pyarrow

    random = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d"])[random.integers(0, 4, len(rewards))]
    arms = np.array(["x", "y"])[random.integers(0, 2, len(rewards))]
    return pyarrow.table({"player": names, "arm": arms, "sales": rewards})


def test_rewards_that_vary_little_are_simulated_so():
    rewards = np.random.default_rng(1).beta(3, 7, 2000)
    found = plan(table(rewards), reward="sales", problems=2, decisions=50)
    family = found.result.problems[0].rewards
    assert isinstance(family, posse.rewards.Beta)
    assert family.concentration == pytest.approx(10, rel=0.15)


def test_units_are_the_user_s():
    """The same data in another unit: the same problems, everything told in that unit."""
    rewards = np.random.default_rng(1).integers(0, 2, 2000).astype(float)
    one = plan(table(rewards), reward="sales", problems=4, decisions=200)
    other = plan(table(-10 + 40 * rewards), reward="sales", reward_range=(-10, 30), problems=4, decisions=200)
    for a, b in zip(one.result.problems, other.result.problems, strict=True):
        assert a.means == pytest.approx(b.means, abs=1e-9)
    assert other.epsilon == pytest.approx(40 * one.epsilon, rel=0.06)  # each rounded to two digits
    assert other.mean_lost(other.alone).mean == pytest.approx(40 * one.mean_lost(one.alone).mean, rel=1e-6)
    assert other.attainable == pytest.approx(-10 * 800 + 40 * one.attainable, rel=1e-6)
    assert other.result.policies[other.right].epsilon == pytest.approx(other.epsilon / 40)
    assert f"RobustAgg-TS({other.epsilon:.3g})" in other.labels


def test_a_history_gives_players_arms_traffic_and_epsilon():
    pulls = np.array([[400, 100, 100], [50, 20, 30], [100, 100, 100], [0, 0, 0]])
    counts, _ = drawn_counts(0.05, 0.01, pulls, seed=3)
    found = plan(counts, problems=20)
    assert found.players == counts.players
    assert found.arms == counts.arms
    assert found.decisions.tolist() == [600, 100, 300, 1]
    assert found.epsilon == pytest.approx(max(found.model.spread().value, 0.2 * found.model.spread().high), rel=0.05)


def test_an_epsilon_given_beside_data_is_compared_and_not_called_right():
    counts, _ = drawn_counts(0.05, 0.01, np.full((4, 3), 200), seed=3)
    free, given = plan(counts, problems=10), plan(counts, problems=10, epsilon=0.6)
    assert given.result.problems == free.result.problems
    assert given.epsilon == free.epsilon < 0.3
    assert free.given is None
    assert given.labels[given.given] == "RobustAgg-TS(0.6)"
    assert given.result.policies[given.given].epsilon == 0.6
    assert given.given_epsilon == given.to_dict()["given_epsilon"] == 0.6
    assert "The ε given, 0.6, is above that interval." in given.assumed
    row = next(line for line in str(given).splitlines() if line.startswith("RobustAgg-TS(0.6)"))
    assert "sharing, ε as given" in row
    start = f"With ε = 0.6 as given, {0.6 / given.epsilon:.2g} times that, it loses "
    change = given.difference(given.given, given.right).mean
    said = next(line for line in given.conclusions() if line.startswith(start))
    assert f"{abs(change):.0f}" in said or f"{abs(change):.1f}" in said
    exact = plan(counts, problems=10, epsilon=free.epsilon)
    assert exact.given == exact.right
    assert not any("as given" in line for line in exact.conclusions())


def test_a_learner_s_counts_and_its_log_give_the_same_plan():
    learner = Learner(posse.IndTS(), arms=["x", "y"], players=["a", "b"], seed=1, reward_range=(0, 10))
    random = np.random.default_rng(2)
    for turn in range(400):
        decision = learner.choose("ab"[turn % 2])
        learner.observe(decision.id, 10.0 * random.integers(0, 2))
    learner.choose("a")  # its reward never comes
    plans = [plan(history, problems=3) for history in (learner.counts(), learner.log(), learner)]
    assert str(plans[0]) == str(plans[1]) == str(plans[2])
    assert plans[0].high == 10
    assert plans[0].decisions.tolist() == [200, 200]


def test_data_that_shows_no_difference_still_gives_an_epsilon():
    counts = Counts(("a", "b"), ("x", "y"), np.full((2, 2), 10**6), np.array([[2e5, 5e5], [2e5, 5e5]]))
    assert 1e-5 < plan(counts, decisions=50, problems=20, policies=[]).epsilon < 0.003


def test_columns_that_a_plan_does_not_need_do_not_matter():
    plain = table(np.random.default_rng(1).integers(0, 2, 200).astype(float))
    odd = plain.append_column("propensity", [["33%"] * 200]).append_column("holdout", [["yes"] * 200])
    assert str(plan(odd, reward="sales", problems=2)) == str(plan(plain, reward="sales", problems=2))


@pytest.mark.skipif(not STROKE.exists(), reason="the stroke trial's data is not here")
def test_the_stroke_trial():
    """Countries alike in the first outcome, far apart in the second, by a level that leaves the best arm alone."""
    alike, apart = (
        plan(STROKE, reward=reward, decisions=100, problems=4) for reward in ("alive_14_days", "independent_6_months")
    )
    assert alike.model.levels().high < 0.04 < 0.08 < apart.model.levels().low
    assert max(alike.model.contrasts().high, apart.model.contrasts().high) < 0.05
    assert apart.epsilon > 0.25


# What is simulated


def test_a_plan_is_a_simulation_of_its_problems(small):
    problems = guessed_problems(4, 2, 0.05, 0.2, 0.2, count=8, seed=3)
    policies = [posse.RobustAggTS(0.05), posse.IndTS(), posse.PosseTS()]
    result = posse.simulate(problems, policies, 300, seed=3)
    mine = [small.right, small.alone, small.learned]
    assert small.lost[mine].tolist() == result.final_regret[:, :, 0].tolist()
    assert small.lost_by_player[mine].tolist() == result.player_regret[:, :, 0].tolist()
    assert small.mean_lost(small.alone).mean == pytest.approx(result.summary()[1]["mean"])
    difference = result.difference("RobustAgg-TS(0.05)", "Ind-TS")
    assert small.difference(small.right, small.alone) == difference


def test_what_is_lost_is_what_is_missing_from_the_attainable(small):
    means = np.array([problem.means for problem in small.result.problems])
    assert small.attainable == pytest.approx(300 * means.max(axis=2).sum(axis=1))
    earned = np.einsum("abpk,bpk->ab", small.result.pulls[:, :, 0], means)
    assert small.attainable - earned == pytest.approx(small.lost)
    assert small.lost_by_random == pytest.approx(300 * (means.max(axis=2) - means.mean(axis=2)).sum(axis=1))
    single = (means.max(axis=2, keepdims=True) - means).sum(axis=1).min(axis=1)
    assert small.lost_by_one_arm == pytest.approx(300 * single, abs=1e-9)


def test_the_seed_decides_everything_and_threads_nothing(small):
    assert str(plan(**SMALL, seed=3, threads=1)) == str(small)
    assert str(plan(**SMALL, seed=4)) != str(small)


def test_traffic_may_differ_between_players():
    found = plan(arms=2, decisions=[40.0, 400, 2000], problems=10, policies=[])
    assert len(found.players) == 3
    assert found.result.horizon == 2000
    decisions = found.result.pulls[0, :, 0].sum(axis=-1)
    assert (decisions[:, 2] == 2000).all()
    assert decisions.mean(axis=0) == pytest.approx([40, 400, 2000], rel=0.12)
    assert found.traffic[-1] == pytest.approx(found.decisions.mean())
    assert "40 to 2,000 decisions each" in str(found)
    lost = found.lost_by_player.mean(axis=1)[found.alone]
    assert f"busiest player (2,000 decisions) loses {lost[2]:.1f} alone" in str(found).replace("\n  ", " ")


def test_decisions_a_day():
    found = plan(players=2, arms=2, decisions=12.5, days=10, problems=2, policies=[])
    assert found.decisions.tolist() == [125, 125]
    assert "125 decisions each in 10 days" in str(found)
    assert found.figure().axes[0].get_xlabel() == "days"


def test_policies_of_one_s_own_are_compared_with_learning_alone(small):
    found = plan(**SMALL, seed=3, policies=[posse.IndUCB(), posse.RobustAggTS(0.15), posse.IndTS(c2=2)])
    assert [found.labels[n] for n in found.compared] == [
        "Ind-TS",
        "PosseTS",
        "Ind-UCB",
        "RobustAgg-TS(0.15)",
        "Ind-TS(c2=2)",
    ]
    assert found.lost[found.right].tolist() == small.lost[small.right].tolist()
    assert plan(**SMALL, policies=posse.IndUCB()).compared == (0, 1, 2)
    assert len(found.sweep) == len(found.sweep_epsilons) == 11


def test_policies_of_one_s_own_are_in_the_user_s_units():
    rewards = 100.0 * np.random.default_rng(1).integers(0, 2, 400)
    found = plan(
        table(rewards), reward="sales", reward_range=(0, 100), problems=2, decisions=20, policies=posse.RobustAggTS(4)
    )
    assert found.labels[found.compared[2]] == "RobustAgg-TS(4)"
    assert found.result.policies[found.compared[2]].epsilon == pytest.approx(0.04)
    with pytest.raises(ValueError, match="epsilon=400, but expected at most 100"):
        plan(table(rewards), reward="sales", reward_range=(0, 100), policies=posse.RobustAggTS(400))


def test_wrong_epsilons_stay_within_the_rewards():
    policies, roles = plan_policies(30.0, 100.0)
    assert roles.sweep_epsilons == pytest.approx([3, 6, 10, 15, 20, 30, 45, 60, 90])
    assert [policies[n].epsilon for n in roles.sweep] == pytest.approx(roles.sweep_epsilons / 100)


def test_progress_is_told():
    told: list[float] = []
    plan(**SMALL, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1


# What is said


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


def test_it_says_that_sharing_pays_where_it_does(small):
    saving = small.saving(small.right)
    assert saving.low > 0
    match = re.fullmatch(
        r"Sharing with ε = 0\.05 \(RobustAgg-TS\) saves (\d+) % \[(\d+), (\d+)\] of what learning alone loses\.",
        small.conclusions()[1],
    )
    assert [int(shown) for shown in match.groups()] == [
        round(100 * value) for value in (saving.mean, saving.low, saving.high)
    ]


def test_it_says_that_sharing_does_not_pay_where_it_does_not():
    found = plan(players=6, arms=3, decisions=2000, epsilon=0.25, effect=0.02, problems=20)
    saving = found.saving(found.right)
    assert saving.high < 0
    sentence = found.conclusions()[1]
    assert sentence.startswith("Sharing does not pay here: with ε = 0.25 (RobustAgg-TS) it loses ")
    assert f"{-100 * saving.mean:.0f}" in sentence or f"{-100 * saving.mean:.1f}" in sentence
    assert "a third of that ε" in found.conclusions()[2]
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
        found.conclusions()[1],
    )


def test_it_says_so_where_no_difference_shows(small):
    alone = small.lost[small.alone]
    noise = np.array([9.0, -9, 9, -9, 9, -9, 9, -9])
    found = with_losses(small, right=alone + noise)
    assert found.conclusions()[1].startswith("Sharing makes no clear difference here")


def test_it_says_what_a_wrong_epsilon_changes(small):
    few = np.linspace(-1, 1, 8)
    alone = np.full(8, 100.0) + few
    third = next(n for n, e in zip(small.sweep, small.sweep_epsilons, strict=True) if np.isclose(3 * e, 0.05))

    def said(right: float, wrong: float) -> str:
        regret = with_losses(small, alone=alone, right=alone - 100 + right).result.regret.copy()
        regret[third, :, 0, -1] = wrong - few
        return dataclasses.replace(small, result=dataclasses.replace(small.result, regret=regret)).conclusions()[2]

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
    assert [row.split()[0] for row in rows] == [small.labels[n] for n in small.compared]
    for row, policy in zip(rows, small.compared, strict=True):
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
    assert set(lines) == {small.labels[n] for n in small.compared}
    assert lines["Ind-TS"].get_ydata()[-1] == pytest.approx(small.lost[small.alone].mean())
    assert lines["Ind-TS"].get_xydata()[0].tolist() == [0, 0]
    assert lines["Ind-TS"].get_xdata()[-1] == 300
    sweep = next(line for line in wrong.get_lines() if line.get_gid() == "sweep")
    assert sweep.get_xdata().tolist() == small.sweep_epsilons.tolist()
    assert sweep.get_ydata() == pytest.approx(small.lost[list(small.sweep)].mean(axis=1))
    assert wrong.get_xscale() == "log"
    assert {text.get_text() for text in traffic.texts} == set(lines)
    figure.canvas.draw()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"players": 1}, "players=1, but expected a whole number of at least 2"),
        ({"arms": 1}, "arms=1"),
        ({"decisions": 0}, "decisions=0, but expected a number above 0"),
        ({"decisions": 0.2}, "decisions=0.2, but expected at least one"),
        ({"decisions": [10, 20], "players": 3}, "decisions are 2 numbers, but there are 3 players"),
        ({"days": 0}, "days=0"),
        ({"epsilon": 0}, "epsilon=0, but expected a number above 0 and at most 1"),
        ({"epsilon": 1.5}, "epsilon=1.5"),
        ({"effect": -0.1}, "effect=-0.1"),
        ({"base": 0.9, "effect": 0.2}, "base=0.9 with effect=0.2"),
        ({"problems": 1}, "problems=1, but expected a whole number of at least 2"),
        ({"seed": -1}, "seed=-1"),
        ({"reward_range": (0, 5)}, "reward_range=(0, 5)"),
    ],
)
def test_a_guess_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(**arguments)


def test_what_is_no_policy_is_refused():
    with pytest.raises(TypeError, match="'RobustAggTS' is no policy"):
        plan(policies=["RobustAggTS"])
    with pytest.raises(TypeError, match=r"'RobustAggTS' is no policy; expected one such as posse.RobustAggTS"):
        plan(policies="RobustAggTS")


def test_data_that_makes_no_sense_is_refused():
    counts = drawn_counts(0.05, 0.01, np.full((4, 3), 10), seed=0)[0]
    with pytest.raises(ValueError, match="players=4, but with a history this comes from the data"):
        plan(counts, players=4)
    with pytest.raises(ValueError, match="days=3, but how many decisions a day"):
        plan(counts, days=3)
    with pytest.raises(ValueError, match=r"epsilon=2, but expected a number above 0 and at most 1"):
        plan(counts, epsilon=2)
    with pytest.raises(ValueError, match="arm 'b' has no rewards on record"):
        plan(dataclasses.replace(counts, pulls=counts.pulls * [1, 0, 1], sums=counts.sums * [1, 0, 1]))
    with pytest.raises(
        ValueError, match=r"player 'p0' earned 99 with 10 pulls of arm 'a', but rewards are in \[0, 1\]"
    ):
        plan(dataclasses.replace(counts, sums=np.full((4, 3), 99.0)))
    with pytest.raises(ValueError, match="1 × 3 players and arms"):
        plan(Counts(("a",), counts.arms, counts.pulls[:1], counts.sums[:1]))
    with pytest.raises(ValueError, match=r"reward 7, but rewards are in \[0, 1\]; give --range LOW HIGH"):
        plan(table(np.full(50, 7.0)), reward="sales")
    with pytest.raises(ValueError, match="no column 'profit'"):
        plan(table(np.ones(50)), reward="profit")
    for wrong in ((3, 1), (1,), 5, (0, 1e300), (0, 1e-300)):
        with pytest.raises(ValueError, match=r"reward_range="):
            plan(table(np.ones(50)), reward="sales", reward_range=wrong)


# The command line


GUESS = [
    "plan",
    "--players",
    "4",
    "--arms",
    "2",
    "--epsilon",
    "0.05",
    "--effect",
    "0.2",
    "--problems",
    "8",
    "--seed",
    "3",
]


def test_the_command_prints_the_plan_and_writes_figure_and_json(small, capsys, tmp_path):
    figure, numbers = tmp_path / "plan.png", tmp_path / "plan.json"
    assert main([*GUESS, "--decisions", "300", "--figure", str(figure), "--json", str(numbers)]) == 0
    assert capsys.readouterr().out == f"{small}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert json.loads(numbers.read_text()) == small.to_dict()


def test_the_command_prints_json_alone(small, capsys):
    assert main([*GUESS, "--decisions", "300", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == small.to_dict()


def test_the_command_reads_a_log(capsys, tmp_path):
    import pyarrow.csv

    rewards = 5.0 * np.random.default_rng(1).integers(0, 2, 2000)
    pyarrow.csv.write_csv(table(rewards), tmp_path / "log.csv")
    options = ["--from", str(tmp_path / "log.csv"), "--reward", "sales", "--range", "0", "5"]
    assert main(["plan", *options, "--problems", "3", "--decisions", "20,30,40,50", "--days", "2"]) == 0
    out = capsys.readouterr().out
    assert "4 players, 2 arms, 40 to 100 decisions each in 2 days: 280 in all." in out
    assert "what 2,000 rewards on record leave possible, by the model" in out
    assert "Means over players: " in out


def test_the_command_checks_where_to_write_before_it_simulates(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.insight.plan", lambda *_, **__: pytest.fail("it simulated"))
    folder = tmp_path / "folder.png"
    folder.mkdir()
    for option, file, message in (
        ("--figure", tmp_path / "no" / "p.png", f"there is no folder {tmp_path / 'no'} to write"),
        ("--figure", folder, "but expected a file"),
        ("--json", tmp_path / "no" / "p.json", f"there is no folder {tmp_path / 'no'} to write"),
        ("--json", tmp_path, "but expected a file"),
        ("--json", "", "--json '', but expected a file"),
        ("--figure", "", "--figure '', but expected a file that ends in"),
    ):
        assert main(["plan", option, str(file)]) == 2
        shown = capsys.readouterr()
        assert message in shown.err
        assert shown.out == ""


def test_the_command_prints_before_it_saves(small, capsys, tmp_path, monkeypatch):
    def fail(plan: Plan) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Plan, "figure", fail)
    assert main([*GUESS, "--decisions", "300", "--figure", str(tmp_path / "p.png")]) == 2
    shown = capsys.readouterr()
    assert shown.out == f"{small}\n"
    assert "the disk is full" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure", "plan.doc"], "--figure 'plan.doc', but expected a file that ends in .png, .svg, .pdf"),
        (["--range", "0", "5"], "--range is about the rewards of a log"),
        (["--reward", "sales"], "--reward sales, but that is a column of a log"),
        (["--from", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--epsilon", "2"], "epsilon=2.0, but expected"),
        (["--policy", "Nobody(1)"], "--policy 'Nobody(1)', but expected one of BayesUCB, BetaTS"),
        (["--from", "nowhere.csv", "--base", "0.1"], "base=0.1, but with a history this comes from the data"),
    ],
)
def test_the_command_refuses_with_a_line(options, message, capsys):
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("posse: error: ")
    assert message in error
