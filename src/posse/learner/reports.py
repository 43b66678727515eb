"""Reports of rewards and outcomes, checked against what is known: by a learner, and by the service."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

from posse.decision import ConflictingReward, UnknownDecision, parse_id
from posse.learner.guard import OutcomeValue
from posse.learner.ledger import NOBODY, Answered, Row
from posse.learner.state import LearnerState


class KnownDecisions(Protocol):
    """Decisions by serial number: those that wait for a reward, those that do not any more, and their outcomes."""

    waiting: OrderedDict[int, Row]
    answers: OrderedDict[int, Answered]
    outcomes: dict[tuple[int, int], float]  # by serial number and outcome

    def unknown(self, identity: str, serial: int, decisions: int) -> str:
        """Why nothing can be reported of a decision; there were so many decisions."""


class Reports:
    """What reports bring that is new. Each is checked against what is known, and against those before it."""

    def __init__(self, state: LearnerState, known: KnownDecisions) -> None:
        self._state, self._known = state, known
        self.rewards: dict[int, float] = {}  # by serial number; all of these decisions wait
        self.outcomes: dict[tuple[int, int], OutcomeValue] = {}

    def take(self, identity: str, reward: Any, outcomes: Mapping[str, Any]) -> bool:
        """Take a report; return whether anything in it is new. An error if anything in it is wrong: it is not taken."""
        serial, tag = parse_id(identity)
        state, setup = self._state, self._state.setup
        value = None
        if reward is not None or not outcomes:
            value = setup.check_reward(f"reward of decision {identity}", reward)
        values = [setup.check_outcome(identity, *each) for each in outcomes.items()]
        row = self._known.waiting.get(serial)
        waits = row is not None and row.tag == tag
        if row is not None and waits:
            given, defaulted, player, arm = None, False, row.player, row.arm
        else:
            its_tag, given, defaulted, player, arm = self._known.answers.get(serial, NOBODY)
            if its_tag != tag or (given is None and value is not None):
                raise UnknownDecision(self._known.unknown(identity, serial, state.decisions))
        if value is not None and waits and serial in self.rewards:
            if state.steps(self.rewards[serial]) != state.steps(value):
                rewards = f"{self.rewards[serial]:g} and {value:g}"
                raise ConflictingReward(f"decision {identity} is given two rewards, {rewards}")
            value = None
        elif value is not None and given is not None:
            if state.steps(given) != state.steps(value):
                how = f", taken by default after {setup.patience:g} s" if defaulted else ""
                raise ConflictingReward(
                    f"decision {identity} already has the reward {given:g}{how}; {value:g} is refused"
                )
            value = None
        new = {}
        for (name, _), (place, measured) in zip(outcomes.items(), values, strict=True):
            key, guard = (serial, place), state.guard
            before = self.outcomes[key].value if key in self.outcomes else self._known.outcomes.get(key)
            if before is None:
                new[key] = OutcomeValue(serial, place, player, arm, measured)
            elif guard.steps(place, before) != guard.steps(place, measured):
                raise ConflictingReward(f"decision {identity} already has {name}={before:g}; {measured:g} is refused")
        self.outcomes |= new
        if value is not None:
            self.rewards[serial] = value
        return value is not None or bool(new)

    @property
    def decisions(self) -> int:
        """How many decisions there is something new about."""
        return len(self.rewards.keys() | {serial for serial, _ in self.outcomes})
