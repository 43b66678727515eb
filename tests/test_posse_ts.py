"""PosseTS and Ind-TS-V: the summary on tables with known answers, the posterior against the Beta law, and regret."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import naive_posse
import posse
from by_name import call
from posse.policies.fourth_root import UNIFORM, boundary, dispersion_sums, explore, posterior
from posse.policies.posse_ts import DISPERSION, DOUBT, LEVEL, LEVEL_DOUBT, LOOSENESS, MEAN, ODDITY, SPREAD, held
from posse.rewards import GRID
from posse.simulation import trace


def summarise(n, s, q=None, epsilon=math.inf):
    """What PosseTS' summary says of arms and of players, for tables [player, arm]; rewards of 0 and 1 without q."""
    n, s = np.array(n), np.array(s, dtype=float)
    sums, squares = (np.rint(np.array(table) * GRID).astype(np.int64).T for table in (s, s if q is None else q))
    players, arms = n.shape
    of_arm = np.zeros((arms, len(posse.PosseTS.shared)))
    of_player = np.zeros((players, len(posse.PosseTS.of_player)))
    work = np.zeros((posse.PosseTS.work_tables, arms, players))
    posse.PosseTS.summary(n.astype(np.int64).T, sums, squares, of_arm, of_player, work, epsilon)
    return of_arm, of_player


def numbers_of(of_arm, of_player, n, s, M, epsilon=math.inf, **more):
    """PosseTS' index, or another of its functions, for what its summary says of an arm and a player."""
    policy = posse.PosseTS(None if epsilon == math.inf else epsilon)
    known = dict(zip(policy.shared, of_arm, strict=True)) | dict(zip(policy.of_player, of_player, strict=True))
    return call(policy, n=n, s=s, M=M, **known, **more)


def drawn(*numbers, log_T):
    """Center and scale that are drawn with."""
    return explore(*posterior(*numbers), log_T)


def believed(*numbers):
    """Center and scale of the posterior."""
    return posterior(*numbers)[:2]


def random_tables(seed, players, arms, most):
    """Counts up to twice `most`; means that differ by arm, maybe player and pair; rewards that vary more or less."""
    random = np.random.default_rng(seed)
    n = np.floor(most ** random.random((players, arms)) * random.integers(0, 2, (players, arms), endpoint=True))
    means = random.random(arms) + 0.1 * random.standard_normal((players, 1)) * random.integers(0, 2)
    means = np.clip(means + random.choice([0.0, 0.02, 0.2]) * random.standard_normal((players, arms)), 0, 1)
    s = np.floor(n * means * GRID) / GRID
    least = np.divide(s**2, n, out=np.zeros_like(s), where=n > 0)
    q = np.ceil((least + (s - least) * random.choice([0.0, 0.02, 1.0])) * GRID) / GRID
    return n.astype(int), s, q


