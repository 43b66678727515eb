"""Statistical checks, seeded, each with a negative control that fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sizes import FULL

import posse
from posse.simulation import trace
from posse.simulation.statistics import paired_difference, ratio_terms, student_quantile


def agrees(sample, expected, sigmas=4.0):
    """Whether a sample's mean is within so many standard errors of what is expected."""
    return abs(np.mean(sample) - expected) < sigmas * np.std(sample, ddof=1) / math.sqrt(len(sample))


def exact_two_armed_regret(means, horizon, c2=1.0):
    """The expected regret of Gaussian Thompson sampling for one player and two Bernoulli arms, by its full tree."""
    gaps = np.max(means) - means
    states = {(0, 0, 0, 0): 1.0}
    regret = 0.0
    for _ in range(horizon):
        after: dict[tuple[int, ...], float] = {}
        for (n0, s0, n1, s1), weight in states.items():
            center = s0 / max(n0, 1) - s1 / max(n1, 1)
            first = stats.norm.cdf(center / math.sqrt(c2 / max(n0, 1) + c2 / max(n1, 1)))
            for arm, chance in ((0, first), (1, 1 - first)):
                regret += weight * chance * gaps[arm]
                for won, likely in ((1, means[arm]), (0, 1 - means[arm])):
                    key = (n0 + (arm == 0), s0 + won * (arm == 0), n1 + (arm == 1), s1 + won * (arm == 1))
                    after[key] = after.get(key, 0.0) + weight * chance * likely
        states = after
    return regret


class TestSinglePlayerRegret:
    """One player, two arms, a few rounds: the expected regret can be computed exactly."""

    means = np.array([0.8, 0.35])
    horizon = 12
    runs = 20_000 if FULL else 10_000

    def regret_is_exact(self, policy):
        result = posse.simulate(
            posse.Problem([self.means]), policy, self.horizon, replications=self.runs, seed=4, checkpoints=1
        )
        return agrees(result.final_regret.ravel(), exact_two_armed_regret(self.means, self.horizon))

    def test_individual_sampling_has_the_exact_regret(self):
        assert self.regret_is_exact(posse.IndTS())

    def test_another_variance_does_not(self):
        assert not self.regret_is_exact(posse.IndTS(c2=1.5))

    def test_the_aggregate_posterior_of_a_lone_player_is_not_the_individual_one(self):
        """Even with M = 1 and ε = 0 its variance has N − M in it, not N."""
        assert not self.regret_is_exact(posse.RobustAggTS(0.0))


class TestSubparArms:
    """Sharing saves pulls of subpar arms, and only of those."""

    problems = posse.generate.subpar(8, count=12, seed=2)

    def subpar_pulls(self, *policies):
        result = posse.simulate(self.problems, policies, 5000, seed=3)
        subpar = np.array([problem.kinds() == 2 for problem in self.problems])
        return np.einsum("abrpk,bpk->ab", result.pulls, subpar)

    def test_robustagg_ts_pulls_them_less_than_learning_alone(self):
        shared, alone = self.subpar_pulls(posse.RobustAggTS(0.15), posse.IndTS())
        assert stats.ttest_rel(shared, alone, alternative="less").pvalue < 1e-6
        assert shared.mean() < 0.3 * alone.mean()

    def test_robustagg_pulls_them_less_than_learning_alone(self):
        shared, alone = self.subpar_pulls(posse.RobustAgg(0.15), posse.IndUCB())
        assert stats.ttest_rel(shared, alone, alternative="less").pvalue < 1e-6

    def test_with_epsilon_1_nothing_is_shared_and_nothing_saved(self):
        """Negative control: at ε = 1 the threshold is low and the bonus useless."""
        shared, alone = self.subpar_pulls(posse.RobustAgg(1.0), posse.IndUCB())
        assert not stats.ttest_rel(shared, alone, alternative="less").pvalue < 1e-6


