"""RobustPosseTS: its bounds, the rule that docs/theory.md rests on, and regret where PosseTS locks in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_guarantee
import posse
from posse.policies import Refresh
from posse.policies.bernoulli_kl import kl_upper_bound
from posse.policies.guarantee import guarded, loose_bound, sharp_bound
from posse.policies.refresh import summary_is_due
from posse.simulation.engine import PolicyRun

units = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9])
counts = st.integers(0, 70) | st.integers(0, 10**6)
many = settings(max_examples=300, deadline=None, derandomize=True)


def width(rounds, M):
    return 2 * math.log(max(rounds, M))


class TestBounds:
    @many
    @given(mean=units, divergence=st.floats(1e-9, 40))
    def test_the_upper_mean_solves_its_equation_from_above(self, mean, divergence):
        found = kl_upper_bound(mean, divergence)
        exact = naive_guarantee.largest_mean(mean, divergence)
        assert exact - 1e-9 <= found <= exact + 1e-6  # both lose digits where kl is tiny
        assert mean <= found <= min(1.0, mean + math.sqrt(divergence / 2))

    def test_without_room_it_is_the_mean(self):
        assert kl_upper_bound(0.3, 0.0) == 0.3
        assert kl_upper_bound(0.3, 1e-40) == 0.3
        assert kl_upper_bound(1.0, 5.0) == 1.0
        assert sharp_bound(5.0, 5.01, 9.0, 9.01, 3, 0.0, 100, 2.0) <= 2.0  # a little more than can be, as learners try

    @many
    @given(st.data(), counts, counts, st.integers(1, 5000), st.integers(3, 10**6), units, units, units)
    def test_they_are_those_of_the_oracle_and_the_sharp_one_is_never_above_the_loose_one(
        self, data, n, others, M, rounds, own, pooled, epsilon
    ):
        N = n + others
        s, S = own * n, own * n + pooled * others
        sharp = sharp_bound(n, s, N, S, M, epsilon, rounds, -math.inf)
        loose = loose_bound(n, s, N, S, epsilon, width(rounds, M))
        assert sharp == pytest.approx(naive_guarantee.sharp_bound(n, s, N, S, M, epsilon, rounds), rel=0, abs=1e-6)
        assert loose == pytest.approx(naive_guarantee.loose_bound(n, s, N, S, M, epsilon, rounds), rel=1e-12)
        assert sharp <= loose
        cutoff = data.draw(units | st.just(sharp))
        above = sharp_bound(n, s, N, S, M, epsilon, rounds, cutoff)
        assert above == sharp if sharp > cutoff else sharp <= above + 1e-12 and above <= cutoff

    def test_with_an_eighth_of_the_width_it_would_be(self):
        """Negative control."""
        sharp = sharp_bound(50, 25.0, 60, 30.0, 20, 0.01, 50_000, -math.inf)
        assert sharp > loose_bound(50, 25.0, 60, 30.0, 0.01, width(50_000, 20) / 8)


pair = st.tuples(counts, units, counts, units)


def draw_tables(arms, epsilon, M, rounds):
    """n, s, N, S of some arms, with their sharp and their loose bounds."""
    tables = [(n, own * n, n + others, own * n + pooled * others) for n, own, others, pooled in arms]
    sharp = [sharp_bound(*numbers, M, epsilon, rounds, -math.inf) for numbers in tables]
    loose = [loose_bound(*numbers, epsilon, width(rounds, M)) for numbers in tables]
    return tables, sharp, loose


class TestRule:
    """An arm that is pulled has a loose bound that reaches every arm's sharp bound: all that the proof needs."""

    @many
    @given(
        arms=st.lists(st.tuples(pair, st.floats(-1e9, 1e9), st.floats(0, 1e9), st.floats(-9, 9)), min_size=1),
        epsilon=units,
        M=st.integers(1, 300),
        rounds=st.sampled_from([3, 100, 10**6]),
        cutoff=st.floats(-1, 3),
    )
    def test_it_holds_for_every_model_and_every_cutoff(self, arms, epsilon, M, rounds, cutoff):
        tables, sharp, loose = draw_tables([arm[0] for arm in arms], epsilon, M, rounds)
        draws = []
        for numbers, (_, center, scale, z) in zip(tables, arms, strict=True):
            center, scale = guarded(center, scale, *numbers, M, cutoff, epsilon, rounds)
            draws.append(center + scale * z)
        pulled = int(np.argmax(draws))
        assert loose[pulled] >= max(sharp) - 1e-12

    def test_a_model_alone_breaks_it(self):
        """Negative control: an arm known to be bad, which the model likes."""
        _, sharp, loose = draw_tables([(5000, 0.2, 0, 0.0), (5000, 0.8, 0, 0.0)], 0.1, 5, 10_000)
        assert loose[0] < max(sharp)

    def test_a_draw_that_is_clipped_to_its_bounds_breaks_it_too(self):
        """Why clipping is not enough: the best arm, left alone, stays at its lower bound, and another is pulled.

        The arm that is pulled has been pulled for ten thousand rounds, and is no longer in doubt.
        """
        _, sharp, loose = draw_tables([(10_000, 0.5, 0, 0.0), (4, 0.5, 0, 0.0)], 1.0, 1, 20_000)
        clipped = [0.5, max(0.0, 0.5 - math.sqrt(width(20_000, 1) / 4))]
        assert int(np.argmax(clipped)) == 0
        assert loose[0] < max(sharp)

    def test_the_model_decides_among_arms_that_are_open(self):
        """The cutoff is what the first arm's loose bound allows: both arms are open, and the draws are the model's."""
        assert guarded(0.3, 0.1, 200, 120.0, 2000, 1200.0, 10, 0.7, 0.1, 10_000) == (0.3, 0.1)
        assert guarded(-0.3, 0.1, 200, 118.0, 2000, 1200.0, 10, 0.7, 0.1, 10_000) == (-0.3, 0.1)


