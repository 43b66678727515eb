"""What the pages say, as frozen records made from a snapshot; the templates only set it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from posse.service.dashboard import words
from posse.service.dashboard.beliefs import Beliefs, beliefs
from posse.service.dashboard.snapshot import Snapshot

COLOURS = 8  # that can be told apart; with more arms the last one stands for all others
CLEAR = 0.5  # the chance from which on an arm is called a player's favourite
LITTLE = 0.1  # a weight of others' data that counts for nothing
ROWS, COLUMNS = 25, 12  # of the matrix on one page
RECENT_SECONDS = 60.0


@dataclass(frozen=True)
class Arm:
    """An arm as it is drawn."""

    place: int
    name: str
    here: bool
    colour: int
    share: float
    """Of all decisions."""


@dataclass(frozen=True)
class Favourite:
    """For how many players an arm looks best."""

    arm: Arm
    players: int


@dataclass(frozen=True)
class Lead:
    """The state of things in a sentence or two."""

    players: int
    arms: int
    favourites: tuple[Favourite, ...]
    undecided: int
    players_words: str
    arms_words: str
    shared: str
    """How much of what decisions rest on comes from other players, in words; empty if there is nobody else."""
    started: bool


@dataclass(frozen=True)
class Figure:
    """A number with what it is, for the row of figures."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Cell:
    """What is known of a player and an arm."""

    arm: Arm
    estimate: str
    interval: str
    """Its ends in words; empty where there is none."""
    bar: tuple[float, float, float] | None
    """Lower end, estimate and upper end from 0 to 100 on the matrix's common scale."""
    share: str
    tint: int
    """The share of the player's decisions in tenths, for the background."""
    data: str
    weight: int | None
    """Of others' data, in percent; None where there is no data to speak of."""
    best: bool


@dataclass(frozen=True)
class Row:
    """A player's row of the matrix."""

    player: str
    here: bool
    decisions: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    """Players × arms."""

    arms: tuple[Arm, ...]
    rows: tuple[Row, ...]
    low: str
    high: str
    page: int
    pages: int
    search: str
    found: int
    hidden_arms: int


@dataclass(frozen=True)
class Line:
    """One of the latest decisions."""

    when: str
    player: str
    arm: Arm
    chance: str
    data: str
    reward: str
    note: str


def arms_of(snapshot: Snapshot) -> tuple[Arm, ...]:
    """The arms with their colours: by place while there are enough, else the arms chosen most have one of their own."""
    total = snapshot.chosen.sum(axis=0)
    everything = max(int(total.sum()), 1)
    order = np.arange(len(total)) if len(total) <= COLOURS else np.argsort(-total, kind="stable")
    colour = np.full(len(total), COLOURS - 1)
    colour[order[:COLOURS]] = np.arange(min(len(total), COLOURS))
    return tuple(
        Arm(place, name, here, int(colour[place]), float(total[place]) / everything)
        for place, (name, here) in enumerate(snapshot.arms)
    )


def favourites_of(snapshot: Snapshot) -> np.ndarray:
    """The place of the arm that looks best for each player, −1 where it is too early to tell, int [player].

    An arm looks best if the player would now choose it more often than all others together; a policy without
    randomness would choose whatever has the largest bonus, so there the best mean counts.
    """
    if not snapshot.pulls.size:
        return np.full(len(snapshot.players), -1)
    if snapshot.setup.policy.randomised:
        best = snapshot.probabilities.argmax(axis=1)
        clear = snapshot.probabilities.max(axis=1) > CLEAR
    else:
        here = np.array([here for _, here in snapshot.arms])
        means = np.divide(
            snapshot.sums, snapshot.pulls, out=np.full(snapshot.pulls.shape, -math.inf), where=snapshot.pulls > 0
        )
        means = np.where(here, means, -math.inf)
        best, clear = means.argmax(axis=1), (snapshot.pulls > 0)[:, here].all(axis=1)
    return np.where(clear & (len(snapshot.arms) > 1), best, -1)


