"""When policies get to know the rewards of a simulation: at once, some rounds later, or in batches."""

from collections.abc import Iterable
from dataclasses import dataclass

from posse.checks import store, whole
from posse.text import listed, plural

LATEST = 1 << 20  # rounds; all rewards that are late are kept


@dataclass(frozen=True)
class Feedback:
    """When the rewards of a round become known: at its end, unless it says otherwise.

    The rewards of round t arrive at the end of the first round that is at least t + `delay` and a multiple of `batch`.
    What arrives together counts as one round, as for a learner that is told everything in one call. Regret and pulls
    are measured when an arm is pulled, not when its reward arrives.

    >>> Feedback(delay=100)
    Feedback(delay=100, batch=1)
    """

    delay: int = 0
    """After how many further rounds a reward arrives; 0 for the end of its own round."""
    batch: int = 1
    """Rewards arrive only at the end of every so manieth round, together."""

    def __post_init__(self) -> None:
        delay, batch = (
            whole("delay", self.delay, least=0, most=LATEST),
            whole("batch", self.batch, least=1, most=LATEST),
        )
        store(self, delay=delay, batch=batch)

    def within(self, horizon: int) -> tuple[int, int]:
        """Delay and batch for so many rounds: what is longer than the run never comes."""
        return min(self.delay, horizon), min(self.batch, horizon + 1)

    def __str__(self) -> str:
        late, together = f"{plural(self.delay, 'round')} late", f"in batches of {plural(self.batch, 'round')}"
        return " ".join([late] * (self.delay > 0) + [together] * (self.batch > 1)) or "at once"


AT_ONCE = Feedback()


def note_on_late_rewards(labels: Iterable[str]) -> list[str]:
    """What to bear in mind if rewards are late and these policies draw nothing at random; nothing if there are none."""
    found = list(labels)
    if not found:
        return []
    return [
        f"Rewards are late, and a policy without randomness ({listed(found)}) repeats its choice until one comes. In "
        "use the learner counts waiting pulls for such policies, so a delay costs them less there than here."
    ]
