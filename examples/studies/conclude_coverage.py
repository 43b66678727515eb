"""How often `posse conclude` ships a wrong arm if somebody looks after every decision, and how soon the right one.

python examples/studies/conclude_coverage.py --wrong                                        # half an hour
python examples/studies/conclude_coverage.py --needed --experiments 400 --decisions 10000   # a quarter of an hour

--wrong: experiments in which every winner is a wrong one, since no arm is better than another. *naive* is a two-sided
z-test at 5 % of the two arms with most decisions, which looks as often.

--needed: 3 arms of 0.2, 0.2 and 0.3, and 4 players. How many decisions until the best arm is shipped for everybody in
half and in 80 % of the experiments, beside a test of the same level with equal shares that looks once, at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

import posse
from posse.confidence import shares
from posse.insight.conclusion.evidence import REACHES, ConclusionEvidence, pair_evidence, pair_levels, terms
from posse.insight.watching.evidence import PRIOR
from posse.insight.watching.log_blocks import log_blocks

LEVEL = 0.05
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
Policy = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


class ManyEvidence:
    """The evidence of many experiments at once, all of whose arms are always on offer.

    A scope is everybody (0), or one player more than its number. Every scope is looked at after each of its decisions.
    """

    def __init__(self, experiments: int, players: int, arms: int) -> None:
        self.counts = np.zeros(players + 1)
        self.sums, self.squares = np.zeros((2, players + 1, 2, REACHES.size, experiments, arms))
        self.since = np.zeros((players + 1, experiments, arms, arms), np.int64)
        levels = LEVEL / 2 * np.concatenate([[1.0], shares(players)])
        self.need = -np.log(levels[:, None, None] * pair_levels(arms, arms))

    def add(self, player: int, arm: np.ndarray, chances: np.ndarray, reward: np.ndarray, guess: np.ndarray) -> None:
        """Take in a decision of the same player in each experiment, and look."""
        limited, rest = terms(arm, chances, reward, guess)
        each = np.arange(arm.size)
        limited[:, :, each, arm] += rest
        scopes = [0, player + 1] if len(self.counts) > 2 else [0]
        self.counts[scopes] += 1
        for scope in scopes:
            self.sums[scope] += limited
            self.squares[scope][:, :, each, arm] += rest**2
            self._look(scope)

    def _look(self, scope: int) -> None:
        (of, against), squares, need = self.sums[scope], self.squares[scope], self.need[scope]
        before = self.since[scope]
        beats = np.zeros(before.shape, bool)
        for i, j in np.argwhere(~np.eye(need.shape[0], dtype=bool)):
            total = of[:, :, i] + against[:, :, j] - self.counts[scope]
            spread = squares[0, :, :, i] + squares[1, :, :, j]
            hopeful = ((total > 0) & (total**2 >= 2 * spread * need[i, j])).any(axis=0)
            rows = np.flatnonzero(hopeful)
            if rows.size:
                count = np.full(rows.size, self.counts[scope])
                beats[rows, i, j] = pair_evidence(count, total[:, rows].T, spread[:, rows].T) >= need[i, j]
        more = beats.sum(axis=2, keepdims=True) >= (before > 0).sum(axis=2, keepdims=True)
        since = np.where(beats, np.where(before > 0, before, self.counts[scope]), 0)
        self.since[scope] = np.where(more, since, before)

    def winners(self) -> np.ndarray:
        """After how many of its decisions each arm was shipped, 0 if it was not, [scope, experiment, arm]."""
        beats = (self.since > 0) | np.eye(self.since.shape[-1], dtype=bool)
        return np.where(beats.all(axis=-1), self.since.max(axis=-1), 0)


def uniform(pulls: np.ndarray, sums: np.ndarray, player: int) -> tuple[np.ndarray, np.ndarray]:
    """Equal shares: centers and scales of the indices, [experiment, arm]."""
    return np.zeros(pulls[:, 0].shape), np.ones(pulls[:, 0].shape)


def thompson(pulls: np.ndarray, sums: np.ndarray, player: int) -> tuple[np.ndarray, np.ndarray]:
    """Ind-TS: each player alone."""
    n, s = pulls[:, player], sums[:, player]
    return s / np.maximum(n, 1), 1 / np.sqrt(np.maximum(n, 1))


def robust(pulls: np.ndarray, sums: np.ndarray, player: int, epsilon: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """RobustAgg-TS: everybody's data and ε while own data is scarce; every player sees it at once."""
    n, s = pulls[:, player], sums[:, player]
    N, S, M = pulls.sum(axis=1), sums.sum(axis=1), pulls.shape[1]
    own = n >= 0.5 * np.log(10_000) / epsilon**2 + 2 * M
    center = np.where(own, s / np.maximum(n, 1), S / np.maximum(N, 1) + epsilon * (N > 0))
    return center, 1 / np.sqrt(np.where(own, np.maximum(n, 1), np.maximum(N - M, 1)))


