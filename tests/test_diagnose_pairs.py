"""Is ε right? The bound on how far two players differ: its definition, its guarantee, and what it gains."""

from __future__ import annotations

import dataclasses
import math

import naive_pairs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_diagnose import counts
from test_diagnose_numbers import LEVEL, played

import posse
from posse.confidence import interval, shares
from posse.insight import diagnose
from posse.insight.diagnosis import pairs
from posse.insight.diagnosis.figure import _band, _off
from posse.insight.diagnosis.pairs import EARLY, PairData, bounds_by_arm, pair_bounds, tilt_weights


def of_intervals(pulls, sums):
    """The simpler bound: the largest lower end minus the smallest upper end of intervals for the means, [arm]."""
    low, high = interval(pulls, sums, LEVEL * np.outer(shares(pulls.shape[0]), shares(pulls.shape[1])))
    return np.maximum(low.max(axis=0) - high.min(axis=0), 0)


def one_pair(pulls, sums, weights=None):
    """Rows of two players, who are the only ones there ever are unless weights say otherwise; [row, 2]."""
    weights = tilt_weights(np.array([0]), np.array([1])) if weights is None else weights
    weights = np.broadcast_to(weights, (len(pulls), weights.shape[-1]))
    return PairData(np.asarray(pulls), np.asarray(sums, float), np.log(weights))


def all_of_it():
    """Weights that sum to 1 over the tilts of a single pair: no level is kept for others."""
    weights = tilt_weights(np.array([0]), np.array([1]))
    return weights / weights.sum()


class TestWeights:
    def test_they_never_sum_to_more_than_one_and_use_it_up(self):
        players = 400
        first, second = (place.ravel() for place in np.indices((players, players)))
        weights = tilt_weights(*(place[first != second] for place in (first, second)))
        alone = np.arange(weights.shape[1]) % 5 < 2
        together = weights[:, ~alone].sum()
        # A player's own tilts stand in all of its pairs and count once.
        own = sum(weights[:, place].sum() / (players - 1) for place in np.flatnonzero(alone))
        assert 0.98 < together + own < 1

    def test_a_pair_keeps_its_weights_when_others_join(self):
        few, many = (tilt_weights(np.array([0, 3, last]), np.array([3, 0, 1])) for last in (2, 90))
        assert (few[:2] == many[:2]).all()
        assert few[0].sum() == pytest.approx(few[1].sum())


