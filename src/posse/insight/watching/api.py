"""watch: do choices and rewards come as they should, and what does the adaptive part earn?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.confidence import interval
from posse.insight.columns import Columns
from posse.insight.logs import takes_default
from posse.insight.watching import text
from posse.insight.watching.evidence import EffectEvidence, ShareAlarm, WatchEvidence
from posse.insight.watching.log_blocks import LogBlocks, log_blocks
from posse.notebook import PRINT, Summarized, Summary
from posse.outcomes import Outcome, declared
from posse.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERVAL = 0.05  # an interval is ever wrong with at most this probability


@dataclass(frozen=True)
class ShareCheck:
    """Whether arms were chosen as often as their probabilities say, in some decisions."""

    about: str
    """"choices": all decisions; "rewards": those that have a reward, in the order in which the rewards came."""
    decisions: int
    level: float
    """A false alarm is ever raised with at most this probability."""
    evidence: float
    """ln of the largest evidence at any look that they were not; an alarm takes ln(1/level)."""
    alarm: ShareAlarm | None
    path: tuple[tuple[float, ...], ...]
    """At looks in the past: how many decisions, and how often each arm was chosen beyond what was expected."""
    deviations: tuple[float, ...]
    """At these looks: the standard deviation of such a number, at most, if all is well."""


@dataclass(frozen=True)
class Effect:
    """What the adaptive part earns more than something else, in rewards for each decision."""

    against: str
    """"holdout", or the control's name."""
    control: bool
    """Whether it is the control, which may be named "holdout" too."""
    decisions: int
    """How many decisions with rewards it is about."""
    value: float
    low: float
    """Low and high are the ends of an interval for the average up to now, which holds at every look."""
    high: float
    path: tuple[tuple[int, float, float, float], ...]
    """Decisions, value, low and high at looks in the past."""


@dataclass(frozen=True)
class GuardState:
    """How one arm stands with an outcome that has a bound."""

    outcome: str
    arm: str
    bound: float
    at_most: bool
    """Whether the mean should be at most the bound; or else at least."""
    decisions: int
    """How many decisions have a value."""
    mean: float | None
    low: float
    """Low and high are the ends of an interval for the mean, which holds at every look for all arms of the start."""
    high: float
    alarm: bool


@dataclass(frozen=True, repr=False)
class Watch(Summarized):
    """What a log says about itself; `print` shows it in words."""

    decisions: int
    answered: int
    arms: tuple[str, ...]
    checks: tuple[ShareCheck, ...]
    effects: tuple[Effect, ...]
    guards: tuple[GuardState, ...]
    notes: tuple[str, ...]

    @property
    def alarms(self) -> tuple[ShareCheck | GuardState, ...]:
        """The checks and guards that have raised an alarm."""
        checks = [each for each in self.checks if each.alarm]
        return (*checks, *(each for each in self.guards if each.alarm))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Alarms of the checks in words: then no estimate from this log can be trusted."""
        return tuple(text.check_sentence(each, self.arms) for each in self.checks if each.alarm)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; NaN and infinities become None."""
        return dict(plain(self))

    def figure(self) -> "Figure":
        """What was chosen beside what was expected, and the effects, over the decisions."""
        from posse.insight.watching.figure import draw

        return draw(self)

    def __str__(self) -> str:
        return text.to_text(self)

    def _summary(self) -> Summary:
        return Summary(f"Watch: {text.seen(self)}", text.overall_table(self), "<><", PRINT)


