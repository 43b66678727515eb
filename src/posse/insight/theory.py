"""The regret bounds of the paper for a given problem: their leading terms, without the constants that O(·) hides.

Wang, Zhang and Chaudhuri, "Thompson Sampling for Robust Transfer in Multi-Task Bandits" (2022). Its bounds are for
horizons T > max(K, M); the terms are computed for any T of at least 1. They say how regret grows, not how large it
is: compare their shapes over problems, horizons and numbers of players, not their heights. The gap-independent bounds
hold up to logarithmic factors, which are left out here.

Throughout, Δ is a gap, I_α are the arms whose gap exceeds α for some player, and P = Σ |P_t| is the number of (player,
round) pairs in which the player was active. If P is not given, all players are active in all rounds: P = M·T.
"""

import math
from dataclasses import dataclass

import numpy as np

from posse.checks import whole
from posse.problem import Problem


@dataclass(frozen=True)
class Bound:
    """The leading terms of a bound on the collective regret; `float(bound)` is their sum."""

    subpar: float
    """The part from the arms that profit from sharing, those in I_α; 0 if nothing is shared."""
    rest: float
    """The part from all other arms."""
    subpar_arms: int
    """How many arms profit from sharing."""
    lower_order: float = 0.0
    """The term that does not grow with T (M²K or MK), which is not in the sum; 0 where the paper states none."""

    def __float__(self) -> float:
        return self.subpar + self.rest


def robustagg_ts_gap_dependent(problem: Problem, horizon: int, alpha: float | None = None) -> Bound:
    """RobustAgg-TS, Theorem 4.1: (1/M) Σ_{i ∈ I_α} Σ_{p: Δ>0} ln T/Δ + Σ_{i ∉ I_α} Σ_{p: Δ>0} ln T/Δ, besides M²K.

    The theorem has α = 10ε, the default; the experiments suggest that 5ε is enough.

    >>> problem = Problem([[0.9, 0.4, 0.85], [0.9, 0.4, 0.8]], epsilon=0.05)
    >>> bound = robustagg_ts_gap_dependent(problem, 1000, alpha=5 * problem.epsilon)
    >>> round(bound.subpar, 2), round(bound.rest, 2), bound.lower_order
    (13.82, 207.23, 12.0)
    """
    alpha = 10 * problem.epsilon if alpha is None else alpha
    return _shared_gap_dependent(problem, horizon, alpha, problem.players**2 * problem.arms)


def robustagg_ts_gap_independent(
    problem: Problem, horizon: int, alpha: float | None = None, player_rounds: int | None = None
) -> Bound:
    """RobustAgg-TS, Theorem 4.2: √(|I_α| P) + √(M (|I_α^C| − 1) P), besides M²K; α = 10ε if omitted."""
    alpha = 10 * problem.epsilon if alpha is None else alpha
    return _shared_gap_independent(problem, horizon, alpha, player_rounds, problem.players**2 * problem.arms)


def robustagg_gap_dependent(problem: Problem, horizon: int) -> Bound:
    """RobustAgg, Section 2.2 and Appendix D: as Theorem 4.1 with I_5ε, besides MK."""
    return _shared_gap_dependent(problem, horizon, 5 * problem.epsilon, problem.players * problem.arms)


def robustagg_gap_independent(problem: Problem, horizon: int, player_rounds: int | None = None) -> Bound:
    """RobustAgg, Appendix D: √(|I_5ε| P) + √(M (|I_5ε^C| − 1) P), besides MK."""
    return _shared_gap_independent(problem, horizon, 5 * problem.epsilon, player_rounds, problem.players * problem.arms)


def individual_gap_dependent(problem: Problem, horizon: int) -> Bound:
    """Ind-UCB and Ind-TS, Section 2.2 and Appendix D: Σ_p Σ_{i: Δ>0} ln T/Δ."""
    return Bound(0.0, float(_logarithm_over(problem.gaps, horizon).sum()), 0)


def individual_gap_independent(problem: Problem, horizon: int, player_rounds: int | None = None) -> Bound:
    """Ind-UCB and Ind-TS, Appendix D: √(M K P); M √(K T) when all players are always active."""
    P = _player_rounds(problem, horizon, player_rounds)
    return Bound(0.0, math.sqrt(problem.players * problem.arms * P), 0)


def lower_bound_gap_dependent(problem: Problem, horizon: int) -> Bound:
    """Any algorithm of sublinear regret: Σ_{i ∈ I_ε/4: Δmin>0} ln T/Δmin + Σ_{i ∉ I_ε/4} Σ_{p: Δ>0} ln T/Δ.

    Δmin is the arm's smallest gap over the players. Section 2.2, for a large class of problems and all players active.
    """
    subpar = _mask(problem, problem.epsilon / 4)
    return Bound(
        float(_logarithm_over(problem.smallest_gaps[subpar], horizon).sum()),
        float(_logarithm_over(problem.gaps[:, ~subpar], horizon).sum()),
        int(subpar.sum()),
    )


def lower_bound_gap_independent(problem: Problem, horizon: int) -> Bound:
    """Any algorithm, on some problem of this |I_5ε|, Section 2.2: √(M |I_5ε| T) + M √((|I_5ε^C| − 1) T).

    Shown for all players active, P = M·T.
    """
    return _shared_gap_independent(problem, horizon, 5 * problem.epsilon, None, 0)


def _shared_gap_dependent(problem: Problem, horizon: int, alpha: float, lower_order: int) -> Bound:
    terms = _logarithm_over(problem.gaps, horizon)
    subpar = _mask(problem, alpha)
    return Bound(
        float(terms[:, subpar].sum()) / problem.players,
        float(terms[:, ~subpar].sum()),
        int(subpar.sum()),
        float(lower_order),
    )


def _shared_gap_independent(
    problem: Problem, horizon: int, alpha: float, player_rounds: int | None, lower_order: int
) -> Bound:
    P = _player_rounds(problem, horizon, player_rounds)
    count = int(_mask(problem, alpha).sum())
    others = max(problem.arms - count - 1, 0)  # below α = 2ε there may be no other arm
    return Bound(math.sqrt(count * P), math.sqrt(problem.players * others * P), count, float(lower_order))


def _mask(problem: Problem, alpha: float) -> np.ndarray:
    """Whether each arm is in I_α."""
    return np.isin(np.arange(problem.arms), problem.subpar(alpha))


def _logarithm_over(gaps: np.ndarray, horizon: int) -> np.ndarray:
    """ln T/Δ where the gap Δ is positive, and 0 where it is not."""
    log_T = math.log(whole("horizon", horizon, least=1))
    with np.errstate(over="ignore"):  # a gap may be so small that its term is infinite
        return np.divide(log_T, gaps, out=np.zeros(gaps.shape), where=gaps > 0)


def _player_rounds(problem: Problem, horizon: int, player_rounds: int | None) -> int:
    most = problem.players * whole("horizon", horizon, least=1)
    return most if player_rounds is None else whole("player_rounds", player_rounds, least=0, most=most)
