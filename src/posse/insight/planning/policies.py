"""The policies that a plan simulates: those to compare, and RobustAgg-TS with the right ε and wrong ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from posse.policies.base import Policy
from posse.policies.hier_ts import HierTS
from posse.policies.ind_ts import IndTS
from posse.policies.naive_agg import NaiveAgg
from posse.policies.refresh import Refresh
from posse.policies.robustagg_ts import RobustAggTS
from posse.policies.robustagg_tsv import RobustAggTSV

ALONE = IndTS()
ALONE_EXPLORING_LESS = IndTS(c2=0.25)  # HierTS explores as much: it takes a reward's standard deviation as 1/2
FACTORS = (1 / 10, 1 / 5, 1 / 3, 1 / 2, 2 / 3, 1, 3 / 2, 2, 3, 5, 10)  # how far off an assumed ε may be
MOST_POLICIES = len(FACTORS) + 5  # of a plan without policies of the user's choice


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


def plan_policies(
    epsilon: float, unit: float, chosen: list[Policy] | None = None, given: float | None = None
) -> tuple[list[Policy], PolicyRoles]:
    """The policies for the right ε and perhaps a given one, in units of reward; `unit` is the length of their range.

    The policies in `chosen` are for rewards in [0, 1] already.

    >>> policies, roles = plan_policies(0.05, 1.0, [IndTS(c2=0.25)])
    >>> [policies[place].label for place in roles.compared]
    ['Ind-TS', 'Ind-TS(c2=0.25)']
    """
    sharing = {factor: _sharing(factor * epsilon, unit) for factor in FACTORS if factor * epsilon <= unit}
    beside = [] if given is None else [_sharing(given, unit)]
    compared: list[Policy] = [ALONE, *beside, *(_default(epsilon, unit, sharing) if chosen is None else chosen)]
    policies, numbers = _distinct([*compared, *sharing.values(), NaiveAgg()])
    return policies, PolicyRoles(
        tuple(dict.fromkeys(numbers[: len(compared)])),
        tuple(numbers[len(compared) : -1]),
        np.array(list(sharing)) * epsilon,
        numbers[-1],
        numbers[1] if beside else None,
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
    """What a policy stands for, in a few words, as far as it says itself."""
    if not policy.shares:
        return "alone, exploring less" if policy == ALONE_EXPLORING_LESS else "alone"
    if "spread" in policy.constant_names():
        return "hierarchy"
    return "sharing, refreshed at once" if policy.refresh is Refresh.ANY_PULL else "sharing"


def _sharing(epsilon: float, unit: float) -> Policy:
    return RobustAggTS(epsilon / unit, label=f"RobustAgg-TS({epsilon:.3g})")


def _default(epsilon: float, unit: float, sharing: dict[float, Policy]) -> list[Policy]:
    """Sharing with the right ε and with wrong ones, sharing at once, pooling, a hierarchy, and its like alone.

    The spread of the hierarchy is that of means uniform within ε.
    """
    spread = epsilon / math.sqrt(12)
    return [
        *(sharing[factor] for factor in (1 / 3, 1, 3) if factor in sharing),
        RobustAggTSV(epsilon / unit, label=f"RobustAgg-TS-V({epsilon:.3g})"),
        NaiveAgg(),
        ALONE_EXPLORING_LESS,
        HierTS(spread / unit, label=f"HierTS({spread:.3g})"),
    ]


def _distinct(policies: list[Policy]) -> tuple[list[Policy], list[int]]:
    """The policies without repetition, and for each of the given ones its place among them."""
    kept: list[Policy] = []
    numbers = []
    for policy in policies:
        numbers.append(next((place for place, other in enumerate(kept) if _same(policy, other)), len(kept)))
        if numbers[-1] == len(kept):
            kept.append(policy)
    return kept, numbers


def _same(policy: Policy, other: Policy) -> bool:
    """Whether two policies are equal up to rounding in their constants (3 · 0.05 is not 0.15)."""
    return type(policy) is type(other) and all(map(math.isclose, policy.constants(), other.constants()))