class TestBound:
    @pytest.mark.parametrize(
        ("first", "second", "numbers", "arm"),
        [
            ((60, 40), (60, 12), (1, 2), 1),
            ((60, 40.5), (60, 12.25), (3, 2), 2),
            ((400, 160), (15, 0), (1, 2), 1),
            ((15, 15), (500, 240), (1, 2), 1),
            ((30, 30), (30, 0), (2, 1), 1),
            ((300, 30), (300, 1), (1, 2), 1),
            ((20, 12), (20, 9), (1, 2), 1),
        ],
    )
    def test_it_is_the_one_of_brute_force(self, first, second, numbers, arm):
        slow = naive_pairs.pair_bound(first, second, LEVEL, numbers, arm)
        pulls, sums = np.zeros((3, arm), np.int64), np.zeros((3, arm))
        for number, (n, s) in zip(numbers, (first, second), strict=True):
            pulls[number - 1, -1], sums[number - 1, -1] = n, s
        bounds, better, worse = pair_bounds(pulls, sums, LEVEL)
        assert slow <= bounds[-1] + 1e-9
        assert bounds[-1] < slow + 1 / 100 + 1e-9
        if slow > 0:
            assert (better[-1] + 1, worse[-1] + 1) == numbers

    def test_wealth_reaches_the_goal_at_the_bound_and_not_beyond(self):
        random = np.random.default_rng(0)
        pulls = (10 ** random.uniform(1, 6, (200, 2))).astype(int)
        data = one_pair(pulls, random.binomial(pulls, [0.6, 0.2]))
        bounds = data.bounds(np.full(200, 0.01))
        assert (bounds > 0).mean() > 0.5
        found = data[bounds > 0]
        assert (found.least_log_wealth(bounds[bounds > 0])[0] >= math.log(100)).all()
        assert (found.least_log_wealth(bounds[bounds > 0] + 1e-6)[0] < math.log(100)).all()

    @given(
        n=st.tuples(st.integers(0, 50), st.integers(0, 50)),
        share=st.tuples(st.floats(0, 1), st.floats(0, 1)),
        values=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=4),
        together=st.booleans(),
    )
    @settings(deadline=None)
    def test_it_is_a_supermartingale_for_rewards_that_are_independent_or_rise_together(
        self, n, share, values, together
    ):
        x, y = (np.array(part) for part in zip(*values, strict=True))
        pairs_of_rewards = np.stack([np.sort(x), np.sort(y)], 1) if together else np.stack(np.meshgrid(x, y), -1)
        assert self.growth(n, share, pairs_of_rewards.reshape(-1, 2)) <= 1 + 1e-9

    def test_it_is_none_if_one_players_reward_is_anothers_loss(self):
        assert self.growth((50, 50), (0.7, 0.3), np.array([(0.0, 1.0), (1.0, 0.0)])) > 1.005

    def growth(self, n, share, rewards):
        """The expected growth of the wealth at the true means, if both players get a reward at the same time."""
        sums = np.array(n) * share
        means = rewards.mean(axis=0)

        def log_wealth(pulls, sums):
            data = one_pair(pulls, sums, all_of_it())
            first, second = np.repeat(means[:, None], len(pulls), axis=1)
            return data._log_wealth(data.gains(), first, second)[0]

        before = log_wealth(np.array([n]), sums[None])
        after = log_wealth(np.repeat([np.array(n) + 1], len(rewards), axis=0), sums + rewards)
        return float(np.exp(after - before).mean())

    def test_no_rewards_and_one_player_show_nothing(self):
        assert (pair_bounds(np.zeros((3, 2), np.int64), np.zeros((3, 2)), LEVEL)[0] == 0).all()
        assert (pair_bounds(np.array([[9, 9]]), np.array([[9.0, 0.0]]), LEVEL)[0] == 0).all()
        assert pair_bounds(np.array([[10**6], [0]]), np.array([[1e6], [0.0]]), LEVEL)[0] == 0

    @pytest.mark.parametrize("pulls", [10**3, 10**6, 10**9, 10**12])
    def test_much_data_gives_the_difference_itself(self, pulls):
        bound = pair_bounds(np.full((2, 1), pulls), np.array([[0.3 * pulls], [0.7 * pulls]]), LEVEL)[0][0]
        assert 0.4 - max(6 / math.sqrt(pulls), 5e-4) < bound < 0.4

    def test_the_promising_pairs_are_nearly_as_good_as_all(self, monkeypatch):
        random = np.random.default_rng(4)
        pulls = (10 ** random.uniform(1, 5, (9, 60))).astype(int)
        sums = random.binomial(pulls, random.uniform(0.05, 0.4, (9, 60))).astype(float)
        few, _, _ = bounds_by_arm(pulls, sums, np.full(60, LEVEL))
        monkeypatch.setattr(pairs, "PLAYERS", 9)
        monkeypatch.setattr(pairs, "PAIRS", 72)
        every, _, _ = bounds_by_arm(pulls, sums, np.full(60, LEVEL))
        assert (few <= every).all()
        assert (few > 0.95 * every - 1e-9).mean() > 0.98


class TestAgainstIntervals:
    """What is gained over the simpler bound."""

    def test_it_is_hardly_ever_worse(self):
        random = np.random.default_rng(3)
        new, old = [], []
        for players in (2, 3, 12, 40) * 6:
            spread = random.choice([0.5, 0.1, 0.01])
            pulls = (10 ** random.uniform(1, 5, (players, 5))).astype(int)
            sums = random.binomial(pulls, spread * random.uniform(0.3, 1.7, (players, 5))).astype(float)
            new.extend(pair_bounds(pulls, sums, LEVEL)[0])
            old.extend(of_intervals(pulls, sums))
        new, old = np.array(new), np.array(old)
        assert (old > 0).sum() > 40
        assert (new >= 0.98 * old).mean() > 0.97
        assert (new > old)[new > 0].mean() > 0.95

    @pytest.mark.parametrize(("rate", "epsilon"), [(0.5, 0.1), (0.1, 0.05), (0.01, 0.005)])
    def test_two_players_twice_epsilon_apart_are_found_with_half_of_the_data(self, rate, epsilon):
        random = np.random.default_rng(1)
        step = int(rate * (1 - rate) / epsilon**2)
        looks = step * np.arange(1, 161)
        means = np.array([rate + epsilon, rate - epsilon])
        needed = []
        for _ in range(20):
            sums = random.binomial(step, means, (len(looks), 2)).cumsum(axis=0).astype(float)
            pulls = np.repeat(looks[:, None], 2, axis=1)
            level = np.full(len(looks), LEVEL * shares(1, EARLY))
            new = bounds_by_arm(pulls.T, sums.T, level)[0] > epsilon
            low, high = interval(pulls, sums, LEVEL * shares(2) * shares(1))
            old = low[:, 0] - high[:, 1] > epsilon
            needed.append((looks[new.argmax()], looks[old.argmax()]))
        fast, slow = np.median(needed, axis=0)
        assert fast <= slow / 2