class TestConcentrationAtStoppingTimes:
    """Lemma 5.6: at the k-th pull of an arm by anyone, μ_p − aggregate estimate exceeds its bound with chance ≤ δ."""

    delta = 0.2
    k = 25

    def exceedance(self, factor):
        """How often the bound, times a factor, is exceeded for some player in adaptive runs."""
        problem = posse.generate.subpar(2, players=6, arms=4, epsilon=0.15, seed=9)[0]
        arm, players, epsilon = 1, problem.players, problem.epsilon
        reached = exceeded = 0
        for replication in range(400):
            run = trace(problem, posse.RobustAggTS(epsilon), 120, replication=replication, seed=1)
            pulled = run.arms == arm
            counts = np.cumsum(pulled.sum(axis=1))
            if counts[-1] < self.k:
                continue
            reached += 1
            tau = int(np.argmax(counts >= self.k))
            n = counts[tau]
            estimate = np.where(pulled[: tau + 1], run.rewards[: tau + 1], 0).sum() / n + epsilon
            bound = factor * math.sqrt(2 * math.log(2 / self.delta) / max(n - players, 1))
            exceeded += bool((problem.means[:, arm] - estimate > bound).any())
        assert reached > 200, "too few runs reach the k-th pull to say anything"
        return stats.binomtest(exceeded, reached, self.delta, alternative="greater").pvalue

    def test_the_bound_holds(self):
        assert self.exceedance(1.0) > 0.001

    def test_a_bound_below_the_estimate_does_not(self):
        """Negative control: the same count notices a bound that is too small."""
        assert self.exceedance(-0.25) < 0.001


def test_student_quantiles_match_scipy():
    for freedom in (1, 2, 3, 4, 5, 9, 29, 30, 299):
        for p in (0.6, 0.9, 0.975, 0.999):
            assert student_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=1e-9)


class TestRatioOfMeans:
    """A 95 % interval holds the true ratio of two means in 95 % of all samples, whatever the ratio is."""

    def coverage(self, terms, spread, factor):
        """How often `terms` cover a true difference of factor − 1, in samples of 30 pairs of skewed regrets."""
        random = np.random.default_rng(3)
        samples, units, log_mean = 2000, 30, spread**2 / 2
        hard = random.normal(size=(samples, units))  # a hard problem is hard for both
        a, b = np.exp(spread * (0.6 * hard + 0.8 * random.normal(size=(2, samples, units))) - log_mean)
        found = [paired_difference(terms(factor * each - other, other)) for each, other in zip(b, a, strict=True)]
        return np.mean([each.low <= factor - 1 <= each.high for each in found])

    @pytest.mark.parametrize(("spread", "factor"), [(0.3, 4.0), (0.3, 1.0), (0.3, 0.2), (0.1, 0.2)])
    def test_its_interval_holds_the_ratio_as_often_as_it_says(self, spread, factor):
        assert 0.93 < self.coverage(ratio_terms, spread, factor) < 0.97

    def test_an_interval_that_takes_the_lower_mean_for_known_does_not(self):
        """Negative control: too narrow for a large ratio, far too wide for a small one."""

        def known(above, below):
            return above / below.mean()

        assert self.coverage(known, 0.3, 4.0) < 0.9
        assert self.coverage(known, 0.3, 0.2) > 0.99


def test_index_law_is_gaussian_in_a_run():
    """Which of two arms wins is a coin with chance Φ(difference of centers / joint scale), in every round."""
    problem = posse.Problem(np.full((400, 2), 0.5))
    run = trace(problem, posse.IndTS(), 60, seed=11)
    predicted, observed = [], []
    for t in range(1, 60):
        c, s = run.centers[t], run.scales[t]
        chance = stats.norm.cdf((c[:, 0] - c[:, 1]) / np.hypot(s[:, 0], s[:, 1]))
        predicted.append(chance)
        observed.append(run.arms[t] == 0)
    predicted, observed = np.concatenate(predicted), np.concatenate(observed)
    z = (observed - predicted).sum() / math.sqrt((predicted * (1 - predicted)).sum())
    assert abs(z) < 4
    wrong = np.clip(predicted + 0.02, 0, 1)
    z_wrong = (observed - wrong).sum() / math.sqrt((wrong * (1 - wrong)).sum())
    assert abs(z_wrong) > 4, "the check could not see a bias of two in a hundred"


@pytest.mark.parametrize(("level", "shown"), [(0.95, "(95%,"), (0.995, "(99.5%,"), (0.999, "(99.9%,")])
def test_no_level_is_shown_as_certainty(level, shown):
    assert shown in str(paired_difference(np.array([1.0, 2.0, 3.0]), level))