def broken(sums, n, target, log_H, extra=0.0):
    """Whether a sharp bound from these sums of n rewards is at `target` or below; without `kl_upper_bound`."""
    mean = sums / n
    y = np.maximum(log_H - np.log(n) + extra, 0)
    inside = np.clip(mean, 1e-300, 1 - 1e-16)
    kl = inside * np.log(inside / target) + (1 - inside) * np.log((1 - inside) / (1 - target))
    return (mean <= target) & (n * kl >= y + np.log1p(y))


def failure_probability(mean, x, H, c=0.0, exact=True):
    """That a sharp bound on coins of this mean is x too low at some count: exactly, by the law of the sums so far.

    `exact=False` takes the mean itself for the bound.
    """
    law, failed = np.ones(1), 0.0
    for n in range(1, round(12 / x**2)):
        law = np.append(law * (1 - mean), 0) + np.append(0, law * mean)
        fails = broken(np.arange(n + 1.0), float(n), mean - x, math.log(H) if exact else -math.inf, -c * n)
        failed += law[fails].sum()
        law[fails] = 0
    return failed


class TestCoverage:
    """How often a sharp bound fails by x at *any* count: Lemma 2 says at most 28/(Hx²), or 36; in truth far less."""

    RUNS = 4000

    @pytest.mark.parametrize("mean", [0.3, 0.5, 0.9, 0.97])
    @pytest.mark.parametrize("x", [0.05, 0.1, 0.25])
    @pytest.mark.parametrize("H", [3.0, 30.0, 1000.0, 100_000.0])
    def test_own_data_at_the_worst_of_all_counts(self, mean, x, H):
        assert failure_probability(mean, x, H) <= 0.1 / (H * x * x)
        if mean - x > 0.04 and H * x * x > 1:  # negative control
            assert failure_probability(mean, x, H, exact=False) > 0.1 / (H * x * x)

    @pytest.mark.parametrize("mean", [0.5, 0.9])
    @pytest.mark.parametrize(("epsilon", "x"), [(0.02, 0.06), (0.05, 0.15), (0.05, 0.3)])
    def test_own_data_while_it_is_scarce(self, mean, epsilon, x):
        """With M e^(−nε²) in H, M times more rarely, as the bound for shared arms needs; x >= 3ε."""
        M, H = 50, 20.0
        assert failure_probability(mean, x, M * H, epsilon**2) <= 0.1 / (M * H * x * x)
        assert failure_probability(mean, x, H) > 5 * failure_probability(mean, x, M * H, epsilon**2)

    def test_pooled_data_when_the_players_who_pull_are_chosen_to_mislead(self):
        """Players differ by ε. The worst of them pulls until the mean is lower than its own, and then the best one.

        The bound is on the worst, and with ε on top on all. Negative control: without ε it is none for the best player.
        """
        random = np.random.default_rng(18)
        epsilon, low, x, H = 0.2, 0.4, 0.05, 4000.0
        sums = np.zeros(self.RUNS)
        failed, failed_without = np.zeros(self.RUNS, bool), np.zeros(self.RUNS, bool)
        for n in range(1, 1500):
            means = np.where(sums >= (low - x / 2) * (n - 1), low, low + epsilon)
            sums += random.random(self.RUNS) < means
            failed |= broken(sums, float(n), low - x, math.log(H))
            failed_without |= broken(sums, float(n), low + epsilon - x, math.log(H))
        assert failed.mean() <= 1 / (H * x * x)
        assert failed_without.mean() > 0.9


