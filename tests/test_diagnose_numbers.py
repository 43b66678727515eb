"""Is ε right? The boundary against its definition, and alarms on simulated truth."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_diagnose import counts

import posse
from posse.insight import diagnose
from posse.insight.diagnosis.intervals import interval, shares
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
        least = f"{diagnosis.bound:.3f}"
        assert diagnosis.verdict == f"ε = 0.1 is broken by arm a2: players p1 and p2 differ by at least {least}"

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