class TestSummary:
    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32),
        players=st.integers(1, 8),
        arms=st.integers(1, 6),
        most=st.sampled_from([1, 3, 100, 10**4, 10**6]),
        epsilon=st.sampled_from([math.inf, 0.5, 0.05, 0.0]),
    )
    def test_it_is_the_oracles(self, seed, players, arms, most, epsilon):
        n, s, q = random_tables(seed, players, arms, most)
        of_arm, of_player = summarise(n, s, q, epsilon)
        oracle = naive_posse.summary(n.tolist(), s.tolist(), q.tolist(), naive_posse.cap(epsilon))
        for number, expected in (
            (DISPERSION, oracle.phi),
            (MEAN, oracle.mu),
            (SPREAD, oracle.tau2),
            (DOUBT, oracle.cvar),
        ):
            assert of_arm[:, number] == pytest.approx(expected, rel=1e-6, abs=1e-12)
        for number, expected in (
            (LEVEL, oracle.lev),
            (LEVEL_DOUBT, oracle.levv),
            (ODDITY, oracle.f),
        ):
            assert of_player[:, number] == pytest.approx(expected, rel=1e-6, abs=1e-9)

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32),
        players=st.integers(1, 5),
        most=st.sampled_from([1, 100, 10**6]),
        epsilon=st.sampled_from([math.inf, 0.05]),
        log_T=st.sampled_from([1.0, 9.0, 12.0, 14.0, 18.0]),
    )
    def test_so_are_the_indices_made_of_it(self, seed, players, most, epsilon, log_T):
        n, s, q = random_tables(seed, players, 3, most)
        of_arm, of_player = summarise(n, s, q, epsilon)
        cap = naive_posse.cap(epsilon)
        oracle = naive_posse.summary(n.tolist(), s.tolist(), q.tolist(), cap)
        for p, i in itertools.product(range(players), range(3)):
            found = numbers_of(of_arm[i], of_player[p], n[p, i] * 1.0, s[p, i], players, epsilon, log_T=log_T)
            expected = naive_posse.shared_index(oracle, n[p, i], s[p, i], p, i, cap, log_T)
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)

    def test_what_is_left_from_the_last_time_does_not_matter(self):
        n, s, q = random_tables(3, 6, 4, 1000)
        fresh = summarise(n, s, q)
        tables = [np.full_like(table, 0.3) for table in fresh]
        sums, squares = (np.rint(table * GRID).astype(np.int64).T for table in (s, q))
        posse.PosseTS.summary(n.T, sums, squares, *tables, np.full((2, 4, 6), 7.0), math.inf)
        assert np.array_equal(tables[0], fresh[0])
        assert np.array_equal(tables[1], fresh[1])

    def test_before_any_data_everything_is_open(self):
        of_arm, of_player = summarise(np.zeros((4, 3)), np.zeros((4, 3)))
        assert of_arm[:, SPREAD] == pytest.approx(1 / 12)
        assert of_arm[:, MEAN] == pytest.approx(0.5)
        assert of_arm[:, DOUBT] == pytest.approx(1 / 12)
        assert np.all(of_player[:, [LEVEL, LEVEL_DOUBT]] == 0)
        assert np.all(of_player[:, ODDITY] == 1)

    def test_the_same_data_for_all_leave_only_the_margin(self):
        """With the same w for all, ΣI = K (M−1) w², and τ² is its standard error, sqrt(2/ΣI)."""
        M, K, n, mean = 10, 4, 500, 0.3
        of_arm, of_player = summarise(np.full((M, K), n), np.full((M, K), n * mean))
        margin, m = 0.01, (M * n * mean + 1) / (M * n + 2)
        for _ in range(3):
            v = m * (1 - m) - margin
            w = 1 / (margin + v / n)
            margin = math.sqrt(2 / (K * (M - 1))) / w
            m = (1 + v * w * M * mean) / (2 + v * w * M)
        own, information = -v / n, (M - 1) * w**2
        blend = 4 * margin / (4 + information * margin**2)
        assert of_arm[:, SPREAD] == pytest.approx(min(blend, own + 2 * math.sqrt(2 / information)))
        assert of_arm[0, SPREAD] < 0.001  # from 0.01 at first; a player's mean has variance 0.0004
        assert of_player[:, LEVEL] == pytest.approx(0, abs=1e-12)
        assert np.all(of_player[:, LEVEL_DOUBT] == 0)
        assert np.all(of_player[:, ODDITY] == 1)

    def test_players_that_differ_arm_by_arm_have_that_spread_and_no_level(self):
        random = np.random.default_rng(5)
        means = 0.5 + 0.1 * random.standard_normal((40, 8))
        of_arm, of_player = summarise(np.full((40, 8), 4000), 4000 * means)
        assert of_arm[:, SPREAD].mean() == pytest.approx(0.01, rel=0.1)
        assert of_arm[:, SPREAD] == pytest.approx(means.var(axis=0, ddof=1), rel=0.25)
        assert of_arm[:, MEAN] == pytest.approx(means.mean(axis=0), abs=0.001)
        assert np.abs(of_player[:, LEVEL]).max() < 0.05

    def test_shifted_players_have_their_shifts_as_levels(self):
        """Somewhat shrunk; and where two players are there, too few to tell, the shifts are spread."""
        shifts = np.linspace(-0.2, 0.2, 12)
        means = np.array([0.3, 0.4, 0.5, 0.6, 0.7]) + shifts[:, np.newaxis]
        of_arm, of_player = summarise(np.full((12, 5), 1000), 1000 * means)
        assert of_player[:, LEVEL] == pytest.approx(shifts, rel=0.1)
        assert of_arm[:, MEAN] == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7], abs=0.01)
        assert np.all(of_arm[:, SPREAD] < shifts.var() / 3)
        assert np.all(of_player[:, ODDITY] == 1)
        of_arm, of_player = summarise(np.full((2, 5), 1000), 1000 * means[[0, -1]])
        assert np.all(of_player[:, LEVEL] == 0)
        assert np.all(of_arm[:, SPREAD] > shifts.var())

    def test_an_odd_player_is_seen_and_the_others_are_not_blamed(self):
        means = np.tile([0.2, 0.35, 0.5, 0.65, 0.8], (20, 1))
        means[7] = means[7, ::-1]
        _, of_player = summarise(np.full((20, 5), 400), 400 * means)
        assert of_player[7, ODDITY] > 1.2
        assert np.all(np.delete(of_player[:, ODDITY], 7) == 1)

    def test_an_arm_on_which_players_differ_does_not_inherit_the_spread_of_the_others(self):
        means = np.tile([0.2, 0.3, 0.4, 0.5], (20, 1))
        means[:, 3] += np.resize([-0.25, 0.25], 20)
        of_arm, _ = summarise(np.full((20, 4), 400), 400 * means)
        assert of_arm[3, SPREAD] > 0.05
        assert np.all(of_arm[:3, SPREAD] < 0.01)

    def test_an_arm_that_one_player_alone_has_pulled_has_the_spread_of_the_others(self):
        """It has no information on its spread, not even by rounding, however long the run."""
        for pulls in range(1000, 30_000, 700):
            n = np.full((6, 4), 40_000)
            n[:, 3] = [0, 0, pulls, 0, 0, 0]
            of_arm, _ = summarise(n, np.rint(n * [0.11, 0.27, 0.53, 0.71]))
            assert of_arm[3, SPREAD] == pytest.approx(of_arm[0, SPREAD], rel=0.2)

    def test_an_arm_that_nobody_has_tested_for_spread_is_insured_in_long_runs(self):
        """One pull a player says nothing of its spread: it is the others' up to 10⁴ rounds, and wider after 10⁶."""
        for rounds, wide in ((10**4, False), (10**6, True)):
            n = np.full((20, 3), rounds // 3)
            n[:, 2] = 1
            s = np.rint(n * [0.3, 0.5, 0.0])
            s[:10, 2] = 1
            of_arm, _ = summarise(n, s)
            assert (of_arm[2, SPREAD] > 0.03) == wide

    @pytest.mark.parametrize(("players", "rounds", "alone"), [(2, 10**5, False), (2, 10**7, True), (50, 10**7, False)])
    def test_few_players_do_not_rely_on_being_alike_in_long_runs(self, players, rounds, alone):
        """Three arms that pay two players the same may do so by luck; in a long run that is not worth a lock-in."""
        n, s = np.full((players, 3), 400), np.full((players, 3), 80)
        of_arm, of_player = summarise(n, s)
        found = numbers_of(of_arm[0], of_player[0], 5.0, 5.0, players, log_T=math.log(rounds))
        uniform = drawn(5.0, 5.0, of_arm[0, DISPERSION], 0.5, UNIFORM, 0.0, log_T=math.log(rounds))
        assert (found == pytest.approx(uniform, rel=0.1)) == alone

    @pytest.mark.parametrize("freedom", [1, 3, 40, 200])
    def test_a_spread_is_held_as_by_the_oracle(self, freedom):
        looseness = math.sqrt(2 / (9 * freedom))
        lengths = (0.0, 11.5, 11.6, 13.8, 16.0, 40.0)
        found = [held(looseness, log_T) for log_T in lengths]
        assert found == pytest.approx([naive_posse.held(freedom, log_T) for log_T in lengths])
        assert found[:2] == [1, 1]
        assert found[-1] <= found[3] < found[2] < 1

    def test_players_who_have_tried_nothing_say_nothing_of_the_spread(self):
        n, s = np.full((2, 3), 400), np.full((2, 3), 80)
        few, _ = summarise(n, s)
        many, _ = summarise(np.vstack([n, np.zeros((18, 3), int)]), np.vstack([s, np.zeros((18, 3), int)]))
        assert many[0, LOOSENESS] == few[0, LOOSENESS] == pytest.approx(math.sqrt(2 / 27))

    @pytest.mark.parametrize("log_T", [8.0, 14.0])
    def test_what_is_believed_rests_on_the_same_prior(self, log_T):
        """An arm the player has not tried is drawn from the whole posterior, so there the two are one."""
        n, s = np.full((2, 3), 3000), np.full((2, 3), 600)
        n[0, 0] = s[0, 0] = 0
        of_arm, of_player = summarise(n, s)
        index, belief = (
            numbers_of(of_arm[0], of_player[0], 0.0, 0.0, 2, log_T=log_T, function=name) for name in ("index", "belief")
        )
        assert index == belief

    def test_epsilon_caps_the_spread(self):
        means = np.random.default_rng(1).random((10, 3))
        n, s = np.full((10, 3), 100), 100 * means
        assert np.all(summarise(n, s)[0][:, SPREAD] > 0.02)
        of_arm, of_player = summarise(n, s, epsilon=0.2)
        assert np.all(of_arm[:, SPREAD] <= 0.2**2 / 4)
        wide, narrow = (numbers_of(of_arm[0], of_player[0], 0.0, 0.0, 10, epsilon, log_T=1.0) for epsilon in (0.2, 0.1))
        assert wide[1] > narrow[1]


class TestDispersion:
    """φ, pooled over players by PosseTS, and over a player's arms by Ind-TS-V."""

    def test_it_is_1_for_rewards_of_0_and_1(self):
        random = np.random.default_rng(2)
        n = random.integers(0, 1000, (9, 5))
        of_arm, _ = summarise(n, random.binomial(n, 0.3))
        assert of_arm[:, DISPERSION] == pytest.approx(1, abs=1e-12)

    def test_it_is_one_part_in_51_for_beta_50_rewards(self):
        """A Beta reward of mean μ and concentration 50 has variance μ (1−μ) / 51."""
        random = np.random.default_rng(3)
        drawn = random.beta(50 * 0.3, 50 * 0.7, (400, 10, 2))
        of_arm, _ = summarise(np.full((10, 2), 400), drawn.sum(axis=0), (drawn**2).sum(axis=0))
        assert of_arm[:, DISPERSION] == pytest.approx(1 / 51, rel=0.1)

    @pytest.mark.parametrize("pulls", [2, 100, 10**6])
    def test_it_is_never_0(self, pulls):
        """A pseudo-observation of each kind: 1 / (1 + what 0s and 1s would have varied)."""
        n = np.full((3, 1), pulls)
        of_arm, _ = summarise(n, n * 0.5, n * 0.25)
        assert of_arm[0, DISPERSION] == pytest.approx(1 / (1 + 3 * pulls / 4))

    def test_a_pair_with_fewer_than_two_rewards_says_nothing_of_it(self):
        alone, _ = summarise([[50]], [[25]], [[12.5]])
        beside_others, _ = summarise([[50], [1], [0]], [[25], [0.5], [0]], [[12.5], [0.25], [0]])
        assert beside_others[0, DISPERSION] == alone[0, DISPERSION]
        two, _ = summarise([[2]], [[1]], [[0.5]])
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
        of_player = np.zeros((2, len(posse.IndTSV.of_player)))
        posse.IndTSV.summary(n.T, sums, squares, of_player)
        assert of_player[:, 0] == pytest.approx([1 / (1 + 12.5), 1])


PROBABILITIES = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])


