"""Reports of rewards and outcomes, checked against what is known: by a learner, and by the service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from posse.decision import ConflictingReward, Report, UnknownDecision, parse_id
from posse.learner.guard import OutcomeValue
from posse.learner.ledger import NOBODY, KnownDecisions
from posse.learner.state import LearnerState


class Reports:
    """What reports bring that is new. Each is checked against what is known, and against those before it."""

    def __init__(self, state: LearnerState, known: KnownDecisions) -> None:
        self._state, self._known = state, known
        self.rewards: dict[int, float] = {}  # by serial number; all of these decisions wait
        self.outcomes: dict[tuple[int, int], OutcomeValue] = {}

    def take_all(self, reports: Iterable[Report], refused: list[tuple[Any, Exception]] | None) -> None:
        """Take reports. Each that is refused goes into the list, with the error; without a list, it is raised."""
        for report in reports:
            try:
                self.take(*report)
            except (TypeError, ValueError) as error:
                if refused is None:
                    raise
                refused.append((report[0], error))

    def take(self, identity: str, reward: Any, outcomes: Mapping[str, Any]) -> bool:
        """Take a report; return whether anything in it is new. An error if anything in it is wrong: it is not taken."""
        serial, tag = parse_id(identity)
        state, value = self._state, None
        if reward is not None or not outcomes:
            value = state.setup.check_reward(f"reward of decision {identity}", reward)
        values = [state.setup.check_outcome(identity, *each) for each in outcomes.items()] if outcomes else ()
        row = self._known.waiting.get(serial)
        if row is not None and row.tag == tag:
            given = self.rewards.get(serial)
            conflict = "is given two rewards, {given:g} and {value:g}"
        else:
            its_tag, given, defaulted, _, _ = self._known.answers.get(serial, NOBODY)
            if its_tag != tag or (given is None and value is not None):
                raise UnknownDecision(self._known.unknown(identity, serial, state.decisions))
            how = f", taken by default after {state.setup.patience:g} s" if defaulted else ""
            conflict = f"already has the reward {{given:g}}{how}; {{value:g}} is refused"
        if value is not None and given is not None:
            if state.steps(given) != state.steps(value):
                raise ConflictingReward(f"decision {identity} {conflict.format(given=given, value=value)}")
            value = None
        new = self._new_outcomes(identity, serial, outcomes, values) if values else None
        if new:
            self.outcomes |= new
        if value is not None:
            self.rewards[serial] = value
        return value is not None or bool(new)

    def _new_outcomes(
        self, identity: str, serial: int, outcomes: Iterable[str], values: list[tuple[int, float]]
    ) -> dict[tuple[int, int], OutcomeValue]:
        """The outcomes of a decision that are new; each has its place and its value."""
        row, new, guard = self._known.waiting.get(serial), {}, self._state.guard
        player, arm = (row.player, row.arm) if row is not None else self._known.answers[serial][3:]
        for name, (place, value) in zip(outcomes, values, strict=True):
            key = serial, place
            before = self.outcomes[key].value if key in self.outcomes else self._known.outcomes.get(key)
            if before is None:
                new[key] = OutcomeValue(serial, place, player, arm, value)
            elif guard.steps(place, before) != guard.steps(place, value):
                raise ConflictingReward(f"decision {identity} already has {name}={before:g}; {value:g} is refused")
        return new

    @property
    def decisions(self) -> int:
        """How many decisions there is something new about."""
        return len(self.rewards.keys() | {serial for serial, _ in self.outcomes})
