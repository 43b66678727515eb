"""Policies as formulas: closed forms against numerical ones, constants, labels, and what is refused."""

from __future__ import annotations

import dataclasses
import math
import re

import hypothesis
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import naive
import posse
from by_name import call
from posse.policies import Policy, Refresh, all_policies
from posse.policies.robustagg import own_weight, upper_bound
from posse.testing import example

counts = st.integers(1, 10**7)
factors = st.sampled_from([0.0, 1e-3, 2 * math.log(50_000), 832 * math.log(50_000)]) | st.floats(1e-3, 1e4)
epsilons = st.sampled_from([0.0, 1e-6, 0.05, 0.15, 1.0]) | st.floats(1e-6, 1.0)


def smallest_width(n, m, A, epsilon):
    """min F over λ in [0, 1]: by Brent's method, and at both ends."""
    found = optimize.minimize_scalar(
        naive.width_of, bounds=(0, 1), args=(n, m, A, epsilon), method="bounded", options={"xatol": 1e-12}
    )
    return min(found.fun, naive.width_of(0.0, n, m, A, epsilon), naive.width_of(1.0, n, m, A, epsilon))


class TestRobustAggWeight:
    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(n=counts, m=counts, A=factors, epsilon=epsilons)
    @hypothesis.example(n=1, m=1, A=0.0, epsilon=0.15)
    @hypothesis.example(n=1, m=1, A=0.0, epsilon=0.0)
    @hypothesis.example(n=961, m=20, A=2 * math.log(50_000), epsilon=0.15)
    def test_it_minimises_the_width(self, n, m, A, epsilon):
        weight = own_weight(n, m, A, epsilon)
        assert 0 <= weight <= 1
        smallest = smallest_width(n, m, A, epsilon)
        assert naive.width_of(weight, n, m, A, epsilon) <= smallest * (1 + 1e-9) + 1e-15

    @pytest.mark.parametrize("off", [0.9, 1.1])
    def test_another_weight_does_not(self, off):
        """Negative control: the check notices a weight that is off by a tenth."""
        n, m, A, epsilon = 40, 600, 2 * math.log(50_000), 0.15
        weight = off * own_weight(n, m, A, epsilon)
        assert naive.width_of(weight, n, m, A, epsilon) > smallest_width(n, m, A, epsilon) * (1 + 1e-4)

    def test_without_a_width_own_data_is_all_unless_players_are_the_same(self):
        """A = 0, the horizon 1."""
        assert own_weight(3.0, 17.0, 0.0, 0.15) == 1
        assert own_weight(3.0, 17.0, 0.0, 0.0) == 3 / 20

    def test_own_data_is_all_from_the_threshold_on(self):
        A, epsilon = 2 * math.log(50_000), 0.15
        threshold = A / epsilon**2
        assert own_weight(threshold, 1e6, A, epsilon) == 1
        assert own_weight(0.9 * threshold, 1e6, A, epsilon) < 1

    def test_it_is_continuous_at_the_threshold(self):
        A, epsilon = 2 * math.log(50_000), 0.15
        assert own_weight(A / epsilon**2 * (1 - 1e-9), 50.0, A, epsilon) == pytest.approx(1, abs=1e-6)

    def test_rounding_just_below_the_threshold_makes_it_no_more_than_1(self):
        assert own_weight(3.0, 10000000.0, 2.5447230000000003, 0.921) == 1

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(n=counts, m=counts, A=factors, epsilon=epsilons)
    def test_more_heterogeneity_gives_own_data_more_weight(self, n, m, A, epsilon):
        pooled = own_weight(n, m, A, 0.0)
        assert pooled == n / (n + m)
        assert own_weight(n, m, A, epsilon) >= pooled

    def test_the_index_is_the_mixture_and_its_width(self):
        n, s, N, S, log_T, epsilon, width = 12.0, 5.0, 80.0, 45.0, math.log(50_000), 0.15, 2.0
        A = width * log_T
        weight = own_weight(n, N - n, A, epsilon)
        mixture = weight * s / n + (1 - weight) * (S - s) / (N - n)
        expected = mixture + naive.width_of(weight, n, N - n, A, epsilon)
        assert upper_bound(n, s, N, S, log_T, epsilon, width) == pytest.approx(expected, rel=1e-14)
        assert posse.RobustAgg(epsilon).index(n, s, N, S, log_T, epsilon, width) == (pytest.approx(expected), 0.0)


def hierarchy_index(policy, player, n, s):
    """What HierTS makes of counts and sums [player] of one arm."""
    shares = np.array([policy.contribution(n[q], s[q], *policy.constants()) for q in range(len(n))])
    N, S = shares.sum(axis=0)
    return call(policy, n=n[player], s=s[player], N=N, S=S)


