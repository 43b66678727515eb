"""Evidence from decisions as they come, fed in blocks. Everything holds at every look, so one may look at any time.

*Shares.* If arms are drawn as logged, with probabilities p, then for any tilt θ and arm a

    exp(θ 1[A = a]) / (1 − p(a) + p(a) e^θ)

has the mean 1, given everything before: it is the likelihood ratio of a law that is tilted towards a. The product over
the decisions, averaged over arms and tilts, ever reaches 1/level with probability at most `level` (Ville's inequality).
The product may begin late, so the average is also over when it begins; otherwise a fault that comes late would have to
make good what a long sound time has cost. One more "arm" stands for whichever arm is the likeliest in a decision, which
finds misrouting that spreads over arms.

*Effects.* With stakes d(a), such as what a policy plays minus what the holdout plays, and guesses g(a) made before,

    X = Σ_a d(a) g(a) + d(A) (r − g(A)) / p(A)

has the mean Σ d(a) μ(a) whatever g is, so g may be moved until X is bounded below (see `EffectEvidence`), and
`confidence.running_low` bounds the average of these means.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.confidence import log_sum, running_low, shares

_STEPS = 2.0 ** np.arange(-6, 3)
TILTS = np.concatenate([-_STEPS, _STEPS])  # θ
EVERY = 64  # decisions from one look to the next
PIECE = 4096  # decisions whose numbers are in memory at a time
POINTS = 256  # the most looks that are kept for pictures
CELLS = 2_000_000  # the most pairs of players and arms with a guess of their own; further players share one
PRIOR = 10.0  # rewards that an arm's mean counts for in a player's guess, and everybody's mean in an arm's
REACHES = np.array([2.0, 8.0, 32.0, 128.0])  # by how much a weighted reward may be below its guess


@dataclass(frozen=True, eq=False)
class DecisionBlock:
    """Decisions in order: one entry, or one line, for each."""

    player: np.ndarray  # places of the players
    arm: np.ndarray  # places of the arms that were chosen
    probabilities: np.ndarray  # of all arms, [row, arm], 0 where an arm was not on offer
    reward: np.ndarray  # on [0, 1]; NaN where none came
    equal: np.ndarray | None = None  # the holdout's law, [row, arm]; None if arms on offer have equal shares

    def taken(self, rows: slice | np.ndarray) -> "DecisionBlock":
        """Only these rows."""
        equal = None if self.equal is None else self.equal[rows]
        return DecisionBlock(self.player[rows], self.arm[rows], self.probabilities[rows], self.reward[rows], equal)

    def equal_shares(self) -> np.ndarray:
        """The holdout's law, [row, arm]."""
        if self.equal is not None:
            return self.equal
        offered = self.probabilities > 0
        return offered / offered.sum(axis=1, keepdims=True)


