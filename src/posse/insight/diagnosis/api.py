"""diagnose: how players differ, and whether ε is right.

There are two kinds of answers. *Estimates* come from the model of the players (`posse.insight.hierarchy`): how far they
differ in level and in what the arms do, each with a test and an interval. The *bound* is guaranteed: with probability
1 − level, it is never larger than the true difference between two players, however the data was gathered and however
often one looks (`pairs.py`). An alarm is raised when it passes ε.

All of it is void if rewards go missing, or come late, because of their value.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.confidence import interval, shares
from posse.insight.columns import Columns
from posse.insight.diagnosis.attributes import attributes_as_dict
from posse.insight.diagnosis.pairs import pair_bounds
from posse.insight.diagnosis.text import SIGNIFICANT, answers, arm_table, conditions, headline, plannable, to_text
from posse.insight.hierarchy.data import PlayerData
from posse.insight.hierarchy.model import PlayerModel, PosteriorInterval
from posse.insight.hierarchy.shares import AttributeShares
from posse.insight.planning.api import Plan, plan
from posse.insight.report import ReportSection, to_html
from posse.notebook import PRINT, Summarized, Summary
from posse.simulation.progress import Progress
from posse.text import listed, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Summarized):
    """How players differ, in the user's reward units; print it, draw it, or read its fields."""

    data: PlayerData
    """What the diagnosis rests on: counts and the model. `posse.insight.plan(diagnosis.data)` plans from the same."""
    lower: np.ndarray
    """Lower ends of the intervals for the means, [player, arm]; all hold for ever with probability 1 − level."""
    upper: np.ndarray
    """Upper ends, [player, arm]."""
    bounds: np.ndarray
    """The least by which some two players differ, [arm]; 0 where none are shown to differ."""
    pairs: tuple[tuple[str, str] | None, ...]
    """For each arm the two players that the bound is about, the better one first; None where it is 0."""
    compared: tuple[int, int]
    """The two arms whose difference is shown player by player: the best one over all players, and another."""
    epsilon: float | None
    """The ε in question; None if there is none, and then there is no alarm."""
    level: float
    """The probability of ever raising a false alarm, and of an interval that misses, is at most this."""
    shared: np.ndarray | None
    """How much each player's decisions rest on other players' data, 0 to 1, [player]; None if the source has none."""
    decisions: int | None
    """How many decisions the log has; None if the source is not a log."""
    missing: int | None
    """How many of their rewards are unknown, including decisions given up; None if the source is not a log."""
    costs: Plan | None = None
    """What each choice of policy would cost with as much traffic again; None if that was not asked for."""

    @property
    def players(self) -> tuple[str, ...]:
        """The players' names."""
        return self.data.counts.players

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return self.data.counts.arms

    @property
    def pulls(self) -> np.ndarray:
        """Pulls whose reward is known, [player, arm]."""
        return self.data.counts.pulls

    @property
    def means(self) -> np.ndarray:
        """Mean rewards, [player, arm]; NaN where there are none."""
        sums = self.data.counts.sums
        return np.divide(sums, self.pulls, out=np.full(self.pulls.shape, np.nan), where=self.pulls > 0)

    @property
    def low(self) -> float:
        """The least possible reward."""
        return self.data.counts.low

    @property
    def high(self) -> float:
        """The greatest possible reward."""
        return self.data.counts.high

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left out because a default reward is taken."""
        return self.data.notes

    @property
    def model(self) -> PlayerModel:
        """The model behind all estimates."""
        return self.data.model

    @property
    def levels(self) -> PosteriorInterval:
        """Standard deviation between players of their levels: of what they earn more on every arm."""
        return self.model.levels(self.level)

    @property
    def contrasts(self) -> PosteriorInterval:
        """Standard deviation between players of what an arm does for them beyond their level."""
        return self.model.contrasts(self.level)

    @property
    def spread(self) -> PosteriorInterval:
        """What 95 % of the pairs of players stay within, on the arm where they differ most."""
        return self.model.spread(self.level)

    @property
    def spreads(self) -> PosteriorInterval:
        """The same for each arm, [arm]; NaN where fewer than two players have data."""
        found = np.full((3, len(self.arms)), np.nan)
        if self.model.comparable:
            found[:, self.model.there[1]] = self.model.spreads(self.level)
            found[:, (self.pulls > 0).sum(axis=0) < 2] = np.nan
        return PosteriorInterval(*found)

    @property
    def effects(self) -> PosteriorInterval:
        """How much better the first of the arms compared is than the second for each player, shrunken, [player]."""
        first, second = self.compared
        return self.model.interval(self.model.draws[:, :, first] - self.model.draws[:, :, second], self.level)

    @property
    def effect_chances(self) -> np.ndarray:
        """The chance that the first of the arms compared is better than the second for each player, [player]."""
        first, second = self.compared
        return np.asarray(self.model.chances @ (self.model.draws[:, :, first] > self.model.draws[:, :, second]))

    @property
    def effect(self) -> PosteriorInterval:
        """The same on average over all players that have data, each of them counted alike."""
        return self._effect(self.model.there[0].astype(float))

    @property
    def effect_by_traffic(self) -> PosteriorInterval:
        """The same on average over all rewards."""
        return self._effect(self.pulls.sum(axis=1).astype(float))

    def _effect(self, weights: np.ndarray) -> PosteriorInterval:
        first, second = self.compared
        apart = self.model.draws[:, :, first] - self.model.draws[:, :, second]
        return self.model.interval(apart @ (weights / weights.sum()), self.level)

    @property
    def shares(self) -> AttributeShares | None:
        """What each attribute explains of how players differ; None without attributes."""
        return self.data.shares

    @property
    def bound(self) -> float:
        """The least by which some two players differ on some arm."""
        return float(self.bounds.max())

    @property
    def broken(self) -> tuple[str, ...]:
        """The arms on which players provably differ by more than ε, the worst first."""
        if self.epsilon is None:
            return ()
        worst_first = np.argsort(-self.bounds, kind="stable")
        return tuple(self.arms[arm] for arm in worst_first if self.bounds[arm] > self.epsilon)

    @property
    def alarm(self) -> bool:
        """Whether ε is provably too small."""
        return bool(self.broken)

    @property
    def differ(self) -> bool:
        """Whether players are shown to differ at all, even if not whether in level or in what the arms do."""
        return self.model.difference_p < SIGNIFICANT or self.bound > 0

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        return headline(self)

    def __str__(self) -> str:
        return to_text(self)

    def _summary(self) -> Summary:
        return Summary(f"Diagnosis: {self.verdict}", arm_table(self), "<>>>><", PRINT)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries, None where nothing is known; for JSON."""
        own = ("players", "arms", "pulls", "means", "lower", "upper", "bounds", "pairs", "low", "high", "epsilon")
        also = ("level", "shared", "decisions", "missing", "alarm", "broken", "bound", "verdict", "notes")
        model: dict[str, Any] = {}
        if self.model.comparable:
            model = {
                "difference_p": self.model.difference_p,
                "levels": {"p": self.model.level_p, **self.levels._asdict()},
                "contrasts": {"p": self.model.contrast_p, **self.contrasts._asdict()},
                "odds_deviation": self.model.odds_deviation(self.level)._asdict(),
                "i_squared": self.model.i_squared,
                "spread": self.spread._asdict(),
                "spreads": self.spreads._asdict(),
                "compared": [self.arms[arm] for arm in self.compared],
                "effect": self.effect._asdict(),
                "effect_by_traffic": self.effect_by_traffic._asdict(),
                "effects": self.effects._asdict(),
                "effect_chances": self.effect_chances,
            }
        if self.shares is not None:
            model["attributes"] = attributes_as_dict(self, self.shares)
        costs = None if self.costs is None else self.costs.to_dict()
        found = {name: getattr(self, name) for name in (*own, *also)}
        return {"schema": 2, "kind": "diagnosis", **plain({**found, **model, "costs": costs})}

    def figure(self, *, shares: bool = True) -> "Figure":
        """A panel for each arm: players' intervals beside a band as wide as ε. Needs matplotlib.

        Below them, if `shares`, is a bar for each attribute that players have.
        """
        from posse.insight.diagnosis.figure import draw

        return draw(self, self.shares if shares else None)

    def shares_figure(self) -> "Figure":
        """A bar for each attribute: the share that it explains of how players differ. Needs matplotlib."""
        from posse.insight.diagnosis.figure import draw_shares

        if self.shares is None:
            raise ValueError("the players have no attributes; give attributes=['region'] or a log that says them")
        return draw_shares(self, self.shares)

    def effects_figure(self) -> "Figure":
        """A forest plot: how much better one arm is than another, player by player. Needs matplotlib."""
        from posse.insight.diagnosis.figure import draw_effects

        if not self.model.comparable or self.compared[0] == self.compared[1]:
            raise ValueError("there are no effects to draw: expected rewards of two players and on two arms")
        return draw_effects(self)

    def report(self) -> str:
        """A page with the answers and both pictures, in one HTML file. Needs matplotlib and Jinja."""
        pictures: dict[str, list[tuple[str, Figure]]] = {}
        if self.model.comparable:
            pictures["Is ε right?"] = [("Each player's interval on each arm", self.figure(shares=False))]
            if self.shares is not None:
                pictures["What explains it?"] = [("The share of each attribute", self.shares_figure())]
            if self.compared[0] != self.compared[1]:
                pictures["For whom?"] = [("The difference between the two arms for each player", self.effects_figure())]
        sections = [
            ReportSection(question, [sentences], pictures.get(question, ()), [table] if table else ())
            for question, sentences, table, _ in answers(self)
        ]
        sections.append(ReportSection("What all this rests on", conditions(self)))
        return to_html(self.verdict, sections)


