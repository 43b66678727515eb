"""Evidence that one arm is better than another, for everybody and for each player. It holds at every look.

For arms i and j, rewards r in [0, 1], propensities p and guesses g of the rewards made before, the terms

    X = Y_i(r, g) + Y_j(1 − r, 1 − g) − 1,   Y_k(r, g) = m + 1[a = k] (r − m) / p(k),   m = min(g(k), c p(k)),

have the mean μ_i − μ_j, given everything before, whatever the guesses are. They are below m_i + m_j − 1, which is known
before, by c at most. So by the bound of Fan, Grama and Liu (`posse.confidence`) the product over the decisions of

    exp(λ (X − μ_i + μ_j) − ψ(λ) (X − m_i − m_j + 1)²),   ψ(λ) = (−ln(1 − cλ) − cλ)/c²,

has an expectation of at most 1. (Limiting a guess so is from Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro,
"Anytime-valid off-policy inference for contextual bandits", 2022.) A small c suits large shares and early decisions, a
large one small shares and late decisions; the evidence is the average over several c, each with λ = 0.35/c. It is about
the average of μ_i − μ_j over the decisions, as they came, in which both arms were on offer. How means differ between
players, or change over time, does not matter.

An arm wins if it beats every other one on offer at one look. The level is halved between everybody and the players. A
wrong winner has to beat the best arm, so the pairs of an arm share the level: 9/10 of it among the arms at the start.
The rest is for arms that come later. (If the best arm is retired, or another one becomes the best because means change,
the level holds anew.)
"""

from __future__ import annotations

import numpy as np

from posse.confidence import shares
from posse.insight.watching.evidence import DecisionBlock, RewardGuess

REACHES = 2.0 * 2.5 ** np.arange(6)  # c: with 2, guesses need no limit where two arms have equal shares
BETS = 0.35 / REACHES  # λ
COSTS = (-np.log1p(-BETS * REACHES) - BETS * REACHES) / REACHES**2  # ψ(λ)
CELLS = 250_000  # players × arms² with evidence of their own, at most: about 30 MB
PIECE = 100_000  # pairs of arms of groups of rows in memory at a time
LATER = 0.1  # of the level is for arms that come after the start


def pair_levels(arms: int, first: int) -> np.ndarray:
    """The share of the level for each pair of arms, if there were `first` arms at the start, [arm, arm].

    A pair belongs to the later of its two arms. Whichever arm is best, the shares of its pairs add up to 1 at most.

    >>> pair_levels(3, 2).round(3).tolist()
    [[0.9, 0.9, 0.033], [0.9, 0.9, 0.033], [0.033, 0.033, 0.033]]
    """
    number = np.arange(1, arms + 1)
    share = np.where(
        number <= first, (1 - LATER) / max(first - 1, 1), LATER * first / (np.maximum(number - 1, 1) * number)
    )
    return np.minimum.outer(share, share)


