"""What attributes explain of how players differ, in words and for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posse.insight.hierarchy.model import PosteriorInterval, posterior_interval
from posse.insight.hierarchy.shares import AttributeShares, ShareDraws
from posse.text import listed, plural, shorten

if TYPE_CHECKING:
    from posse.insight.diagnosis.api import Diagnosis

MOST_VALUES = 12  # in the table
SIGNIFICANT = 0.05
LEAST = 0.01  # of the variance: an interval that begins below says nothing


def attributes_as_dict(diagnosis: Diagnosis, shares: AttributeShares) -> dict[str, Any]:
    """For each attribute its shares and what each of its values does."""
    found: dict[str, Any] = {}
    for place, name in enumerate(shares.values):
        best = best_arms(diagnosis, shares, name)
        values = zip(shares.values[name], shares.players[name].tolist(), best, strict=True)
        found[name] = {
            "contrasts": None if shares.contrasts is None else _at(diagnosis, shares.contrasts, place),
            "levels": _at(diagnosis, shares.levels, place),
            "values": {value: {"players": players, **each} for value, players, each in values},
        }
    return found


def _at(diagnosis: Diagnosis, draws: ShareDraws, place: int) -> dict[str, float]:
    return draws.interval(diagnosis.level).at(place)._asdict()


def best_arms(diagnosis: Diagnosis, shares: AttributeShares, name: str) -> list[dict[str, Any]]:
    """For each value of an attribute the best arm, the second best, and by how much the one is ahead of the other.

    Every player with the value counts alike. Arms without data are left out.
    """
    means, arms = shares.means[name], np.flatnonzero(diagnosis.model.there[1])
    alike = dict.fromkeys(("low", "middle", "high"), np.ones(len(means)))
    found = []
    for value in range(means.shape[1]):
        order = arms[np.argsort(-means[:, value, arms].mean(axis=0), kind="stable")]
        first, second = order[0], order[min(1, len(order) - 1)]
        ahead = posterior_interval(means[:, value, first] - means[:, value, second], alike, diagnosis.level)
        lead = PosteriorInterval(*(float(each) for each in ahead))._asdict()
        found.append({"best": diagnosis.arms[first], "second": diagnosis.arms[second], "lead": lead})
    return found


def explained(diagnosis: Diagnosis, shares: AttributeShares) -> tuple[str, list[list[str]]]:
    """How much each attribute explains, in sentences, and for the one that explains most the best arms by value."""
    names = list(shares.values)
    sentences, shown = [], ""
    of_arms = "what the arms do", shares.contrasts, diagnosis.model.contrast_p
    for what, draws, p in (of_arms, ("level", shares.levels, diagnosis.model.level_p)):
        if draws is None:
            continue
        found = draws.interval(diagnosis.level)
        order = np.argsort(-found.value[:-1], kind="stable")
        unsure = [names[place] for place in order if found.low[place] < LEAST]
        if len(unsure) == len(names) and not p < SIGNIFICANT:
            sentences.append(f"Players are not shown to differ in {what}, so there is nothing to explain.")
            continue
        first, *others = (f"{names[place]}{{}} {share(found.at(place))}" for place in order)
        each = ", ".join([first.format(" explains"), *(other.format("") for other in others)])
        sentences.append(f"Of how players differ in {what}, {each}; {share(found.at(-1))} is their own.")
        if unsure:
            sentences.append(f"Not shown to explain any of it: {listed(unsure)}.")
        if draws is shares.contrasts and len(unsure) < len(names):
            shown = names[order[0]]
    sentences += _hints(diagnosis, shares)
    if not shown:
        return " ".join(sentences), []
    return f"{' '.join(sentences)} The best arm by {shown}:", _table(diagnosis, shares, shown)


def share(found: PosteriorInterval) -> str:
    """A share with its interval.

    >>> share(PosteriorInterval(0.62, 0.4, 0.813)), share(PosteriorInterval(0.001, 0, 0.19))
    ('62 % (40 to 81 %)', '<1 % (0 to 19 %)')
    """
    value, low, high = (_percent(each) for each in found)
    return f"{value} % ({low} to {high} %)"


def _percent(part: float) -> str:
    if 0 < part < 0.01:
        return "<1"
    return ">99" if 0.99 < part < 1 else f"{100 * part:.0f}"


def _hints(diagnosis: Diagnosis, shares: AttributeShares) -> list[str]:
    """What makes an attribute say little."""
    found, there = [], int(diagnosis.model.there[0].sum())
    for name, values in shares.values.items():
        missing = there - int(shares.players[name].sum())
        if len(values) == 1:
            found.append(f"Every player has the same {name}.")
        elif 2 * len(values) > there:
            found.append(
                f"{name} has {len(values)} values for {there} players, too many to tell from the players' own."
            )
        if missing:
            found.append(f"No {name} is known of {plural(missing, 'player')}, and it explains nothing there.")
    return found


def _table(diagnosis: Diagnosis, shares: AttributeShares, name: str) -> list[list[str]]:
    rows = [[name, "players", "best arm", "ahead of", "by"]]
    best = best_arms(diagnosis, shares, name)
    found = list(zip(shares.values[name], shares.players[name].tolist(), best, strict=True))
    for value, players, each in sorted(found, key=lambda one: -one[1])[:MOST_VALUES]:
        lead = PosteriorInterval(**each["lead"]).text("+")
        arms = [shorten(each[which]) for which in ("best", "second")]
        rows.append([shorten(value), f"{players:,}", *arms, lead])
    if len(found) > MOST_VALUES:
        rows.append([f"… {len(found) - MOST_VALUES:,} more …", "", "", "", ""])
    return rows
