"""The bounds' leading terms on problems small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posse import Problem
from posse.insight import (
    Bound,
    individual_gap_dependent,
    individual_gap_independent,
    lower_bound_gap_dependent,
    lower_bound_gap_independent,
    robustagg_gap_dependent,
    robustagg_gap_independent,
    robustagg_ts_gap_dependent,
    robustagg_ts_gap_independent,
)

GAP_DEPENDENT = (
    robustagg_ts_gap_dependent,
    robustagg_gap_dependent,
    individual_gap_dependent,
    lower_bound_gap_dependent,
)
GAP_INDEPENDENT = (
    robustagg_ts_gap_independent,
    robustagg_gap_independent,
    individual_gap_independent,
    lower_bound_gap_independent,
)

# M = 2, K = 4, ε = 1/16; all numbers are sums of powers of two, so that gaps are exact. Gaps Δ:
#   arm          0      1      2      3
#   player 0     0     1/16   1/2    3/4
#   player 1     1/16  0      7/16   3/4
# 10ε = 5/8: I_10ε = {3}.  5ε = 5/16: I_5ε = {2, 3}.  ε/4 = 1/64: I_ε/4 = {0, 1, 2, 3}.
# With ln T = 1 per unit, the sums of 1/Δ over the players: arm 0: 16; arm 1: 16; arm 2: 2 + 16/7 = 30/7; arm 3: 8/3.
PROBLEM = Problem([[15 / 16, 14 / 16, 7 / 16, 3 / 16], [14 / 16, 15 / 16, 8 / 16, 3 / 16]], epsilon=1 / 16)
T = 1000
LN = math.log(1000)


def test_the_problem_is_the_one_worked_out():
    assert PROBLEM.gaps.tolist() == [[0, 1 / 16, 1 / 2, 3 / 4], [1 / 16, 0, 7 / 16, 3 / 4]]


def parts(bound: Bound) -> tuple[float, float, int, float]:
    return bound.subpar, bound.rest, bound.subpar_arms, bound.lower_order


def test_robustagg_ts_gap_dependent():
    # I_10ε = {3}: (1/2)·8/3 = 4/3; the others: 16 + 16 + 30/7 = 254/7. M²K = 16.
    assert parts(robustagg_ts_gap_dependent(PROBLEM, T)) == pytest.approx((4 / 3 * LN, 254 / 7 * LN, 1, 16))


def test_robustagg_ts_gap_dependent_at_5_epsilon():
    # I_5ε = {2, 3}: (1/2)(30/7 + 8/3) = 15/7 + 4/3 = 73/21; the others: 32.
    bound = robustagg_ts_gap_dependent(PROBLEM, T, alpha=5 / 16)
    assert parts(bound) == pytest.approx((73 / 21 * LN, 32 * LN, 2, 16))
    assert float(bound) == pytest.approx((73 / 21 + 32) * LN), "M²K is not in the sum"


def test_robustagg_gap_dependent():
    assert parts(robustagg_gap_dependent(PROBLEM, T)) == pytest.approx((73 / 21 * LN, 32 * LN, 2, 8))


def test_individual_gap_dependent():
    # 16 + 16 + 30/7 + 8/3 = 32 + 146/21.
    assert parts(individual_gap_dependent(PROBLEM, T)) == pytest.approx((0, (32 + 146 / 21) * LN, 0, 0))


def test_lower_bound_gap_dependent():
    # Every arm is in I_ε/4. Δmin: 0, 0 (left out), 7/16, 3/4: 16/7 + 4/3 = 76/21.
    assert parts(lower_bound_gap_dependent(PROBLEM, T)) == pytest.approx((76 / 21 * LN, 0, 4, 0))


def test_lower_bound_gap_dependent_where_some_arms_are_not_subpar():
    # ε = 1/2: ε/4 = 1/8, so I_ε/4 = {2, 3} as above; arms 0 and 1 give 16 + 16.
    problem = Problem(PROBLEM.means, epsilon=1 / 2)
    assert parts(lower_bound_gap_dependent(problem, T)) == pytest.approx((76 / 21 * LN, 32 * LN, 2, 0))


def test_gap_independent_bounds():
    # P = 2·800 = 1600. I_10ε = {3}: √1600 = 40, √(2·2·1600) = 80. I_5ε = {2, 3}: √3200, √(2·1·1600) = √3200.
    assert parts(robustagg_ts_gap_independent(PROBLEM, 800)) == pytest.approx((40, 80, 1, 16))
    half = math.sqrt(3200)
    assert parts(robustagg_ts_gap_independent(PROBLEM, 800, alpha=5 / 16)) == pytest.approx((half, half, 2, 16))
    assert parts(robustagg_gap_independent(PROBLEM, 800)) == pytest.approx((half, half, 2, 8))
    # √(2·4·1600) = √12800; the lower bound: √(2·2·800) = √3200, 2·√(1·800) = √3200.
    assert parts(individual_gap_independent(PROBLEM, 800)) == pytest.approx((0, math.sqrt(12800), 0, 0))
    assert parts(lower_bound_gap_independent(PROBLEM, 800)) == pytest.approx((half, half, 2, 0))


def test_gap_independent_bounds_adapt_to_who_is_active():
    # One player a round: P = T = 800; everything shrinks by √2.
    for bound in (robustagg_ts_gap_independent, robustagg_gap_independent, individual_gap_independent):
        alone, all_active = bound(PROBLEM, 800, player_rounds=800), bound(PROBLEM, 800)
        assert float(alone) == pytest.approx(float(all_active) / math.sqrt(2))
        assert alone.lower_order == all_active.lower_order
    assert float(robustagg_gap_independent(PROBLEM, 800, player_rounds=0)) == 0


def test_the_paper_s_own_problems_have_nothing_to_share_at_10_epsilon():
    """With 10ε = 1.5 no gap is large enough: Theorem 4.1's leading terms are those of learning alone."""
    problem = Problem([[0.9, 0.1], [0.9, 0.1]], epsilon=0.15)
    bound = robustagg_ts_gap_dependent(problem, T)
    assert parts(bound) == pytest.approx((0, 2 / 0.8 * LN, 0, 8))
    assert float(bound) == float(individual_gap_dependent(problem, T))
    assert float(robustagg_gap_dependent(problem, T)) == pytest.approx(float(bound) / 2)