def diagnose(
    source: Any,
    *,
    epsilon: float | None = None,
    against: str | None = None,
    player: str | Iterable[str] = "player",
    arm: str = "arm",
    reward: str = "reward",
    id: str | None = None,
    trials: str | None = None,
    reward_range: tuple[float, float] | None = None,
    level: float = 0.05,
    attributes: str | Iterable[str] | None = None,
    costs: bool = False,
    progress: Progress = None,
) -> Diagnosis:
    """Say how players differ, in level and in what the arms do, which ε follows, and whether a stated ε is broken.

    The result is void if rewards go missing because of their value.

    The level of the alarm is shared among players and arms in the order in which they joined, so that more may join at
    any time. In a log from elsewhere, they joined with their first rows. Those who have retired keep their numbers.

    Args:
        source: a learner, its counts, or a log: a Parquet or CSV file, an Arrow table, a DataFrame or a mapping of
            columns.
        epsilon: the ε in question; the source's own if omitted, and none for a log from elsewhere.
        against: the arm that the best one is compared with, player by player; the second best if omitted.
        player, arm, reward, id, trials: which columns of a log hold what, see `posse.insight.Columns`.
        reward_range: the least and the greatest possible reward; the source's own if omitted, and (0, 1) for a log
            from elsewhere.
        level: the probability of ever raising a false alarm is at most this; intervals miss as often.
        attributes: what players have in common, such as ["region", "device"]: columns of a log in which each player has
            one value; the source's own if omitted. The diagnosis then says how much each explains.
        costs: also simulate what each choice of policy would cost with as much traffic again (`posse.insight.plan`).
        progress: True for a bar on standard error while that is simulated.

    >>> from posse.learner import Counts
    >>> pulls, sums = np.array([[400, 400], [400, 400]]), np.array([[80.0, 60.0], [88.0, 240.0]])
    >>> diagnosis = diagnose(Counts(("north", "south"), ("old", "new"), pulls, sums), epsilon=0.1)
    >>> diagnosis.alarm, diagnosis.broken, diagnosis.pairs
    (True, ('new',), (None, ('south', 'north')))
    >>> diagnosis.model.contrast_p < 1e-6
    True
    """
    level = number("level", level, least=1e-12, most=0.5)
    data = PlayerData.read(source, Columns(player, arm, reward, id=id, trials=trials), reward_range, attributes)
    counts, pulls = data.counts, data.counts.pulls
    players, arms = pulls.shape
    if not (players and arms):
        raise ValueError(f"{players} players and {arms} arms, but expected one of each at least")
    unit = counts.high - counts.low
    chosen = counts.epsilon if epsilon is None else epsilon
    chosen = None if chosen is None else number("epsilon", chosen, least=0, most=unit)
    sums = np.clip((counts.sums - pulls * counts.low) / unit, 0, pulls)
    lower, upper = interval(pulls, sums, level * np.outer(shares(players), shares(arms)))
    bounds, better, worse = pair_bounds(pulls, sums, level)
    pairs = tuple(
        (counts.players[p], counts.players[q]) if bound > 0 else None
        for p, q, bound in zip(better, worse, bounds, strict=True)
    )
    return Diagnosis(
        data,
        counts.low + unit * lower,
        counts.low + unit * upper,
        unit * bounds,
        pairs,
        _compared(data, against),
        chosen,
        level,
        *_about_decisions(data),
        plan(data, epsilon=chosen or None, progress=progress) if costs and plannable(pulls) else None,
    )


