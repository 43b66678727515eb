"""Is ε right? Intervals against their definition, estimates on simulated truth."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from test_diagnose import counts, names

import posse
from posse.insight import diagnose
from posse.insight.diagnosis import model
from posse.insight.diagnosis.intervals import interval, shares
from posse.insight.diagnosis.model import NormalShape, TwoPointShape, UniformShape, estimate_spread, observations
from posse.simulation import trace

LEVEL = 0.05


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


def normal_density(x, noise, m, s):
    return norm.pdf(x, m, np.sqrt(s**2 + noise))


def uniform_density(x, noise, m, s):
    half, deviation = math.sqrt(3) * s, np.sqrt(noise)
    return (norm.cdf((m + half - x) / deviation) - norm.cdf((m - half - x) / deviation)) / (2 * half)


def two_point_density(x, noise, m, s):
    return (norm.pdf(x, m - s, np.sqrt(noise)) + norm.pdf(x, m + s, np.sqrt(noise))) / 2


DENSITY = {NormalShape: normal_density, UniformShape: uniform_density, TwoPointShape: two_point_density}


class TestEstimate:
    OBSERVED, NOISE = np.array([0.2, 0.4, 0.3, 0.34]), np.array([0.01, 0.004, 0.0007, 0.002])

    @pytest.mark.parametrize("shape", DENSITY, ids=lambda shape: shape.__name__)
    def test_the_evidence_is_the_integral_over_the_arms_mean(self, shape):
        scales = np.array([0.001, 0.03, 0.08, 0.3])
        places = np.linspace(-1, 1.6, 26_001)
        direct = [
            math.log(
                np.trapezoid(DENSITY[shape](self.OBSERVED, self.NOISE, places[:, None], scale).prod(axis=1), places)
            )
            for scale in scales
        ]
        assert shape(self.OBSERVED, self.NOISE, scales).evidence == pytest.approx(direct, abs=0.03)

    @pytest.mark.parametrize("shape", DENSITY, ids=lambda shape: shape.__name__)
    def test_draws_of_means_are_those_of_the_shape(self, shape):
        scale, random = 0.08, np.random.default_rng(0)
        draws = shape(self.OBSERVED, self.NOISE, np.array([scale])).draw(np.zeros(20_000, int), random)
        # Players drawn from the shape, weighted by how well they explain what was observed.
        place = random.uniform(0, 0.6, (400_000, 1))
        parts = (400_000, len(self.OBSERVED))
        away = {
            NormalShape: lambda: random.standard_normal(parts),
            UniformShape: lambda: random.uniform(-math.sqrt(3), math.sqrt(3), parts),
            TwoPointShape: lambda: random.choice([-1, 1], parts),
        }[shape]()
        means = place + scale * away
        weight = norm.pdf(self.OBSERVED, means, np.sqrt(self.NOISE)).prod(axis=1)
        centre = np.average(means, axis=0, weights=weight)
        assert draws.mean(axis=0) == pytest.approx(centre, abs=0.004)
        variance = np.average((means - centre) ** 2, axis=0, weights=weight)
        assert draws.std(axis=0) == pytest.approx(np.sqrt(variance), rel=0.1)

    def coverage(self, population, pulls, runs):
        """The share of intervals that hold, and of those that lie too high."""
        rows = []
        for run in range(runs):
            random = np.random.default_rng(run)
            means = population(random)
            table = np.full(means.shape, pulls)
            zero = np.zeros(means.shape[1])
            spread = estimate_spread(table, random.binomial(table, means).astype(float), None, zero, LEVEL, seed=0)
            true = np.ptp(means, axis=0).max()
            rows.append((spread.low <= true <= spread.high, spread.low > true))
        return np.mean(rows, axis=0)

    @pytest.mark.parametrize("edge", ["even", "at the ends"])
    def test_many_players_within_a_window_are_not_taken_to_differ_more_where_normal_ones_are(self, edge, monkeypatch):
        def population(random):
            within = random.uniform(-0.05, 0.05, (50, 3)) if edge == "even" else random.choice([-0.05, 0.05], (50, 3))
            return random.uniform(0.3, 0.7, 3) + within

        holds, too_high = self.coverage(population, 500, runs=10)
        assert holds >= 0.85
        assert too_high <= 0.15
        monkeypatch.setattr(model, "SHAPES", (NormalShape,))
        assert self.coverage(population, 500, runs=10)[1] > 0.3

    @pytest.mark.parametrize(("means", "pulls"), [((0.2, 0.8), 5), ((0.1, 0.9), 8), ((0.3, 0.5, 0.7), 40)])
    def test_few_players_with_few_rewards_are_not_taken_for_certain(self, means, pulls):
        assert self.coverage(lambda _: np.array(means)[:, None], pulls, runs=60)[0] >= 0.9

    def test_five_failures_against_five_successes_leave_much_open(self):
        spread = diagnose(counts([[5], [5]], [[0], [5]])).spread
        assert spread.low < 0.55
        assert spread.high > 0.9

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

    def test_the_noise_is_that_of_bernoulli_rewards_or_that_of_the_squares(self):
        random = np.random.default_rng(2)
        rewards = random.beta(20, 20, (2, 2000))
        pulls, sums = np.full((2, 1), 2000), rewards.sum(axis=1, keepdims=True)
        squares = (rewards**2).sum(axis=1, keepdims=True)
        assert observations(pulls, sums, None)[1] == pytest.approx(0.25 / 2000, rel=0.01)
        assert observations(pulls, sums, squares)[1] == pytest.approx(0.25 / 41 / 2000, rel=0.1)
        assert observations(pulls, np.round(sums), np.round(sums))[1] == pytest.approx(0.25 / 2000, rel=0.01)

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
        with_it = estimate_spread(pulls, sums, None, np.zeros(1), 0.05, seed=0)
        without = estimate_spread(pulls[:2], sums[:2], None, np.zeros(1), 0.05, seed=0)
        assert with_it.range == pytest.approx(without.range, abs=1e-3)