def test_an_arm_optimal_for_all_with_all_others_subpar():
    # |I_5ε^C| − 1 = 0: the rest vanishes in every bound. M = 3, K = 2, P = 3·100: √(1·300).
    problem = Problem([[1, 0.25]] * 3, epsilon=1 / 16)
    for bound in (robustagg_ts_gap_independent, robustagg_gap_independent, lower_bound_gap_independent):
        assert parts(bound(problem, 100))[:3] == pytest.approx((math.sqrt(300), 0, 1))


def test_all_gaps_zero():
    """Nothing can be lost, and the gap-dependent bounds say so; the others do not look at the gaps."""
    problem = Problem(np.full((3, 2), 0.5), epsilon=0.1)
    for bound in GAP_DEPENDENT:
        assert parts(bound(problem, T))[:3] == (0, 0, 0)
    # No subpar arm, M = 3, K = 2, P = 3000: √(3·1·3000) = √9000.
    assert parts(robustagg_gap_independent(problem, T)) == pytest.approx((0, math.sqrt(9000), 0, 6))


def test_epsilon_zero():
    """All players are the same: every suboptimal arm is subpar, and M players pay what one pays."""
    # Gaps 0, 1/4, 1/2: Σ 1/Δ = 4 + 2 = 6 for one player, 18 for three.
    problem = Problem([[0.75, 0.5, 0.25]] * 3, epsilon=0)
    for bound in (robustagg_ts_gap_dependent, robustagg_gap_dependent, lower_bound_gap_dependent):
        assert parts(bound(problem, T))[:3] == pytest.approx((6 * LN, 0, 2))
    assert float(individual_gap_dependent(problem, T)) == pytest.approx(18 * LN)
    # √(2·3·1000) for the two subpar arms, and nothing for the optimal one.
    for other in (robustagg_ts_gap_independent, robustagg_gap_independent, lower_bound_gap_independent):
        assert parts(other(problem, T))[:3] == pytest.approx((math.sqrt(6000), 0, 2))


def test_horizon_one():
    for bound in GAP_DEPENDENT:
        assert float(bound(PROBLEM, 1)) == 0, "ln 1 = 0"
    assert float(individual_gap_independent(PROBLEM, 1)) == pytest.approx(4)  # √(2·4·2)


def test_one_player():
    """Alone there is nobody to share with: all gap-dependent bounds agree, the lower one included."""
    problem = Problem([[0.75, 0.5, 0.25]], epsilon=0.05)
    for bound in GAP_DEPENDENT:
        assert float(bound(problem, T)) == pytest.approx(6 * LN)
    # I_5ε = {2}: 0.25 = 5·0.05 is not above it. √(1·T) + √(1·1·T).
    assert parts(robustagg_gap_independent(problem, T)) == pytest.approx((math.sqrt(T), math.sqrt(T), 1, 3))


def test_one_arm():
    problem = Problem([[0.5], [0.4]], epsilon=0.1)
    for bound in (*GAP_DEPENDENT, robustagg_ts_gap_independent, lower_bound_gap_independent):
        assert float(bound(problem, T)) == 0


def test_alpha_below_2_epsilon_may_leave_no_arm():
    bound = robustagg_ts_gap_independent(PROBLEM, 800, alpha=1 / 64)
    assert parts(bound) == pytest.approx((80, 0, 4, 16))


def test_a_vanishing_gap_gives_an_infinite_term_without_a_warning():
    problem = Problem([[5e-324, 0.0]], epsilon=0)
    assert float(individual_gap_dependent(problem, T)) == math.inf
    assert float(individual_gap_dependent(problem, 1)) == 0


@pytest.mark.parametrize("bound", [*GAP_DEPENDENT, *GAP_INDEPENDENT])
def test_bounds_grow_with_the_horizon_and_reject_a_bad_one(bound):
    assert float(bound(PROBLEM, 100)) < float(bound(PROBLEM, 1000))
    with pytest.raises(ValueError, match="horizon=0"):
        bound(PROBLEM, 0)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"player_rounds=1601.*at most 1600"):
        robustagg_gap_independent(PROBLEM, 800, player_rounds=1601)
    with pytest.raises(ValueError, match="alpha=-1"):
        robustagg_ts_gap_dependent(PROBLEM, 800, alpha=-1)
