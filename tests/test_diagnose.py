"""Is ε right? The boundary against its definition, alarms and estimates on simulated truth, and all ways in and out."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import posse
from posse.cli import main
from posse.insight import Diagnosis, diagnose
from posse.insight.diagnosis import spread as spreads
from posse.insight.diagnosis.boundary import interval, shares
from posse.insight.diagnosis.figure import MOST_ARMS, MOST_PLAYERS, _band
from posse.insight.diagnosis.spread import estimate_spread, variances_within
from posse.learner import Counts
from posse.simulation import trace

STROKE = Path(__file__).parents[2] / "shared" / "data" / "stroke-trial.csv"
LEVEL = 0.05


def names(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(1, count + 1))


def counts(pulls, sums, epsilon=None, low=0.0, high=1.0) -> Counts:
    pulls, sums = np.asarray(pulls, np.int64), np.asarray(sums, float)
    return Counts(names("p", pulls.shape[0]), names("a", pulls.shape[1]), pulls, sums, low, high, epsilon)


def played(problem, policy, horizon, replication) -> tuple[np.ndarray, np.ndarray]:
    """Pulls and sums after each round of a simulated run, [round, player, arm]."""
    run = trace(problem, policy, horizon, replication=replication)
    pulled = run.arms[:, :, None] == np.arange(problem.arms)
    return pulled.cumsum(axis=0), (pulled * run.rewards[:, :, None]).cumsum(axis=0)


class TestShares:
    def test_they_never_sum_to_more_than_one_and_use_it_up(self):
        total = np.cumsum(shares(1_000_000))
        assert (total < 1).all()
        assert total[-1] > 0.9999

    def test_later_ones_take_nothing_from_earlier_ones(self):
        assert (shares(50)[:7] == shares(7)).all()


class TestInterval:
    @pytest.mark.parametrize(("n", "s"), [(1, 0.3), (7, 7.0), (40, 3.25), (1000, 612.0)])
    def test_its_ends_are_where_the_mixture_reaches_one_over_the_level(self, n, s):
        low, high = (float(end) for end in interval(np.array(n), np.array(s), 0.01))
        for end in (low, high):
            if 0 < end < 1:
                assert self.wealth(n, s, mpmath.mpf(end)) == pytest.approx(100, rel=1e-4)
        assert low < s / n or s == 0
        assert s / n < high or s == n

    def wealth(self, n, s, mean):
        """The likelihood ratio averaged over Beta(½, ½), by numerical integration."""

        def integrand(t):
            ratio = (t / mean) ** s * ((1 - t) / (1 - mean)) ** (n - s)
            return ratio / (mpmath.pi * mpmath.sqrt(t * (1 - t)))

        return float(mpmath.quad(integrand, [0, max(s / n - 0.05, 0.01), min(s / n + 0.05, 0.99), 1]))

    def test_no_rewards_exclude_nothing(self):
        low, high = interval(np.array([0]), np.array([0.0]), 0.05)
        assert (low[0], high[0]) == (0, 1)

    def test_only_zeros_or_only_ones_leave_their_end_possible(self):
        low, high = interval(np.array([50, 50]), np.array([0.0, 50.0]), 0.05)
        assert low[0] == 0
        assert high[1] == 1
        assert high[0] == pytest.approx(1 - low[1])

    def test_it_narrows_with_pulls_and_near_the_ends(self):
        n = np.array([10, 100, 1000, 100_000])
        low, high = interval(n, n * 0.5, 0.05)
        assert (np.diff(high - low) < 0).all()
        edge_low, edge_high = interval(n, n * 0.02, 0.05)
        assert (edge_high - edge_low < high - low).all()

    @given(
        n=st.integers(0, 60),
        share=st.floats(0, 1),
        values=st.lists(st.floats(0, 1), min_size=2, max_size=5),
        weights=st.lists(st.floats(0.05, 1), min_size=5, max_size=5),
    )
    def test_its_process_is_a_supermartingale_for_any_rewards_in_the_unit_interval(self, n, share, values, weights):
        probability = np.array(weights[: len(values)]) / sum(weights[: len(values)])
        x = np.array(values)
        mean = float(probability @ x)
        if not 0.01 < mean < 0.99:
            return
        s = share * n

        def log_wealth(n, s):
            beta = math.lgamma(s + 0.5) + math.lgamma(n - s + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
            return beta - s * math.log(mean) - (n - s) * math.log1p(-mean)

        growth = probability @ np.array([math.exp(log_wealth(n + 1, s + part) - log_wealth(n, s)) for part in x])
        assert growth <= 1 + 1e-9

    def test_it_is_wrong_at_any_time_no_more_often_than_the_level_where_a_fixed_time_interval_is(self):
        runs, rounds = 400, 2000
        random = np.random.default_rng(5)
        looks = np.arange(20, rounds + 1, 20)
        sums = (random.random((runs, rounds)) < 0.3).cumsum(axis=1)[:, looks - 1].astype(float)
        low, high = interval(looks, sums, LEVEL)
        ever = ((low > 0.3) | (high < 0.3)).any(axis=1).mean()
        assert 0 < ever <= LEVEL
        naive = (np.abs(sums / looks - 0.3) > 1.96 * np.sqrt(0.3 * 0.7 / looks)).any(axis=1).mean()
        assert naive > 4 * LEVEL


class TestAlarm:
    EPSILON = 0.1

    def bounds(self, pulls, sums):
        """What `diagnose` computes, for all rounds of a run at once."""
        low, high = interval(pulls, sums, LEVEL * np.outer(shares(pulls.shape[1]), shares(pulls.shape[2])))
        return (low.max(axis=1) - high.min(axis=1)).max(axis=1)

    def naive(self, pulls, sums):
        """With the 95 % interval for a fixed number of pulls."""
        mean = np.divide(sums, pulls, out=np.full(sums.shape, 0.5), where=pulls > 0)
        half = 1.96 * np.sqrt(0.25 / np.maximum(pulls, 0.1))
        return ((mean - half).max(axis=1) - (mean + half).min(axis=1)).max(axis=1)

    def looked(self, spread, policy, replication, horizon=1000, players=6):
        """Every tenth round of a run in which players are at the two ends of a spread."""
        ends = np.where(np.arange(players) % 2, spread / 2, -spread / 2)
        problem = posse.Problem(np.array([0.7, 0.5, 0.3]) + ends[:, None])
        return tuple(part[9::10] for part in played(problem, policy, horizon, replication))

    @pytest.mark.parametrize("policy", [posse.RobustAggTS(0.1), posse.IndTS()], ids=lambda policy: policy.label)
    def test_false_ones_stay_below_the_level_and_naive_intervals_do_not(self, policy):
        runs = [self.looked(self.EPSILON, policy, replication) for replication in range(40)]
        assert sum((self.bounds(*run) > self.EPSILON).any() for run in runs) <= LEVEL * len(runs)
        assert sum((self.naive(*run) > self.EPSILON).any() for run in runs) > 2 * LEVEL * len(runs)

    def test_a_spread_of_twice_epsilon_is_found(self):
        runs = [self.looked(2 * self.EPSILON, posse.RobustAggTS(0.1), r, horizon=3000) for r in range(10)]
        assert all((self.bounds(*run) > self.EPSILON).any() for run in runs)

    def test_it_is_the_one_of_diagnose(self):
        pulls, sums = self.looked(0.3, posse.RobustAggTS(0.1), 0)
        for look in (0, 20, 99):
            diagnosis = diagnose(counts(pulls[look], sums[look], self.EPSILON))
            assert diagnosis.bound == pytest.approx(max(self.bounds(pulls, sums)[look], 0))
            assert diagnosis.alarm == (self.bounds(pulls, sums)[look] > self.EPSILON)

    def test_it_names_arm_players_and_figures(self):
        diagnosis = diagnose(counts([[500, 500], [500, 500], [500, 500]], [[250, 300], [245, 100], [255, 290]], 0.1))
        assert diagnosis.alarm
        assert diagnosis.broken == ("a2",)
        assert diagnosis.pairs == (None, ("p1", "p2"))
        assert diagnosis.bounds[0] == 0
        assert 0.15 < diagnosis.bound < 0.4
        assert diagnosis.bound == diagnosis.lower[0, 1] - diagnosis.upper[1, 1]
        first = str(diagnosis).splitlines()[0]
        assert first == f"ε = 0.1 is broken by arm a2: players p1 and p2 differ by at least {diagnosis.bound:.3f}."

    def test_there_is_none_without_epsilon(self):
        diagnosis = diagnose(counts([[500], [500]], [[0], [500]]))
        assert not diagnosis.alarm
        assert diagnosis.bound > 0.8
        assert diagnosis.broken == ()

    def test_players_and_arms_that_join_change_nothing_for_those_that_are_there(self):
        random = np.random.default_rng(0)
        pulls = random.integers(0, 300, (9, 5))
        sums = random.binomial(pulls, 0.4)
        few, many = diagnose(counts(pulls[:4, :2], sums[:4, :2])), diagnose(counts(pulls, sums))
        assert (few.lower == many.lower[:4, :2]).all()
        assert (few.upper == many.upper[:4, :2]).all()


class TestEstimate:
    def test_the_evidence_is_the_integral_over_the_arms_mean(self):
        pulls, sums, variance = np.array([20, 50, 300]), np.array([4.0, 20.0, 90.0]), 0.2
        arm = spreads._Arm.of(pulls, sums, variance)
        x = sums / pulls
        direct = []
        for scale in spreads._SCALES[[0, 60, 120, 199]]:
            deviation = np.sqrt(scale**2 + variance / pulls)
            density = lambda mean, deviation=deviation: norm.pdf(x, mean, deviation).prod()  # noqa: E731
            direct.append(math.log(quad(density, -3, 4, points=[0.2, 0.4], epsabs=0, limit=500)[0]))
        expected = np.array(direct) - direct[0]
        assert arm.evidence[[0, 60, 120, 199]] - arm.evidence[0] == pytest.approx(expected, abs=1e-6)

    def test_draws_of_means_are_those_of_the_normal_model(self):
        arm = spreads._Arm.of(np.array([100, 400]), np.array([20.0, 160.0]), 0.16)
        certain = np.zeros((spreads.DRAWS, spreads.GRID))
        certain[:, 150] = 1  # one τ_a only
        draws = arm.draw(certain, np.random.default_rng(0))
        between, noise, x = spreads._SCALES[150] ** 2, np.array([0.0016, 0.0004]), np.array([0.2, 0.4])
        weight = 1 / (between + noise)
        expected = weight @ x / weight.sum() * noise * weight + x * between * weight
        assert draws.mean(axis=0) == pytest.approx(expected, abs=4 * 0.04 / math.sqrt(spreads.DRAWS))
        variance = noise * between * weight + (noise * weight) ** 2 / weight.sum()
        assert draws.var(axis=0) == pytest.approx(variance, rel=0.25)

    def test_a_large_amount_of_data_gives_the_spread_itself(self):
        means = np.array([[0.2, 0.5], [0.3, 0.5], [0.35, 0.51]])
        spread = diagnose(counts(np.full((3, 2), 10**7), means * 10**7)).spread
        assert spread.ranges == pytest.approx([0.15, 0.01], abs=2e-3)
        assert spread.range == pytest.approx(0.15, abs=2e-3)
        assert spread.deviations == pytest.approx(means.std(axis=0, ddof=1), abs=1e-3)

    def test_noise_is_taken_out_on_simulated_truth(self):
        problems = posse.generate.subpar(8, count=12, seed=4)
        errors, naive, covered = [], [], []
        for replication, problem in enumerate(problems):
            pulls, sums = (part[-1] for part in played(problem, posse.RobustAggTS(0.15), 1000, replication))
            diagnosis = diagnose(counts(pulls, sums))
            true = np.ptp(problem.means, axis=0).max()
            errors.append(diagnosis.spread.range - true)
            naive.append(np.nanmax(np.nanmax(diagnosis.means, axis=0) - np.nanmin(diagnosis.means, axis=0)) - true)
            covered.append(diagnosis.spread.low <= true <= diagnosis.spread.high)
        assert abs(np.mean(errors)) < 0.08
        assert np.mean(naive) > 0.4
        assert np.mean(covered) >= 0.75

    def test_alike_players_are_found_possibly_alike_and_others_not(self):
        random = np.random.default_rng(3)
        pulls = np.full((15, 4), 300)
        alike = diagnose(counts(pulls, random.binomial(pulls, 0.4))).spread
        assert alike.low == 0
        assert alike.range < 0.06
        means = 0.4 + 0.3 * random.random((15, 1))
        different = diagnose(counts(pulls, random.binomial(pulls, means))).spread
        assert different.low > 0.15

    def test_it_is_never_below_the_bound(self):
        diagnosis = diagnose(counts([[3000, 5], [3000, 5]], [[300, 2], [2700, 3]]))
        assert diagnosis.spread.low >= diagnosis.bound > 0.7
        assert diagnosis.spread.low <= diagnosis.spread.range <= diagnosis.spread.high

    def test_it_is_a_function_of_data_and_seed(self):
        data = counts([[30, 40], [50, 60]], [[10, 20], [20, 40]])
        first, again, other = (diagnose(data, seed=seed).spread for seed in (1, 1, 2))
        assert first.range == again.range
        assert first.range != other.range

    def test_the_variance_within_is_that_of_bernoulli_rewards_or_that_of_the_squares(self):
        random = np.random.default_rng(2)
        rewards = random.beta(20, 20, (2, 2000))
        pulls, sums = np.full((2, 1), 2000), rewards.sum(axis=1, keepdims=True)
        squares = (rewards**2).sum(axis=1, keepdims=True)
        assert variances_within(pulls, sums) == pytest.approx([0.25], rel=0.01)
        assert variances_within(pulls, sums, squares) == pytest.approx([0.25 / 41], rel=0.1)

    def test_a_log_with_little_noise_shows_a_spread_that_counts_alone_hide(self):
        random = np.random.default_rng(2)
        rewards = np.concatenate([random.beta(50 + p, 50 - p, 40) for p in range(10)])
        table = pyarrow.table({"player": np.repeat(names("p", 10), 40), "arm": ["a"] * 400, "reward": rewards})
        log = diagnose(table).spread
        assert log.low > 0.05
        assert log.range == pytest.approx(0.09, abs=0.03)
        sums = rewards.reshape(10, 40).sum(axis=1, keepdims=True)
        assert diagnose(counts(np.full((10, 1), 40), sums)).spread.low == 0

    def test_a_cell_with_next_to_no_data_is_left_aside(self):
        pulls, sums = np.array([[500], [500], [1]]), np.array([[50.0], [52.0], [1.0]])
        with_it = estimate_spread(pulls, sums, np.array([0.09]), np.zeros(1), 0.05, seed=0)
        without = estimate_spread(pulls[:2], sums[:2], np.array([0.09]), np.zeros(1), 0.05, seed=0)
        assert with_it.range == pytest.approx(without.range, abs=1e-3)


class TestSources:
    TABLE = pyarrow.table(
        {
            "player": ["south", "north", "south", "north", "south"],
            "arm": ["b", "a", "a", "a", "b"],
            "reward": [1.0, 0.0, None, 1.0, 0.5],
            "shared": [0.5, 0.2, 0.7, None, 0.6],
        }
    )

    def test_a_log_is_its_counts_in_the_order_of_first_rows(self):
        diagnosis = diagnose(self.TABLE)
        assert diagnosis.players == ("south", "north")
        assert diagnosis.arms == ("b", "a")
        assert diagnosis.pulls.tolist() == [[2, 0], [0, 2]]
        assert diagnosis.means[0, 0] == 0.75
        assert np.isnan(diagnosis.means[0, 1])
        assert (diagnosis.decisions, diagnosis.missing) == (5, 1)
        assert diagnosis.shared == pytest.approx([0.6, 0.2])

    def test_rows_that_come_later_leave_the_intervals_of_others_as_they_were(self):
        more = {"player": ["east"] * 3, "arm": ["0"] * 3, "reward": [0.0, 1.0, 1.0], "shared": [0.0] * 3}
        longer = pyarrow.concat_tables([self.TABLE, pyarrow.table(more)])
        assert (diagnose(longer).lower[:2, :2] == diagnose(self.TABLE).lower).all()

    def test_a_learners_log_brings_its_order_range_and_epsilon(self):
        about = {"players": ["north", "south"], "arms": ["a", "b"], "reward_range": [-1, 1], "epsilon": 0.4}
        table = self.TABLE.replace_schema_metadata({b"posse": json.dumps(about).encode()})
        diagnosis = diagnose(table)
        assert diagnosis.players == ("north", "south")
        assert (diagnosis.low, diagnosis.high, diagnosis.epsilon) == (-1, 1, 0.4)
        assert diagnose(table, epsilon=0.2).epsilon == 0.2

    def test_a_learner_is_its_counts_and_weights(self):
        class Learner:
            def counts(self):
                return counts([[100], [100]], [[20], [60]], epsilon=0.1)

            def shared_weights(self):
                return np.array([0.25, 0.75])

        diagnosis = diagnose(Learner())
        assert diagnosis.bound == diagnose(Learner().counts()).bound
        assert diagnosis.shared.tolist() == [0.25, 0.75]
        assert "50% are other players' data: from 25% (p1) to 75% (p2)" in str(diagnosis)
        assert diagnosis.missing is None

    def test_a_real_learner_and_its_log_say_the_same_and_the_log_keeps_those_who_retired(self):
        learner = posse.Learner(posse.RobustAggTS(20.0), ["x", "y"], ["north", "south"], reward_range=(0, 100))
        random = np.random.default_rng(0)
        for number in range(40):
            if number == 20:
                learner.join("east")
            for player in learner.players:
                decision = learner.choose(player)
                if number < 38:
                    learner.observe(decision.id, float(random.integers(0, 101)))
        itself, log = diagnose(learner), diagnose(learner.log())
        assert itself.players == log.players == ("north", "south", "east")
        assert itself.epsilon == log.epsilon == 20
        assert itself.lower == pytest.approx(log.lower, abs=1e-4)  # a learner keeps rewards on a grid
        assert itself.upper == pytest.approx(log.upper, abs=1e-4)
        assert log.missing == 6
        learner.retire("north")
        assert (diagnose(learner.log()).lower == log.lower).all()

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_files(self, tmp_path, suffix):
        path = tmp_path / f"log.{suffix}"
        (pyarrow.csv.write_csv if suffix == "csv" else pyarrow.parquet.write_table)(self.TABLE, path)
        assert diagnose(path).to_dict() == diagnose(self.TABLE).to_dict()

    def test_other_ranges_are_the_same_in_other_units(self):
        unit = counts([[300, 50], [200, 70]], [[150, 20], [40, 30]], 0.1)
        money = counts(unit.pulls, -50 * unit.pulls + 200 * unit.sums, 20, -50, 150)
        first, second = diagnose(unit), diagnose(money)
        assert second.bound == pytest.approx(200 * first.bound)
        assert second.lower == pytest.approx(-50 + 200 * first.lower)
        assert second.upper == pytest.approx(-50 + 200 * first.upper)
        assert second.means == pytest.approx(-50 + 200 * first.means)
        assert second.spread.range == pytest.approx(200 * first.spread.range)
        assert second.alarm == first.alarm
        assert diagnose(dataclasses.replace(money, low=0, high=1), reward_range=(-50, 150)).bound == second.bound

    def test_what_is_wrong_is_named(self):
        good = counts([[3], [3]], [[1], [2]])
        with pytest.raises(ValueError, match="player p1 has rewards of 4 from 3 pulls of arm a1, but a reward is in"):
            diagnose(counts([[3], [3]], [[4], [2]]))
        with pytest.raises(ValueError, match="player p2 has rewards of nan"):
            diagnose(counts([[3], [3]], [[1], [math.nan]]))
        with pytest.raises(ValueError, match=r"row 3 has reward=7, but rewards are in \[0, 1\]; give their range"):
            diagnose(pyarrow.table({"player": ["p"] * 3, "arm": ["a"] * 3, "reward": [0.0, None, 7.0]}))
        with pytest.raises(ValueError, match=r"epsilon=1.5, but expected a number in \[0, 1\]"):
            diagnose(good, epsilon=1.5)
        with pytest.raises(ValueError, match="level=0"):
            diagnose(good, level=0)
        with pytest.raises(ValueError, match="the greatest reward=0"):
            diagnose(good, reward_range=(0, 0))
        with pytest.raises(TypeError, match="reward_range=3, but expected two numbers"):
            diagnose(good, reward_range=3)
        with pytest.raises(ValueError, match="0 players and 1 arms"):
            diagnose(Counts((), ("a",), np.zeros((0, 1), np.int64), np.zeros((0, 1))))
        with pytest.raises(TypeError, match="3 is no log"):
            diagnose(3)


EDGES = {
    "one player": counts([[100, 20]], [[40, 10]], 0.1),
    "one arm": counts([[100], [20]], [[40], [10]], 0.1),
    "one of each, no rewards": counts([[0]], [[0]], 0.1),
    "nothing yet": counts(np.zeros((3, 2)), np.zeros((3, 2)), 0.0),
    "an arm that nobody pulled": counts([[100, 0], [20, 0]], [[40, 0], [10, 0]]),
    "an arm that one player pulled": counts([[100, 9], [20, 0]], [[40, 3], [10, 0]], 0.1),
    "only zeros": counts(np.full((3, 2), 50), np.zeros((3, 2)), 0.1),
    "only ones": counts(np.full((3, 2), 50), np.full((3, 2), 50), 0.1),
    "one reward each": counts(np.ones((3, 2)), [[0, 1], [1, 1], [0, 0]], 0.1),
    "very much data": counts(np.full((2, 1), 10**12), [[2e11], [8e11]], 0.1),
    "a wide range": counts(np.full((2, 1), 1000), [[2e8], [8e8]], 1e5, 0, 1e6),
}


class TestEdges:
    @pytest.mark.parametrize("name", EDGES)
    def test_are_told_written_and_drawn(self, name):
        diagnosis = diagnose(EDGES[name])
        assert (diagnosis.lower <= diagnosis.upper).all()
        assert json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))["bound"] == diagnosis.bound
        assert "void" in str(diagnosis)
        diagnosis.figure().canvas.draw()

    def test_one_player_has_nobody_to_compare_with(self):
        diagnosis = diagnose(EDGES["one player"])
        assert not diagnosis.alarm
        assert math.isnan(diagnosis.spread.range)
        assert str(diagnosis).startswith("There is one player, and nobody to compare it with.")

    def test_equal_extremes_leave_little_spread(self):
        for name in ("only zeros", "only ones"):
            assert diagnose(EDGES[name]).bound == 0


class TestText:
    def test_what_holds_so_far_and_what_is_likely(self):
        fits = diagnose(counts(np.full((4, 1), 400), [[200], [220], [184], [205]], 0.1))
        assert str(fits).startswith("ε = 0.1 holds so far; no two players are shown to differ at all.")
        assert "ε = 0.1 lies within that." in str(fits)
        small = diagnose(counts(np.full((6, 1), 100), [[30], [50], [60], [40], [65], [38]], 0.05))
        assert not small.alarm
        assert str(small).startswith("ε = 0.05 is probably too small, but not shown to be;")
        large = diagnose(counts(np.full((6, 1), 4000), np.full((6, 1), 2000), 0.3))
        assert "ε = 0.3 could be smaller" in str(large)
        assert "An ε to start with: 0." in str(diagnose(counts(np.full((4, 1), 400), [[200], [240], [170], [205]])))

    def test_missing_rewards_are_counted(self):
        assert "1 of 5 are missing" in str(diagnose(TestSources.TABLE))
        assert "counts do not show whether any do" in str(diagnose(EDGES["one arm"]))


class TestFigure:
    def labels(self, figure):
        return [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes if axes.get_visible()]

    def test_a_panel_for_each_arm_with_players_by_mean(self):
        figure = diagnose(counts([[50, 50], [50, 0], [50, 50]], [[30, 10], [10, 0], [20, 20]], 0.1)).figure()
        assert self.labels(figure) == [["p2", "p3", "p1"], ["p1", "p3"]]

    def test_what_is_too_much_is_left_out_and_said(self):
        random = np.random.default_rng(0)
        pulls = np.full((60, 12), 200)
        diagnosis = diagnose(counts(pulls, random.binomial(pulls, random.random((60, 12)))))
        figure = diagnosis.figure()
        shown = self.labels(figure)
        assert len(shown) == MOST_ARMS
        assert {len(rows) for rows in shown} == {MOST_PLAYERS}
        worst = diagnosis.pairs[int(diagnosis.bounds.argmax())]
        assert any(set(worst) <= set(rows) for rows in shown)
        words = " ".join(text.get_text() for text in figure.texts)
        assert "2 arms with the least spread are left out" in words
        assert "those in the middle are left out" in words

    @given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 0.5))
    def test_the_band_touches_every_interval_exactly_while_epsilon_holds(self, seed, epsilon):
        random = np.random.default_rng(seed)
        pulls = random.integers(1, 4000, (5, 1))
        diagnosis = diagnose(counts(pulls, random.binomial(pulls, random.uniform(0.3, 0.7, (5, 1))), epsilon))
        start, end = _band(diagnosis, 0)
        off = (diagnosis.lower[:, 0] > end + 1e-12) | (diagnosis.upper[:, 0] < start - 1e-12)
        assert off.any() == diagnosis.alarm
        for player in np.flatnonzero(off):
            apart = np.maximum(
                diagnosis.lower[player] - diagnosis.upper[:, 0], diagnosis.lower[:, 0] - diagnosis.upper[player]
            )
            assert apart.max() > epsilon

    def test_names_are_shown_as_they_are(self):
        odd = Counts(("a $x^2$ b", "_b"), ("arm\nof two lines",), np.array([[9], [9]]), np.array([[3.0], [4.0]]))
        diagnose(odd).figure().canvas.draw()


class TestCommand:
    @pytest.fixture
    def log(self, tmp_path):
        random = np.random.default_rng(1)
        player = np.repeat(["north", "south"], 800)
        reward = np.where(random.random(1600) < np.where(player == "north", 0.2, 0.7), 10.0, 0.0)
        path = tmp_path / "log.csv"
        pyarrow.csv.write_csv(pyarrow.table({"player": player, "arm": ["new"] * 1600, "sales": reward}), path)
        return path

    def test_it_prints_writes_and_draws(self, log, tmp_path, capsys):
        files = [tmp_path / "out.json", tmp_path / "out.svg"]
        options = ["--reward", "sales", "--range", "0,10", "--epsilon", "2"]
        assert main(["diagnose", str(log), *options, "--json", str(files[0]), "--figure", str(files[1])]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("ε = 2 is broken by arm new: players south and north differ by at least 3.")
        written = json.loads(files[0].read_text())
        assert written["alarm"]
        assert written["pairs"] == [["south", "north"]]
        assert "<svg" in files[1].read_text()
        assert main(["diagnose", str(log), *options, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out) == written

    def test_errors_are_one_line(self, log, capsys):
        assert main(["diagnose", str(log)]) == 1
        assert capsys.readouterr().err == "posse: the log has no column 'reward'; its columns are player, arm, sales\n"
        assert main(["diagnose", str(log), "--reward", "sales", "--range", "0"]) == 1
        assert "--range '0', but expected two numbers" in capsys.readouterr().err
        assert main(["diagnose", str(log), "--reward", "sales"]) == 1
        assert "has sales=10, but rewards are in [0, 1]" in capsys.readouterr().err


@pytest.mark.skipif(not STROKE.is_file(), reason="the stroke trial's data is not beside this checkout")
class TestStrokeTrial:
    def diagnosis(self, outcome: str) -> Diagnosis:
        return diagnose(STROKE, reward=outcome, epsilon=0.1)

    def test_countries_are_alike_in_survival(self):
        diagnosis = self.diagnosis("alive_14_days")
        assert not diagnosis.alarm
        assert diagnosis.spread.deviation < 0.03
        assert diagnosis.spread.range < 0.2
        assert diagnosis.missing == 0

    def test_and_not_in_independence(self):
        diagnosis = self.diagnosis("independent_6_months")
        assert diagnosis.alarm
        assert "UK" in diagnosis.pairs[int(diagnosis.bounds.argmax())]
        assert diagnosis.spread.low > 0.35
        assert diagnosis.spread.deviation > 0.08
        assert diagnosis.missing == 150
