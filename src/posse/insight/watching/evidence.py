"""Evidence from decisions as they come, fed in blocks. Everything holds at every look, so one may look at any time.

*Shares.* If arms are drawn as logged, with probabilities p, then for any tilt θ and arm a

    exp(θ 1[A = a]) / (1 − p(a) + p(a) e^θ)

has the mean 1, given everything before: it is the likelihood ratio of a law that is tilted towards a. The product over
the decisions, averaged over arms and tilts, ever reaches 1/level with probability at most `level` (Ville's inequality).
One more "arm" stands for whichever arm is the likeliest in a decision, which finds misrouting that spreads over arms.

*Effects.* With stakes d(a), such as what a policy plays minus what the holdout plays, and guesses g(a) made before,

    X = Σ_a d(a) g(a) + d(A) (r − g(A)) / p(A)

has the mean Σ d(a) μ(a) whatever g is, so g may be moved until X is bounded below (see `EffectEvidence`), and
`confidence.running_low` bounds the average of these means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posse.confidence import running_low, shares

_STEPS = 2.0 ** np.arange(-6, 3)
TILTS = np.concatenate([-_STEPS, _STEPS])  # θ
EVERY = 64  # decisions from one look to the next
PIECE = 4096  # decisions whose numbers are in memory at a time
POINTS = 256  # the most looks that are kept for pictures
CELLS = 2_000_000  # the most pairs of players and arms with a guess of their own; further players share one
PRIOR = 10.0  # rewards that an arm's mean counts for in a player's guess, and everybody's mean in an arm's
FAR = 100.0  # by how much a weighted reward may fall short where no least share of the control is known


@dataclass(frozen=True, eq=False)
class DecisionBlock:
    """Decisions in order: one entry, or one line, for each."""

    player: np.ndarray  # places of the players
    arm: np.ndarray  # places of the arms that were chosen
    probabilities: np.ndarray  # of all arms, [row, arm], 0 where an arm was not on offer
    reward: np.ndarray  # on [0, 1]; NaN where none came
    equal: np.ndarray | None = None  # the holdout's law, [row, arm]; None if arms on offer have equal shares

    def taken(self, rows: slice | np.ndarray) -> DecisionBlock:
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
            step = max(EVERY, min(2 ** (self.count.bit_length() - 5), 2 * PIECE) if self.count else 0)
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
        more = max(0, min(players, CELLS // max(arms, columns)) - rows), max(0, arms - columns)
        if any(more):
            wide = (0, max(more[0], rows // 4 if more[0] else 0)), (0, more[1])
            self._sums, self._pulls = np.pad(self._sums, wide), np.pad(self._pulls, wide)


class WatchEvidence:
    """What has been seen of one experiment. `add_choices` takes decisions as they are made, `add_answers` as rewards come.

    Args:
        arms: how many arms there are at the start; blocks may have more later.
        level: the largest probability that a check ever raises a false alarm, for each check.
        holdout: the holdout's share of the decisions.
        control: the place of the arm that the adaptive part is compared with.
        least: the least share that the control is sure to have; comparisons settle sooner if it is known.
        arrivals: whether to check that rewards arrive alike for all arms, which needs rewards that may stay away.
    """

    def __init__(
        self,
        arms: int,
        *,
        level: float = 0.01,
        holdout: float = 0.0,
        control: int | None = None,
        least: float = 0.0,
        arrivals: bool = True,
        every: int = EVERY,
    ) -> None:
        self.holdout, self.control = holdout, control

    def add_choices(self, block: DecisionBlock) -> None:
        """Take in decisions in the order in which they were made; their rewards do not matter."""

    def add_answers(self, block: DecisionBlock) -> None:
        """Take in decisions with rewards in the order in which the rewards came.

        Where a default reward is taken, the order of the decisions, up to the first one that still waits: whether a
        reward comes early depends on it.
        """