class RewardGuess:
    """Guesses of rewards on [0, 1] by player and arm, made from the rewards before.

    They change only at fixed numbers of decisions (64, 128, …, later every sixteenth of all), so it does not matter in
    which blocks the decisions come.
    """

    def __init__(self, arms: int) -> None:
        self.count = 0
        self._sums, self._pulls = np.zeros((2, 1, arms))
        self._new: list[DecisionBlock] = []

    def follow(self, block: DecisionBlock) -> Iterator[tuple[DecisionBlock, np.ndarray]]:
        """Parts of the block in order, each with the guesses [row, arm] from the rewards before it."""
        self._grow(int(block.player.max(initial=-1)) + 1, block.probabilities.shape[1])
        start = 0
        while start < block.arm.size:
            step = min(max(EVERY, 1 << max(self.count.bit_length() - 5, 0)), 2 * PIECE)
            part = block.taken(slice(start, start + step - self.count % step))
            yield part, self._of(part.player)
            start, self.count = start + part.arm.size, self.count + part.arm.size
            self._new.append(part)
            if self.count % step == 0:
                self._learn()

    def _of(self, player: np.ndarray) -> np.ndarray:
        pulls, sums = self._pulls.sum(axis=0), self._sums.sum(axis=0)
        overall = (sums.sum() + PRIOR / 2) / (pulls.sum() + PRIOR)
        arms = (sums + PRIOR * overall) / (pulls + PRIOR)
        rows, own = np.unique(np.minimum(player, self._pulls.shape[0] - 1), return_inverse=True)
        return np.asarray(((self._sums[rows] + PRIOR * arms) / (self._pulls[rows] + PRIOR))[own])

    def _learn(self) -> None:
        for block in self._new:
            cells = np.minimum(block.player, self._pulls.shape[0] - 1), block.arm
            np.add.at(self._pulls, cells, 1.0)
            np.add.at(self._sums, cells, block.reward)
        self._new = []

    def _grow(self, players: int, arms: int) -> None:
        rows, columns = self._pulls.shape
        most = max(1, CELLS // max(arms, columns))
        wide = min(2 * players, most) if rows < min(players, most) else rows
        if wide > rows or arms > columns:
            more = (0, wide - rows), (0, max(0, arms - columns))
            self._sums, self._pulls = np.pad(self._sums, more), np.pad(self._pulls, more)


class Trail:
    """Numbers at some of the looks: at most POINTS of them, evenly spaced however long the past is."""

    def __init__(self) -> None:
        self.points: dict[int, np.ndarray] = {}  # by the number of decisions before the look

    def add(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Numbers at further looks, [look, …]."""
        stride = 1 << (int(positions[-1]) // POINTS).bit_length()
        first = np.unique(positions // stride, return_index=True)[1]
        kept: dict[int, tuple[int, np.ndarray]] = {}
        for at, each in (*self.points.items(), *zip(positions[first].tolist(), values[first], strict=True)):
            kept.setdefault(at // stride, (at, each))
        self.points = dict(kept.values())


@dataclass(frozen=True)
class ShareAlarm:
    """An arm was chosen more or less often than its probabilities say."""

    arm: int | None  # the arm's place; None for whichever arm was the likeliest in a decision
    observed: float  # its share of the decisions from `began` to `noticed`
    expected: float  # what its probabilities in these decisions say
    began: int  # how many decisions there were before it began: the likeliest number
    noticed: int  # how many decisions there were when the alarm was raised


def _still_to_begin(begun: np.ndarray | int) -> Any:
    """Which share of the products has not begun after so many chances to begin; late ones keep a fair share."""
    return 1 / np.log2(2 + begun)


class ShareEvidence:
    """Evidence that arms are not drawn with the logged probabilities."""

    def __init__(self, arms: int, level: float, every: int = EVERY) -> None:
        self.level, self.count = level, 0
        self.peak = 0.0  # the largest ln of the evidence at any look
        self.alarm: ShareAlarm | None = None
        self.trail = Trail()  # of how often each arm was chosen, and expected to be, [2, 1 + arm]
        self._first, self._every = arms, every
        self._totals, self._sums = np.full((1 + arms, TILTS.size), -np.inf), np.zeros((2, 1 + arms))

    def add(self, arm: np.ndarray, probabilities: np.ndarray) -> None:
        """Take in decisions in order; row 0 of all tables is the likeliest arm, row 1 + a is arm a."""
        more = 1 + probabilities.shape[1] - self._sums.shape[1]
        if more > 0:  # what was never on offer has earned and lost nothing
            begun = math.log1p(-_still_to_begin(-(-self.count // EVERY))) if self.count else -math.inf
            self._totals = np.pad(self._totals, ((0, more), (0, 0)), constant_values=begun)
            self._sums = np.pad(self._sums, ((0, 0), (0, more)))
        for start in range(0, arm.size, PIECE):
            self._add(arm[start : start + PIECE], probabilities[start : start + PIECE])

    def _add(self, arm: np.ndarray, probabilities: np.ndarray) -> None:
        size, arms = probabilities.shape
        chances, chosen = np.zeros((2, size, self._sums.shape[1]))
        likeliest = probabilities.argmax(axis=1)
        chances[:, 0], chances[:, 1 : 1 + arms] = probabilities.max(axis=1), probabilities
        chosen[:, 0], chosen[np.arange(size), 1 + arm] = likeliest == arm, 1
        starts = np.arange(-(self.count % self._every), size, self._every).clip(0)  # of stretches; each ends in a look
        factors = np.multiply.reduceat(1 + chances[..., None] * np.expm1(TILTS), starts, axis=0)  # few logarithms
        gained = np.add.reduceat(np.stack([chosen, chances], axis=1), starts, axis=0)
        sums = self._sums + gained.cumsum(axis=0)
        steps = gained[:, 0, :, None] * TILTS - np.log(factors)
        path = steps.cumsum(axis=0)
        begun, fresh = np.divmod(self.count + starts, EVERY)
        share = np.where(fresh == 0, _still_to_begin(begun) - _still_to_begin(begun + 1), 0.0)
        with np.errstate(divide="ignore"):
            new = np.log(share)[:, None, None] - (path - steps)
        totals = path + np.logaddexp(self._totals, np.logaddexp.accumulate(new, axis=0))
        looks = self.count + np.append(starts[1:], size)
        # Of the level, the likeliest arm and each arm have shares; arms that may come later have a half in all.
        by_arm = log_sum(totals) - math.log(TILTS.size) + np.log(shares(self._sums.shape[1], 1 + self._first))
        evidence = log_sum(by_arm)
        self.trail.add(looks, sums)
        self.peak = max(self.peak, float(evidence.max()))
        if self.alarm is None and self.peak >= math.log(1 / self.level):
            look = int((evidence >= math.log(1 / self.level)).argmax())
            self.alarm = self._raised(int(by_arm[look].argmax()), totals[look], int(looks[look]), sums[look])
        self._totals, self._sums, self.count = totals[-1], sums[-1], self.count + size

    def path(self) -> Iterator[tuple[float, ...]]:
        """At looks in the past and now: how many decisions, and each arm's choices beyond what was expected."""
        for at, (chosen, expected) in (self.trail.points | {self.count: self._sums}).items():
            yield at, *(chosen - expected)[1:].tolist()

    def deviations(self) -> Iterator[float]:
        """At the same looks: the standard deviation of an arm's choices, at most, for the arm that varies most.

        Of n decisions with the average probability p it is at most √(n p (1 − p)), which equal probabilities have.
        """
        for at, (_, expected) in (self.trail.points | {self.count: self._sums}).items():
            yield math.sqrt(max((expected[1:] * (1 - expected[1:] / max(at, 1))).max(), 0.0))

    def _raised(self, which: int, totals: np.ndarray, noticed: int, sums: np.ndarray) -> ShareAlarm:
        """The alarm; it began where the shares since then fit their probabilities worst, by the likelihood."""
        sign = 1 if TILTS[totals[which].argmax()] > 0 else -1
        points = {0: np.zeros((2, 1))} | {at: each for at, each in self.trail.points.items() if at < noticed}
        before = np.array([each[:, which] if which < each.shape[1] else np.zeros(2) for each in points.values()])
        sizes = noticed - np.array(list(points))
        observed, expected = ((sums[:, which] - before) / sizes[:, None]).T.clip(1e-12, 1 - 1e-12)
        gain = observed * np.log(observed / expected) + (1 - observed) * np.log((1 - observed) / (1 - expected))
        best = int((sizes * gain * np.sign(observed - expected) * sign).argmax())
        place = which - 1 if which else None
        return ShareAlarm(place, float(observed[best]), float(expected[best]), list(points)[best], noticed)


class EffectEvidence:
    """What one way of choosing earns more than another, a decision on average: rewards are on [0, 1].

    For the lower end, the guess of an arm with d > 0 is lowered to c p/d, and that of an arm with d < 0 is raised to
    1 − c p/|d|, if it is beyond. Then d (r − g)/p ≥ −c for every reward. For the upper end d is −d. A small reach c
    suits large shares, a large one small shares, so there are several, each with a part of the level.
    """

    def __init__(self) -> None:
        self.count = 0
        self.trail = Trail()
        self._sums = np.zeros((2, REACHES.size, 2))  # of `effect_terms`, for d and for −d

    def add(self, block: DecisionBlock, stakes: np.ndarray, guess: np.ndarray) -> None:
        """Take in decisions with rewards, the stakes d of all arms, and guesses of their rewards, all [row, arm]."""
        if block.arm.size:
            self.count += block.arm.size
            self._sums += effect_terms(block, stakes, guess).sum(axis=-1)
            self.trail.add(np.array([self.count]), self._sums.copy()[None])

    def estimate(self, level: float) -> tuple[float, float, float]:
        """The average so far and the ends of its interval, which is ever wrong with probability `level` at most."""
        value, low, high = _ends(np.array([self.count]), self._sums[None], level)
        return float(value[0]), float(low[0]), float(high[0])

    def path(self, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """At looks in the past and now: how many decisions, the average, and the ends of its interval."""
        points = self.trail.points | {self.count: self._sums}
        counts = np.array(list(points), np.int64)
        return counts, *_ends(counts, np.array(list(points.values())), level)


def effect_terms(block: DecisionBlock, stakes: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Each row's term, and its squared distance from its guess, [side, reach, 2, row]."""
    own, chances = (np.arange(block.arm.size), block.arm), block.probabilities
    weights = np.divide(stakes[own], chances[own], out=np.zeros(block.arm.size), where=chances[own] > 0)
    room = np.divide(chances, np.abs(stakes), out=np.full(stakes.shape, np.inf), where=stakes != 0)
    found = np.empty((2, REACHES.size, 2, block.arm.size))
    for place, reach in enumerate(REACHES):
        lowered, raised = np.minimum(guess, reach * room), np.maximum(guess, 1 - reach * room)
        for side, sign in enumerate((1, -1)):
            moved = np.where(sign * stakes > 0, lowered, raised)
            rest = sign * weights * (block.reward - moved[own])
            found[side, place] = sign * np.einsum("ij,ij->i", stakes, moved) + rest, rest**2
    return found


def _ends(counts: np.ndarray, sums: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Averages and the ends of their intervals, from sums [look, side, reach, 2]."""
    found = running_low(counts[:, None, None], sums[..., 0], sums[..., 1], level / 2 / REACHES.size, REACHES)
    low, high = found[:, 0].max(axis=1), -found[:, 1].max(axis=1)
    value = (sums[:, 0, -1, 0] - sums[:, 1, -1, 0]) / 2 / np.maximum(counts, 1)  # the largest reach moves least
    return np.clip(value, low, high), low, high


class WatchEvidence:
    """What has been seen of one experiment, in memory that does not grow with the decisions.

    `add_choices` takes decisions as they are made, `add_answers` takes them again as their rewards come.

    Args:
        arms: how many arms there are at the start; blocks may have more later.
        level: the largest probability that a check ever raises a false alarm, for each check.
        holdout: the holdout's share of the decisions.
        control: the place of the arm that the adaptive part is compared with.
        arrivals: whether to check that rewards arrive alike; not where a default reward is taken.
        every: how many decisions there are from one look to the next.
    """

    def __init__(
        self,
        arms: int,
        *,
        level: float = 0.01,
        holdout: float = 0.0,
        control: int | None = None,
        arrivals: bool = True,
        every: int = EVERY,
    ) -> None:
        self.holdout, self.control = holdout, control if holdout < 1 else None
        self.choices = ShareEvidence(arms, level, every)
        self.answers = ShareEvidence(arms, level, every) if arrivals else None
        self.against_holdout = EffectEvidence() if 0 < holdout < 1 else None
        self.against_control = None if self.control is None else EffectEvidence()
        self.answered = 0
        self._guess = RewardGuess(arms)

    def add_choices(self, block: DecisionBlock) -> None:
        """Take in decisions in the order in which they were made; their rewards do not matter."""
        self.choices.add(block.arm, block.probabilities)

    def add_answers(self, block: DecisionBlock) -> None:
        """Take in decisions that have rewards, in the order in which the rewards came.

        Where a default reward is taken, the order is that of the decisions, up to the first one that still waits:
        there the time at which a reward comes depends on the reward.
        """
        self.answered += block.arm.size
        if self.answers is not None:
            self.answers.add(block.arm, block.probabilities)
        if self.against_holdout is None and self.against_control is None:
            return
        free = np.count_nonzero(block.probabilities, axis=1) > 1  # where one arm is shipped, nothing is compared
        for part, guess in self._guess.follow(block.taken(free)):
            equal = part.equal_shares()
            adaptive = (part.probabilities - self.holdout * equal) / (1 - self.holdout)
            if self.against_holdout is not None:
                self.against_holdout.add(part, adaptive - equal, guess)
            if self.against_control is not None and self.control is not None:
                there = part.probabilities[:, self.control] > 0
                stakes = adaptive - (np.arange(adaptive.shape[1]) == self.control)
                self.against_control.add(part.taken(there), stakes[there], guess[there])
