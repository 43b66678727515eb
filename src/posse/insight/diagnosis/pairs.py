"""A lower bound on how far two players differ on an arm, from counts and sums alone; it holds at all times at once.

For a reward X in [0, 1] with mean μ, e^(λX) lies below its chord, so its expectation is at most 1 − μ + μe^λ. For two
players with n and n' pulls of an arm, rewards that sum to s and s', and two *tilts* λ, ν ≥ 0, the product

    V(μ, μ') = e^(λs) / (1 − μ + μe^λ)^n · e^(−νs') / (1 − μ' + μ'e^(−ν))^n'

is therefore a nonnegative supermartingale that starts at 1. It falls in μ and rises in μ'. W is a weighted sum of such
terms over 13 sizes of tilts in five directions λ : ν. The weights of all players and pairs sum to 1, so by Ville's
inequality W at the true means reaches 1/α with probability at most α, for any of them.

If μ − μ' ≤ δ, then W is at least its least value where μ = μ' + δ. If that reaches 1/α, the first player is better by
more than δ. ln W is convex in (μ', δ), hence the least value is easy to find, and Newton's method approaches the
largest such δ from below.

Rewards of two players that come at the same time must be independent given the past, or large when the other's is: this
makes the expectation of the product smaller. docs/diagnosis.md says more, with sources.
"""

from dataclasses import dataclass

import numpy as np

from posse.confidence import shares

EARLY = 3  # the level falls slowly over about this many players (and arms), then as 1/number²
PLAYERS, PAIRS = 5, 6  # how many players from each end of an arm are considered, and how many of their pairs
DEVIATIONS = 4.5  # of the rough intervals that choose them
HALVINGS = 24  # when the least wealth is looked for among means in [0, 1]
MOST_STEPS = 60  # of Newton's method, even with 10^12 rewards
CLOSE = 1e-9  # the bound is as sharp as that
ROUNDING = 1e-14  # of ln W, for each pull

_SIZES = 2.0 ** np.arange(-9, 4)
_COMMON = 1 / (8 + np.log2(4 * _SIZES) ** 2)  # tilts of about 1/4 are needed most
_DIRECTIONS = np.array([(1, 0), (0, 1), (1, 1 / 4), (1, 1), (1 / 4, 1)])
_WEIGHTS = np.outer(_COMMON / _COMMON.sum(), np.array([1, 1, 1, 2, 1]) / 6)  # [size, direction]
_TILTS = (_SIZES[:, None, None] * _DIRECTIONS).reshape(-1, 2)
_UP, _DOWN = np.expm1(_TILTS[:, 0]), -np.expm1(-_TILTS[:, 1])


