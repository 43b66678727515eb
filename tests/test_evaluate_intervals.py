"""Intervals of judged policies, by hand and by a slow oracle; test_evaluate_coverage.py has how often they hold."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import table

import posse
from posse.insight import evaluate
from posse.insight.evaluation import betting, estimators
from posse.insight.evaluation.weighting import ArmRows, weighted_interval


def slow_design_wealth(weights, rewards, value, level):
    """The average wealth of the bets on w (r − value), term by term."""
    variance = sum(w * w for w in weights) * value * (1 - value)
    total, prior = 0.0, [1 / (1 + abs(j)) for j in range(-1, 8)]
    for share, j in zip(prior, range(-1, 8), strict=True):
        bet = min(math.sqrt(2 * math.log(1 / level) / variance) * 2.0**j, 0.9 / (max(weights) * value))
        total += share * math.prod(1 + bet * w * (r - value) for w, r in zip(weights, rewards, strict=True))
    return total / sum(prior)


def slow_row_wealth(terms, value, level, most):
    """The average wealth of the bets on T − value, term by term; `terms` gives the rows' terms for a bet."""
    total, prior = 0.0, [1 / (1 + abs(j)) ** 1.5 for j in range(-5, 5)]
    for share, j in zip(prior, range(-5, 5), strict=True):
        size = len(terms(0.1))
        bet = min(math.sqrt(2 * math.log(1 / level) / size) * 2.0 ** (j + 1 - most), 0.9 / most)
        total += share * math.prod(1 + bet * (term - value) for term in terms(bet))
    return total / sum(prior)


def slow_weighted(player, chances, arm, model, stakes, reward, level):
    """The weighted interval, cell by cell and row by row."""
    players, arms = stakes.shape
    value, deviations, largest, left = 0.0, [0.0] * len(reward), [0.0] * players, np.zeros(arms)
    for p in range(players):
        own = [row for row in range(len(reward)) if player[row] == p]
        for a in range(arms):
            steady = [max(chances[row, a], min(20 / len(own), 0.5)) for row in own]
            weights = [chances[row, a] / math.sqrt(least) for row, least in zip(own, steady, strict=True)]
            scores = []  # each is the weight times the doubly robust score q + (r − q)/e
            for row, least, weight in zip(own, steady, weights, strict=True):
                noise = (reward[row] - model[row, a]) / math.sqrt(least) if arm[row] == a else 0.0
                scores.append(weight * model[row, a] + noise)
            mean = sum(scores) / sum(weights)
            value += stakes[p, a] * mean
            left[a] += sum(chances[row, a] / least for row, least in zip(own, steady, strict=True)) / len(reward)
            for row, score, weight in zip(own, scores, weights, strict=True):
                deviations[row] += stakes[p, a] * (score - weight * mean) / sum(weights)
            largest[p] = max(largest[p], abs(stakes[p, a]) / math.sqrt(min(steady)) / sum(weights))
    errors = [
        math.sqrt(sum(deviations[row] ** 2 for row in np.flatnonzero(player == p)) + 0.5 * largest[p] ** 2)
        for p in range(players)
    ]
    error = math.sqrt(sum(each**2 for each in errors))
    skewness = sum(each**3 for each in deviations) / error**3
    z = NormalDist().inv_cdf(1 - level / 2)
    up, down = (3 / skewness * (np.cbrt(1 + skewness * (each - skewness / 6)) - 1) for each in (z, -z))
    bias = 0.1 / min(left) * sum(errors)
    return value, value - error * up - bias, value - error * down + bias, error


