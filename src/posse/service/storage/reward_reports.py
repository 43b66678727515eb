"""Reward reports: which are new, which are known, and which are refused, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posse.learner.ledger import UnknownDecision, parse_id
from posse.service.storage.live_experiment import LiveExperiment


@dataclass(frozen=True, slots=True)
class RewardOutcome:
    """What came of a reward report."""

    decision: str
    status: str
    """`taken`; `known`, the same reward came before; `conflict`, another did; `unknown` decision; `invalid` reward."""
    detail: str | None = None


def check_report(live: LiveExperiment, identity: str, value: Any, fresh: dict[int, float]) -> RewardOutcome:
    """What becomes of a report; a new reward is added to `fresh`, by the serial number of its decision."""
    state = live.state
    try:
        serial, tag = parse_id(identity)
    except UnknownDecision as error:
        return RewardOutcome(str(identity)[:60], "unknown", str(error))
    try:
        reward = state.setup.check_reward(f"reward of decision {identity}", value)
    except (TypeError, ValueError) as error:
        return RewardOutcome(identity, "invalid", str(error))
    row = live.waiting.get(serial)
    if row is not None and row.tag == tag:
        if serial not in fresh:
            fresh[serial] = reward
            return RewardOutcome(identity, "taken")
        if state.steps(fresh[serial]) == state.steps(reward):
            return RewardOutcome(identity, "known")
        return RewardOutcome(identity, "conflict", f"given two rewards, {fresh[serial]:g} and {reward:g}")
    known_tag, known, defaulted = live.answers.get(serial, (None, 0.0, False))
    if known_tag != tag:
        return RewardOutcome(identity, "unknown", f"decision {identity} was not made in experiment {live.name!r}")
    if state.steps(known) == state.steps(reward):
        return RewardOutcome(identity, "known")
    how = f", taken by default after {state.setup.patience:g} s" if defaulted else ""
    return RewardOutcome(identity, "conflict", f"it already has the reward {known:g}{how}; {reward:g} is refused")
