"""PosseTS and Ind-TS-V: dispersions, the posterior against the Beta law, exploration and regret."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import naive_posse
import posse
from by_name import of_summary, summarise
from posse.policies.bound import ALONE
from posse.policies.fourth_root import UNIFORM, boundary, dispersion_sums, explore, posterior
from posse.policies.likeness.tables import DISPERSION, NOISE
from posse.rewards import GRID
from posse.simulation import trace


def drawn(*numbers, log_T):
    """Center and scale that are drawn with."""
    return explore(*posterior(*numbers), log_T)


def believed(*numbers):
    """Center and scale of the posterior."""
    return posterior(*numbers)[:2]


class TestDispersion:
    """φ, of an arm over players and of a player over arms for PosseTS, and of a player's noisiest arm for Ind-TS-V."""

    def test_it_is_1_for_rewards_of_0_and_1(self):
        random = np.random.default_rng(2)
        n = random.integers(0, 1000, (9, 5))
        of_arm, of_player, *_ = summarise(n, random.binomial(n, 0.3))
        assert of_arm[:, DISPERSION] == pytest.approx(1, abs=1e-12)
        assert of_player[:, NOISE] == pytest.approx(1, abs=1e-12)

    def test_it_is_one_part_in_51_for_beta_50_rewards(self):
        """A Beta reward of mean μ and concentration 50 has variance μ (1−μ) / 51."""
        random = np.random.default_rng(3)
        drawn = random.beta(50 * 0.3, 50 * 0.7, (400, 10, 2))
        of_arm, of_player, *_ = summarise(np.full((10, 2), 400), drawn.sum(axis=0), (drawn**2).sum(axis=0))
        assert of_arm[:, DISPERSION] == pytest.approx(1 / 51, rel=0.1)
        assert of_player[:, NOISE] == pytest.approx((1 + 168 / 51) / (1 + 168), rel=0.15)  # 800 pulls: n v̂⁺ is 168

    def test_a_noisy_player_keeps_its_own(self):
        """One of ten players is paid 0 or 1, the others nearly always 0.3; a pair has the larger of two dispersions."""
        n, s, q = np.full((10, 2), 400), np.full((10, 2), 120.0), np.full((10, 2), 36.01)
        q[3] = s[3]
        of_arm, of_player, *_ = summarise(n, s, q)
        assert of_player[3, NOISE] == pytest.approx(1)
        assert np.all(np.delete(of_player[:, NOISE], 3) < 0.01)
        assert of_arm[:, DISPERSION] == pytest.approx(0.1, rel=0.1)
        numbers = {"n": 400.0, "s": 120.0, "M": 1, "log_T": 10.0}  # as if nobody else were there
        noisy, quiet = (of_summary(of_arm[0], of_player[p], "belief", **numbers)[1] for p in (3, 4))
        assert noisy > 2 * quiet

    @pytest.mark.parametrize("pulls", [2, 100, 10**6])
    def test_it_is_never_0(self, pulls):
        """A pseudo-observation of each kind: 1 / (1 + what 0s and 1s would have varied)."""
        n = np.full((3, 1), pulls)
        of_arm, *_ = summarise(n, n * 0.5, n * 0.25)
        assert of_arm[0, DISPERSION] == pytest.approx(1 / (1 + 3 * pulls / 4))

    def test_a_pair_with_fewer_than_two_rewards_says_nothing_of_it(self):
        alone, *_ = summarise([[50]], [[25]], [[12.5]])
        beside_others, *_ = summarise([[50], [1], [0]], [[25], [0.5], [0]], [[12.5], [0.25], [0]])
        assert beside_others[0, DISPERSION] == alone[0, DISPERSION]
        two, *_ = summarise([[2]], [[1]], [[0.5]])
        assert two[0, DISPERSION] < 0.9

    def test_a_pair_adds_its_variance_and_that_of_0s_and_1s(self):
        """Four rewards of mean 1/2: their variance is 1/3 if they are 0s and 1s."""
        assert dispersion_sums(4.0, 2.0, 2.0) == pytest.approx((4 / 3, 4 / 3))
        assert dispersion_sums(4.0, 2.0, 1.5) == pytest.approx((4 / 6, 1 + 1 / 6))

    def test_squares_that_rounding_left_short_are_no_negative_variance(self):
        assert dispersion_sums(4.0, 2.0, 1.0 - 1 / GRID) == (0.0, 1.0)

    def test_ind_tsv_takes_each_players_own(self):
        n = np.full((2, 3), 50)
        s, q = n * 0.5, np.array([[50 * 0.25] * 3, [50 * 0.5] * 3])
        sums, squares = (np.rint(table * GRID).astype(np.int64).T for table in (s, q))
        of_player = np.zeros((3, len(posse.IndTSV.of_player)))
        posse.IndTSV.summary(n.T, sums, squares, of_player, ALONE)
        assert of_player[:, 0] == pytest.approx([1 / (1 + 12.5), 1, 1])  # the last is who joins


