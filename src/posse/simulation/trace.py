"""trace: one run kept round by round. Tests, plots and simulated logs are made of it."""

from dataclasses import dataclass

import numpy as np

from posse.checks import whole
from posse.notebook import Summarized, Summary
from posse.policies.base import Policy
from posse.problem import Problem
from posse.rewards import GRID
from posse.schedule import Concurrent, Schedule
from posse.simulation.cpu import new_run
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.work import checked_work
from posse.text import plural


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Summarized):
    """Everything that happened in one run. Round t of the paper is row t − 1."""

    active: np.ndarray
    """Who was active, [round, player]."""
    arms: np.ndarray
    """Which arm each active player pulled, [round, player]; −1 where inactive."""
    rewards: np.ndarray
    """The rewards, [round, player]; NaN where inactive."""
    centers: np.ndarray
    """Centers of the indices after so many rounds, [0 … horizon, player, arm]; row t is what round t + 1 uses."""
    scales: np.ndarray
    """Scales of the indices, like `centers`."""

    def _summary(self) -> Summary:
        rounds, players = self.active.shape
        rows = [["arm", "pulls", "mean reward"]]
        for arm in range(self.centers.shape[2]):
            rewards = self.rewards[self.arms == arm]
            rows.append([f"arm {arm}", f"{rewards.size:,}", f"{rewards.mean():.3f}" if rewards.size else "–"])
        shape = f"{plural(rounds, 'round')}, {plural(players, 'player')}, {plural(len(rows) - 1, 'arm')}"
        return Summary(f"Trace: {shape}, {plural(int(self.active.sum()), 'decision')}", rows)


def trace(
    problem: Problem,
    policy: Policy,
    horizon: int,
    *,
    seed: int = 0,
    replication: int = 0,
    schedule: Schedule = Concurrent(),
    anytime: bool = False,
    feedback: Feedback = AT_ONCE,
) -> Trace:
    """Run one policy on one problem, the same run as in `simulate`, and keep every round.

    >>> import posse
    >>> problem = posse.Problem([[0.9, 0.5], [0.8, 0.6]])
    >>> run = posse.simulation.trace(problem, posse.IndUCB(), horizon=3)
    >>> run.arms.tolist()
    [[0, 0], [1, 1], [1, 0]]
    """
    replication = whole("replication", replication, least=0)
    work = checked_work([problem], [policy], horizon, seed, [replication], schedule, 1, anytime, None, feedback)
    run = new_run(work, (0, 0, 0))
    shape = (work.horizon, problem.players)
    arms = np.full(shape, -1, np.int64)
    rewards = np.full(shape, np.nan)
    centers = np.empty((work.horizon + 1, *problem.means.shape))
    scales = np.empty_like(centers)
    run.advance(0)
    centers[0], scales[0] = run.run.center.T, run.run.scale.T
    for t in range(1, work.horizon + 1):
        count = run.advance(t)
        players = run.run.active[:count]
        arms[t - 1, players] = run.run.arms[:count]
        rewards[t - 1, players] = run.run.rewards[:count] / GRID
        run.refresh_all()
        centers[t], scales[t] = run.run.center.T, run.run.scale.T
    return Trace(arms >= 0, arms, rewards, centers, scales)
