"""What the page of an experiment shows, as frozen records for the templates, made from a snapshot."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posse.policies.base import Policy
from posse.service.dashboard import panels, words
from posse.service.dashboard.analysis_process import AnalysisProcess
from posse.service.dashboard.snapshots import Snapshot
from posse.service.dashboard.templates import experiment_address
from posse.text import plural

COLORS = 8  # that can be told apart; with more arms the last color stands for all others
CLEAR = 0.5  # an arm is a player's favorite if it would be chosen with more than this probability
LITTLE = 0.1  # below this weight other players' data does not count
ROWS, COLUMNS = 25, 12  # of the matrix on one page
RECENT_SECONDS = 60.0


class ShownArm(NamedTuple):
    """An arm as the page draws it."""

    place: int
    name: str
    here: bool
    color: int
    share: float
    """Of all decisions."""


@dataclass(frozen=True)
class Lead:
    """The state of the experiment in a sentence or two."""

    players: int
    arms: int
    favorites: tuple[tuple[ShownArm, int], ...]
    """Arms, and for how many players each looks best."""
    undecided: int
    shared: str
    """How much of what decisions rest on comes from other players, in words; empty if there are none."""
    started: bool


@dataclass(frozen=True)
class MatrixCell:
    """What is known of a player and an arm."""

    arm: ShownArm
    estimate: str
    interval: str
    """Its two ends; empty where nothing is known."""
    bar: tuple[float, float, float] | None
    """Lower end, estimate and upper end, from 0 to 100 on the matrix's common scale."""
    share: str
    tint: int
    """The arm's share of the player's decisions in tenths, for the background."""
    data: str
    weight: int | None
    """Of other players' data, in percent; None where there is hardly any data."""
    best: bool


@dataclass(frozen=True)
class MatrixRow:
    """A player's row of the matrix."""

    player: str
    here: bool
    decisions: int
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class Matrix:
    """One page of the table of players and arms."""

    arms: tuple[ShownArm, ...]
    rows: tuple[MatrixRow, ...]
    low: str
    high: str
    page: int
    pages: int
    search: str
    found: int
    hidden_arms: int


def contents(snapshot: Snapshot, analyses: AnalysisProcess, search: str, page_number: int) -> dict[str, Any]:
    """Everything that the page of an experiment shows, for the templates."""
    diagnosis, savings = (
        analyses.latest(kind, snapshot) if snapshot.rewards else None for kind in ("diagnosis", "savings")
    )
    return {
        "snapshot": snapshot,
        "address": experiment_address(snapshot.name),
        "analyzed_at": [analysis.at if analysis else 0 for analysis in (diagnosis, savings)],
        "arms": shown_arms(snapshot),
        "left_out": sum(here for _, here in snapshot.players) - len(snapshot.choices.players),
        "lead": lead(snapshot),
        "figures": figures(snapshot),
        "matrix": matrix(snapshot, search, page_number),
        "amount": lambda reward: words.amount(reward, snapshot.setup.low, snapshot.setup.high),
        "rewards_words": rewards_in_words(snapshot),
        "diagnosis": panels.difference_panel(diagnosis, snapshot),
        "savings": panels.savings_panel(savings, snapshot),
        "policy_words": policy_in_words(snapshot.setup.policy),
    }


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


def favorite_arms(snapshot: Snapshot) -> np.ndarray:
    """The place of the arm that looks best for each player, −1 where it is too early to tell, int [player].

    An arm looks best if the player would now choose it more often than all others together. A policy without
    randomness chooses the largest bonus, so for it the arm with the best mean looks best.
    """
    pulls = snapshot.counts.pulls
    if not pulls.size:
        return np.full(len(snapshot.players), -1)
    if snapshot.setup.policy.randomised:
        best = snapshot.probabilities.argmax(axis=1)
        clear = snapshot.probabilities.max(axis=1) > CLEAR
    else:
        here, known = np.array([here for _, here in snapshot.arms]), pulls > 0
        means = np.divide(snapshot.counts.sums, pulls, out=np.full(known.shape, -math.inf), where=known & here)
        best, clear = means.argmax(axis=1), known[:, here].all(axis=1)
    return np.where(clear & (len(snapshot.arms) > 1), best, -1)


def lead(snapshot: Snapshot) -> Lead:
    """What is happening, for the top of the page."""
    here = np.array([here for _, here in snapshot.players], bool)
    favorites = favorite_arms(snapshot)[here]
    arms = shown_arms(snapshot)
    found = [(arms[place], int((favorites == place).sum())) for place in set(favorites.tolist()) - {-1}]
    found.sort(key=lambda favorite: (-favorite[1], favorite[0].place))
    shared = ""
    if here.sum() > 1 and snapshot.decisions:
        shared = words.part_of(float((snapshot.weights * snapshot.probabilities).sum(axis=1)[here].mean()))
    return Lead(
        players=int(here.sum()),
        arms=sum(here for _, here in snapshot.arms),
        favorites=tuple(found),
        undecided=int((favorites == -1).sum()),
        shared=shared,
        started=snapshot.decisions > 0,
    )


