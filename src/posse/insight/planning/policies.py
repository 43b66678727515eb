"""The policies that a plan simulates: those to compare, and RobustAgg-TS with the right ε and wrong ones."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from posse.policies.base import Policy
from posse.policies.ind_ts import IndTS
from posse.policies.ind_tsv import IndTSV
from posse.policies.naive_agg import NaiveAgg
from posse.policies.posse_ts import PosseTS
from posse.policies.robustagg_ts import RobustAggTS

ALONE = IndTS()
LEARNED, LEARNED_ALONE = PosseTS(), IndTSV()  # both learn how much rewards vary; the second shares nothing
FACTORS = (1 / 10, 1 / 5, 1 / 3, 1 / 2, 2 / 3, 1, 3 / 2, 2, 3, 5, 10)  # how far off an assumed ε may be
MOST_POLICIES = len(FACTORS) + 4  # of a plan without policies of the user's choice


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyRoles:
    """Which of the simulated policies has which role, as places in their list."""

    compared: tuple[int, ...]
    """The policies that the table shows; the first one, Ind-TS, learns alone."""
    sweep: tuple[int, ...]
    """RobustAgg-TS with each of the ε in `sweep_epsilons`."""
    sweep_epsilons: np.ndarray
    """From ε / 10 to 10 ε, as far as the reward range goes, in units of reward."""
    pooled: int
    """Naive-Agg, which pools blindly."""
    given: int | None
    """RobustAgg-TS with the ε that was given beside the right one; None if not given."""
    learned: int
    """PosseTS, which needs no ε."""
    learned_alone: int | None
    """Ind-TS-V, which models the noise as PosseTS does and learns alone; None if it is not compared."""


def plan_policies(
    epsilon: float, unit: float, chosen: list[Policy] | None = None, given: float | None = None
) -> tuple[list[Policy], PolicyRoles]:
    """The policies for the right ε and perhaps a given one, in units of reward; `unit` is the length of their range.

    The policies in `chosen` are for rewards in [0, 1] already.

    >>> policies, roles = plan_policies(0.05, 1.0, [IndTS(c2=0.25)])
    >>> [policies[place].label for place in roles.compared]
    ['Ind-TS', 'PosseTS', 'Ind-TS(c2=0.25)']
    """
    sharing = {factor: _sharing(factor * epsilon, unit) for factor in FACTORS if factor * epsilon <= unit}
    beside = [] if given is None else [_sharing(given, unit)]
    if chosen is None:
        chosen = [LEARNED_ALONE, *(sharing[factor] for factor in (1 / 3, 1, 3) if factor in sharing), NaiveAgg()]
    compared: list[Policy] = [ALONE, *beside, LEARNED, *chosen]
    policies, numbers = _distinct([*compared, *sharing.values(), NaiveAgg()])
    return policies, PolicyRoles(
        tuple(dict.fromkeys(numbers[: len(compared)])),
        tuple(numbers[len(compared) : -1]),
        np.array(list(sharing)) * epsilon,
        numbers[-1],
        numbers[1] if beside else None,
        policies.index(LEARNED),
        policies.index(LEARNED_ALONE) if LEARNED_ALONE in policies else None,
    )


def check_policies(policies: Policy | Iterable[Policy], low: float, high: float) -> list[Policy]:
    """The user's policies, whose ε is in units of rewards in [low, high], converted to rewards in [0, 1].

    Labels stay in units of reward.

    >>> [(policy.label, policy.epsilon) for policy in check_policies(RobustAggTS(4), 0, 100)]
    [('RobustAgg-TS(4)', 0.04)]
    """
    found = [policies] if isinstance(policies, (Policy, str)) else list(policies)
    for policy in found:
        if not isinstance(policy, Policy):
            raise TypeError(f"{policy!r} is no policy; expected one such as posse.RobustAggTS(0.15)")
    return [dataclasses.replace(policy.for_rewards(low, high), label=str(policy.label)) for policy in found]


def role(policy: Policy) -> str:
    """What a policy stands for, in a few words."""
    known = {LEARNED: "sharing, ε learned", LEARNED_ALONE: "alone, noise learned"}
    return known.get(policy, "sharing" if policy.shares else "alone")


def _sharing(epsilon: float, unit: float) -> Policy:
    return RobustAggTS(epsilon / unit, label=f"RobustAgg-TS({epsilon:.3g})")


def _distinct(policies: list[Policy]) -> tuple[list[Policy], list[int]]:
    """The policies without repetition, and for each of the given ones its place among them."""

    def same(policy: Policy, other: Policy) -> bool:
        """Whether they are equal up to rounding in their constants (3 · 0.05 is not 0.15)."""
        return type(policy) is type(other) and all(map(math.isclose, policy.constants(), other.constants()))

    kept: list[Policy] = []
    numbers = []
    for policy in policies:
        numbers.append(next((place for place, other in enumerate(kept) if same(policy, other)), len(kept)))
        if numbers[-1] == len(kept):
            kept.append(policy)
    return kept, numbers