def terms(
    arm: np.ndarray, probabilities: np.ndarray, reward: np.ndarray, guess: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The limited guesses g [side, reach, row, arm], and (r − g)/p of the arm that was chosen [side, reach, row].

    The first side is about rewards r, the second about 1 − r.
    """
    rows = np.arange(arm.size)
    limited = np.minimum(np.stack([guess, 1 - guess])[:, None], REACHES[:, None, None] * probabilities)
    rest = (np.stack([reward, 1 - reward])[:, None] - limited[:, :, rows, arm]) / probabilities[rows, arm]
    return limited, rest


def pair_evidence(counts: np.ndarray, sums: np.ndarray, spreads: np.ndarray, value: float = 0.0) -> np.ndarray:
    """ln of the evidence that the mean of the terms is above a value; sums and spreads have the reaches last.

    >>> pair_evidence(np.array([400.0]), np.full((1, 6), 60.0), np.full((1, 6), 300.0)).round(2).tolist()
    [2.99]
    """
    won = BETS * (sums - counts[..., None] * value) - COSTS * spreads
    return np.asarray(np.logaddexp.reduce(won, axis=-1) - np.log(BETS.size))


class ConclusionEvidence:
    """What has been seen of one experiment: `add_answers` takes decisions with rewards, in the order of the rewards.

    Args:
        arms: how many arms there are at the start; blocks may have more later.
        tolerance: by how much the arm to ship may be worse than another, on the scale [0, 1].
        level: the largest probability that a wrong arm is ever shown to be the best, for everybody or for any player.
        cells: how many players × arms² have evidence of their own; the players that joined first have it.
    """

    def __init__(self, arms: int, *, tolerance: float = 0.0, level: float = 0.05, cells: int = CELLS) -> None:
        self.tolerance, self.level = tolerance, level
        self._first, self.cells, self._guess = arms, cells, RewardGuess(arms)
        # By [scope, arm, arm]; scope 0 is everybody, p + 1 is player p:
        self.counts: np.ndarray = np.zeros((1, arms, arms))
        self.since = np.zeros((1, arms, arms), np.int64)  # after how many answers i was shown to beat j; 0: not yet
        self.sums, self.spreads = np.zeros((2, 1, REACHES.size, arms, arms))
        self.own_sums, self.own_spreads = np.zeros((2, 2, REACHES.size, arms))  # of each arm, for r and for 1 − r
        self._present = np.zeros((1, arms))  # the latest probabilities of each scope

    @property
    def answers(self) -> int:
        """How many decisions with rewards there were."""
        return self._guess.count

    @property
    def players(self) -> int:
        """How many players have evidence of their own."""
        return len(self.counts) - 1

    def add_answers(self, block: DecisionBlock) -> None:
        """Take in decisions with rewards in the order in which the rewards came, and look."""
        self._grow(int(block.player.max(initial=-1)) + 1, block.probabilities.shape[1])
        for part, guess in self._guess.follow(block):
            self._add(part, guess)
            self._look(np.unique(part.player), self.answers + part.arm.size)
        known = block.player < self.players
        self._present[block.player[known] + 1] = block.probabilities[known]

    def winners(self, offered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The arm that beats all others on offer, −1 if none does, and since how many answers; for each scope."""
        beats = (self.since > 0) | ~offered | np.eye(offered.size, dtype=bool)
        wins = beats.all(axis=2) & offered & (offered.sum() > 1)
        score = np.where(wins, self.sums[:, -1].sum(axis=2), -np.inf)  # several may be within the tolerance
        score[:, score[0].argmax()] += np.where(wins[:, score[0].argmax()] & wins[0].any(), np.inf, 0)
        lead = score.argmax(axis=1)
        since = np.where(offered, self.since[np.arange(lead.size), lead], 0).max(axis=1, initial=0)
        return np.where(wins.any(axis=1), lead, -1), np.where(wins.any(axis=1), since, 0)

    def present_of(self, players: int, arms: int) -> np.ndarray:
        """The latest probabilities of each player, [player, arm]; zeros where they are not known."""
        found = np.zeros((players, arms))
        known = self._present[1 : players + 1]
        found[: len(known), : known.shape[1]] = known
        return found

    def difference(self, one: int, other: int, level: float) -> tuple[float, float, float]:
        """By how much one arm is better than another for everybody, and an interval that holds at every look."""
        low, high = (
            self._low(self.counts[0, i, j], self.sums[0, :, i, j], self.spreads[0, :, i, j], level)
            for i, j in ((one, other), (other, one))
        )
        value = self.sums[0, -1, one, other] / max(self.counts[0, one, other], 1)
        return float(np.clip(value, low, -high)), low, -high

    def mean(self, arm: int, level: float) -> tuple[float, float, float]:
        """An arm's mean reward over the decisions in which it was on offer, with such an interval."""
        count = self.counts[0, arm, arm]
        low, high = (
            self._low(count, self.own_sums[side, :, arm], self.own_spreads[side, :, arm], level) for side in (0, 1)
        )
        low, high = max(low, 0.0), min(1 - high, 1.0)
        return float(np.clip(self.own_sums[0, -1, arm] / max(count, 1), low, high)), low, high

    @staticmethod
    def _low(count: float, sums: np.ndarray, spreads: np.ndarray, level: float) -> float:
        """The lower end for the mean of the terms at half the level: what the best bet refutes alone; −1 at least."""
        enough = np.log(2 / level * BETS.size)
        return max(float((sums - (enough + COSTS * spreads) / BETS).max() / count), -1.0) if count else -np.inf

    def _add(self, block: DecisionBlock, guess: np.ndarray) -> None:
        """Add rows, grouped by player and by the arms on offer: within a group, sums of each arm are enough."""
        arms = guess.shape[1]
        offered = block.probabilities > 0
        pattern = np.zeros(block.arm.size, np.int64)
        if (offered != offered[0]).any():
            pattern = np.unique(np.packbits(offered, axis=1), axis=0, return_inverse=True)[1].ravel()
        keys = block.player * (pattern.max() + 1) + pattern
        _, first, group, size = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        player, on = block.player[first], offered[first].astype(float)  # of each group
        limited, rest = terms(block.arm, block.probabilities, block.reward, guess)
        sums = np.add.reduceat(limited[:, :, np.argsort(group, kind="stable")], np.cumsum(size) - size, axis=2)
        spreads = np.zeros_like(sums)
        for place in np.ndindex(sums.shape[:2]):
            for total, values in ((sums, rest[place]), (spreads, rest[place] ** 2)):
                total[place] += np.bincount(group * arms + block.arm, values, on.size).reshape(-1, arms)
        self.own_sums += sums.sum(axis=2)
        self.own_spreads += spreads.sum(axis=2)
        sums[1] -= size[:, None] * on  # of 1 − r: take off the 1 of X
        for total, (of, against) in ((self.sums, sums), (self.spreads, spreads)):
            total[0] += of.swapaxes(1, 2) @ on + on.T @ against
        self.counts[0] += on.T @ (size[:, None] * on)
        kept, step = int(np.searchsorted(player, self.players)), max(PIECE // arms**2, 1)
        for start in range(0, kept, step):
            part = slice(start, min(start + step, kept))
            begins = np.flatnonzero(np.diff(player[part], prepend=-1))
            both = on[part, :, None] * on[part, None, :]
            scopes = player[part][begins] + 1
            self.counts[scopes] += np.add.reduceat(size[part, None, None] * both, begins)
            for total, (of, against) in ((self.sums, sums), (self.spreads, spreads)):
                found = (of[:, part, :, None] + against[:, part, None, :]) * both
                total[scopes] += np.add.reduceat(found, begins, axis=1).swapaxes(0, 1)

    def _look(self, players: np.ndarray, answers: int) -> None:
        """Note which arms are shown to beat which, for everybody and for those players.

        Of each arm, `since` has those that it beats at one and the same look: the one at which it beats most. If each
        were from a look of its own, an arm could win that was never the best, because means had changed in between.
        """
        scopes = np.concatenate([[0], players[players < self.players] + 1])
        arms = self.counts.shape[1]
        level = self.level / 2 * np.concatenate([[1.0], shares(self.players)])[scopes]
        need = -np.log(level[:, None, None] * pair_levels(arms, self._first))
        counts, spreads = self.counts[scopes], self.spreads[scopes]
        sums = self.sums[scopes] + self.tolerance * counts[:, None]
        # No bet wins more than S²/2V, so most pairs need no closer look.
        hopeful = ((sums > 0) & (sums**2 >= 2 * spreads * need[:, None])).any(axis=1)
        scope, one, other = pairs = np.nonzero(hopeful & ~np.eye(arms, dtype=bool))
        found = pair_evidence(counts[pairs], sums[scope, :, one, other], spreads[scope, :, one, other])
        beats, before = np.zeros(hopeful.shape, bool), self.since[scopes]
        beats[pairs] = found >= need[pairs]
        more = beats.sum(axis=2, keepdims=True) >= (before > 0).sum(axis=2, keepdims=True)
        self.since[scopes] = np.where(more, np.where(beats, np.where(before > 0, before, answers), 0), before)

    def _grow(self, players: int, arms: int) -> None:
        """Make room for players, as far as memory allows, and for arms."""
        scopes, known = self.counts.shape[:2]
        most = 1 + self.cells // arms**2
        room = min(max(players + 1, scopes), most)
        if room > scopes:
            room = min(max(room, scopes + scopes // 4), most)  # in steps, so that joining costs little
        if (room, arms) == (scopes, known):
            return
        more = (0, max(room - scopes, 0)), *[(0, arms - known)] * 2
        self.counts, self.since = np.pad(self.counts[:room], more), np.pad(self.since[:room], more)
        self.sums, self.spreads = (
            np.pad(each[:room], (more[0], (0, 0), *more[1:])) for each in (self.sums, self.spreads)
        )
        self._present = np.pad(self._present[:room], more[:2])
        self.own_sums, self.own_spreads = (
            np.pad(each, ((0, 0), (0, 0), more[1])) for each in (self.own_sums, self.own_spreads)
        )
