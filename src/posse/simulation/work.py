"""What a simulation is asked for, what it fills in, and how far it is; the same for every backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posse.policies.base import Policy
from posse.problem import Problem
from posse.schedule import Schedule
from posse.simulation.progress import Bar

Progress = Callable[[float], None] | bool | None


@dataclass(frozen=True)
class Work:
    """Every policy on every problem in every replication."""

    problems: list[Problem]
    policies: list[Policy]
    replications: list[int]
    horizon: int
    seed: int
    schedule: Schedule
    checkpoints: np.ndarray
    anytime: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many policies, problems and replications there are."""
        return len(self.policies), len(self.problems), len(self.replications)


class Measurements:
    """What a backend fills in, for every [policy, problem, replication]."""

    def __init__(self, work: Work) -> None:
        pairs = work.problems[0].means.shape
        self.regret = np.zeros((*work.shape, len(work.checkpoints)))
        self.pulls = np.empty((*work.shape, *pairs), np.int64)
        self.late_pulls = np.empty_like(self.pulls)
        self.reward = np.empty(work.shape)


class Tracker:
    """Counts rounds done over all runs, and tells threads to stop."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total = total
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()
        self.report: Callable[[float], None] | None = Bar() if progress is True else progress or None

    def add(self, rounds: int) -> bool:
        """Note that so many rounds are done; False if the work is to stop."""
        with self.lock:
            self.done += rounds
        return not self.stopped

    def show(self) -> None:
        """Report how far the work is."""
        if self.report is not None:
            self.report(self.done / self.total)
