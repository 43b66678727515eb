"""Recent decisions of an experiment, which are looked up without asking the database."""

from posse.learner.guard import OutcomeValue
from posse.learner.ledger import KnownDecisions

RECENT = 20_000  # decisions with a reward, and as many without


class RecentDecisions(KnownDecisions):
    """The newest decisions. Of those that are here, all that was reported is here too."""

    def __init__(self, name: str, outcomes: int) -> None:
        super().__init__(outcomes)
        self._name = name

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
        self.keep_newest(self.waiting, RECENT)
        self.keep_newest(self.answers, RECENT)

    def clear(self) -> None:
        for known in (self.waiting, self.answers, self.outcomes):
            known.clear()

    def unknown(self, identity: str, serial: int, decisions: int) -> str:
        return f"decision {identity} was not made in experiment {self._name!r}"