PROBABILITIES = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])


class TestPosterior:
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(
        n=st.integers(0, 10**6),
        mean=st.floats(0, 1),
        dispersion=st.sampled_from([1e-12, 1e-4, 0.02, 1.0]),
        expected=st.floats(1e-9, 1 - 1e-9),
        spread=st.sampled_from([1e-9, 1e-4, 0.01, 1 / 12, 0.3]),
        log_T=st.sampled_from([0.0, 0.7, 5.0, 13.0]),
    )
    def test_it_is_the_oracles(self, n, mean, dispersion, expected, spread, log_T):
        given = (n * 1.0, n * mean, dispersion, expected, spread)
        assert drawn(*given, log_T=log_T) == pytest.approx(naive_posse.index(*given, log_T), rel=1e-9, abs=1e-9)
        assert believed(*given) == pytest.approx(naive_posse.index(*given), rel=1e-9, abs=1e-9)

    @pytest.mark.parametrize(
        ("n", "s", "within"),
        [
            *((0, 0, 0.08), (1, 0, 0.08), (1, 1, 0.08), (5, 0, 0.04), (5, 2, 0.04)),
            *((20, 1, 0.02), (40, 13, 0.02), (50, 0, 0.02), (100, 90, 0.02), (1000, 0, 0.02), (100_000, 3, 0.02)),
        ],
    )
    def test_its_draws_have_the_quantiles_of_the_beta_law(self, n, s, within):
        """A draw is below the p-quantile of Beta(s+1, n−s+1) with probability p, within a few percent."""
        center, scale = believed(n * 1.0, s * 1.0, 1.0, 0.5, UNIFORM)
        x = stats.beta(s + 1, n - s + 1).ppf(PROBABILITIES)
        assert stats.norm.cdf((x**0.25 - (1 - x) ** 0.25 - center) / scale) == pytest.approx(PROBABILITIES, abs=within)

    @pytest.mark.parametrize(("n", "s"), [(5, 0), (20, 1), (50, 0), (1000, 0), (100_000, 3)])
    def test_a_normal_with_its_mean_and_variance_has_not(self, n, s):
        """Negative control."""
        exact = stats.beta(s + 1, n - s + 1)
        found = stats.norm.cdf((exact.ppf(PROBABILITIES) - exact.mean()) / exact.std())
        assert np.abs(found - PROBABILITIES).max() > 0.06

    def test_an_arm_seen_constant_keeps_a_standard_deviation_of_one_in_n(self):
        """As a Bernoulli arm that never paid does: the rule of three."""
        scales = []
        for n in (100, 1000, 10_000):
            of_arm, of_player, *_ = summarise([[n]], [[n / 2]], [[n / 4]])
            _, scale = of_summary(of_arm[0], of_player[0], "belief", n=n, s=n / 2, M=1, log_T=10.0)
            scales.append(scale * n)
        assert scales == pytest.approx([0.84] * 3, rel=0.03)
        _, noisy = believed(10_000.0, 5_000.0, 1.0, 0.5, UNIFORM)
        assert noisy * 10_000 > 40  # negative control: rewards of 0 and 1, one in √n

    def test_a_prior_is_worth_as_many_observations_as_its_variance_says(self):
        """Beta(n₀ c, n₀ (1−c)) has the variance c (1−c) / (n₀ + 1)."""
        center, scale = believed(0.0, 0.0, 1.0, 0.2, 0.2 * 0.8 / 31)
        x = stats.beta(30 * 0.2, 30 * 0.8).ppf(PROBABILITIES)
        assert stats.norm.cdf((x**0.25 - (1 - x) ** 0.25 - center) / scale) == pytest.approx(PROBABILITIES, abs=0.03)
        assert believed(0.0, 0.0, 1.0, 0.5, 0.2) == believed(0.0, 0.0, 1.0, 0.5, UNIFORM)  # at least 2 observations

    def test_what_is_hardly_tried_is_drawn_from_the_whole_posterior(self):
        for prior in ((0.5, UNIFORM), (0.2, 1e-4)):
            assert drawn(0.0, 0.0, 1.0, *prior, log_T=15.0) == believed(0.0, 0.0, 1.0, *prior)

    @pytest.mark.parametrize("n", [10_000.0, 1_000_000.0])
    def test_what_is_well_known_is_drawn_from_its_upper_part(self, n):
        """Six tenths of the boundary above the center, with three tenths of the deviation."""
        center, scale = believed(n, n / 2, 1.0, 0.5, UNIFORM)
        above, narrow = drawn(n, n / 2, 1.0, 0.5, UNIFORM, log_T=15.0)
        assert narrow / scale == pytest.approx(0.3, rel=0.01)
        assert (above - center) / scale == pytest.approx(0.6 * boundary(n, 15.0), rel=0.01)

    @pytest.mark.parametrize("policy", [posse.PosseTS(), posse.IndTSV()], ids=str)
    def test_what_is_believed_is_shown_as_a_reward(self, policy):
        rewards = np.sin(np.linspace(0, np.pi / 2, 777)) ** 2
        roots = rewards**0.25 - (1 - rewards) ** 0.25
        assert policy.reward_of(roots) == pytest.approx(rewards, rel=0, abs=1e-6)
        assert policy.reward_of(np.array([-1.5, 1.5])).tolist() == [0, 1]


