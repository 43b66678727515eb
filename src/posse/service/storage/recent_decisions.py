"""Recent decisions of an experiment, which are looked up without asking the database."""

from __future__ import annotations

from collections import OrderedDict

from posse.learner.guard import OutcomeValue
from posse.learner.ledger import Answered, Row

RECENT = 20_000  # decisions with a reward, and as many without


class RecentDecisions:
    """Decisions by serial number. Of those that are here, all that was reported is here too."""

    def __init__(self, name: str, outcomes: int) -> None:
        self._name, self._outcome_count = name, outcomes
        self.waiting: OrderedDict[int, Row] = OrderedDict()  # without a reward
        self.answers: OrderedDict[int, Answered] = OrderedDict()  # with one
        self.outcomes: dict[tuple[int, int], float] = {}  # what else came of both, by serial number and outcome

    def answer(self, serial: int, reward: float, defaulted: bool) -> None:
        """Note a reward, if its decision is here."""
        row = self.waiting.pop(serial, None)
        if row is not None:
            self.answers[serial] = (row.tag, reward, defaulted, row.player, row.arm)

    def note(self, each: OutcomeValue) -> None:
        """Note the value of an outcome, if its decision is here."""
        if each.serial in self.waiting or each.serial in self.answers:
            self.outcomes[each.serial, each.outcome] = each.value

    def trim(self) -> None:
        """Forget all but the newest."""
        for known in (self.waiting, self.answers):
            while len(known) > RECENT:
                serial, _ = known.popitem(last=False)
                for outcome in range(self._outcome_count):
                    self.outcomes.pop((serial, outcome), None)

    def clear(self) -> None:
        """Forget all."""
        for known in (self.waiting, self.answers, self.outcomes):
            known.clear()

    def unknown(self, identity: str, serial: int, decisions: int) -> str:
        """Why nothing can be reported of a decision."""
        return f"decision {identity} was not made in experiment {self._name!r}"