class TestWindows:
    """W, the most pulls between two summaries, by which counts may be out of date."""

    @pytest.mark.parametrize("players", [1, 3, 20])
    def test_all_players_active(self, players):
        assert self.longest(players, lambda t: players) <= 64 * players

    @pytest.mark.parametrize("players", [1, 3, 20])
    def test_any_schedule(self, players):
        random = np.random.default_rng(3)
        longest = self.longest(players, lambda t: int(random.integers(0, players + 1)))
        assert 60 * players <= longest <= 65 * players - 1

    @staticmethod
    def longest(players, active):
        pulls = before = longest = 0
        for t in range(20_000):
            pulls += active(t)
            longest = max(longest, pulls - before)
            if summary_is_due(pulls, before, players):
                before = pulls
        return longest


@dataclass(frozen=True)
class Contrary(posse.Policy):
    """A model that likes what pays least, behind the guarantee, with a cutoff that nobody chose with care."""

    epsilon: float = 0.1
    rounds: float = 20_000.0
    cutoff: float = field(default=0.75)
    guard: float = 1.0

    refresh = Refresh.ANY_PULL

    @staticmethod
    def index(n, s, N, S, M, cutoff, epsilon, rounds, guard):
        center, scale = -(s + 1.0) / (n + 2.0), 0.01
        return guarded(center, scale, n, s, N, S, M, cutoff, epsilon, rounds) if guard > 0.0 else (center, scale)


