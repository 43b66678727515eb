"""The policies of other authors for players alone: their bounds against closed forms and SciPy, and in the learner."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

import posse
from naive_alone import largest_within
from posse.policies import Law
from posse.policies.bayes_ucb import upper_quantile
from posse.policies.bernoulli_kl import divergence, kl_upper_bound
from posse.policies.imed import least_evidence

BOUNDS = [posse.KLUCB(), posse.KLUCBPlusPlus(), posse.BayesUCB()]
ALONE = [*BOUNDS, posse.IMED()]
by_policy = pytest.mark.parametrize("policy", ALONE, ids=lambda policy: policy.label)

MEANS = (0.0, 1e-7, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-6)
LEVELS = (1e-9, 1e-6, 1e-3, 0.02, 0.1, 0.4, 1.0, 3.0, 10.0, 25.0)


class TestTheDivergenceBound:
    @pytest.mark.parametrize(("mean", "level"), list(itertools.product(MEANS, LEVELS)))
    def test_it_is_the_largest_within_the_level(self, mean, level):
        assert kl_upper_bound(mean, level) == pytest.approx(largest_within(mean, level), abs=1e-9)

    @pytest.mark.parametrize("level", LEVELS)
    def test_closed_forms(self, level):
        assert kl_upper_bound(0.0, level) == pytest.approx(-math.expm1(-level), rel=1e-14)
        assert kl_upper_bound(1.0, level) == 1.0
        q = kl_upper_bound(0.5, level)  # kl(1/2, q) = −ln(4 q (1−q)) / 2
        assert 4 * q * (1 - q) == pytest.approx(math.exp(-2 * level), rel=1e-12, abs=1e-15)

    def test_close_to_the_mean_nothing_cancels(self):
        """kl(p, p + x) = x² / (2 p (1−p)) + …; the definition has no correct digit here."""
        assert divergence(0.3, 1e-9) == pytest.approx(1e-18 / 0.42, rel=1e-6)

    def test_no_level_is_the_mean_itself(self):
        assert kl_upper_bound(0.3, 0.0) == 0.3

    def test_only_a_mean_of_one_has_the_bound_one(self):
        assert kl_upper_bound(1 - 1e-7, 30.0) < 1.0 == kl_upper_bound(1.0, 1e-3)


@pytest.mark.parametrize("pulls", [0, 1, 2, 7, 40, 1000, 10**5, 10**7, 2**33])
@pytest.mark.parametrize("horizon", [2, 3, 10, 10**4, 10**9])
def test_quantiles_are_those_of_scipy(pulls, horizon):
    for mean in (0.0, 0.013, 0.3, 0.5, 0.86, 1.0):
        a, b = 1 + pulls * mean, 1 + pulls * (1 - mean)
        expected = 1 - special.betaincinv(b, a, 1 / horizon)
        assert upper_quantile(a, b, math.log(horizon)) == pytest.approx(expected, abs=1e-11), (a, b)


class TestIndices:
    def test_more_exploration_for_ln_ln(self):
        for cls, constants in ((posse.KLUCB, (3.0,)), (posse.BayesUCB, (5.0,))):
            assert cls.index(9.0, 3.0, 8.0, *constants)[0] > cls.index(9.0, 3.0, 8.0, 0.0)[0] + 0.05
            with pytest.raises(ValueError, match=r"c=-1"):
                cls(-1)

    def test_plus_plus_stops_exploring_what_was_pulled_its_share(self):
        log_T = math.log(1000)
        assert posse.KLUCBPlusPlus.index(100.0, 30.0, 10, log_T) == (pytest.approx(0.3, abs=1e-12), 0.0)
        assert posse.KLUCBPlusPlus.index(99.0, 30.0, 10, log_T)[0] > 30 / 99 + 1e-3
        assert posse.KLUCBPlusPlus.index(99.0, 30.0, 20, log_T) == (pytest.approx(30 / 99, abs=1e-12), 0.0)

    def test_what_is_declared(self):
        assert [policy.label for policy in ALONE] == ["KL-UCB", "KL-UCB++", "Bayes-UCB", "IMED"]
        assert {(policy.shares, policy.randomised, policy.untried) for policy in ALONE} == {(False, False, 0.5)}
        assert [policy.law for policy in ALONE] == [Law.NORMAL] * 3 + [Law.IMED]
        assert (posse.IMED.index(8.0, 2.0), posse.IMED.index(1.0, 0.0)) == ((0.25, 8.0), (0.0, 1.0))
        assert posse.IMED.index(0.0, 0.0) == posse.KLUCB.index(0.0, 0.0, 5.0, 0.0) == (math.inf, 0.0)
        assert posse.BayesUCB.index(3.0, 1.0, 0.0, 0.0) == (0.0, 0.0)  # a horizon of one round
        assert posse.BayesUCB.index(0.0, 0.0, math.log(4.0), 0.0) == (pytest.approx(0.75), 0.0)

    def test_bounds_that_differ_by_rounding_errors_are_the_same(self):
        """1 − 1e-22 and 1 − 5e-16: the lowest arm wins on every machine."""
        assert posse.KLUCB.index(1.0, 0.875, 6.0, 0.0) == posse.KLUCB.index(11.0, 10.8, 6.0, 0.0) == (1.0, 0.0)
        # Beta(1, 2) and Beta(2, 3) have the same quantile 8/9: (1/3)² = 4 (1/3)³ (2/3) + (1/3)⁴ = 1/9.
        assert posse.BayesUCB.index(1.0, 0.0, math.log(9), 0.0) == posse.BayesUCB.index(3.0, 1.0, math.log(9), 0.0)
        # 24 rounds, 6 arms, 4 pulls: nothing is left to explore, and no rounding error passes for something.
        assert posse.KLUCBPlusPlus.index(4.0, 2.0, 6, math.log(24)) == (0.5, 0.0)

    def test_least_evidence(self):
        means, pulls = np.array([0.5, 0.25, 0.5]), np.array([30.0, 9.0, 25.0])
        values = [math.log(30), 9 * (0.25 * math.log(0.5) + 0.75 * math.log(1.5)) + math.log(9), math.log(25)]
        assert least_evidence(means, pulls) == int(np.argmin(values)) == 2
        assert least_evidence(np.array([0.25, 0.9]), np.array([9.0, 900.0])) == 1  # 9 kl(0.25, 0.9) + ln 9 > 9
        assert least_evidence(np.array([0.5, np.inf, np.inf]), pulls) == 1
        # With 1 pull of 0 beside a best arm of mean 1/2 and 2 pulls, both values are ln 2: the lower arm wins.
        assert least_evidence(np.array([0.5, 0.0]), np.array([2.0, 1.0])) == 0
        assert least_evidence(np.array([0.0, 0.5]), np.array([1.0, 2.0])) == 0
        # So they are with 3 pulls of mean 2/3, where rounding would decide.
        assert least_evidence(np.array([2 / 3, 0.0]), np.array([3.0, 1.0])) == 0


class TestInTheLearner:
    @by_policy
    def test_decisions_are_certain_and_pulls_that_wait_are_spread_over_the_arms(self, policy):
        learner = posse.Learner(policy, ["a", "b", "c"], ["p"], 1000)
        decisions = [learner.choose("p") for _ in range(30)]
        assert {decision.propensity for decision in decisions} == {1.0}
        assert [sum(decision.arm == arm for decision in decisions) for arm in "abc"] == [10, 10, 10]

    @by_policy
    def test_an_arm_that_is_not_on_offer_is_no_measure(self, policy):
        """The best mean counts only while it can be had; otherwise every other arm would look worth a try for ever."""
        learner = posse.Learner(policy, ["best", "good", "bad"], ["p"], 1000)
        for arm, pulls, wins in (("best", 50, 49), ("good", 400, 240), ("bad", 60, 6)):
            learner.record([("p", arm, 1.0)] * wins + [("p", arm, 0.0)] * (pulls - wins))
        assert learner.probabilities("p", ["good", "bad"]) == {"good": 1.0, "bad": 0.0}
        learner.retire_arm("best")
        assert learner.choose("p").arm == "good"

    def test_the_number_of_arms_is_that_of_those_here(self):
        learner = posse.Learner(posse.KLUCBPlusPlus(), ["a", "b"], ["p"], 100)
        learner.record([("p", "a", 1.0), ("p", "a", 0.0), ("p", "b", 0.0)])
        for count in (3, 2):
            expected = posse.KLUCBPlusPlus.index(2.0, 1.0, count, math.log(100))
            if count == 3:
                learner.add_arm("c")
            else:
                learner.retire_arm("c")
            assert learner.indices("p")["a"] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("policy", [posse.BetaTS(), posse.IMED()], ids=lambda policy: policy.label)
def test_a_replay_learns(policy):
    """Indices of these laws are not normal. Replayed as if they were, both earn about what chance does."""
    rng = np.random.default_rng(3)
    arms = rng.integers(2, size=1000)
    rewards = (rng.random(1000) < np.where(arms == 0, 0.3, 0.05)).astype(float)
    log = {"player": ["p"] * 1000, "arm": [("x", "y")[arm] for arm in arms], "reward": rewards}
    value = posse.insight.evaluate(log, policy, propensity=0.5, passes=2).of(policy.label).value
    assert value > 0.25
