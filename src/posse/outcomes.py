"""Outcomes: what else comes of a decision besides its reward, such as a refund or the minutes that a call took.

Policies do not see them. An outcome may have a bound that the mean of no arm should cross; the learner's guard watches
it. Nothing here needs NumPy, so that a client starts quickly.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from posse.checks import number, store, value_range

ALARM_LEVEL = 0.05  # the probability that an experiment whose arms keep all bounds ever raises an alarm
ACTIONS = ("alarm", "retire")
MOST, LONGEST = 20, 100  # outcomes of an experiment, and characters of a name


@dataclass(frozen=True)
class Outcome:
    """An outcome of decisions. With a bound, an arm whose mean is shown to cross it raises an alarm, once.

    >>> Outcome(range=(0, 60), at_most=15)
    Outcome(range=(0.0, 60.0), at_most=15.0, at_least=None, action='alarm')
    """

    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest value that is possible."""
    at_most: float | None = None
    """The mean of every arm should be at most this."""
    at_least: float | None = None
    """The mean of every arm should be at least this."""
    action: str = "alarm"
    """With "retire", an arm that raises the alarm is also retired, unless it is the last; `add_arm` brings it back."""

    def __post_init__(self) -> None:
        low, high = value_range("range", self.range, "value")
        if self.at_most is not None and self.at_least is not None:
            raise ValueError(f"at_most={self.at_most!r} and at_least={self.at_least!r}, but expected one bound or none")
        if self.action not in ACTIONS:
            raise ValueError(f"action={self.action!r}, but expected 'alarm' or 'retire'")
        if self.action == "retire" and self.bound is None:
            raise ValueError("action='retire' without a bound; give at_most or at_least")
        store(self, range=(low, high))
        if self.at_most is not None:
            store(self, at_most=number("at_most", self.at_most, least=low, most=high))
        if self.at_least is not None:
            store(self, at_least=number("at_least", self.at_least, least=low, most=high))

    @property
    def bound(self) -> float | None:
        """The bound that there is, if any."""
        return self.at_most if self.at_least is None else self.at_least

    def on_unit(self, value: float) -> float:
        """A value mapped to [0, 1]."""
        low, high = self.range
        return (value - low) / (high - low)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain values, which make the same again."""
        return asdict(self) | {"range": list(self.range)}


class Alarm(NamedTuple):
    """An arm was shown to cross the bound of an outcome."""

    outcome: str
    arm: str
    event: int
    """The number of the event in the log."""


def declared(outcomes: Any) -> dict[str, Outcome]:
    """Outcomes by name, each an `Outcome` or a dictionary of its fields, checked.

    >>> declared({"refund": {"at_most": 0.05}})
    {'refund': Outcome(range=(0.0, 1.0), at_most=0.05, at_least=None, action='alarm')}
    """
    if not isinstance(outcomes or {}, Mapping):
        raise TypeError(f"outcomes={outcomes!r:.60}, but expected {{name: Outcome}}, such as {{'refund': Outcome()}}")
    if len(outcomes or {}) > MOST:
        raise ValueError(f"{len(outcomes)} outcomes, but expected at most {MOST}")
    return {_name(name): _outcome(name, each) for name, each in (outcomes or {}).items()}


def _name(name: Any) -> str:
    if not (isinstance(name, str) and name.strip() and len(name) <= LONGEST and name.isprintable()):
        raise ValueError(f"outcome {name!r:.60}, but a name has 1 to {LONGEST} printable characters")
    return name


def _outcome(name: str, given: Any) -> Outcome:
    if isinstance(given, Outcome):
        return given
    known = [field.name for field in fields(Outcome)]
    if not (isinstance(given, Mapping) and set(given) <= set(known)):
        raise TypeError(f"outcome {name!r}: {given!r:.60}, but expected an Outcome, or some of {', '.join(known)}")
    try:
        return Outcome(**given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"outcome {name!r}: {error}") from None