def solved_boundary(step):
    """Exactly how far an arm may trail: (T/n, standard deviations), by backward induction in the limit of many pulls.

    One arm has n observations of variance 1, mean m, and the other always pays 0; T pulls are to come. Pulling on moves
    m by a normal step whose variance is what is learned, 1/n − 1/n'; once the known arm is better, it stays so.
    """
    z = np.linspace(-8, 8, 3201)  # m in standard deviations
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    after, value, found = 1.0, np.zeros(z.size), []  # n counts up to 1, so that 1 − n pulls are to come
    while after > 1e-6:
        n = after * (1 - step)
        m, spread = z / math.sqrt(n), math.sqrt(1 / n - 1 / after)
        then = (m[:, np.newaxis] + spread * nodes) * math.sqrt(after)
        sure = np.where(then > 8, then / math.sqrt(after) * (1 - after), np.interp(then, z, value))
        going_on = (after - n) * m + sure @ (weights / weights.sum())
        first = int(np.argmax(going_on > 0))
        low, high = going_on[first - 1], going_on[first]
        found.append(((1 - n) / n, -(z[first] - high * (z[first] - z[first - 1]) / (high - low))))
        value, after = np.maximum(going_on, 0), n
    return np.array(found).T


def test_the_boundary_is_that_of_one_unknown_arm():
    """The error of finite steps goes with their square root, and is extrapolated away."""
    times = np.array([10.0, 30, 100, 1000, 10_000, 100_000, 800_000])
    coarse, fine = (np.interp(np.log(times), np.log(x), y) for x, y in map(solved_boundary, (0.04, 0.01)))
    exact = 2 * fine - coarse
    assert [boundary(1.0, math.log(time)) for time in times] == pytest.approx(exact, rel=0.03)
    assert np.sqrt(2 * np.log(times)) != pytest.approx(exact, rel=0.2)  # negative control: what Thompson sampling takes


def coins_taken(policy, runs=16, rounds=1000):
    """How often a player took a coin that pays 0.6 on average, beside an arm that always pays 0.5; the last quarter."""
    taken = []
    for seed in range(runs):
        random = np.random.default_rng(seed)
        learner = posse.Learner(policy, ["constant", "coin"], ["player"], rounds, seed=seed)
        for number in range(rounds):
            decision = learner.choose("player")
            coin = decision.arm == "coin"
            learner.observe(decision.id, float(random.random() < 0.6) if coin else 0.5)
            if number >= 3 * rounds // 4:
                taken.append(coin)
    return np.mean(taken)


