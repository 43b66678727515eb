"""Judging policies from a log: that intervals hold, by a slow oracle and over many seeds, with controls that fail."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import CHANCES, MEANS, randomised, table
from scipy.special import ndtr
from scipy.stats import binomtest

import posse
from evaluation_coverage import coverage_settings, measure
from posse.insight import evaluate
from posse.insight.evaluation import betting, estimators
from posse.insight.evaluation.weighting import ArmRows, weighted_interval


def thompson_logs(seed, logs, rounds, means):
    """Many logs of Thompson sampling with two arms, all at once: arms, propensities, rewards, [log, round, player]."""
    rng = np.random.default_rng(seed)
    shape = (logs, means.shape[0])
    pulls, sums = np.zeros((*shape, 2)), np.zeros((*shape, 2))
    kept = []
    for _ in range(rounds):
        center, variance = (sums + 0.5) / (pulls + 1), 0.25 / (pulls + 1)
        second = ndtr((center[..., 1] - center[..., 0]) / np.sqrt(variance.sum(axis=-1)))
        arm = (rng.random(shape) < second).astype(int)
        reward = (rng.random(shape) < means[np.arange(means.shape[0]), arm]) * 1.0
        kept.append((arm, np.where(arm == 1, second, 1 - second), reward))
        played = np.arange(2) == arm[..., None]
        pulls += played
        sums += played * reward[..., None]
    return [np.stack(parts, axis=1) for parts in zip(*kept, strict=True)]


def agrees(hits, trials, promised=0.95):
    """Whether a coverage is at least what was promised, as far as so many trials can tell."""
    return binomtest(int(hits), trials, promised, alternative="less").pvalue > 1e-3


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
        values, errors = np.array([0.1, 0.2, 0.6]), np.array([0.1, 0.2, 0.1])
        w = [100, 25, 100]
        mean = sum(a * b for a, b in zip(w, values, strict=True)) / 225
        q = sum(a * (b - mean) ** 2 for a, b in zip(w, values, strict=True))
        tau = (q - 2) / (225 - (100**2 + 25**2 + 100**2) / 225)
        w = [1 / (e**2 + tau) for e in errors]
        mean = sum(a * b for a, b in zip(w, values, strict=True)) / sum(w)
        expected = [mean + tau / (tau + e**2) * (v - mean) for v, e in zip(values, errors, strict=True)]
        np.testing.assert_allclose(estimators.shrink(values, errors)[0], expected)
        np.testing.assert_allclose(estimators.shrink(np.array([0.1, 0.11]), np.array([0.1, 0.1]))[0], 0.105)
        assert estimators.shrink(np.array([0.3]), np.array([0.1]))[0].tolist() == [0.3]

    def test_one_score_says_nothing_and_two_say_something(self):
        assert estimators.normal_interval(np.array([0.5]), 0.05) == (-math.inf, math.inf)
        assert estimators.normal_interval(np.array([0.5, 0.5]), 0.05) == (0.5, 0.5)

    def test_hoeffdings_interval(self):
        half = math.sqrt(math.log(40) / 100)
        interval = estimators.hoeffding_interval(np.repeat([0.0, 1.0], [20, 30]), 0.05)
        assert interval == pytest.approx((0.6 - half, 0.6 + half))

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
            (8, True, "weighted", "hoeffding"),
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

    def test_an_arm_that_was_not_available_has_the_propensity_0(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y", "z"], ["a"], seed=4)
        rng = np.random.default_rng(4)
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


LOTTERIES = {
    "0.2, or 1 with probability 0.005": (lambda rng, n: np.where(rng.random(n) < 0.005, 1.0, 0.2), 0.204, 200),
    "0.05, or 1 with probability 0.002": (lambda rng, n: np.where(rng.random(n) < 0.002, 1.0, 0.05), 0.0519, 800),
    "0.8, or 0 with probability 0.005": (lambda rng, n: np.where(rng.random(n) < 0.005, 0.0, 0.8), 0.796, 200),
    "always 0.5": (lambda rng, n: np.full(n, 0.5), 0.5, 200),
}


class TestSkewedRewards:
    RUNS = 120

    @pytest.mark.parametrize("name", LOTTERIES)
    def test_lotteries(self, name):
        draw, mean, rows = LOTTERIES[name]
        hits = ordinary = differences = 0
        for seed in range(self.RUNS):
            rng = np.random.default_rng(seed)
            arm = rng.choice(["x", "y"], size=2 * rows)
            log = table(["a"] * (2 * rows), arm, [0.5] * (2 * rows), draw(rng, 2 * rows))
            estimate = evaluate(log, "x", against="y").of("x")
            assert estimate.interval == "betting"
            hits += estimate.low <= mean <= estimate.high
            differences += estimate.difference.low <= 0 <= estimate.difference.high
            low, high = estimators.normal_interval(np.array(log["reward"])[arm == "x"], 0.05)
            ordinary += low <= mean <= high
            assert estimate.low < estimate.high
        assert agrees(hits, self.RUNS)
        assert agrees(differences, self.RUNS)
        if name != "always 0.5":
            assert not agrees(ordinary, self.RUNS, 0.93)

    def test_the_table_of_coverage(self):
        settings = {each.name: each for each in coverage_settings([200])}
        assert len(settings) == 12
        for setting in settings.values():  # their means are those of many draws
            drawn = setting.draw(np.random.default_rng(1), 400_000)
            assert 0 <= drawn.min() <= drawn.max() <= 1
            assert abs(drawn.mean() - setting.mean) < 4 * drawn.std() / math.sqrt(drawn.size)
        result = measure(settings["0.2, or 1 with probability 0.005"], runs=20)
        assert result.value >= 0.9 > result.normal

    def test_the_text_says_which_interval_and_why(self):
        rng = np.random.default_rng(1)
        rewards = LOTTERIES["0.2, or 1 with probability 0.005"][0](rng, 400)
        shown = " ".join(str(evaluate(table(["a"] * 400, ["x", "y"] * 200, [0.5] * 400, rewards))).split())
        assert "by betting, which holds for any rewards in their range: the rewards vary too little" in shown
        coins = " ".join(
            str(evaluate(table(["a"] * 400, ["x", "y"] * 200, [0.5] * 400, [0.0, 1.0, 1.0, 0.0] * 100))).split()
        )
        assert "normal, corrected for skewness: the rewards vary enough" in coins


class TestCoverageOnRandomisedLogs:
    RUNS = 150

    @pytest.fixture(scope="class")
    @classmethod
    def evaluations(cls):
        found = []
        for seed in range(cls.RUNS):
            log, player = randomised(np.random.default_rng(seed), 400)
            shares = np.bincount(player, minlength=2) / 400
            found.append((shares, evaluate(log, against="a0")))
        return found

    @pytest.mark.parametrize("arm", [0, 1, 2])
    def test_arms_overall_and_by_player(self, evaluations, arm):
        overall, by_player = 0, 0
        for shares, evaluation in evaluations:
            estimate = evaluation.of(f"a{arm}")
            overall += estimate.low <= shares @ MEANS[:, arm] <= estimate.high
            own = evaluation.of(f"a{arm}", "p0")
            by_player += own.low <= MEANS[0, arm] <= own.high
        assert agrees(overall, self.RUNS, 0.94)  # the normal law is an approximation
        assert agrees(by_player, self.RUNS, 0.94)

    def test_the_uniform_policy_and_the_logging_policy(self, evaluations):
        uniform, logged = 0, 0
        for shares, evaluation in evaluations:
            estimate = evaluation.of("uniform")
            uniform += estimate.low <= shares @ MEANS.mean(axis=1) <= estimate.high
            estimate = evaluation.of("logged")
            logged += estimate.low <= shares @ (MEANS * CHANCES).sum(axis=1) <= estimate.high
        assert agrees(uniform, self.RUNS, 0.94)
        assert agrees(logged, self.RUNS, 0.94)

    def test_differences(self, evaluations):
        hits = 0
        for shares, evaluation in evaluations:
            difference = evaluation.of("a2").difference
            hits += difference.low <= shares @ (MEANS[:, 2] - MEANS[:, 0]) <= difference.high
        assert agrees(hits, self.RUNS, 0.94)

    def test_rare_rewards_in_small_logs(self):
        """Where the normal interval would often have no width at all."""
        means = np.full((1, 2), 0.97)
        hits = ordinary = 0
        for seed in range(self.RUNS):
            log, _ = randomised(np.random.default_rng(seed), 60, means, np.array([[0.5, 0.5]]))
            estimate = evaluate(log, "a0").of("a0")
            assert estimate.interval == "betting"
            hits += estimate.low <= 0.97 <= estimate.high
            rewards = np.array([row["reward"] for row in log.to_pylist() if row["arm"] == "a0"])
            low, high = estimators.normal_interval(rewards, 0.05)
            ordinary += low <= 0.97 <= high
        assert agrees(hits, self.RUNS)
        assert not agrees(ordinary, self.RUNS, 0.94)

    def test_wrong_propensities_do_not_cover_and_are_noticed(self):
        hits, noticed = 0, 0
        for seed in range(50):
            log, player = randomised(np.random.default_rng(seed), 2000)
            wrong = log.set_column(2, "propensity", pyarrow.array(np.full(2000, 1 / 3)))
            shares = np.bincount(player, minlength=2) / 2000
            evaluation = evaluate(wrong, "a0", estimator="snips")
            estimate = evaluation.of("a0")
            hits += estimate.low <= shares @ MEANS[:, 0] <= estimate.high
            noticed += any("do not fit" in note for note in evaluation.notes)
        assert hits < 45
        assert noticed > 35


class TestCoverageOnAdaptiveLogs:
    RUNS = 150
    ROUNDS = 150
    MEANS = np.array([[0.5, 0.6], [0.45, 0.7]])

    @pytest.fixture(scope="class")
    @classmethod
    def logs(cls):
        arms, propensities, rewards = thompson_logs(11, cls.RUNS, cls.ROUNDS, cls.MEANS)
        player = np.tile(["p0", "p1"], cls.ROUNDS)
        return [
            table(player, [f"a{i}" for i in arms[run].ravel()], propensities[run].ravel(), rewards[run].ravel())
            for run in range(cls.RUNS)
        ]

    @pytest.mark.parametrize(("estimator", "kind"), [("auto", "weighted"), ("dr", "betting")])
    def test_arms_and_their_difference_overall_and_by_player(self, logs, estimator, kind):
        hits, kinds = np.zeros((3, 2)), []
        for log in logs:
            evaluation = evaluate(log, ["a0", "a1"], against="a0", estimator=estimator)
            assert evaluation.adaptive
            for place, (player, means) in enumerate(((None, self.MEANS.mean(axis=0)), ("p1", self.MEANS[1]))):
                one, other = (evaluation.of(f"a{arm}", player) for arm in (0, 1))
                found = other.difference
                truths = zip((one, other, found), (*means, means[1] - means[0]), strict=True)
                hits[:, place] += [each.low <= true <= each.high for each, true in truths]
                kinds += [one.interval == kind, other.interval == kind, found.kind == kind]
                if set(kinds[-3:]) == {True}:
                    assert found.value == pytest.approx(other.value - one.value)
        assert np.mean(kinds) > 0.9
        for number in hits.ravel():
            assert agrees(number, self.RUNS)

    def test_weights_make_differences_far_narrower_than_one_bet_and_that_narrower_than_two(self, logs):
        widths = []
        for log in logs[:50]:
            found = (evaluate(log, "a1", against="a0", estimator=each) for each in ("auto", "dr"))
            weighted, bet = (each.of("a1").difference for each in found)
            apart = evaluate(log, ["a0", "a1"], level=0.025, estimator="dr")
            ends = sum(each.high - each.low for each in (apart.of("a0"), apart.of("a1")))
            widths.append([weighted.high - weighted.low, bet.high - bet.low, ends])
        weighted, bet, two = np.mean(widths, axis=0)
        assert weighted < 0.75 * bet
        assert bet < 0.85 * two

    def test_the_plain_mean_of_the_worse_arm_does_not_cover(self, logs):
        hits = 0
        for log in logs:
            rows = [row["reward"] for row in log.to_pylist() if row["arm"] == "a0" and row["player"] == "p1"]
            hits += abs(np.mean(rows) - 0.45) <= 1.96 * np.std(rows) / math.sqrt(len(rows))
        assert not agrees(hits, self.RUNS)

    def test_dr_is_unbiased_where_the_plain_mean_is_not(self, logs):
        robust = np.array([evaluate(log, "a0", estimator="dr").of("a0", "p1").value for log in logs])
        plain = np.array(
            [
                np.mean([row["reward"] for row in log.to_pylist() if row["arm"] == "a0" and row["player"] == "p1"])
                for log in logs
            ]
        )
        errors = [values.std() / math.sqrt(self.RUNS) for values in (robust, plain)]
        assert abs(robust.mean() - 0.45) < 3.5 * errors[0]
        assert plain.mean() - 0.45 < -3.5 * errors[1]

    def test_a_learners_log(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a", "b"], seed=4)
        rng = np.random.default_rng(4)
        for _ in range(60):
            for decision in learner.choose(["a", "b"]):
                learner.observe(decision.id, float(rng.random() < (0.8 if decision.arm == "x" else 0.3)))
        learner.choose("a")
        learner.record([("a", "x", 1.0)])
        evaluation = evaluate(learner.log())
        assert evaluation.adaptive
        assert (evaluation.rows, evaluation.missing, evaluation.undrawn) == (120, 1, 1)
        assert evaluation.of("x").low <= 0.8 <= evaluation.of("x").high
        frozen = evaluate(learner.log(), learner)
        assert frozen.estimates[0].target == "Learner"
        assert frozen.estimates[0].value == pytest.approx(0.8, abs=0.15)

    def test_decisions_that_a_learner_held_out_are_a_randomised_log(self):
        learner = posse.Learner(posse.IndUCB(), ["x", "y"], ["a", "b"], seed=4, holdout=0.5)
        rng = np.random.default_rng(4)
        for _ in range(200):
            decision = learner.choose("ab"[rng.integers(2)])
            learner.observe(decision.id, float(rng.random() < (0.8 if decision.arm == "x" else 0.3)))
        evaluation = evaluate(learner.log(), ["x", "y", posse.IndTS()], holdout=True, passes=3)
        assert not evaluation.adaptive
        assert evaluation.rows == sum(learner.log()["holdout"].to_pylist())
        for arm, mean in (("x", 0.8), ("y", 0.3)):
            assert evaluation.of(arm).low <= mean <= evaluation.of(arm).high
        assert 0.5 < evaluation.of("Ind-TS").value < 0.9
        with pytest.raises(ValueError, match="a learner held out can"):
            evaluate(learner.log(), posse.IndTS())
        learner.add_arm("z")
        with pytest.raises(ValueError, match="came or went"):
            evaluate(learner.log(), "x", holdout=True)
        with pytest.raises(ValueError, match="no decisions that were held out"):
            evaluate(table(["a"] * 4, ["x", "y"] * 2, [0.5] * 4, [1.0, 0.0, 1.0, 1.0]), "x", holdout=True)

    def test_held_out_decisions_need_to_know_how_they_were_drawn(self, tmp_path):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=4, holdout=0.5)
        rng = np.random.default_rng(4)
        for _ in range(100):
            learner.observe(learner.choose("a").id, float(rng.random() < 0.5))
        log = learner.log().drop_columns(["probabilities"])  # a CSV file has no lists
        pyarrow.csv.write_csv(log, tmp_path / "log.csv")
        with pytest.raises(ValueError, match=r"arms came or went is not in this log.* a propensity of 0\.5 in those"):
            evaluate(tmp_path / "log.csv", "x", holdout=True)
        bare = log.replace_schema_metadata(None)
        equal = bare.set_column(bare.column_names.index("propensity"), "propensity", pyarrow.array([0.5] * 100))
        assert evaluate(equal, "x", holdout=True).of("x") == evaluate(log, "x", holdout=True).of("x")

    def test_decisions_that_were_given_up_are_missing_too(self):
        learner = posse.Learner(posse.IndTS(), ["x", "y"], ["a"], seed=4, waiting_limit=10)
        rng = np.random.default_rng(4)
        for number in range(200):
            decision = learner.choose("a")
            if number % 3 == 0:
                learner.observe(decision.id, float(rng.random() < 0.5))
        evaluation = evaluate(learner)
        assert evaluation.rows + evaluation.missing + evaluation.given_up == 200
        assert (evaluation.missing, evaluation.to_dict()["given_up"]) == (10, evaluation.given_up)
        assert f"10 rows without a reward and {evaluation.given_up} decisions that the learner gave up" in " ".join(
            str(evaluation).split()
        )

    def test_rows_that_could_play_nothing_else_are_said(self):
        log = table(["a"] * 6, ["x", "y"] * 3, [0.5, 0.5, 1.0, 0.4, 0.6, 0.3], [1.0, 0.0] * 3)
        assert any("16.7%" in note for note in evaluate(log, "y").notes)