class TestIntervalsByHand:
    def test_the_normal_interval(self):
        error = math.sqrt(1 / 3) / 2  # of the mean of four scores with variance 1/3
        interval = estimators.normal_interval(np.array([0.0, 1.0, 1.0, 0.0]), 0.05)
        assert interval == pytest.approx((0.5 - 1.959964 * error, 0.5 + 1.959964 * error), rel=1e-6)

    def test_skewness_moves_the_normal_interval_to_the_long_tail(self):
        scores = np.repeat([0.0, 1.0], [90, 10])
        low, high = estimators.normal_interval(scores, 0.05)
        # Hall's cubic by hand: n = 100, s = √(9/99), skewness Σ((x − x̄)/s)³/n
        deviation = math.sqrt(9 / 99)
        a = (10 * 0.9**3 - 90 * 0.1**3) / 100 / deviation**3 / 10
        for end, z in ((low, 1.959964), (high, -1.959964)):
            t = (0.1 - end) / (deviation / 10)
            assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(z, abs=1e-6)
        assert high - 0.1 > 1.2 * (0.1 - low)

    def test_values_are_shrunk_as_if_by_hand(self):
        values, errors, rows, overall = [0.1, 0.2, 0.6], [0.1, 0.2, 0.05], [300, 100, 600], 0.4
        share = [each / 1000 for each in rows]
        spread = sum(w * ((v - overall) ** 2 + e**2) for w, v, e in zip(share, values, errors, strict=True))
        grid, sums, total = estimators.TAUS.tolist(), [0.0, 0.0, 0.0], 0.0
        for place, tau in enumerate(grid):
            keep = [tau**2 * spread / (tau**2 * spread + e**2) for e in errors]
            kept = sum(w * k * v for w, k, v in zip(share, keep, values, strict=True))
            target = (overall - kept) / sum(w * (1 - k) for w, k in zip(share, keep, strict=True))
            variances = [tau**2 * spread + e**2 for e in errors]
            pairs = zip(values, variances, strict=True)
            likely = math.prod(math.exp(-((v - target) ** 2) / 2 / u) / math.sqrt(u) for v, u in pairs)
            likely *= np.gradient(grid)[place]
            total += likely
            for each in range(3):
                sums[each] += likely * (target + keep[each] * (values[each] - target))
        found, spreads = estimators.shrink(np.array(values), np.array(errors), np.array(rows), overall)
        np.testing.assert_allclose(found, [each / total for each in sums])
        assert found @ share == pytest.approx(overall)
        assert (spreads > 0).all()
        alone = estimators.shrink(np.array([0.3]), np.array([0.1]), np.array([7]), 0.3)
        assert np.concatenate(alone) == pytest.approx([0.3, 0.1])

    def test_shrunken_values_average_the_overall_value_where_policies_agree_for_some_players(self):
        """For two thirds of the players the log plays b most of the time, so there b minus the log is surely small."""
        rng = np.random.default_rng(2)
        player = np.repeat(np.arange(15), 400)
        for_b = np.where(player % 3 == 0, 0.05, 0.95)
        arm = rng.random(player.size) < for_b
        reward = rng.random(player.size) < 0.3 + arm * np.where(player % 3 == 0, -0.2, 0.2)
        names = [f"p{each}" for each in player], ["b" if each else "a" for each in arm]
        log = table(*names, np.where(arm, for_b, 1 - for_b), reward * 1.0)
        overall, *each = evaluate(log, "b", against="logged").estimates
        found, errors = (np.array([getattr(one.difference, name) for one in each]) for name in ("shrunken", "error"))
        assert overall.difference.low < found.mean() < overall.difference.high
        weighted = np.average([one.difference.value for one in each], weights=errors**-2.0)  # the usual target
        assert weighted > overall.difference.high
        truth = np.array([(-0.2 * 0.95 if int(one.player[1:]) % 3 == 0 else 0.2 * 0.05) for one in each])
        spreads = np.array([one.difference.shrunken_error for one in each])
        assert (np.abs(found - truth) < 2 * spreads).mean() >= 0.8

    def test_one_score_says_nothing_and_two_say_something(self):
        assert estimators.normal_interval(np.array([0.5]), 0.05) == (-math.inf, math.inf)
        assert estimators.normal_interval(np.array([0.5, 0.5]), 0.05) == (0.5, 0.5)

    def test_of_few_rewards_it_is_azumas_and_of_rare_ones_that_of_their_variance(self):
        half = math.sqrt(math.log(80) / 100)
        interval = estimators.martingale_interval(np.tile([0.0, 1.0, 1.0, 0.0, 1.0], 10), 0.05)
        assert interval == pytest.approx((0.6 - half, 0.6 + half))
        rare = np.zeros(8000)
        rare[::1600] = 1
        low, high = estimators.martingale_interval(rare, 0.05)
        assert -0.002 < low < 5 / 8000 < high < 0.003

    def test_it_holds_if_means_go_by_the_past(self):
        """Arms of 0.3 % and 2 %: the second is played while the newest hundred rewards have a 1, else the first."""
        rng, wrong, normal = np.random.default_rng(5), 0, 0
        for _ in range(200):
            rewards, means = np.zeros(200), np.zeros(200)
            for row in range(200):
                means[row] = 0.02 if rewards[max(row - 100, 0) : row].any() else 0.003
                rewards[row] = rng.random() < means[row]
            low, high = estimators.martingale_interval(rewards, 0.05)
            wrong += not low <= means.mean() <= high
            low, high = estimators.normal_interval(rewards, 0.05)
            normal += not low <= means.mean() <= high
        assert wrong <= 10 < normal, "the negative control: a normal interval"

    def test_without_any_weight_there_is_nothing_to_say(self):
        assert estimators.effective_rows(np.zeros(3)) == 0.0
        assert np.isnan(estimators.snips_scores(np.zeros(3), np.ones(3))).all()