class TestNoiseOfOneArmAndAnother:
    @pytest.mark.parametrize("policy", [posse.PosseTS(), posse.IndTSV()], ids=str)
    def test_an_arm_that_always_pays_the_same_does_not_hide_a_noisy_one(self, policy):
        assert coins_taken(policy) > 0.85

    def test_it_would_if_the_dispersion_were_pooled_over_arms(self):
        """Negative control."""

        @dataclass(frozen=True)
        class Pooled(posse.IndTSV):
            @staticmethod
            def summary(n, s, q, of_player):
                above, below = 1.0, 1.0
                for arm in range(n.shape[0]):
                    more, rest = dispersion_sums(n[arm, 0] * 1.0, s[arm, 0] / GRID, q[arm, 0] / GRID)
                    above, below = above + more, below + rest
                of_player[0, 0] = min(max(above / below, 1e-12), 1.0)

        assert coins_taken(Pooled()) < 0.8


class TestRuns:
    @pytest.mark.parametrize(
        "policy", [posse.PosseTS(), posse.PosseTS(0.0), posse.PosseTS(0.3), posse.IndTSV()], ids=str
    )
    @pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 2)], ids=str)
    @pytest.mark.parametrize("horizon", [1, 2, 50])
    def test_the_smallest_sizes_work(self, policy, shape, horizon):
        problem = posse.Problem(np.random.default_rng(4).random(shape))
        run = trace(problem, policy, horizon)
        assert run.arms.shape == (horizon, shape[0])
        assert np.all((run.arms >= 0) & (run.arms < shape[1]))

    def test_one_player_alone_is_ind_tsv(self):
        problem = posse.Problem(np.random.default_rng(4).random((1, 5)))
        runs = [trace(problem, policy, 400, seed=1) for policy in (posse.PosseTS(), posse.IndTSV(), posse.IndTS())]
        assert np.array_equal(runs[0].arms, runs[1].arms)
        assert not np.array_equal(runs[0].arms, runs[2].arms)  # negative control

    @pytest.mark.parametrize(
        ("differ", "rounds", "part"),
        [
            ({"spread": 0.02, "players": 30}, 300, 1 / 3),
            ({"scale": "logit", "level": 3.46, "spread": 0.1, "players": 50}, 500, 1 / 2),
            ({"groups": 2, "spread": 0.035, "players": 60}, 500, 1 / 2),
        ],
        ids=["alike", "levels", "groups"],
    )
    def test_it_gains_where_players_have_much_in_common(self, differ, rounds, part):
        problems = posse.generate.structured(**differ, count=4, seed=5)
        shared, alone = regrets(problems, posse.PosseTS(), posse.IndTSV(), rounds=rounds)
        assert shared < part * alone

    def test_it_gains_where_attributes_explain_how_players_differ(self):
        """And loses little if they are told wrongly: each player has the attributes of another."""
        told, untold, wrong = attribute_regrets({"explained": 0.9})
        assert told < 0.8 * untold
        assert wrong < 1.15 * untold
        assert wrong > told  # negative control

    def test_it_does_not_lose_where_attributes_explain_nothing(self):
        told, untold, _ = attribute_regrets({"explained": 0.0})
        assert told < 1.15 * untold

    def test_it_does_not_lose_where_nothing_is_shared(self):
        random = np.random.default_rng(12)
        problems = [posse.Problem(random.random((30, 10))) for _ in range(4)]
        shared, alone, pooled = regrets(problems, posse.PosseTS(), posse.IndTSV(), posse.NaiveAgg())
        assert shared < 1.15 * alone
        assert pooled > 2 * alone  # negative control: sharing as if all were alike


def regrets(problems, *policies, rounds=300):
    """Mean final regret of each policy over problems and two runs each."""
    return posse.simulate(problems, list(policies), rounds, replications=2).final_regret.mean(axis=(1, 2))


def attribute_regrets(options):
    """Mean regret where attributes are told, where they are not, and where each player is told another's."""
    options = {"attributes": {"region": 4, "device": 3}, "players": 60, "spread": 0.5} | options
    problems = posse.generate.structured(**options, count=4, seed=5)
    wrong = []
    for problem in problems:
        values = [problem.attributes.shown(each) for each in problem.values]
        shuffled = np.random.default_rng(1).permutation(60)
        told = {"attributes": problem.attributes, "values": [values[p] for p in shuffled]}
        wrong.append(posse.Problem(problem.means, stream=problem.stream, **told))
    told = problems, [each.without_attributes() for each in problems], wrong
    return [regrets(each, posse.PosseTS())[0] for each in told]
