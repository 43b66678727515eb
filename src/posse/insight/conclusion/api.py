"""conclude: can the experiment end, which arm should be shipped for whom, and what does stopping or going on cost?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number
from posse.insight.columns import Columns
from posse.insight.conclusion import text
from posse.insight.conclusion.chances import BestChances, best_chances, on_offer
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.logs import Log, takes_default
from posse.insight.watching.api import watch_of
from posse.insight.watching.evidence import WatchEvidence
from posse.insight.watching.log_blocks import log_blocks
from posse.learner import Counts
from posse.notebook import PRINT, Summarized, Summary
from posse.text import plain, to_json

if TYPE_CHECKING:
    from posse.insight.watching.api import Watch


@dataclass(frozen=True)
class ArmSummary:
    """What is known of one arm."""

    name: str
    offered: bool
    """Whether it can still be chosen."""
    answers: int
    """How many decisions for it have a reward."""
    share: float
    """Its probability at present, on average over the players."""
    mean: float
    """Its mean reward over the decisions in which it was on offer, weighted by their probabilities: no model."""
    low: float
    """Low and high are the ends of an interval for this mean, which holds at every look."""
    high: float
    expected: float
    """Its mean reward by the model of the players, on average over all decisions; `chance` goes with it."""
    chance: float
    """The chance that it is the best for everybody, by the same model."""


@dataclass(frozen=True)
class ArmDifference:
    """By how much the leader is better than another arm, with an interval that holds at every look."""

    against: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PlayerSummary:
    """What is known for one player."""

    name: str
    answers: int
    likeliest: str
    """The arm that is most likely the player's best."""
    chance: float
    others: float
    """The weight of other players' data in what is known of that arm, from 0 to 1."""
    winner: str | None
    """The arm that is shown to be the best for the player by its own decisions."""
    since: int
    """After how many rewards, of all players, it was shown; 0 if none is."""