hierarchies = st.builds(
    posse.HierTS,
    st.sampled_from([0.0, 0.04, 0.3, 2.0]),
    noise=st.sampled_from([0.1, 0.5, 1.0]),
    prior_mean=st.sampled_from([-1.0, 0.0, 0.5]),
    prior_sd=st.sampled_from([0.1, 0.5, 3.0]),
)


class TestHierTS:
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(
        policy=hierarchies,
        data=st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1)), min_size=1, max_size=6),
    )
    def test_it_is_the_joint_posterior_of_the_hierarchy(self, policy, data):
        n = [float(count) for count, _ in data]
        s = [count * mean for count, mean in data]
        for player in range(len(n)):
            center, scale = hierarchy_index(policy, player, n, s)
            mean, variance = naive.joint_posterior(player, n, s, *policy.constants())
            assert center == pytest.approx(mean, rel=1e-8, abs=1e-8)
            assert scale**2 == pytest.approx(variance, rel=1e-6, abs=1e-10)

    def test_another_spread_is_noticed(self):
        """Negative control: the comparison sees a posterior that shares a little more."""
        n, s = [3.0, 40.0], [1.0, 30.0]
        center, scale = hierarchy_index(posse.HierTS(0.10), 0, n, s)
        mean, variance = naive.joint_posterior(0, n, s, *posse.HierTS(0.11).constants())
        assert center != pytest.approx(mean, rel=1e-3)
        assert scale**2 != pytest.approx(variance, rel=1e-3)

    def test_spread_0_is_full_pooling(self):
        """All players have the conjugate posterior of one pooled arm."""
        policy = posse.HierTS(0.0, noise=0.5, prior_mean=0.4, prior_sd=0.3)
        n, s = [0.0, 3.0, 40.0], [0.0, 1.0, 30.0]
        precision = 1 / 0.3**2 + sum(n) / 0.5**2
        center = (0.4 / 0.3**2 + sum(s) / 0.5**2) / precision
        for player in range(3):
            assert hierarchy_index(policy, player, n, s) == pytest.approx((center, precision**-0.5))

    def test_a_huge_spread_is_learning_alone(self):
        policy = posse.HierTS(1e6, noise=0.5)
        center, scale = hierarchy_index(policy, 1, [0.0, 25.0, 40.0], [0.0, 10.0, 30.0])
        assert (center, scale) == (pytest.approx(10 / 25), pytest.approx(0.5 / 5))

    def test_before_any_data_it_is_the_prior(self):
        policy = posse.HierTS(0.3, prior_mean=0.2, prior_sd=0.4)
        assert hierarchy_index(policy, 0, [0.0, 0.0], [0.0, 0.0]) == pytest.approx((0.2, 0.5))

    def test_the_simulator_sums_the_contributions(self):
        """The shared numbers of a run, from its final counts and sums alone."""
        problem = posse.generate.uniform(players=6, arms=4)[0]
        policy = posse.HierTS(0.2)
        run = posse.simulation.trace(problem, policy, 200, schedule=posse.schedule.Random(0.7))
        for arm in range(problem.arms):
            pulled = run.arms == arm
            n = pulled.sum(axis=0).astype(float)
            s = np.where(pulled, run.rewards, 0).sum(axis=0)
            for player in range(problem.players):
                index = (run.centers[-1, player, arm], run.scales[-1, player, arm])
                assert index == pytest.approx(hierarchy_index(policy, player, n, s), rel=1e-12)


class TestRobustAggTS:
    constants = (0.15, 0.5, 1.0)
    log_T = math.log(50_000)
    threshold = 0.5 * math.log(50_000) / 0.15**2 + 2 * 20

    def index(self, n, s, N, S, policy=posse.RobustAggTS):
        return policy.index(n, s, N, S, 20, self.log_T, *self.constants)

    def test_below_the_threshold_it_is_the_aggregate_posterior(self):
        n = math.floor(self.threshold)
        assert self.index(n, 0.3 * n, 3000.0, 2100.0) == pytest.approx((0.7 + 0.15, 1 / math.sqrt(2980)))

    def test_from_the_threshold_on_it_is_the_individual_posterior(self):
        n = math.ceil(self.threshold)
        assert self.index(n, 0.3 * n, 3000.0, 2100.0) == pytest.approx((0.3, 1 / math.sqrt(n)))
        assert self.index(self.threshold, 0.0, 3000.0, 2100.0)[0] == 0.0

    def test_a_player_that_has_seen_nothing_has_its_prior(self):
        assert self.index(0.0, 0.0, 0.0, 0.0) == (0.0, 1.0)

    def test_one_that_joins_knowing_the_others_goes_by_them(self):
        assert self.index(0.0, 0.0, 3000.0, 2100.0) == pytest.approx((0.85, 1 / math.sqrt(2980)))

    def test_the_variant_does_not(self):
        assert self.index(0.0, 0.0, 3000.0, 2100.0, posse.RobustAggTSV) == pytest.approx((0.85, 1 / math.sqrt(2980)))
        assert self.index(0.0, 0.0, 0.0, 0.0, posse.RobustAggTSV) == (0.15, 1.0)

    def test_with_epsilon_0_the_threshold_is_infinite(self):
        assert posse.RobustAggTS.index(1e9, 3e8, 4e9, 2.8e9, 20, self.log_T, 0.0, 0.5, 1.0)[0] == pytest.approx(0.7)

    def test_few_pulls_are_no_division_by_zero(self):
        """The variance is c2/((N − M) ∨ 1)."""
        assert self.index(1.0, 1.0, 20.0, 7.0) == pytest.approx((0.5, 1.0))
        assert self.index(1.0, 1.0, 22.0, 11.0) == pytest.approx((0.65, math.sqrt(0.5)))