RULES = {
    "both": lambda pulls, sums: np.ones(pulls.shape, bool),
    "one much more often": lambda pulls, sums: np.stack([np.ones(len(pulls), bool), pulls[:, 0] % 8 == 0], 1),
    "while unlucky": lambda pulls, sums: np.stack(
        [sums[:, 0] < 0.45 * pulls[:, 0], sums[:, 1] > 0.25 * pulls[:, 1]], 1
    ),
    "the better one": lambda pulls, sums: np.eye(2, dtype=bool)[(sums / pulls).argmax(axis=1)],
}


class TestFalseAlarms:
    """Two players that differ by exactly ε, looked at every ten rounds, with all of the level for this pair."""

    EPSILON, RUNS, ROUNDS = 0.1, 200, 600

    def runs(self, rule, means=(0.4, 0.3)):
        """Pulls and sums at each look, [look, run, player]; the rule says whom to pull, given pulls and sums."""
        random = np.random.default_rng(7)
        pulls, sums, looks = np.ones((self.RUNS, 2), int), random.binomial(1, means, (self.RUNS, 2)).astype(float), []
        for number in range(1, self.ROUNDS + 1):
            pulled = rule(pulls, sums)
            pulls = pulls + pulled
            sums = sums + pulled * random.binomial(1, means, (self.RUNS, 2))
            if number % 10 == 0:
                looks.append((pulls, sums))
        return tuple(np.array(part) for part in zip(*looks, strict=True))

    @pytest.mark.parametrize("rule", RULES)
    def test_they_stay_below_the_level_where_those_of_a_usual_test_do_not(self, rule):
        pulls, sums = self.runs(RULES[rule])
        data = one_pair(pulls.reshape(-1, 2), sums.reshape(-1, 2), all_of_it())
        wealth, _ = data.least_log_wealth(np.full(len(data.pulls), self.EPSILON))
        ever = (wealth.reshape(pulls.shape[:2]) >= -math.log(LEVEL)).any(axis=0).mean()
        assert ever <= LEVEL
        mean = sums / pulls
        noise = np.sqrt((np.maximum(mean * (1 - mean), 0.05) / pulls).sum(axis=2))
        usual = (mean[..., 0] - mean[..., 1] - 1.645 * noise > self.EPSILON).any(axis=0).mean()
        assert usual > 2 * LEVEL

    def test_the_wealth_at_the_true_means_uses_much_of_the_level(self):
        """So the guarantee is not void, and half of the goal would be too little."""
        pulls, sums = self.runs(RULES["both"])
        data = one_pair(pulls.reshape(-1, 2), sums.reshape(-1, 2), all_of_it())
        first, second = np.repeat([[0.4], [0.3]], len(data.pulls), axis=1)
        most = data._log_wealth(data.gains(), first, second)[0].reshape(pulls.shape[:2]).max(axis=0)
        assert 0 < (most >= -math.log(LEVEL)).mean() <= LEVEL
        assert (most >= 0.3 * -math.log(LEVEL)).mean() > 2 * LEVEL


class TestAlarm:
    EPSILON = 0.1

    def bounds(self, pulls, sums):
        """What `diagnose` computes, for all rounds of a run at once: each round is a set of arms of its own."""
        looks, players, arms = pulls.shape
        tables = (np.moveaxis(part, 1, 0).reshape(players, -1) for part in (pulls, sums))
        bounds, _, _ = bounds_by_arm(*tables, np.tile(LEVEL * shares(arms, EARLY), looks))
        return bounds.reshape(looks, arms).max(axis=1)

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
        runs = [self.looked(2 * self.EPSILON, posse.RobustAggTS(0.1), r, horizon=1500) for r in range(10)]
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
        assert diagnosis.bound > diagnosis.lower[0, 1] - diagnosis.upper[1, 1]
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
        assert (few.bounds <= many.bounds[:2]).all()

    def test_the_two_players_of_an_alarm_stand_out_in_the_picture_even_if_the_band_touches_all(self):
        diagnosis = diagnose(counts([[1500], [1500], [1500]], [[750], [900], [1050]], 0.1))
        assert diagnosis.pairs == (("p3", "p1"),)
        assert diagnosis.lower.max() - diagnosis.upper.min() < 0.1 < diagnosis.bound
        assert _off(diagnosis, 0, _band(diagnosis, 0)).tolist() == [True, False, True]
        held = dataclasses.replace(diagnosis, epsilon=0.2)
        assert not _off(held, 0, _band(held, 0)).any()