@dataclass(frozen=True, eq=False, repr=False)
class Conclusion(Summarized):
    """Which arm to ship for whom, and what it rests on; `print` shows it in words, `page` on one page."""

    level: float
    """The probability that the verdict ever says to ship a wrong arm, for anybody, is at most this."""
    tolerance: float
    """By how much the arm to ship may be worse than another, in rewards."""
    decisions: int
    answers: int
    """How many decisions have a reward, and probabilities."""
    arms: tuple[ArmSummary, ...]
    players: tuple[PlayerSummary, ...]
    winner: str | None
    """The arm that is shown to be the best for everybody; it stays so once it is found."""
    since: int
    """After how many rewards it was shown; 0 if none is."""
    leader: str
    """The winner, or else the arm that is most likely the best for everybody."""
    differences: tuple[ArmDifference, ...]
    """The leader compared with every other arm on offer."""
    ship_loss: float
    """What shipping the leader for everybody loses a decision, compared with each player's best arm; from the model."""
    own_loss: float
    """The same if each player gets the arm with its highest expected reward."""
    going_loss: float
    """The same if decisions go on with the present probabilities."""
    best: BestChances
    """Everything that the model says."""
    alone: int
    """Players that have no evidence of their own, because memory is bounded."""
    alarms: tuple[tuple[str, str], ...]
    """Outcomes whose bounds are broken, each with the arm."""
    notes: tuple[str, ...]
    """What is left out because a default reward is taken."""
    doubts: tuple[str, ...]
    """Alarms of the checks of `posse.insight.watch`, in words: then nothing can be concluded."""
    setup: Mapping[str, Any]
    """How the experiment was set up."""
    digest: str
    """A fingerprint of the log."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The arms on offer."""
        return tuple(arm.name for arm in self.arms if arm.offered)

    @property
    def verdict(self) -> str:
        """What to do, in a sentence or two."""
        return text.verdict(self)

    def arm(self, name: str) -> ArmSummary:
        """What is known of one arm."""
        return next(arm for arm in self.arms if arm.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold."""
        return {"schema": 1, "kind": "conclusion", "verdict": self.verdict, **plain(self)}

    def page(
        self, watch: Watch | None = None, *, title: str = "", asked: str = "", ended: str = "", at: float | None = None
    ) -> str:
        """One page of HTML that prints well: a summary of the whole experiment.

        Args:
            watch: what `posse.insight.watch` says of the same log, for checks, effects and guards.
            title: the experiment's name.
            asked: what the experiment was to find out.
            ended: how the experiment ended, if it has: the page then has nothing about going on.
            at: when the log was read, in seconds since 1970, for the foot of the page.
        """
        from posse.insight.conclusion.page import to_page

        return to_page(self, watch, title, asked, ended, at)

    def __str__(self) -> str:
        return text.to_text(self)

    def _summary(self) -> Summary:
        table, title = text.arm_table(self) if self.answers else (), f"Conclusion: {self.verdict}"
        return Summary(f"{title} {text.unreliable(self)}".strip(), table, note=PRINT)


def conclude(
    source: Any,
    *,
    tolerance: float = 0.0,
    level: float = 0.05,
    player: str | Iterable[str] = "player",
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float = "propensity",
    id: str | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Conclusion:
    """Say from a learner's log which arm to ship for whom, and what stopping or going on costs. See docs/concluding.md.

    Args:
        source: the log: a Parquet file, an Arrow table, or a learner.
        tolerance: by how much the arm to ship may be worse than another, in rewards.
        level: the largest probability that it ever says to ship a wrong arm, for everybody or for any player.
        player, arm, reward, propensity, id, reward_range: for a log from elsewhere, see `posse.insight.Columns`. Arms
            must have had the same probabilities throughout: the column `propensity`, or "1/3" for three that were
            equally likely.

    >>> import posse
    >>> learner = posse.Learner(posse.IndTS(), ["red", "blue"], ["north"], seed=1, floor=0.2, clock=lambda: 0.0)
    >>> for _ in range(300):
    ...     learner.observe(decision := learner.choose("north"), float(decision.arm == "blue")) and None
    >>> conclude(learner).verdict
    'Ship blue: it is better than every other arm.'
    """
    blocks = log_blocks(source, Columns(player, arm, reward, propensity, id), reward_range)
    log = blocks.log
    low, high = log.about["reward_range"]
    level = number("level", level, least=1e-12, most=0.5)
    tolerance = number("tolerance", tolerance, least=0, most=high - low)
    evidence = ConclusionEvidence(len(log.about["first"]["arms"]), tolerance=tolerance / (high - low), level=level)
    evidence.add_answers(blocks.answers)
    offered, alarms = np.ones(len(log.arms), bool), []
    for change in log.about["changes"]:
        if change["kind"] == "alarm":
            alarms.append((change["outcome"], change["name"]))
        if change["kind"] in ("add arm", "retire arm"):
            offered[log.arms.index(change["name"])] = change["kind"] == "add arm"
    checks = WatchEvidence(len(log.about["first"]["arms"]), arrivals=not takes_default(log.about["setup"]))
    checks.add_choices(blocks.choices)
    checks.add_answers(blocks.answers)
    doubts = watch_of(checks, log.about["setup"], log.arms).doubts
    counts = log.counts()
    best = best_chances(counts, offered, evidence.present_of(*log.shape))
    decisions = blocks.choices.arm.size + blocks.unknown + log.given_up
    about = log.about["setup"], decisions, fingerprint(log), alarms, log.left_out(), doubts
    return conclusion_of(evidence, best, counts, offered, *about)


def conclusion_of(
    evidence: ConclusionEvidence,
    best: BestChances,
    counts: Counts,
    offered: np.ndarray,
    setup: Mapping[str, Any],
    decisions: int,
    digest: str = "",
    alarms: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
    doubts: Iterable[str] = (),
) -> Conclusion:
    """What the evidence and the model say, in the units of the rewards.

    `offered` says which arms can still be chosen, [arm]; `alarms` are outcomes whose bound is broken, with the arm;
    `doubts` are alarms of checks, in words.
    """
    unit, names, level = counts.high - counts.low, counts.arms, evidence.level
    present, pulls = on_offer(evidence.present_of(len(counts.players), len(names)), offered), counts.pulls
    winners, since = (each.tolist() for each in evidence.winners(offered))
    traffic = pulls.sum(axis=1) / max(pulls.sum(), 1)
    arms, likeliest = [], best.chances.argmax(axis=1)
    for place, name in enumerate(names):
        value, low, high = (counts.low + unit * each for each in evidence.mean(place, level))
        share, answers = float(traffic @ present[:, place]), int(pulls[:, place].sum())
        modelled = float(best.means[place]), float(best.overall[place])
        arms.append(ArmSummary(name, bool(offered[place]), answers, share, value, low, high, *modelled))
    shown = dict(zip(range(-1, len(winners) - 1), zip(winners, since, strict=True), strict=True))  # −1 is everybody
    players = []
    for place, name in enumerate(counts.players):
        arm, (found, when) = int(likeliest[place]), shown.get(place, (-1, 0))
        chance, others = float(best.chances[place, arm]), float(best.others[place, arm])
        winner = None if found < 0 else names[found]
        players.append(PlayerSummary(name, int(pulls[place].sum()), names[arm], chance, others, winner, when))
    leader = winners[0] if winners[0] >= 0 else int(best.overall.argmax())
    differences = tuple(
        ArmDifference(names[arm], *(unit * each for each in evidence.difference(leader, arm, level)))
        for arm in np.flatnonzero(offered).tolist()
        if arm != leader
    )
    return Conclusion(
        level=level,
        tolerance=evidence.tolerance * unit,
        decisions=decisions,
        answers=evidence.answers,
        arms=tuple(arms),
        players=tuple(players),
        winner=None if winners[0] < 0 else names[winners[0]],
        since=since[0],
        leader=names[leader],
        differences=differences,
        ship_loss=float(best.one_loss[leader]),
        own_loss=best.own_loss,
        going_loss=best.going_loss,
        best=best,
        alone=max(len(counts.players) - evidence.cells // len(names) ** 2, 0),
        alarms=tuple(alarms),
        notes=tuple(notes),
        doubts=tuple(doubts),
        setup=setup,
        digest=digest,
    )


def fingerprint(log: Log) -> str:
    """A digest of a log, the same for every file format: rows, rewards that count, and what it says about itself."""
    found = hashlib.sha256(to_json(log.about, indent=None).encode())
    for column in (log.player, log.arm, log.reward, log.probabilities):
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()