def tilt_weights(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The weights of the tilts, [pair, tilt], for pairs of players given by their places 0, 1, ….

    Of the directions that concern one player, player number i has the part 3/((i+2)(i+3)). Of the others, it brings
    the part of number i − 1 for its pairs with the i − 1 players who were there before: equal parts, half of each for
    either order. So all weights together sum to 1, if any number of players may join.
    """
    later = np.maximum(first, second)
    parts = shares(1 + int(later.max()), EARLY)
    pair = parts[later - 1] / later / 2
    shared = np.stack([parts[first], parts[second], pair, pair, pair], axis=1)
    return (_WEIGHTS * shared[:, None, :]).reshape(len(later), -1)


@dataclass(frozen=True, eq=False)
class PairData:
    """What is known of some pairs of players, each on one arm; all fields have a row for each pair."""

    pulls: np.ndarray  # [pair, 2], the player that is perhaps better first
    sums: np.ndarray  # sums of rewards in [0, 1], [pair, 2]
    log_weights: np.ndarray  # [pair, tilt]

    def __getitem__(self, rows: np.ndarray) -> "PairData":
        return PairData(self.pulls[rows], self.sums[rows], self.log_weights[rows])

    def gains(self) -> np.ndarray:
        """What ln W owes to the rewards, [pair, tilt]."""
        return self.log_weights + self.sums[:, :1] * _TILTS[:, 0] - self.sums[:, 1:] * _TILTS[:, 1]

    def least_log_wealth(self, apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least ln W if the first player is better by `apart`, rounded down, and how fast it falls with that."""
        gains = self.gains()
        low, high = np.zeros(apart.shape), 1 - apart
        for _ in range(HALVINGS):
            mean = (low + high) / 2
            _, fall, rise = self._log_wealth(gains, mean + apart, mean)
            low, high = np.where(rise > fall, low, mean), np.where(rise > fall, mean, high)
        mean = (low + high) / 2
        value, fall, rise = self._log_wealth(gains, mean + apart, mean)
        # A convex function lies above its tangent.
        return value - np.abs(rise - fall) * (high - low) / 2, np.minimum(fall, rise)

    def _log_wealth(
        self, gains: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ln W for two means, how fast it falls with the first and how fast it rises with the second."""
        above, below = 1 + first[:, None] * _UP, 1 - second[:, None] * _DOWN
        logs = gains - self.pulls[:, :1] * np.log(above) - self.pulls[:, 1:] * np.log(below)
        largest = logs.max(axis=1, keepdims=True)
        wealth = np.exp(logs - largest)
        total = wealth.sum(axis=1)
        fall = self.pulls[:, 0] * (wealth * _UP / above).sum(axis=1) / total
        rise = self.pulls[:, 1] * (wealth * _DOWN / below).sum(axis=1) / total
        return largest[:, 0] + np.log(total), fall, rise

    def bounds(self, level: np.ndarray) -> np.ndarray:
        """The most by which the first player is shown to be better, at least 0, [pair]."""
        goal = -np.log(level) + ROUNDING * self.pulls.sum(axis=1)
        bounds, apart = np.zeros((2, len(goal)))
        alike = self.sums.sum(axis=1) / np.maximum(self.pulls.sum(axis=1), 1)
        rows = np.flatnonzero(self._log_wealth(self.gains(), alike, alike)[0] >= goal)  # the others can be alike
        steps = 0
        while rows.size and steps < MOST_STEPS:
            steps += 1
            wealth, slope = self[rows].least_log_wealth(apart[rows])
            shown, here = wealth >= goal[rows], apart[rows]
            bounds[rows] = np.where(shown, here, bounds[rows])
            # ln W is convex in δ too: its tangent meets the goal no later than it does itself, but for rounding.
            further = np.minimum(here + (wealth - goal[rows]) / np.maximum(slope, CLOSE), 1.0)
            apart[rows] = np.where(shown, further, (bounds[rows] + here) / 2)
            rows = rows[apart[rows] - bounds[rows] > CLOSE]
        return bounds


def pair_bounds(pulls: np.ndarray, sums: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each arm the largest difference between two players that is shown, and their places, the better one first.

    Rewards are in [0, 1]. With probability 1 − level no bound is ever larger than the true difference. It is 0 where
    no two players are shown to differ. Not all pairs are tried, only the most promising ones.

    >>> bounds, better, worse = pair_bounds(np.array([[400], [400]]), np.array([[80.0], [240.0]]), 0.05)
    >>> bounds.round(3).tolist(), better.tolist(), worse.tolist()
    ([0.255], [1], [0])
    """
    return bounds_by_arm(pulls, sums, level * shares(pulls.shape[1], EARLY))


def bounds_by_arm(pulls: np.ndarray, sums: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`pair_bounds` where each arm has a level of its own, [arm]."""
    players, arms = pulls.shape
    if players < 2:
        return np.zeros(arms), np.zeros(arms, np.int64), np.zeros(arms, np.int64)
    better, worse = _promising(pulls, sums)
    arm = np.broadcast_to(np.arange(arms), better.shape).ravel()
    first, second = better.ravel(), worse.ravel()
    cells = np.stack([first, second], axis=1), arm[:, None]
    data = PairData(pulls[cells], sums[cells], np.log(tilt_weights(first, second)))
    bounds = data.bounds(levels[arm]).reshape(better.shape)
    best = bounds.argmax(axis=0), np.arange(arms)
    return bounds[best], better[best], worse[best]


def _promising(pulls: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each arm the pairs that roughly have the largest bounds, [pair, arm].

    Roughly: Newcombe's interval for a difference (Statistics in Medicine 17, 1998) from Wilson's for the means.
    """
    mean = np.divide(sums, pulls, out=np.full(pulls.shape, 0.5), where=pulls > 0)
    center = (sums + DEVIATIONS**2 / 2) / (pulls + DEVIATIONS**2)
    half = DEVIATIONS * np.sqrt(pulls * mean * (1 - mean) + DEVIATIONS**2 / 4) / (pulls + DEVIATIONS**2)
    low, high = center - half, center + half
    best, worst = (np.argsort(end, axis=0, kind="stable")[:PLAYERS] for end in (-low, high))
    first, second = np.repeat(best, len(worst), axis=0), np.tile(worst, (len(best), 1))
    arm = np.arange(pulls.shape[1])
    noise = np.hypot((mean - low)[first, arm], (high - mean)[second, arm])
    rough = np.where(first == second, -np.inf, mean[first, arm] - mean[second, arm] - noise)
    pairs_of_two = len(best) * (len(best) - 1)  # at least so many
    chosen = np.argsort(-rough, axis=0, kind="stable")[: min(PAIRS, pairs_of_two)]
    return np.take_along_axis(first, chosen, axis=0), np.take_along_axis(second, chosen, axis=0)