def _compared(data: PlayerData, against: str | None) -> tuple[int, int]:
    """The arm that is best on average over the players, and the one given or the second best that has data.

    Both are the same if there is no second one.
    """
    arms = data.counts.arms
    if against is not None and against not in arms:
        raise ValueError(f"against={against!r}, but the arms are {listed(arms)}")
    order = np.argsort(-np.where(data.model.there[1], data.model.draws.mean(axis=(0, 1)), -np.inf), kind="stable")
    if against is None and data.model.there[1].sum() < 2:
        return int(order[0]), int(order[0])
    other = int(order[1]) if against is None else arms.index(against)
    return next((int(arm) for arm in order if arm != other), other), other


def _about_decisions(data: PlayerData) -> tuple[np.ndarray | None, int | None, int | None]:
    """The mean weight of others' data by player, NaN without decisions; how many decisions and missing rewards."""
    if (log := data.log) is None:
        return data.shared, None, None
    # Past rewards that a learner was given are not its decisions.
    decision = np.ones(log.player.shape, bool) if log.is_decision is None else log.is_decision | np.isnan(log.reward)
    sizes = int(decision.sum()) + log.given_up, log.missing + log.given_up
    if log.shared is None:
        return None, *sizes
    known = decision & ~np.isnan(log.shared)
    count = np.bincount(log.player[known], minlength=len(log.players))
    total = np.bincount(log.player[known], weights=log.shared[known], minlength=len(log.players))
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0), *sizes