class TestWhichInterval:
    """One player, two arms with a propensity of one half: of four rewards with x one is 1, with y three are."""

    @staticmethod
    def log(rows):
        rewards = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]
        return table(["p"] * rows, list("xxxxyyyy" * (rows // 8)), [0.5] * rows, rewards * (rows // 8))

    @pytest.mark.parametrize(
        ("rows", "adaptive", "arm", "logged"),
        [
            (8, False, "betting", "betting"),
            (400, False, "normal", "normal"),
            (8, True, "weighted", "martingale"),
            (400, True, "weighted", "normal"),
        ],
    )
    def test_the_normal_law_needs_many_rows_or_weights(self, rows, adaptive, arm, logged):
        evaluation = evaluate(self.log(rows), ["x", "logged"], adaptive=adaptive)
        assert (evaluation.of("x").interval, evaluation.of("logged").interval) == (arm, logged)

    def test_a_difference_is_that_of_the_rows_where_both_are_normal(self):
        found = evaluate(self.log(400), "x", against="y", estimator="ips").of("x").difference
        scores = np.array([2.0, 0.0, 0.0, 0.0, -2.0, -2.0, -2.0, 0.0] * 50)
        low, high = estimators.normal_interval(scores, 0.05)
        assert (found.low, found.value, found.high) == pytest.approx((low, -0.5, high), abs=1e-6)
        half = 1.959964 * scores.std(ddof=1) / 20
        assert (low, high) == pytest.approx((-0.5 - half, -0.5 + half), abs=0.002), "the skewness is small"

    def test_else_it_is_that_of_the_ends_each_at_half_the_level(self):
        found = evaluate(self.log(8), "x", against="y").of("x").difference
        x, y = (evaluate(self.log(8), arm, level=0.025).of(arm) for arm in "xy")
        assert (found.low, found.high) == pytest.approx((x.low - y.high, x.high - y.low))


class TestWeighting:
    @staticmethod
    def made(players, rows, arms, seed=3):
        rng = np.random.default_rng(seed)
        player = rng.integers(players, size=rows)
        chances = rng.dirichlet(np.ones(arms), size=rows)
        chances[::7, 1], chances[::7, 0] = 0.0, chances[::7, :2].sum(axis=1)
        arm = (rng.random((rows, 1)) > chances.cumsum(axis=1)).sum(axis=1)
        model = rng.uniform(0.3, 0.7, size=(rows, arms))
        stakes = rng.normal(size=(players, arms))
        reward = rng.random(rows)
        return player, chances, arm, model, stakes, reward

    @pytest.mark.parametrize(("players", "rows", "arms"), [(1, 60, 2), (3, 90, 2), (4, 300, 3)])
    def test_agrees_with_the_slow_oracle(self, players, rows, arms):
        player, chances, arm, model, stakes, reward = self.made(players, rows, arms)
        told = [ArmRows(chances[:, a], arm == a, model[:, a], stakes[:, a]) for a in range(arms)]
        slow = slow_weighted(player, chances, arm, model, stakes, reward, 0.1)
        assert weighted_interval(told, player, reward, 0.1) == pytest.approx(slow)

    def test_none_where_the_policy_left_too_little_to_chance(self):
        player, chances, arm, model, stakes, reward = self.made(1, 400, 2)
        for least, some in ((1.0, True), (1e-3, False)):  # from row 40 on, the second arm is hardly ever chosen
            then = chances.copy()
            then[40:, 1] *= least
            played = (arm == 1) & (some | (np.arange(400) < 40))
            told = [ArmRows(then[:, 1], played, model[:, 1], stakes[:, 1])]
            assert (weighted_interval(told, player, reward, 0.05) is not None) == some

    def test_none_where_rewards_hardly_vary(self):
        """A rare large reward may not have come yet."""
        told = [ArmRows(np.full(400, 0.5), np.arange(400) % 2 == 0, np.full(400, 0.2), np.ones(1))]
        same = np.full(400, 0.2)
        assert weighted_interval(told, np.zeros(400, int), same, 0.05) is None
        assert weighted_interval(told, np.zeros(400, int), np.arange(400) % 4 / 3, 0.05) is not None

    def test_propensities_of_all_arms_must_be_known(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y", "z"], ["a", "b"], seed=4)
        rng = np.random.default_rng(4)
        for _ in range(100):
            for decision in learner.choose(["a", "b"]):
                learner.observe(decision.id, float(rng.random() < 0.5))
        log = learner.log()
        kinds = {"weighted": log, "betting": log.drop_columns(["probabilities"])}
        for kind, known in kinds.items():
            assert evaluate(known, "x", against="y").of("x").difference.kind == kind
        text = " ".join(str(evaluate(log, "x", against="y")).split())
        assert "They hold for one look at the log, if the arms' means stay the same over time" in text

    def test_rows_in_which_an_arm_was_not_available_say_nothing_about_it(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y", "z"], ["a"], seed=5)
        rng = np.random.default_rng(5)
        for number in range(300):
            decision = learner.choose("a", available=["x", "y"] if number % 2 else None)
            learner.observe(decision.id, float(rng.random() < (0.2 if decision.arm == "z" else 0.7)))
        found = evaluate(learner.log(), "z", against="x").of("z").difference
        assert found.kind == "weighted"
        assert found.low <= -0.5 <= found.high


class TestBetting:
    def test_bets_by_design_refute_what_the_slow_oracle_refutes_and_nothing_above(self):
        rng = np.random.default_rng(5)
        for _ in range(4):
            weights = rng.choice([0.0, 0.5, 1.0, 6.0], size=60)
            weights /= weights.mean()
            rewards = (rng.random(60) < 0.6) * 1.0
            low, high = betting.design_interval(weights, rewards, 0.1)
            for value in np.linspace(0.01, 0.99, 99):
                wealth = slow_design_wealth(weights.tolist(), rewards.tolist(), value, 0.05)
                if abs(value - low) > 0.002:
                    assert (wealth > 20) == (value < low), value
                mirrored = slow_design_wealth(weights.tolist(), (1 - rewards).tolist(), 1 - value, 0.05)
                if abs(value - high) > 0.002:
                    assert (mirrored > 20) == (value > high), value

    @pytest.mark.parametrize("known", [True, False])
    def test_bets_on_rows_refute_only_what_the_slow_oracle_refutes(self, known):
        """Two arms, one of them judged; and the difference of both."""
        rng = np.random.default_rng(6)
        chance = rng.uniform(0.1, 0.9, size=200)
        arm = (rng.random(200) < chance) * 1
        rewards = (rng.random(200) < 0.3 + 0.4 * arm) * 1.0
        guess = np.full(200, 0.5)

        def terms_of(number, given):
            own = chance if number else 1 - chance
            weights = (arm == number) / own
            arms = [betting.ArmGuess(np.ones(200), own, 1 - weights, guess)] if known else []
            return betting.BetTerms(weights, given, arms)

        def slow(number, given, bet, most):
            own = chance if number else 1 - chance
            control = [min(0.5, (0.9 / bet - most) * e) if known else 0.0 for e in own]
            rows = zip(arm, own, given, control, strict=True)
            return [(r - c) / e + c if a == number else c for a, e, r, c in rows]

        one, other = terms_of(1, rewards), terms_of(0, rewards)
        low, _ = betting.martingale_interval(one, 0.1)
        below, _ = betting.martingale_difference(one, other, 0.1)
        for value in np.linspace(0.01, 0.99, 99):
            if slow_row_wealth(lambda bet: slow(1, rewards, bet, 1), value, 0.05, 1) < 20:
                assert value >= low - 1e-9
            elif value > low:
                assert value - low < 0.02  # only the bets near the best are followed

            def both(bet):
                return np.add(slow(1, rewards, bet, 2), slow(0, 1 - rewards, bet, 2))

            if slow_row_wealth(both, 1 + value, 0.05, 2) < 20:
                assert value >= below - 1e-9

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), min_size=1, max_size=20), st.booleans())
    def test_any_weights_and_rewards_give_an_interval_within_the_range(self, pairs, by_design):
        weights, rewards = (np.array(each) for each in zip(*pairs, strict=True))
        if by_design:
            weights = weights / weights.mean() if weights.mean() > 1e-9 else np.ones_like(weights)
            low, high = betting.design_interval(weights, rewards, 0.05)
        else:
            ones, chances = np.ones(weights.size), 1 / np.maximum(weights, 1)
            arms = [betting.ArmGuess(ones, chances, 1 - 1 / chances, 0.5 * ones)]
            low, high = betting.martingale_interval(betting.BetTerms(1 / chances, rewards, arms), 0.05)
        assert 0 <= low <= 1
        assert 0 <= high <= 1

    def test_a_single_row_says_next_to_nothing(self):
        low, high = betting.design_interval(np.ones(1), np.ones(1), 0.05)
        assert low < 0.05
        assert high == 1