class TestMemory:
    """What RobustPosseTS remembers of a pair saves work, and changes no index."""

    @pytest.mark.parametrize("anytime", [False, True])
    @pytest.mark.parametrize("forget", [None, 40])
    def test_an_index_is_the_same_without_it(self, anytime, forget):
        policy = posse.RobustPosseTS(0.2, rounds=3000, forget=forget)
        problem = posse.generate.subpar(3, players=9, arms=5, epsilon=0.15, seed=4)[0]
        run = PolicyRun(problem, policy, posse.schedule.Concurrent(), 700, seed=1, anytime=anytime)
        used = 0
        for last in (1, 3, 40, 200, 450, 700):
            run.advance(last)
            run.refresh_all()
            log_T = math.log(max(last + 1, 2) if anytime else 700)
            for arm, player in np.ndindex(5, 9):
                own = run.state.indexed[:2, arm, player] * (1.0, 2.0**-24)
                expected, variance, dispersion, *basis, _, center, scale, reach = run.state.of_pair[:, arm, player]
                N, S = run.state.of_arm[arm, -2:]
                rest = N, S, run.state.of_player[player, -1], 9, log_T, *policy.constants()
                known = *own, expected, variance, dispersion
                alone = policy.index(*known, (-1.0, -1.0), math.nan, math.nan, math.nan, *rest)
                remembered = policy.index(*known, tuple(basis), center, scale, reach, *rest)
                assert remembered == pytest.approx(alone, rel=1e-12, abs=1e-12)
                assert (run.run.center[arm, player], run.run.scale[arm, player]) == pytest.approx(alone, rel=1e-12)
                used += policy.index(*known, tuple(basis), 0.25, 0.125, -math.inf, *rest) == (0.25, 0.125)
        assert used > (0 if anytime else 100)  # so it is used


class TestRegret:
    def test_an_adversarial_model_costs_a_logarithm(self):
        """Shared arms, gaps of 0.2 to 0.5, 10 players: 4 times the rounds cost less than 1.5 times the regret."""
        random = np.random.default_rng(5)
        means = np.array([0.7, 0.5, 0.4, 0.2]) + random.uniform(-0.01, 0.01, (10, 4))
        problem = posse.Problem(means)
        policies = [Contrary(0.02, cutoff=cutoff) for cutoff in (0.0, 0.72, 0.8, 1.0, 2.0)]
        result = posse.simulate(problem, [*policies, Contrary(guard=0.0)], 20_000, checkpoints=[5000, 20_000])
        early, late = result.regret[:, 0, 0].T
        assert np.all(late[:-1] < 1.5 * early[:-1])
        # one player alone would need ln T/Δ for an arm; ten players share what is needed
        alone = sum(math.log(20_000) / (means.max(axis=1) - means[:, arm]).mean() for arm in (1, 2, 3))
        assert np.all(late[:-1] < 4 * alone)
        assert late[-1] > 3.9 * early[-1] > 10_000  # negative control: without the guarantee

    def test_a_player_unlike_the_others_is_not_locked_in(self):
        """One player of 200 has another best arm; the others' data say that it is the worst."""
        means = np.tile([0.5, 0.3, 0.3], (200, 1))
        means[0, 1] = 0.7
        policies = [posse.RobustPosseTS(0.4, rounds=20_000), posse.PosseTS(0.4)]
        result = posse.simulate(posse.Problem(means), policies, 20_000, replications=6, checkpoints=1)
        robust, plain = result.pulls[:, 0, :, 0, 1] / 20_000
        assert np.all(robust > 0.95)
        assert np.any(plain < 0.05)  # negative control: PosseTS, which knows ε too, is locked in for good in some runs

    def test_it_stays_far_below_the_policies_whose_bounds_it_shares(self):
        problems = posse.generate.subpar(5, count=3, players=10, arms=8, epsilon=0.15, seed=6)
        policies = [posse.RobustPosseTS(0.15, rounds=5000), posse.RobustAggTS(0.15), posse.IndUCB()]
        robust, aggregate, alone = posse.simulate(problems, policies, 5000).final_regret.mean(axis=(1, 2))
        assert robust < 0.5 * aggregate
        assert robust < 0.25 * alone


class TestConstants:
    @pytest.mark.parametrize("bad", [2, 0, -1, math.nan, math.inf])
    def test_rounds_are_at_least_3(self, bad):
        with pytest.raises(ValueError, match=r"^rounds=.*at least 3"):
            posse.RobustPosseTS(0.1, bad)

    def test_epsilon_is_needed(self):
        with pytest.raises(TypeError, match="epsilon"):
            posse.RobustPosseTS()
        with pytest.raises((TypeError, ValueError), match=r"^epsilon=None"):
            posse.RobustPosseTS(None)