def lead(snapshot: Snapshot) -> Lead:
    """What is happening, for the top of the page."""
    here = np.array([here for _, here in snapshot.players], bool)
    offered = sum(here for _, here in snapshot.arms)
    favourites = favourites_of(snapshot)[here]
    arms = arms_of(snapshot)
    found = [Favourite(arms[place], int((favourites == place).sum())) for place in set(favourites.tolist()) - {-1}]
    found.sort(key=lambda favourite: (-favourite.players, favourite.arm.place))
    shared = ""
    if here.sum() > 1 and snapshot.decisions:
        rests = (snapshot.weights * snapshot.probabilities).sum(axis=1)[here]
        shared = words.part_of(float(rests.mean()))
    undecided = int((favourites == -1).sum())
    players = int(here.sum())
    choose = f"{words.count(players, 'player')} {'chooses' if players == 1 else 'choose'}"
    return Lead(
        players, offered, tuple(found), undecided, choose, words.count(offered, "arm"), shared, snapshot.decisions > 0
    )


def figures(snapshot: Snapshot) -> tuple[Figure, ...]:
    """Decisions, rewards, what waits, and what was earned."""
    low, high = snapshot.setup.low, snapshot.setup.high
    earned, known = float(snapshot.sums.sum()), int(snapshot.pulls.sum())
    decided, rewarded = recent_rates(snapshot)
    waiting = "no decision is waiting for its reward"
    if snapshot.traffic.oldest is not None:
        waiting = f"the oldest since {_age(snapshot)}"
    return (
        Figure("Decisions", f"{snapshot.decisions:,}", f"{words.rate(decided)} at present"),
        Figure("Rewards", f"{snapshot.rewards:,}", f"{words.rate(rewarded)} at present"),
        Figure("Waiting for a reward", f"{snapshot.waiting:,}", waiting),
        Figure(
            "Average reward", words.amount(earned / known if known else math.nan, low, high, 3), "of all rewards so far"
        ),
    )


def _age(snapshot: Snapshot) -> str:
    """How long the oldest decision without a reward has waited."""
    age = words.span(snapshot.now - (snapshot.traffic.oldest or snapshot.now))
    return f"more than {age}" if snapshot.traffic.older else age


def recent_rates(snapshot: Snapshot) -> tuple[float, float]:
    """Decisions and rewards a second over the last minute or so."""
    traffic = snapshot.traffic
    lengths = np.diff(traffic.times)
    if not lengths.size:
        return 0.0, 0.0
    count = int(np.searchsorted(lengths[::-1].cumsum(), RECENT_SECONDS)) + 1
    time = float(lengths[-count:].sum())
    return float(traffic.decisions[-count:].sum()) / time, float(traffic.rewards[-count:].sum()) / time


def matrix(snapshot: Snapshot, search: str = "", page: int = 1) -> Matrix:
    """What is known of every player and arm, a page of it."""
    setup = snapshot.setup
    arms = arms_of(snapshot)
    shown = sorted(sorted(arms, key=lambda arm: (not arm.here, -arm.share))[:COLUMNS], key=lambda arm: arm.place)
    found = [place for place, (name, _) in enumerate(snapshot.players) if search.casefold() in name.casefold()]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(page, 1), pages)
    places = found[(page - 1) * ROWS : page * ROWS]
    columns = [arm.place for arm in shown]
    known = _beliefs(snapshot, places, columns)
    seen = np.isfinite(known.lows)
    low, high = (known.lows[seen].min(), known.highs[seen].max()) if seen.any() else (setup.low, setup.high)
    best = favourites_of(snapshot)
    rows = []
    for row, place in enumerate(places):
        total = int(snapshot.chosen[place].sum())
        cells = []
        for column, arm in enumerate(shown):
            ends = (known.lows[row, column], known.estimates[row, column], known.highs[row, column])
            share = float(snapshot.chosen[place, arm.place]) / max(total, 1)
            data, weight = _data(snapshot, place, arm.place, math.isfinite(ends[1]))
            cells.append(
                Cell(
                    arm,
                    words.amount(ends[1], setup.low, setup.high),
                    _interval(ends[0], ends[2], setup.low, setup.high),
                    _bar(ends, low, high),
                    words.percent(share),
                    round(10 * share),
                    data,
                    weight,
                    bool(best[place] == arm.place),
                )
            )
        rows.append(Row(*snapshot.players[place], total, tuple(cells)))
    first, last = (words.amount(end, setup.low, setup.high) for end in (low, high))
    return Matrix(tuple(shown), tuple(rows), first, last, page, pages, search, len(found), len(arms) - len(shown))


