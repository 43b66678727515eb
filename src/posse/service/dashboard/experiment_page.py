"""What the page of an experiment shows, made from a snapshot: values for its templates, and JSON for its charts."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from posse.attributes import CATEGORY
from posse.confidence import reward_interval
from posse.insight.watching.api import Effect
from posse.service.dashboard import words
from posse.service.dashboard.snapshots import Snapshot
from posse.service.dashboard.templates import experiment_address
from posse.text import shorten

COLORS = 8  # that can be told apart; with more arms the last color stands for all others
CLEAR = 0.5  # an arm looks best for a player if it is the best with more than this probability
ROWS, COLUMNS = 25, 12  # of a table on one page
LEVEL = 0.05  # the probability that an interval for a value of an attribute is ever wrong
RECENT_SECONDS = 60.0
LONGEST_NAME = 60  # in charts
LATELY = 6  # so many stretches make up what a player chooses now


class ShownArm(NamedTuple):
    """An arm as the page draws it."""

    place: int
    name: str
    here: bool
    color: int
    share: float  # of all decisions


def contents(
    snapshot: Snapshot, conclusion: dict[str, Any], search: str, page_number: int, attribute: str = ""
) -> dict[str, Any]:
    """What the page of an experiment shows beside its analyses; `attribute` is the one that was chosen."""
    shown, chances = shown_columns(snapshot), chances_of(snapshot, conclusion)
    return {
        "values": by_attribute(snapshot, attribute, [arm.place for arm in shown]),
        "columns": shown,
        "snapshot": snapshot,
        "address": experiment_address(snapshot.name),
        "arms": shown_arms(snapshot),
        "lead": lead(snapshot, chances),
        "rates": recent_rates(snapshot),
        "compared": compared(snapshot),
        "matrix": matrix(snapshot, chances, search, page_number),
        "amount": amount_of(snapshot),
    }


def amount_of(snapshot: Snapshot) -> functools.partial[str]:
    """The function that writes a reward of this experiment."""
    return functools.partial(words.amount, snapshot.setup.low, snapshot.setup.high)


def shown_arms(snapshot: Snapshot) -> tuple[ShownArm, ...]:
    """The arms with their colors: by place if there are few; otherwise the most chosen arms have their own colors."""
    total = snapshot.chosen.sum(axis=0)
    everything = max(int(total.sum()), 1)
    order = np.arange(len(total)) if len(total) <= COLORS else np.argsort(-total, kind="stable")
    color = np.full(len(total), COLORS - 1)
    color[order[:COLORS]] = np.arange(min(len(total), COLORS))
    return tuple(
        ShownArm(place, name, here, int(color[place]), float(total[place]) / everything)
        for place, (name, here) in enumerate(snapshot.arms)
    )


def shown_columns(snapshot: Snapshot) -> list[ShownArm]:
    """The arms that tables have columns for: those most chosen."""
    by_share = sorted(shown_arms(snapshot), key=lambda arm: (not arm.here, -arm.share))
    return sorted(by_share[:COLUMNS], key=lambda arm: arm.place)


def chances_of(snapshot: Snapshot, conclusion: dict[str, Any]) -> np.ndarray:
    """How likely each arm is to be the best for each player, [player, arm]; NaN where that is not known yet.

    The analysis may be a little older than the snapshot, so that players and arms have come since.
    """
    found, known = np.full(snapshot.chosen.shape, np.nan), np.array(conclusion.get("chances", [[]]), float)
    found[: known.shape[0], : known.shape[1]] = known
    return found


def favorite_arms(chances: np.ndarray) -> np.ndarray:
    """The place of the arm that looks best for each player, −1 where it is too early to tell, int [player].

    An arm looks best for a player if it is more likely to be the best than all others together.
    """
    if not chances.size:
        return np.full(len(chances), -1)
    known = np.nan_to_num(chances)
    return np.where(known.max(axis=1) > CLEAR, known.argmax(axis=1), -1)


def lead(snapshot: Snapshot, chances: np.ndarray) -> dict[str, Any]:
    """What is happening, for the top of the page: for how many players which arm looks best, and how much is shared.

    With very many players, how much is shared comes from a sample of them.
    """
    here = np.array([here for _, here in snapshot.players], bool)
    favorites, arms = favorite_arms(chances)[here], shown_arms(snapshot)
    found = [(arms[place], int((favorites == place).sum())) for place in set(favorites.tolist()) - {-1}]
    found.sort(key=lambda favorite: (-favorite[1], favorite[0].place))
    shared = None  # of what decisions rest on; None if there is nobody to share with
    if len(snapshot.sample) > 1 and snapshot.decisions:
        shared = float((snapshot.sampled.weights * snapshot.sampled.probabilities).sum(axis=1).mean())
    known = bool(np.isfinite(chances).any())
    return {"favorites": found, "undecided": int((favorites == -1).sum()), "shared": shared, "known": known}


def recent_rates(snapshot: Snapshot) -> tuple[float, float]:
    """Decisions and rewards a second over the last minute or so."""
    traffic = snapshot.traffic
    lengths = np.diff(traffic.times)
    count = int(np.searchsorted(lengths[::-1].cumsum(), RECENT_SECONDS)) + 1
    time = float(lengths[-count:].sum())
    return float(traffic.decisions[-count:].sum()) / time, float(traffic.rewards[-count:].sum()) / time


def matrix(snapshot: Snapshot, chances: np.ndarray, search: str = "", page: int = 1) -> dict[str, Any]:
    """One page of the table of players and arms.

    A row has the player's place, its decisions, and for each arm: the lower end of the interval, the estimate and the
    upper end, first as rewards and then from 0 to 100 on the bars' common scale; the share of the decisions, the weight
    of other players' data, the rewards of the player's own, and the chance of being the best.
    """
    shown = shown_columns(snapshot)
    found: Sequence[int] = range(len(snapshot.players))
    if search:
        found = [place for place in found if search.casefold() in snapshot.players[place][0].casefold()]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(page, 1), pages)
    places = list(found[(page - 1) * ROWS : page * ROWS])
    indices = snapshot.indices(places)
    columns = [arm.place for arm in shown]
    cells = np.ix_(places, columns)
    ends = np.stack([table[cells] for table in (snapshot.lows, snapshot.estimates, snapshot.highs)])
    known = np.isfinite(ends[0])
    low, high = (
        (ends[0, known].min(), ends[2, known].max()) if known.any() else (snapshot.setup.low, snapshot.setup.high)
    )
    bars = np.round(100 * (ends - low) / max(high - low, 1e-300), 1)
    decisions = snapshot.chosen[places].sum(axis=1)
    shares = snapshot.chosen[cells] / np.maximum(decisions[:, None], 1)
    whose = indices.weights[:, columns], snapshot.counts.pulls[cells]
    numbers = np.stack([*ends, *bars, shares, *whose, chances[cells]], axis=-1)
    return {
        "arms": shown,
        "rows": list(zip(places, decisions.tolist(), numbers.tolist(), strict=True)),
        "favorites": dict(zip(places, favorite_arms(chances[places]).tolist(), strict=True)),
        "low": low,
        "high": high,
        "page": page,
        "pages": pages,
        "search": search,
        "found": len(found),
        "hidden_arms": len(snapshot.arms) - len(shown),
    }


def by_attribute(snapshot: Snapshot, name: str, arms: list[int]) -> dict[str, Any] | None:
    """A table of the values of an attribute, the first one unless it is declared; None without attributes.

    A row has the value (None if it is not known), how many players have it, their decisions, and for each of the arms:
    the lower end of the interval, the mean and the upper end as rewards, and the share of the decisions. Intervals hold
    for the average of the players' means, each as often as it chose the arm.
    """
    declared = snapshot.setup.attributes
    if not declared:
        return None
    name = name if name in declared.kinds else next(iter(declared.kinds))
    values, of_player, players = snapshot.values_of(name)
    tables = (snapshot.chosen, snapshot.counts.pulls, snapshot.counts.sums)
    chosen, pulls, sums = (_added(table, of_player, len(values)) for table in tables)
    decisions = chosen.sum(axis=1)
    order = np.argsort(-decisions, kind="stable")[:ROWS]
    if declared.kinds[name] != CATEGORY:  # a few values with an order of their own
        ranks: dict[str | None, int] = {text: rank for rank, text in enumerate([*declared.texts(name), None])}
        order = order[np.argsort([ranks[values[value]] for value in order])]
    some = np.ix_(order, np.array(arms, np.int64))
    within = snapshot.setup.low, snapshot.setup.high
    means, *ends = np.where(pulls[some] > 0, reward_interval(pulls[some], sums[some], LEVEL, *within), np.nan)
    shares = chosen[some] / np.maximum(decisions[order, None], 1)
    cells = np.stack([ends[0], means, ends[1], shares], axis=-1).tolist()
    counts = players[order].tolist(), decisions[order].astype(np.int64).tolist()
    rows = list(zip([values[value] for value in order], *counts, cells, strict=True))
    return {"name": name, "names": list(declared.kinds), "rows": rows, "hidden": len(values) - len(rows)}


def _added(table: np.ndarray, of_player: np.ndarray, values: int) -> np.ndarray:
    """A table [player, arm] added up over the players with each value."""
    return np.stack([np.bincount(of_player, weights=column, minlength=values) for column in table.T], axis=1)


# ---------------------------------------------------------------- its charts


def chart(snapshot: Snapshot) -> dict[str, Any]:
    """Shares of the arms over time, what each player chose over time, and traffic, for JSON.

    The last stretch or window, which is not over, is left out: the few decisions in it would look like a change.
    """
    arms = shown_arms(snapshot)
    names, colors = _names(arms), np.array([arm.color for arm in arms], int)
    choices, traffic = snapshot.choices, snapshot.traffic
    by_color, everybody = (
        np.stack([counts[..., colors == color].sum(axis=-1) for color in range(COLORS)], axis=-1)
        for counts in (choices.counts, choices.everybody)
    )
    full = _full(len(everybody), snapshot.decisions < len(everybody) * choices.size)
    shares = everybody[:full] / np.maximum(everybody[:full].sum(axis=1, keepdims=True), 1)
    windows = _full(len(traffic.decisions), True)
    lengths = np.diff(traffic.times)
    return {
        "names": names,
        "size": choices.size,
        "upto": [min((number + 1) * choices.size, snapshot.decisions) for number in range(len(shares))],
        "shares": np.round(shares, 4).T.tolist(),
        "players": [shorten(snapshot.players[place][0], LONGEST_NAME) for place in choices.players],
        "ribbons": [_ribbon(by_color[:full, row]) for row in range(len(choices.players))],
        "now": [_ribbon(by_color[-LATELY:, row].sum(axis=0, keepdims=True))[0] for row in range(len(choices.players))],
        "traffic": {
            "times": traffic.times[1:].tolist()[:windows],
            "decisions": np.round(traffic.decisions / lengths, 3).tolist()[:windows],
            "rewards": np.round(traffic.rewards / lengths, 3).tolist()[:windows],
        },
        "earned": dict(zip(compared(snapshot), map(_path, snapshot.watch.effects), strict=False)),
        "summary": _summary(shares, names),
    }


def compared(snapshot: Snapshot) -> list[str]:
    """What the adaptive part is compared with."""
    there = {"holdout": 0 < snapshot.setup.holdout < 1, "control": snapshot.setup.control is not None}
    return [kind for kind, is_there in there.items() if is_there]


def _path(effect: Effect) -> dict[str, Any]:
    """An effect over time, and what its picture ranges over: its first intervals say nothing, and are cut off."""
    before = [point for point in effect.path if point[0] < effect.decisions]
    numbers = np.array([*before, (effect.decisions, effect.value, effect.low, effect.high)])
    later = numbers[len(numbers) // 4 :, 2:]
    least, most = min(float(later.min()), 0.0), max(float(later.max()), 0.0)
    upto, *ends = np.round(np.clip(numbers, (0, *[least] * 3), (math.inf, *[most] * 3)), 6).T.tolist()
    return {"upto": upto, "lines": ends, "range": [least, most]}


def _full(parts: int, unfinished: bool) -> int:
    """How many parts of the past are drawn: all but an unfinished last one, and one at least."""
    return parts - (unfinished and parts > 1)


def _names(arms: tuple[ShownArm, ...]) -> list[str]:
    """What each color stands for."""
    names = []
    for color in range(min(COLORS, len(arms))):
        of_color = [arm.name for arm in arms if arm.color == color]
        names.append(shorten(of_color[0], LONGEST_NAME) if len(of_color) == 1 else f"{len(of_color)} other arms")
    return names


def _ribbon(counts: np.ndarray) -> list[list[float]]:
    """For each stretch the color chosen most and its share; −1 where the player did not choose."""
    total = counts.sum(axis=1)
    return [
        [int(color), round(float(counts[stretch, color] / total[stretch]), 3)] if total[stretch] else [-1, 0]
        for stretch, color in enumerate(counts.argmax(axis=1))
    ]


def _summary(shares: np.ndarray, names: list[str]) -> str:
    """The picture in words, for those who do not see it."""
    if not len(shares):
        return "No decisions yet."
    first, last = int(shares[0].argmax()), int(shares[-1].argmax())
    return (
        f"At first {names[first]} was chosen most, {words.percent(float(shares[0, first]))} of the time; "
        f"of late {names[last]}, {words.percent(float(shares[-1, last]))}."
    )
