"""A diagnosis in words: the verdict, then a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posse.text import align, decimals, plural, shorten

if TYPE_CHECKING:
    from posse.insight.diagnosis.api import Diagnosis

LONGEST_NAME = 30


def to_text(diagnosis: Diagnosis) -> str:
    """The verdict, the estimate, a table of the arms, how much is shared, and what would make all of it void."""
    first, last = (_verdict(diagnosis), _estimate(diagnosis)), (_shared(diagnosis), _void(diagnosis))
    return "\n".join(part for part in (*first, "", *_table(diagnosis), "", *last) if part is not None)


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one line.

    >>> from posse.insight.diagnosis.api import diagnose
    >>> from posse.learner import Counts
    >>> counts = Counts(("north", "south"), ("old",), np.array([[400], [400]]), np.array([[80.0], [240.0]]))
    >>> print(headline(diagnose(counts, epsilon=0.1)))
    ε = 0.1 is broken by arm old: players south and north differ by at least 0.255
    """
    show = _decimals(diagnosis)
    epsilon = diagnosis.epsilon
    proven = None
    if diagnosis.bound > 0:
        arm = int(diagnosis.bounds.argmax())
        first, second = diagnosis.pairs[arm] or ("", "")
        proven = (
            f"arm {_short(diagnosis.arms[arm])}: players {_short(first)} and {_short(second)} "
            f"differ by at least {diagnosis.bound:{show}}"
        )
    if diagnosis.alarm:
        return f"ε = {epsilon:g} is broken by {proven}"
    if epsilon is None:
        return "No two players are shown to differ" if proven is None else f"Players differ; {proven}"
    # Where there is no estimate, the comparison with NaN is false.
    likely = "is probably too small, but not shown to be" if epsilon < diagnosis.spread.low else "holds so far"
    return f"ε = {epsilon:g} {likely}; {proven or 'no two players are shown to differ at all'}"


def _verdict(diagnosis: Diagnosis) -> str:
    line = headline(diagnosis) + "."
    others = len(diagnosis.broken) - 1
    if others > 0:
        line += f" Also by {plural(others, 'other arm')}; see the table."
    if len(diagnosis.players) == 1:
        return "There is one player, and nobody to compare it with."
    return f"{line}\n(Guaranteed: the chance of ever raising a false alarm is at most {diagnosis.level:g}.)"


def _estimate(diagnosis: Diagnosis) -> str | None:
    spread, show = diagnosis.spread, _decimals(diagnosis)
    if len(diagnosis.players) == 1:
        return None
    if math.isnan(spread.range):
        reasons = sorted({why_no_estimate(diagnosis, arm) for arm in range(len(diagnosis.arms))})
        return f"No arm has an estimate: {' or '.join(reasons)}."
    return (
        f"Estimate without sampling noise: players differ by {spread.range:{show}} on the arm where they differ "
        f"most\n({100 * (1 - diagnosis.level):.3g} % interval {spread.low:{show}} to {spread.high:{show}}), "
        f"standard deviation between players {spread.deviation:{show}}. {_advice(diagnosis)}"
    )


def why_no_estimate(diagnosis: Diagnosis, arm: int) -> str:
    """Why an arm has no estimate."""
    means = diagnosis.means[diagnosis.pulls[:, arm] > 0, arm]
    for end in (diagnosis.low, diagnosis.high):
        if len(means) > 1 and (means == end).all():
            return f"all rewards are {end:g}"
    return "too few rewards from two players"


def _advice(diagnosis: Diagnosis) -> str:
    spread, epsilon = diagnosis.spread, diagnosis.epsilon
    if epsilon is None and spread.low == 0:
        return "Players may be alike:\nno ε is suggested here. `posse plan --from LOG` says what sharing would save."
    if epsilon is None:
        return f"An ε to start with: {spread.range:.2g};\n`posse plan --from LOG` says whether sharing pays then."
    if epsilon < spread.low:
        return f"ε = {epsilon:g} lies below that."
    if epsilon > spread.high:
        return f"ε = {epsilon:g} could be smaller: players would share more."
    return f"ε = {epsilon:g} lies within that."


def _table(diagnosis: Diagnosis) -> list[str]:
    spread, show = diagnosis.spread, _decimals(diagnosis)
    rows = [["arm", "rewards", "players", "at least", "estimate", "interval", "between"]]
    for arm, name in enumerate(diagnosis.arms):
        pulls = diagnosis.pulls[:, arm]
        row = [_short(name), f"{pulls.sum():,}", str((pulls > 0).sum()), f"{diagnosis.bounds[arm]:{show}}"]
        if math.isnan(spread.ranges[arm]):
            row += ["–", "–", "–"]
        else:
            interval = f"{spread.lows[arm]:{show}} to {spread.highs[arm]:{show}}"
            between = " and ".join(map(_short, diagnosis.pairs[arm] or ("–",)))
            row += [f"{spread.ranges[arm]:{show}}", interval, between]
        rows.append([*row, "← broken"] if name in diagnosis.broken else row)
    return align(rows, "<>>>>^<")


def _shared(diagnosis: Diagnosis) -> str | None:
    shared = diagnosis.shared
    if shared is None or np.isnan(shared).all():
        return None
    least, most = int(np.nanargmin(shared)), int(np.nanargmax(shared))
    text = f"Other players' data has {np.nanmean(shared):.0%} of the weight in decisions"
    if f"{shared[least]:.0%}" == f"{shared[most]:.0%}":
        return f"{text}, for every player."
    return (
        f"{text}: from {shared[least]:.0%} ({_short(diagnosis.players[least])}) "
        f"to {shared[most]:.0%} ({_short(diagnosis.players[most])})."
    )


def _void(diagnosis: Diagnosis) -> str:
    void = "All this is void if rewards go missing because of their value"
    if diagnosis.missing is None:
        return f"{void}; counts do not show whether any do."
    return f"{void}; {diagnosis.missing:,} of {diagnosis.decisions:,} are missing."


def _decimals(diagnosis: Diagnosis) -> str:
    """A number format with three decimals for rewards in [0, 1], fewer for wider ranges, more for narrower ones."""
    return f".{decimals(diagnosis.low, diagnosis.high, 3)}f"


def _short(name: str) -> str:
    return shorten(name, LONGEST_NAME)