SHIPPED = [cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")]
by_name = pytest.mark.parametrize("cls", SHIPPED, ids=lambda cls: cls.__name__)


class TestRecord:
    @by_name
    def test_every_shipped_policy_has_its_name_in_posse(self, cls):
        assert getattr(posse, cls.__name__) is cls
        assert cls.__name__ in posse.__all__

    @pytest.mark.parametrize(
        ("policy", "constants"),
        [
            (posse.RobustAggTS(0.15), (0.15, 0.5, 1.0)),
            (posse.RobustAggTSV(0.15), (0.15, 0.5, 1.0)),
            (posse.RobustAgg(0.15), (0.15, 2.0)),
            (posse.NaiveAgg(), (2.0,)),
            (posse.IndTS(), (1.0,)),
            (posse.IndUCB(), (2.0,)),
            (posse.HierTS(0.04), (0.04, 0.5, 0.5, 0.5)),
        ],
        ids=lambda value: getattr(value, "label", ""),
    )
    def test_defaults_are_the_constants_of_the_experiments(self, policy, constants):
        assert policy.constants() == constants

    @pytest.mark.parametrize(
        ("policy", "constants"),
        [
            (posse.RobustAggTS.theory(0.15), (0.15, 40.0, 4.0)),
            (posse.RobustAggTSV.theory(0.15), (0.15, 40.0, 4.0)),
            (posse.RobustAgg.theory(0.15), (0.15, 64 * 13)),
            (posse.IndTS.theory(0.15), (4.0,)),
        ],
        ids=lambda value: getattr(value, "label", ""),
    )
    def test_theory_gives_the_constants_of_the_analysis(self, policy, constants):
        assert policy.constants() == constants

    def test_theory_gives_a_policy_of_its_own_class(self):
        assert type(posse.RobustAggTSV.theory(0.1)) is posse.RobustAggTSV

    @pytest.mark.parametrize(
        ("policy", "label"),
        [
            (posse.RobustAggTS(0.15), "RobustAgg-TS(0.15)"),
            (posse.RobustAggTSV(0.15), "RobustAgg-TS-V(0.15)"),
            (posse.RobustAggTS(0.15, c2=4), "RobustAgg-TS(0.15, c2=4)"),
            (posse.RobustAgg(0), "RobustAgg(0)"),
            (posse.NaiveAgg(), "Naive-Agg"),
            (posse.IndTS(), "Ind-TS"),
            (posse.IndUCB(width=0.5), "Ind-UCB(width=0.5)"),
            (posse.HierTS(0.04, prior_sd=1), "HierTS(0.04, prior_sd=1)"),
            (posse.IndTS(label="alone"), "alone"),
        ],
    )
    def test_a_label_shows_what_differs_from_the_defaults(self, policy, label):
        assert policy.label == label

    def test_whole_numbers_become_floats(self):
        assert posse.RobustAggTS(0, 1, 2).constants() == (0.0, 1.0, 2.0)
        assert all(type(constant) is float for constant in posse.RobustAggTS(0, 1, 2).constants())
        assert posse.IndTS(1) == posse.IndTS(1.0)

    def test_policies_are_values(self):
        assert posse.RobustAggTS(0.15) == posse.RobustAggTS(epsilon=0.15, c1=0.5)
        assert len({posse.RobustAggTS(0.15), posse.RobustAggTS(0.15), posse.RobustAggTS(0.15, label="other")}) == 2

    def test_policies_of_two_classes_differ(self):
        assert posse.RobustAggTS(0.15, label="x") != posse.RobustAggTSV(0.15, label="x")

    def test_refresh_is_as_in_the_paper(self):
        for cls in (posse.RobustAggTS, posse.IndTS, posse.IndUCB):
            assert cls.refresh is Refresh.OWN_PULL
        for cls in (posse.RobustAgg, posse.RobustAggTSV, posse.NaiveAgg):
            assert cls.refresh is Refresh.ANY_PULL

    def test_upper_confidence_bounds_need_no_draws(self):
        for cls in (posse.RobustAgg, posse.NaiveAgg, posse.IndUCB, posse.KLUCB, posse.KLUCBPlusPlus, posse.BayesUCB):
            assert not cls.randomised
            for n, N in ((0.0, 0.0), (0.0, 9.0), (4.0, 9.0)):
                _, scale = call(example(cls), n=n, s=n / 2, N=N, S=N / 2, M=3, K=4, log_T=5.0)
                assert scale == 0

    @by_name
    def test_a_policy_shares_unless_its_players_learn_alone(self, cls):
        gaussian = (posse.IndTS, posse.IndTSV, posse.IndUCB)
        bernoulli = (posse.BetaTS, posse.KLUCB, posse.KLUCBPlusPlus, posse.IMED, posse.BayesUCB)
        assert cls.shares == (cls not in gaussian + bernoulli)

    def test_a_replaced_constant_shows_in_the_label(self):
        assert dataclasses.replace(posse.RobustAggTS(0.15), epsilon=0.3).label == "RobustAgg-TS(0.3)"


POSITIVE = [
    (posse.RobustAggTS, "c1"),
    (posse.RobustAggTS, "c2"),
    (posse.RobustAggTSV, "c1"),
    (posse.RobustAggTSV, "c2"),
    (posse.RobustAgg, "width"),
    (posse.NaiveAgg, "width"),
    (posse.IndTS, "c2"),
    (posse.IndUCB, "width"),
    (posse.HierTS, "noise"),
    (posse.HierTS, "prior_sd"),
]


def with_constant(cls, name, value):
    return dataclasses.replace(example(cls), **{name: value})


class TestBadConstants:
    @pytest.mark.parametrize("cls", [posse.RobustAggTS, posse.RobustAggTSV, posse.RobustAgg], ids=lambda c: c.__name__)
    @pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
    def test_epsilon_is_at_least_0(self, cls, bad):
        with pytest.raises(ValueError, match=r"^epsilon=.*at least 0"):
            cls(bad)

    @pytest.mark.parametrize("cls", [posse.RobustAggTS, posse.RobustAggTSV, posse.RobustAgg], ids=lambda c: c.__name__)
    def test_in_simulation_epsilon_is_at_most_1(self, cls):
        for run in (posse.simulate, posse.simulation.trace):
            with pytest.raises(ValueError, match=r"epsilon=1.1, but expected at most 1: rewards are in \[0, 1\]"):
                run(posse.Problem([[0.5]]), cls(1.1), 10)

    @pytest.mark.parametrize(("cls", "name"), POSITIVE, ids=lambda value: getattr(value, "__name__", value))
    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
    def test_variances_and_widths_are_above_0(self, cls, name, bad):
        with pytest.raises(ValueError, match=f"^{name}=.*above 0"):
            with_constant(cls, name, bad)

    @pytest.mark.parametrize(("name", "bad"), [("spread", -0.1), ("spread", math.nan), ("prior_mean", math.inf)])
    def test_the_hierarchy_is_made_of_finite_numbers(self, name, bad):
        with pytest.raises(ValueError, match=f"^{name}="):
            with_constant(posse.HierTS, name, bad)

    @by_name
    @pytest.mark.parametrize("bad", ["0.5", None, True, [0.5], 1j])
    def test_constants_are_numbers(self, cls, bad):
        for field in dataclasses.fields(cls):
            if field.name != "label" and not (bad is None and field.default is None):
                with pytest.raises(TypeError, match=f"^{field.name}="):
                    with_constant(cls, field.name, bad)

    @pytest.mark.parametrize("bad", [5, None, ["x"]])
    def test_a_label_is_a_string(self, bad):
        with pytest.raises(TypeError, match=r"^label="):
            posse.IndTS(label=bad)

    @pytest.mark.parametrize("cls", [posse.RobustAggTS, posse.RobustAgg, posse.HierTS], ids=lambda cls: cls.__name__)
    def test_what_has_no_default_must_be_given(self, cls):
        with pytest.raises(TypeError, match="required positional argument"):
            cls()

    def test_a_policy_without_an_index_cannot_run(self):
        with pytest.raises(TypeError, match="Policy needs a static method index"):
            Policy()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan", "has no attribute 'plan'; did you mean posse.insight.plan?"),
        ("subpar", "has no attribute 'subpar'; did you mean posse.generate.subpar?"),
        ("check_policy", "has no attribute 'check_policy'; did you mean posse.testing.check_policy?"),
        ("nowhere", "has no attribute 'nowhere'"),
    ],
)
def test_a_name_of_a_module_is_found_where_it_is(name, said):
    with pytest.raises(AttributeError, match=re.escape(said) + "$"):
        getattr(posse, name)