def _beliefs(snapshot: Snapshot, places: list[int], columns: list[int]) -> Beliefs:
    """What is believed of these players and arms, in the units of the rewards."""
    setup, shown = snapshot.setup, np.ix_(places, columns)
    pulls = snapshot.pulls[shown]
    tried = snapshot.pulls[:, columns].any(axis=0)  # by anybody; else what is believed is nobody's data
    return beliefs(
        setup.policy,
        pulls,
        (snapshot.sums[shown] - setup.low * pulls) / (setup.high - setup.low),
        np.where(tried, snapshot.centers[shown], math.inf),
        snapshot.scales[shown],
        setup.low,
        setup.high,
    )


def _data(snapshot: Snapshot, player: int, arm: int, tried: bool) -> tuple[str, int | None]:
    """Whose data decides, in words, and the weight of others' in percent."""
    weight = float(snapshot.weights[player, arm])
    if not tried:
        return "not tried yet", None
    if not snapshot.pulls[player, arm] and weight < LITTLE:
        return "hardly known", None  # none of its own, and others' do not count for it
    return words.data_words(weight), round(100 * weight)


def _interval(low: float, high: float, least: float, most: float) -> str:
    if not math.isfinite(low):
        return ""
    return f"{words.amount(low, least, most)} to {words.amount(high, least, most)}"


def _bar(ends: tuple[float, float, float], low: float, high: float) -> tuple[float, float, float] | None:
    if not math.isfinite(ends[0]):
        return None
    width = max(high - low, 1e-300)
    first, middle, last = (round(100 * (end - low) / width, 1) for end in ends)
    return first, middle, last


def recent(snapshot: Snapshot) -> tuple[Line, ...]:
    """The latest decisions, the newest first."""
    arms = {arm.name: arm for arm in arms_of(snapshot)}
    low, high = snapshot.setup.low, snapshot.setup.high
    lines = []
    for decision in snapshot.recent:
        note = "a trial at random" if decision.holdout else ""
        if decision.reward is None or decision.observed_at is None:
            reward = "waiting"
        else:
            reward = words.amount(decision.reward, low, high)
            wait = words.span(decision.observed_at - decision.decided_at)
            note = "; ".join(filter(None, (note, "taken by default" if decision.defaulted else f"after {wait}")))
        lines.append(
            Line(
                words.ago(snapshot.now - decision.decided_at),
                decision.player,
                arms[decision.arm],
                words.percent(decision.propensity),
                words.data_words(decision.shared),
                reward,
                note,
            )
        )
    return tuple(lines)


def rewards_in_words(snapshot: Snapshot) -> str:
    """How rewards come in: how long they take, what waits, what was taken by default."""
    traffic, setup = snapshot.traffic, snapshot.setup
    parts = []
    if traffic.delays.size:
        middle, late = np.quantile(traffic.delays, (0.5, 0.95))
        parts.append(
            f"Half of the latest rewards came within {words.span(float(middle))} of their decision, "
            f"19 of 20 within {words.span(float(late))}."
        )
    if traffic.oldest is not None:
        parts.append(
            f"{words.count(snapshot.waiting, 'decision')} {'waits' if snapshot.waiting == 1 else 'wait'} for a reward; "
            f"the oldest has waited {_age(snapshot)}."
        )
    if setup.patience is not None and setup.default_reward is not None:
        parts.append(
            f"A decision without a reward after {words.span(setup.patience)} counts as "
            f"{words.amount(setup.default_reward, setup.low, setup.high)}"
            + (f"; so did {traffic.defaulted:,} of the latest {traffic.looked_at:,}." if traffic.looked_at else ".")
        )
    else:
        parts.append("A reward may come at any time; until then its decision teaches nothing.")
    return " ".join(parts)
