"""A diagnosis as a picture: a panel for each arm, a row for each player, and a band as wide as ε.

The band lies where it touches the most intervals. A player whose interval it cannot touch differs by more than ε from
some other player, or else the band could be moved: if every two intervals on a line can be touched at once, all can
(Helly). Such a player is drawn in another color and shape. The alarm is sharper than the intervals: if it names two
players of an arm on which the band touches all, these two are drawn so.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.figures import matplotlib
from posse.figures.canvas import finish, new_figure
from posse.figures.style import BAND, BLUE, HOUSE, INK, VERMILION
from posse.insight.diagnosis.text import headline, why_no_estimate
from posse.text import decimals, figure_label, interval_decimals, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from posse.insight.diagnosis.api import Diagnosis
    from posse.insight.hierarchy.shares import AttributeShares

MOST_ARMS = 10
MOST_PLAYERS = 40
LONGEST_NAME = 26
COLUMNS = (0, 1, 2, 3, 4, 3, 3, 4, 4, 5, 5)  # of panels, for 0, 1, 2, … arms
PLAIN, BROKEN = BLUE, VERMILION
STYLE: dict[str, Any] = {**HOUSE, "axes.spines.left": False, "axes.grid.axis": "x", "ytick.left": False}


def draw(diagnosis: Diagnosis, shares: AttributeShares | None = None) -> Figure:
    """The picture as a matplotlib Figure; `figure.savefig(file)` writes it."""
    estimates = np.nan_to_num(diagnosis.spreads.value, nan=-1.0)
    arms = sorted(np.lexsort((-estimates, -diagnosis.bounds))[:MOST_ARMS].tolist())  # in the diagnosis's order
    rows = {arm: _rows(diagnosis, arm) for arm in arms}
    columns = COLUMNS[len(arms)]
    lines = math.ceil(len(arms) / columns)
    tallest = max(len(players) for players in rows.values())
    width = max(2.6 * columns, 6.4)
    verdict = textwrap.wrap(figure_label(headline(diagnosis), 200), int(12 * width))
    note = textwrap.wrap(_note(diagnosis, arms, rows), int(17 * width))
    head = 0.48 + 0.18 * len(verdict) + 0.14 * len(note)  # inches above the panels
    heights = [0.75 + 0.155 * max(tallest, 3)] * lines + ([] if shares is None else [_shares_height(shares)])
    size = (width, sum(heights) + head)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(*size)
        below = (0, 0, 1, 1 - head / size[1])
        figure.set_layout_engine("constrained", rect=below, hspace=0.04, wspace=0.03)
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        panels: list[Axes] = []
        for place, arm in enumerate(arms):
            cell = grid[divmod(place, columns)]
            panels.append(figure.add_subplot(cell, sharex=panels[0] if panels else None))
            _panel(panels[-1], diagnosis, arm, rows[arm])
        ends = [end[players, arm] for arm, players in rows.items() for end in (diagnosis.lower, diagnosis.upper)]
        reach = np.concatenate(ends) if tallest else np.array([diagnosis.low, diagnosis.high])
        margin = 0.02 * (reach.max() - reach.min())
        panels[0].set_xlim(reach.min() - margin, reach.max() + margin)  # one scale for all panels
        if shares is not None:
            _bars(figure.add_subplot(grid[-1, :]), diagnosis, shares)
        _words(figure, diagnosis, verdict, note)
    return figure


def draw_effects(diagnosis: Diagnosis) -> Figure:
    """A forest plot: how much better one arm is than another, for each player and over all of them."""
    first, second = (figure_label(diagnosis.arms[arm], LONGEST_NAME) for arm in diagnosis.compared)
    values, low, high = diagnosis.effects
    there = np.flatnonzero(diagnosis.model.there[0])
    order = there[np.argsort(values[there], kind="stable")]
    if len(order) > MOST_PLAYERS:
        order = np.concatenate([order[: MOST_PLAYERS // 2], order[-MOST_PLAYERS // 2 :]])
    pulls = diagnosis.pulls[order].sum(axis=1)
    rows = np.arange(len(order)) + 2
    overall = [float(part) for part in diagnosis.effect]
    with matplotlib.rc_context(STYLE):
        figure = new_figure(6.4, 1.4 + 0.17 * (len(order) + 2))
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.axvline(overall[0], color=BAND, linewidth=1, zorder=0)
        axes.hlines(rows, low[order], high[order], color=PLAIN, linewidth=1.4)
        axes.scatter(values[order], rows, s=8 + 40 * np.sqrt(pulls / pulls.max()), color=PLAIN, marker="s", zorder=3)
        axes.fill([overall[1], overall[0], overall[2], overall[0]], [0, 0.35, 0, -0.35], color=VERMILION)
        names = [figure_label(diagnosis.players[player], LONGEST_NAME) for player in order]
        axes.set_yticks([0, *rows], ["all players", *names], fontsize=7)
        axes.set_ylim(-1, rows[-1] + 0.8)
        axes.set_xlabel(f"mean reward of {first} minus {second}")
        axes.set_title("For whom? Each player's difference, drawn together as far as the data allows", loc="left")
        without = len(there) - len(order)
        left_out = f" {plural(without, 'player')} in the middle are left out." if without else ""
        note = f"{100 * (1 - diagnosis.level):g} % intervals; larger squares: more rewards.{left_out}"
        figure.text(0.01, 0.01, note, color=INK, fontsize=7)
        figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def draw_shares(diagnosis: Diagnosis, shares: AttributeShares) -> Figure:
    """A bar for each attribute: the share that it explains of how players differ, with its interval."""
    with matplotlib.rc_context(STYLE):
        figure = new_figure(6.4, 0.3 + _shares_height(shares))
        _bars(figure.add_subplot(), diagnosis, shares)
        return finish(figure)


def _shares_height(shares: AttributeShares) -> float:
    return 0.75 + 0.24 * (len(shares.values) + 1)


def _bars(axes: Axes, diagnosis: Diagnosis, shares: AttributeShares) -> None:
    """A bar for each attribute, the one that explains most at the top, and one for what is the players' own."""
    of_arms = shares.contrasts is not None
    found = (shares.contrasts or shares.levels).interval(diagnosis.level)
    value, low, high = (100 * np.asarray(part) for part in found)
    order = [*np.argsort(-value[:-1], kind="stable"), len(value) - 1]
    rows = np.arange(len(order))
    colors = [PLAIN] * (len(order) - 1) + [BAND]
    axes.barh(rows, value[order], height=0.55, color=colors, alpha=0.75)
    axes.hlines(rows, low[order], high[order], color=INK, linewidth=1.4)
    names = [figure_label(name, LONGEST_NAME) for name in shares.values]
    axes.set_yticks(rows, [*(names[place] for place in order[:-1]), "players' own"], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    what = "what the arms do" if of_arms else "level"
    axes.set_title(f"What explains how players differ in {what}: percent", loc="left", fontweight="bold", fontsize=8.5)


def _rows(diagnosis: Diagnosis, arm: int) -> np.ndarray:
    """The players to draw, ordered by mean: those with data; of many, those with the most extreme intervals."""
    players = np.flatnonzero(diagnosis.pulls[:, arm] > 0)
    if len(players) > MOST_PLAYERS:
        highest = players[np.argsort(-diagnosis.lower[players, arm], kind="stable")][: MOST_PLAYERS // 2]
        rest = np.setdiff1d(players, highest)
        lowest = rest[np.argsort(diagnosis.upper[rest, arm], kind="stable")][: MOST_PLAYERS // 2]
        players = np.concatenate([highest, lowest])
    return np.asarray(players[np.argsort(diagnosis.means[players, arm], kind="stable")])


def _band(diagnosis: Diagnosis, arm: int) -> tuple[float, float] | None:
    """Where the band lies: where it touches the most intervals, and there as close as possible to the mean reward."""
    there = diagnosis.pulls[:, arm] > 0
    if diagnosis.epsilon is None or not there.any():
        return None
    # A band that starts at x touches the interval [l, u] if x is in [l − ε, u].
    first, last = diagnosis.lower[there, arm] - diagnosis.epsilon, diagnosis.upper[there, arm]
    wish = np.average(diagnosis.means[there, arm], weights=diagnosis.pulls[there, arm]) - diagnosis.epsilon / 2
    starts = np.array([wish, *first, *last])
    touched = ((first <= starts[:, None]) & (starts[:, None] <= last)).sum(axis=1)
    best = starts[touched == touched.max()]
    start = float(best[np.abs(best - wish).argmin()])
    return start, start + diagnosis.epsilon


def _off(diagnosis: Diagnosis, arm: int, band: tuple[float, float] | None) -> np.ndarray:
    """Which players stand out: those off the band; if there are none, the two that an alarm is about."""
    if band is None:
        return np.zeros(len(diagnosis.players), bool)
    off = (diagnosis.lower[:, arm] > band[1]) | (diagnosis.upper[:, arm] < band[0])
    if not off.any() and diagnosis.arms[arm] in diagnosis.broken:
        off = np.isin(diagnosis.players, diagnosis.pairs[arm] or ())
    return np.asarray(off)


def _panel(axes: Axes, diagnosis: Diagnosis, arm: int, players: np.ndarray) -> None:
    band = _band(diagnosis, arm)
    off = _off(diagnosis, arm, band)
    if band is not None:
        axes.axvspan(*band, color=BAND, alpha=0.45, linewidth=0, zorder=0)
    for row, player in enumerate(players):
        ends = diagnosis.lower[player, arm], diagnosis.upper[player, arm]
        width = (ends[1] - ends[0]) / (diagnosis.high - diagnosis.low)
        look: dict[str, Any] = {"color": PLAIN, "alpha": float(np.clip(1.15 - width, 0.3, 1))}  # wide ones are faint
        line, marker, size = 1.4, "o", 3.6
        if off[player]:
            look, line, marker, size = {"color": BROKEN}, 2.2, "D", 4.2
        axes.plot(ends, (row, row), linewidth=line, solid_capstyle="butt", **look)
        look |= {"markeredgecolor": "white", "markeredgewidth": 0.4}
        axes.plot(diagnosis.means[player, arm], row, marker=marker, markersize=size, **look)
    names = [figure_label(diagnosis.players[player], LONGEST_NAME) for player in players]
    axes.set_yticks(range(len(players)), names, fontsize=7)
    for label, player in zip(axes.get_yticklabels(), players, strict=True):
        if off[player]:
            label.set_color(BROKEN)
            label.set_fontweight("bold")
    axes.set_ylim(-0.7, max(len(players), 3) - 0.3)
    axes.tick_params(labelbottom=True)
    axes.set_title(figure_label(diagnosis.arms[arm], LONGEST_NAME), loc="left", fontweight="bold", fontsize=8.5, pad=15)
    above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 7, "color": INK}
    axes.annotate(_about(diagnosis, arm), (0, 1), (0, 3.5), **above)


def _about(diagnosis: Diagnosis, arm: int) -> str:
    """The line above a panel: what is certain and what is likely."""
    estimate, low, high = diagnosis.spreads.at(arm)
    if math.isnan(estimate):
        return f"no estimate: {why_no_estimate(diagnosis, arm)}"
    pair = " − ".join(figure_label(name, 12) for name in diagnosis.pairs[arm] or ())
    digits = f".{max(decimals(diagnosis.low, diagnosis.high, 2), interval_decimals(low, high))}f"
    proven = f"; {pair} ≥ {diagnosis.bounds[arm]:{digits}}" if pair else ""
    return f"95 % of pairs: {estimate:{digits}}{proven}"


def _words(figure: Figure, diagnosis: Diagnosis, verdict: list[str], note: list[str]) -> None:
    """The verdict, the note and the legend, from the top down."""
    height = figure.get_size_inches()[1]
    text: dict[str, Any] = {"x": 0.012, "ha": "left", "va": "top"}
    figure.text(y=1 - 0.1 / height, s="\n".join(verdict), fontsize=10, fontweight="bold", **text)
    below = 0.16 + 0.18 * len(verdict)
    figure.text(y=1 - below / height, s="\n".join(note), fontsize=7.5, color=INK, **text)
    line, label = matplotlib.lines.Line2D, "mean reward and its interval"
    handles: list[Any] = [line([], [], color=PLAIN, marker="o", markersize=4, label=label)]
    if diagnosis.alarm:
        label = "differs from some player by more than ε"
        handles.append(line([], [], color=BROKEN, marker="D", markersize=4.5, linewidth=2.2, label=label))
    if diagnosis.epsilon is not None:
        handles.append(matplotlib.patches.Patch(color=BAND, alpha=0.45, label=f"as wide as ε = {diagnosis.epsilon:g}"))
    place = (0.0, 1 - (below + 0.04 + 0.14 * len(note)) / height)
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=place, ncols=3, fontsize=7.5, columnspacing=1.5)


def _note(diagnosis: Diagnosis, arms: list[int], rows: dict[int, np.ndarray]) -> str:
    """What the intervals mean, and what is not drawn."""
    parts = [f"Intervals hold for ever, all together, with probability {1 - diagnosis.level:g}."]
    without = len(diagnosis.arms) - len(arms)
    if without:
        parts.append(f"The {without} arms with the least spread are left out.")
    if any((diagnosis.pulls[:, arm] > 0).sum() > len(players) for arm, players in rows.items()):
        parts.append(f"Where there are more than {MOST_PLAYERS} players, those in the middle are left out.")
    if (diagnosis.pulls[:, arms] == 0).any():
        parts.append("Players without data for an arm are not shown there.")
    return "  ".join(parts)
