"""The policies that a plan runs: those to compare, RobustAgg-TS with right and wrong ε, alone and pooled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from posse.policies.base import Policy
from posse.policies.hier_ts import HierTS
from posse.policies.ind_ts import IndTS
from posse.policies.naive_agg import NaiveAgg
from posse.policies.robustagg_ts import RobustAggTS
from posse.policies.robustagg_tsv import RobustAggTSV

FACTORS = (1 / 10, 1 / 5, 1 / 3, 1 / 2, 2 / 3, 1, 3 / 2, 2, 3, 5, 10)  # how far off an assumed ε may be
MOST_POLICIES = len(FACTORS) + 5  # of a plan that is not told which


@dataclasses.dataclass(frozen=True, eq=False)
class LineUp:
    """Policies without repetition, and which of them are what, by number."""

    policies: list[Policy]
    compared: tuple[int, ...]
    """Ind-TS, learning alone, and those to compare with it."""
    sweep: tuple[int, ...]
    """RobustAgg-TS with each of the ε below."""
    sweep_epsilons: np.ndarray
    """In units of reward, in rising order."""
    pooled: int
    """Naive-Agg."""
    given: int | None
    """RobustAgg-TS with the ε that was given beside the right one, None if none was."""


def line_up(epsilon: float, unit: float, chosen: list[Policy] | None = None, given: float | None = None) -> LineUp:
    """The policies for a right ε, and one given beside it, in units of reward, where rewards have a range of `unit`.

    Those chosen are for rewards in [0, 1] already.

    >>> found = line_up(0.05, 1.0, [IndTS(c2=0.25)])
    >>> [found.policies[number].label for number in found.compared]
    ['Ind-TS', 'Ind-TS(c2=0.25)']
    """
    sharing = {factor: _sharing(factor * epsilon, unit) for factor in FACTORS if factor * epsilon <= unit}
    beside = [] if given is None else [_sharing(given, unit)]
    compared: list[Policy] = [IndTS(), *beside, *(_default(epsilon, unit, sharing) if chosen is None else chosen)]
    policies, numbers = _distinct([*compared, *sharing.values(), NaiveAgg()])
    return LineUp(
        policies,
        tuple(dict.fromkeys(numbers[: len(compared)])),
        tuple(numbers[len(compared) : -1]),
        np.array(list(sharing)) * epsilon,
        numbers[-1],
        numbers[1] if beside else None,
    )


def check_policies(policies: Policy | Iterable[Policy], low: float, high: float) -> list[Policy]:
    """One policy or several, ε in units of rewards in [low, high], for rewards in [0, 1]; an error if one is none.

    Labels stay in units of reward.

    >>> [(policy.label, policy.epsilon) for policy in check_policies(RobustAggTS(4), 0, 100)]
    [('RobustAgg-TS(4)', 0.04)]
    """
    found = [policies] if isinstance(policies, Policy) else list(policies)
    for policy in found:
        if not isinstance(policy, Policy):
            raise TypeError(f"{policy!r} is no policy; expected one such as posse.RobustAggTS(0.15)")
    return [dataclasses.replace(policy.for_rewards(low, high), label=str(policy.label)) for policy in found]


def _sharing(epsilon: float, unit: float) -> Policy:
    return RobustAggTS(epsilon / unit, label=f"RobustAgg-TS({epsilon:.3g})")


def _default(epsilon: float, unit: float, sharing: dict[float, Policy]) -> list[Policy]:
    """Sharing with the right ε and with wrong ones, sharing at once, pooling, a hierarchy, and its like alone.

    HierTS takes a reward's standard deviation as 1/2 and so explores as Ind-TS does with c2 = 1/4; beside that one
    it shows what sharing does. Its spread is that of means uniform within ε.
    """
    spread = epsilon / math.sqrt(12)
    return [
        *(sharing[factor] for factor in (1 / 3, 1, 3) if factor in sharing),
        RobustAggTSV(epsilon / unit, label=f"RobustAgg-TS-V({epsilon:.3g})"),
        NaiveAgg(),
        IndTS(c2=0.25),
        HierTS(spread / unit, label=f"HierTS({spread:.3g})"),
    ]


def _distinct(policies: list[Policy]) -> tuple[list[Policy], list[int]]:
    """The policies without those that repeat an earlier one, and where each of the given ones is among them."""
    kept: list[Policy] = []
    numbers = []
    for policy in policies:
        same = [_same(policy, other) for other in kept]
        if True not in same:
            kept.append(policy)
            same.append(True)
        numbers.append(same.index(True))
    return kept, numbers


def _same(policy: Policy, other: Policy) -> bool:
    """Whether two policies do the same, up to rounding in their constants (3 · 0.05 is not 0.15)."""
    return type(policy) is type(other) and all(map(math.isclose, policy.constants(), other.constants()))