class TestPosterior:
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(
        n=st.integers(0, 10**6),
        mean=st.floats(0, 1),
        dispersion=st.sampled_from([1e-12, 1e-4, 0.02, 1.0]),
        expected=st.floats(1e-3, 1 - 1e-3),
        spread=st.sampled_from([1e-8, 1e-4, 0.01, 1 / 12]),
        doubt=st.sampled_from([0.0, 1e-4, 0.05]),
        log_T=st.sampled_from([0.0, 0.7, 5.0, 13.0]),
    )
    def test_it_is_the_oracles(self, n, mean, dispersion, expected, spread, doubt, log_T):
        given = (n * 1.0, n * mean, dispersion, expected, spread, doubt)
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
        center, scale = believed(n * 1.0, s * 1.0, 1.0, 0.5, UNIFORM, 0.0)
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
            of_arm, of_player = summarise([[n]], [[n / 2]], [[n / 4]])
            _, scale = numbers_of(of_arm[0], of_player[0], n, n / 2, 1, log_T=10.0, function="belief")
            scales.append(scale * n)
        assert scales == pytest.approx([0.84] * 3, rel=0.03)
        _, noisy = believed(10_000.0, 5_000.0, 1.0, 0.5, UNIFORM, 0.0)
        assert noisy * 10_000 > 40  # negative control: rewards of 0 and 1, one in √n

    def test_what_is_hardly_tried_is_drawn_from_the_whole_posterior(self):
        for prior in ((0.5, UNIFORM, 0.0), (0.2, 1e-4, 1e-3)):
            assert drawn(0.0, 0.0, 1.0, *prior, log_T=15.0) == believed(0.0, 0.0, 1.0, *prior)

    @pytest.mark.parametrize("n", [10_000.0, 1_000_000.0])
    def test_what_is_well_known_is_drawn_from_its_upper_part(self, n):
        """Six tenths of the boundary above the center, with three tenths of the deviation."""
        center, scale = believed(n, n / 2, 1.0, 0.5, UNIFORM, 0.0)
        above, narrow = drawn(n, n / 2, 1.0, 0.5, UNIFORM, 0.0, log_T=15.0)
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

    def test_it_gains_where_players_are_alike(self):
        problems = posse.generate.uniform(players=30, arms=10, epsilon=0.05, count=4, seed=11)
        shared, alone = regrets(problems, posse.PosseTS(), posse.IndTSV())
        assert shared < alone / 3

    def test_it_does_not_lose_where_nothing_is_shared(self):
        random = np.random.default_rng(12)
        problems = [posse.Problem(random.random((30, 10))) for _ in range(4)]
        shared, alone, pooled = regrets(problems, posse.PosseTS(), posse.IndTSV(), posse.NaiveAgg())
        assert shared < 1.15 * alone
        assert pooled > 2 * alone  # negative control: sharing as if all were alike


def regrets(problems, *policies):
    """Mean final regret of each policy over problems and two runs of 300 rounds each."""
    return posse.simulate(problems, list(policies), 300, replications=2).final_regret.mean(axis=(1, 2))