def largest(center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """About the probability that each arm's normal index is the largest; arms are drawn with just these numbers."""
    index = center[..., None] + scale[..., None] * NODES
    apart = (index[:, :, None] - center[:, None, :, None]) / scale[:, None, :, None]
    below = 1 / (1 + np.exp(-1.702 * apart))
    arms = np.arange(center.shape[1])
    below[:, arms, arms] = 1.0
    chances = below.prod(axis=2) @ WEIGHTS
    return chances / chances.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Setting:
    """Arms of the same mean, but for what is said otherwise, and how they are chosen."""

    name: str
    mean: float
    arms: int
    players: int
    policy: Policy
    floor: float = 0.0
    drift: float = 0.0  # by how much all means rise and fall together, every 200 decisions
    apart: float = 0.0  # by how much the first arm is better for one half of the players and worse for the other
    lead: float = 0.0  # by how much the last arm is better than the others

    def means(self, decision: int) -> np.ndarray:
        """The arms' means in a decision; players take turns."""
        found = np.full(self.arms, self.mean + self.drift * (1 if decision // 200 % 2 else -1))
        found[0] += self.apart * (1 if decision % self.players % 2 else -1)
        found[-1] += self.lead
        return found


NULL = [
    Setting("2 arms of 0.5, equal shares", 0.5, 2, 1, uniform),
    Setting("2 arms of 0.05, equal shares", 0.05, 2, 1, uniform),
    Setting("2 arms of 0.5, Ind-TS", 0.5, 2, 1, thompson),
    Setting("2 arms of 0.5, Ind-TS, floor 0.1", 0.5, 2, 1, thompson, 0.1),
    Setting("3 arms of 0.2, 4 players, RobustAgg-TS", 0.2, 3, 4, robust),
    Setting("3 arms of 0.2, 4 players, RobustAgg-TS, floor 0.05", 0.2, 3, 4, robust, 0.05),
    Setting("3 arms of 0.2, then 0.6, in turn, 2 players, Ind-TS, floor 0.05", 0.4, 3, 2, thompson, 0.05, drift=0.2),
    Setting("2 arms that suit half of 4 players each, RobustAgg-TS, floor 0.1", 0.5, 2, 4, robust, 0.1, apart=0.1),
]
LEADS = [
    Setting(f"{name}, floor {floor:g}" if floor else name, 0.2, 3, 4, policy, floor, lead=0.1)
    for name, policy, floor in (
        ("equal shares", uniform, 0.0),
        ("RobustAgg-TS(0.1)", robust, 0.0),
        ("RobustAgg-TS(0.1)", robust, 0.05),
        ("RobustAgg-TS(0.1)", robust, 0.1),
    )
]


class Moment(NamedTuple):
    """Experiments after a decision each: counts and sums, [experiment, arm], and the shares of the decision."""

    evidence: ManyEvidence
    pulls: np.ndarray
    sums: np.ndarray
    chances: np.ndarray


def run(setting: Setting, experiments: int, decisions: int, seed: int = 0) -> Iterator[Moment]:
    """Many experiments at once, decision by decision."""
    random = np.random.default_rng(seed)
    M, K, floor, each = setting.players, setting.arms, setting.floor, np.arange(experiments)
    evidence = ManyEvidence(experiments, M, K)
    pulls, sums = np.zeros((2, experiments, M, K))
    for decision in range(decisions):
        player = decision % M
        chances = floor + (1 - K * floor) * largest(*setting.policy(pulls, sums, player))
        arm = (random.random(experiments)[:, None] > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        reward = (random.random(experiments) < setting.means(decision)[arm]) * 1.0
        evidence.add(player, arm, chances, reward, guess_of(pulls.sum(axis=1), sums.sum(axis=1)))
        pulls[each, player, arm] += 1
        sums[each, player, arm] += reward
        yield Moment(evidence, pulls.sum(axis=1), sums.sum(axis=1), chances)


def wrong_winners(setting: Setting, experiments: int, decisions: int, seed: int = 0) -> tuple[float, float, float]:
    """The shares of experiments with a winner for everybody, for a player, and by the naive test, if none is right."""
    naive = np.zeros(experiments, bool)
    for moment in run(setting, experiments, decisions, seed):
        naive |= naive_test(moment.pulls, moment.sums)
    wrong = (moment.evidence.winners() > 0).any(axis=2)
    by_player = wrong[1:].any(axis=0).mean() if setting.players > 1 and not setting.apart else np.nan
    return float(wrong[0].mean()), float(by_player), float(naive.mean())


class Needed(NamedTuple):
    """What it takes to ship the best arm for everybody."""

    half: float  # decisions until half of the experiments have shipped it; ∞ if they have not
    most: float  # until 80 % have
    wrong: float  # the share of experiments that have shipped another
    lost: float  # rewards lost in 1,000 decisions of the experiment


def needed(setting: Setting, experiments: int, decisions: int, seed: int = 0) -> tuple[Needed, Needed]:
    """What posse conclude takes, and what a test takes that looks once, if arms have equal shares."""
    power, lost = np.zeros(decisions), 0.0
    for decision, moment in enumerate(run(setting, experiments, decisions, seed)):
        power[decision] = final_test(moment.pulls, moment.sums).mean()
        means = setting.means(decision)
        lost += float((moment.chances @ (means.max() - means)).mean())
    once = [float(np.argmax(power >= share)) + 1 if power.max() >= share else np.inf for share in (0.5, 0.8)]
    rewards = 1000 * lost / decisions
    return summary(moment.evidence.winners()[0], rewards), Needed(*once, np.nan, rewards)


def summary(since: np.ndarray, lost: float) -> Needed:
    """From after how many decisions each arm was shipped, 0 if it was not, [experiment, arm]; the last is the best."""
    reached = np.sort(np.where(since[:, -1] > 0, since[:, -1], np.inf))
    half, most = (float(reached[int(np.ceil(share * reached.size)) - 1]) for share in (0.5, 0.8))
    return Needed(half, most, float((since[:, :-1] > 0).any(axis=1).mean()), lost)


def final_test(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Whether z-tests say that the last arm is better than each of the others, at the level that its pairs have."""
    n, arms = np.maximum(pulls, 1), pulls.shape[1]
    mean = sums / n
    variance = mean * (1 - mean) / n
    apart = (mean[:, -1:] - mean) / np.sqrt(np.maximum(variance + variance[:, -1:], 1e-12))
    return (apart[:, :-1] > NormalDist().inv_cdf(1 - LEVEL / 2 / (arms - 1))).all(axis=1) & (pulls.min(axis=1) >= 5)


def needed_by_learner(policy: posse.Policy, floor: float, experiments: int, decisions: int) -> Needed:
    """The same with learners, and with the evidence as `posse conclude` has it."""
    setting = LEADS[0]
    players, arms = [f"p{player}" for player in range(setting.players)], [f"a{arm}" for arm in range(setting.arms)]
    means, since, lost = setting.means(0), np.zeros((experiments, setting.arms)), 0.0
    for seed in range(experiments):
        learner = posse.Learner(policy, arms, players, seed=seed, floor=floor)
        random = np.random.default_rng(seed)
        for _ in range(decisions // setting.players):
            made, drawn = learner.choose(players), random.random(len(players))
            learner.observe({each.id: float(drawn[p] < means[int(each.arm[1:])]) for p, each in enumerate(made)})
        answers = log_blocks(learner).answers
        evidence = ConclusionEvidence(len(arms))
        evidence.add_answers(answers)
        winner, when = (each[0] for each in evidence.winners(np.ones(len(arms), bool)))
        if winner >= 0:
            since[seed, winner] = when
        lost += float((answers.probabilities @ (means.max() - means)).mean())
    return summary(since, 1000 * lost / experiments)


def guess_of(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The arms' mean rewards so far, drawn a little to that of all arms, [experiment, arm]."""
    overall = (sums.sum(axis=1, keepdims=True) + PRIOR / 2) / (pulls.sum(axis=1, keepdims=True) + PRIOR)
    return (sums + PRIOR * overall) / (pulls + PRIOR)


def naive_test(pulls: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Whether a z-test at 5 % tells the two arms with most decisions apart, with 20 rewards of each at least."""
    most = np.argsort(-pulls, axis=1)[:, :2]
    n, s = np.take_along_axis(pulls, most, 1), np.take_along_axis(sums, most, 1)
    mean = s / np.maximum(n, 1)
    deviation = np.sqrt((mean * (1 - mean) / np.maximum(n, 1)).sum(axis=1))
    return (n.min(axis=1) >= 20) & (np.abs(mean[:, 0] - mean[:, 1]) > 1.96 * np.maximum(deviation, 1e-9))


def wrong_table(experiments: int, decisions: int) -> None:
    """Print the shares of wrong winners, line by line."""
    print("| setting | for everybody | for a player | naive |\n| --- | --- | --- | --- |")
    for setting in NULL:
        cells = ["–" if np.isnan(each) else f"{each:.2%}" for each in wrong_winners(setting, experiments, decisions)]
        print(f"| {setting.name} | {' | '.join(cells)} |", flush=True)


def needed_table(experiments: int, decisions: int) -> None:
    """Print how many decisions it takes, line by line."""
    print("| how arms are chosen | half | 80 % | wrong | lost in 1,000 decisions |\n| --- | --- | --- | --- | --- |")

    def line(name: str, found: Needed) -> None:
        counts = [f"{each:,.0f}" if np.isfinite(each) else f"> {decisions:,}" for each in found[:2]]
        wrong = "–" if np.isnan(found.wrong) else f"{found.wrong:.1%}"
        print(f"| {name} | {' | '.join(counts)} | {wrong} | {found.lost:.0f} |", flush=True)

    for setting in LEADS:
        found, once = needed(setting, experiments, decisions)
        if setting.policy is uniform:
            line("equal shares, a test that looks once, at the end", once)
        line(setting.name, found)
    for floor in (0.0, 0.05, 0.1):
        few = min(experiments, 100)
        line(f"PosseTS, floor {floor:g}, {few} experiments", needed_by_learner(posse.PosseTS(), floor, few, decisions))


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrong", action="store_true", help="how often a wrong arm is shipped")
    parser.add_argument("--needed", action="store_true", help="how many decisions it takes to ship the best one")
    parser.add_argument("--experiments", type=int, default=10_000, help="for each line (default: 10,000)")
    parser.add_argument("--decisions", type=int, default=2000, help="in each experiment (default: 2,000)")
    parser.add_argument("--quick", action="store_true", help="a few short experiments, to see that it works")
    options = parser.parse_args()
    size = (20, 100) if options.quick else (options.experiments, options.decisions)
    if options.wrong or not options.needed:
        wrong_table(*size)
    if options.needed or not options.wrong:
        needed_table(*size)


if __name__ == "__main__":
    main()