def watch(
    source: Any,
    *,
    level: float = 0.01,
    player: str | Iterable[str] = "player",
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float = "propensity",
    id: str | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Watch:
    """Check a learner's log, and say what its adaptive part earns. Methods and sources: docs/watching.md.

    Args:
        source: the log: a Parquet file, an Arrow table, or a learner.
        level: the largest probability that a check ever raises a false alarm, for each of the two checks.
        player, arm, reward, propensity, id, reward_range: for a log from elsewhere, see `posse.insight.Columns`. Arms
            must have had the same probabilities throughout: the column `propensity`, or "1/3" for three that were
            equally likely.

    >>> import posse
    >>> learner = posse.Learner(posse.IndTS(), ["red", "blue"], ["north"], seed=1, holdout=0.2, clock=lambda: 0.0)
    >>> for _ in range(200):
    ...     learner.observe(decision := learner.choose("north"), float(decision.arm == "blue")) and None
    >>> effect = watch(learner).effects[0]
    >>> effect.against, round(effect.value, 2), round(effect.low, 2), round(effect.high, 2)
    ('holdout', 0.51, 0.21, 0.7)
    """
    level = number("level", level, least=1e-12, most=0.5)
    blocks = log_blocks(source, Columns(player, arm, reward, propensity, id), reward_range)
    about = blocks.log.about
    evidence = evidence_for(about["setup"], about["first"]["arms"], level)
    evidence.add_choices(blocks.choices)
    evidence.add_answers(blocks.answers)
    outcomes = declared(dict(about["setup"].get("outcomes", ())))
    alarms = {(each["outcome"], each["name"]) for each in about["changes"] if each["kind"] == "alarm"}
    tallies = _tallies(blocks, outcomes)
    guards = guard_states(outcomes, about["arms"], *tallies, alarms, len(about["first"]["arms"]))
    notes = blocks.log.left_out()
    if blocks.unknown:
        notes.append(f"{blocks.unknown:,} decisions without probabilities, from an older posse, are left out")
    if blocks.log.given_up and blocks.log.early is None:
        notes.append(
            f"{blocks.log.given_up:,} decisions were given up and are not in the log; if rewards of some arms come "
            "less often, the check of choices notices that too"
        )
    return watch_of(evidence, about["setup"], about["arms"], guards, notes)


def evidence_for(setup: Mapping[str, Any], arms: Sequence[str], level: float = 0.01) -> WatchEvidence:
    """Evidence that suits an experiment: its set-up as its log's metadata has it, and the arms at the start."""
    control = setup.get("control")
    place = None if control is None else list(arms).index(control)
    arrivals = not takes_default(setup)
    return WatchEvidence(len(arms), level=level, holdout=setup["holdout"], control=place, arrivals=arrivals)


def watch_of(
    evidence: WatchEvidence,
    setup: Mapping[str, Any],
    arms: Sequence[str],
    guards: Sequence[GuardState] = (),
    notes: Sequence[str] = (),
) -> Watch:
    """What the evidence says, in the units of the rewards; `arms` are the names of all arms."""
    kinds = {"choices": evidence.choices, "rewards": evidence.answers}
    checks = [
        ShareCheck(
            name, found.count, found.level, found.peak, found.alarm, tuple(found.path()), tuple(found.deviations())
        )
        for name, found in kinds.items()
        if found is not None
    ]
    effects = (
        ("holdout", False, evidence.against_holdout),
        (str(setup.get("control")), True, evidence.against_control),
    )
    scale = setup["high"] - setup["low"]
    found = [_effect(name, control, each, scale) for name, control, each in effects if each is not None and each.count]
    notes, made = [*text.missing(evidence, setup), *notes], evidence.choices.count
    return Watch(made, evidence.answered, tuple(arms), tuple(checks), tuple(found), tuple(guards), tuple(notes))


def _effect(against: str, control: bool, found: EffectEvidence, scale: float) -> Effect:
    """An effect in units of the rewards. No two means differ by more than their range, so nothing is beyond it."""
    counts, *ends = found.path(INTERVAL)
    path = list(zip(counts.tolist(), *((scale * np.clip(each, -1, 1)).tolist() for each in ends), strict=True))
    _, value, low, high = path[-1]
    return Effect(against, control, found.count, value, low, high, tuple(path))


def _tallies(blocks: LogBlocks, outcomes: Mapping[str, Outcome]) -> tuple[np.ndarray, np.ndarray]:
    """How many values of each outcome each arm has, and their sums on [0, 1], [outcome, arm]."""
    log, arms = blocks.log, len(blocks.log.arms)
    counts, sums = np.zeros((2, len(outcomes), arms))
    for place, (name, outcome) in enumerate(outcomes.items()):
        came = ~np.isnan(log.outcomes[name])
        (low, high), arm = outcome.range, log.arm[came]
        counts[place] = np.bincount(arm, minlength=arms)
        sums[place] = np.bincount(arm, (log.outcomes[name][came] - low) / (high - low), arms)
    return counts, sums


def guard_states(
    outcomes: Mapping[str, Outcome],
    arms: Sequence[str],
    counts: np.ndarray,
    sums: np.ndarray,
    alarms: set[tuple[str, str]],
    first: int,
) -> list[GuardState]:
    """How each arm stands with each outcome that has a bound.

    `counts` and `sums` are [outcome, arm], with sums on [0, 1]; `alarms` has pairs of outcome and arm.
    There were `first` arms at the start, whose intervals share the level. One that is added later has as much on top,
    as with the guard: if it took its part from the others, the intervals of before would have been too narrow.
    """
    bounded = [(place, name, each) for place, (name, each) in enumerate(outcomes.items()) if each.bound is not None]
    found = []
    for place, name, outcome in bounded:
        low, high = outcome.range
        ends = interval(counts[place], sums[place], INTERVAL / len(bounded) / first)
        for arm, count, total, least, most in zip(arms, counts[place], sums[place], *ends, strict=True):
            mean, least, most = (low + (high - low) * float(each) for each in (total / max(count, 1), least, most))
            known, alarm = mean if count else None, (name, arm) in alarms
            bound, at_most = float(outcome.bound or 0.0), outcome.at_most is not None
            found.append(GuardState(name, arm, bound, at_most, int(count), known, least, most, alarm))
    return found