def figures(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Decisions, rewards, waiting decisions, and the average reward: what it is, the number, and a note."""
    mean = float(snapshot.counts.sums.sum()) / snapshot.rewards if snapshot.rewards else math.nan
    average = words.amount(mean, snapshot.setup.low, snapshot.setup.high, 3)
    decided, rewarded = recent_rates(snapshot)
    waiting = "no decision is waiting for its reward"
    if snapshot.traffic.oldest is not None:
        waiting = f"the oldest since {_longest_wait(snapshot)}"
    return [
        ("Decisions", f"{snapshot.decisions:,}", f"{words.rate(decided)} at present"),
        ("Rewards", f"{snapshot.rewards:,}", f"{words.rate(rewarded)} at present"),
        ("Waiting for a reward", f"{snapshot.waiting:,}", waiting),
        ("Average reward", average, "of all rewards so far"),
    ]


def _longest_wait(snapshot: Snapshot) -> str:
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
    """One page of what is known of every player and arm."""
    setup = snapshot.setup
    arms = shown_arms(snapshot)
    shown = sorted(sorted(arms, key=lambda arm: (not arm.here, -arm.share))[:COLUMNS], key=lambda arm: arm.place)
    found = [place for place, (name, _) in enumerate(snapshot.players) if search.casefold() in name.casefold()]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(page, 1), pages)
    places = found[(page - 1) * ROWS : page * ROWS]
    cells = np.ix_(places, [arm.place for arm in shown])
    lows, highs = snapshot.lows[cells], snapshot.highs[cells]
    known = np.isfinite(lows)
    ends = (float(lows[known].min()), float(highs[known].max())) if known.any() else (setup.low, setup.high)
    best = favorite_arms(snapshot)
    rows = []
    for place in places:
        row = tuple(_cell(snapshot, place, arm, bool(best[place] == arm.place), ends) for arm in shown)
        rows.append(MatrixRow(*snapshot.players[place], int(snapshot.chosen[place].sum()), row))
    low, high = (words.amount(end, setup.low, setup.high) for end in ends)
    return Matrix(tuple(shown), tuple(rows), low, high, page, pages, search, len(found), len(arms) - len(shown))


def _cell(snapshot: Snapshot, player: int, arm: ShownArm, best: bool, scale: tuple[float, float]) -> MatrixCell:
    """A cell of the matrix, whose bars run from `scale[0]` to `scale[1]`."""
    pair = player, arm.place
    numbers = [float(table[pair]) for table in (snapshot.lows, snapshot.estimates, snapshot.highs)]
    low, estimate, high = (words.amount(number, snapshot.setup.low, snapshot.setup.high) for number in numbers)
    interval, bar = "", None
    if math.isfinite(numbers[0]):
        first, middle, last = (round(100 * (x - scale[0]) / max(scale[1] - scale[0], 1e-300), 1) for x in numbers)
        interval, bar = f"{low} to {high}", (first, middle, last)
    share, weight = snapshot.chosen[pair] / max(snapshot.chosen[player].sum(), 1), float(snapshot.weights[pair])
    data, percent = words.data_source(weight), None
    if not math.isfinite(numbers[1]):
        data = "not tried yet"
    elif not snapshot.counts.pulls[pair] and weight < LITTLE:
        data = "hardly known"  # no data of its own, and other players' data does not count
    else:
        percent = round(100 * weight)
    return MatrixCell(
        arm, estimate, interval, bar, words.percent(float(share)), round(10 * float(share)), data, percent, best
    )


def rewards_in_words(snapshot: Snapshot) -> str:
    """How rewards come in: how long they take, how many decisions wait, how many took the default reward."""
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
            f"{plural(snapshot.waiting, 'decision')} {'waits' if snapshot.waiting == 1 else 'wait'} for a reward; "
            f"the oldest has waited {_longest_wait(snapshot)}."
        )
    if setup.patience is not None and setup.default_reward is not None:
        parts.append(
            f"A decision without a reward after {words.span(setup.patience)} counts as "
            f"{words.amount(setup.default_reward, setup.low, setup.high)}"
            + (f"; so did {traffic.defaulted:,} of the latest {traffic.latest:,}." if traffic.latest else ".")
        )
    else:
        parts.append("A reward may come at any time. Until then its decision teaches nothing.")
    return " ".join(parts)


def policy_in_words(policy: Policy) -> str:
    """How players learn from each other. An ε that may be left out is a limit for the alarm; others are promises."""
    if not policy.shares:
        return "Every player learns from its own rewards only."
    defaults = {field.name: field.default for field in dataclasses.fields(policy)}
    if "epsilon" not in defaults:
        return "See the documentation of posse."
    if defaults["epsilon"] is None:
        return "It learns how alike players are and how noisy rewards are, and shares as far as it helps."
    epsilon = dict(zip(policy.constant_names(), policy.constants(), strict=True))["epsilon"]
    return f"Players share, relying on your promise that they differ by at most ε = {epsilon:g}."


def example(snapshot: Snapshot, base: str) -> str:
    """A first program for an experiment of the service at `base`."""
    player = next((name for name, here in snapshot.players if here), "Lyon")
    lines = ["import posse", "", f"client = posse.Client({base.rstrip('/')!r})"]
    if not snapshot.players:
        lines.append(f"client.change({snapshot.name!r}, join=[{player!r}])")
    lines += [
        f"decision = client.choose({snapshot.name!r}, {player!r})",
        "print(decision.arm)  # use this arm; then, when you know its reward:",
        f"client.observe({snapshot.name!r}, decision.id, {snapshot.setup.high:g})",
    ]
    return "\n".join(lines)
