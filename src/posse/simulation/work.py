"""What a simulation is asked for, checked; what it fills in; and how far it is. The same for every backend."""

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.checks import whole
from posse.policies.base import Policy
from posse.problem import Problem
from posse.rewards import GRID
from posse.schedule import Schedule
from posse.simulation.feedback import AT_ONCE, Feedback
from posse.simulation.progress import Progress, reporter
from posse.streams import check_seed

MAX_PLAYER_ROUNDS = 2**63 // GRID  # beyond it an arm's reward sum could overflow


@dataclass(frozen=True)
class Work:
    """Every policy on every problem in every replication; the fields are those of `Result`."""

    problems: Sequence[Problem]
    policies: Sequence[Policy]
    replications: Sequence[int]
    horizon: int
    seed: int
    schedule: Schedule
    checkpoints: np.ndarray
    anytime: bool
    told_horizon: int
    feedback: Feedback

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many policies, problems and replications there are."""
        return len(self.policies), len(self.problems), len(self.replications)

    def timed(self, policy: Policy) -> bool:
        """Whether means change, rewards are late or the policy forgets, which takes another kernel."""
        changes = any(problem.changes for problem in self.problems)
        return changes or self.feedback != AT_ONCE or policy.forget is not None


def checked_work(
    problems: Problem | Iterable[Problem],
    policies: Policy | Iterable[Policy],
    horizon: int,
    seed: int,
    replications: int | Iterable[int],
    schedule: Schedule,
    checkpoints: int | Iterable[int],
    anytime: bool,
    told_horizon: int | None = None,
    feedback: Feedback = AT_ONCE,
) -> Work:
    """The work that `simulate` was asked for, or a clear error."""
    found = _check_problems(problems)
    tried = _check_policies(policies)
    horizon = whole("horizon", horizon, least=1)
    seed = check_seed(seed)
    repeated = _check_replications(replications)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule={schedule!r}, but expected a schedule such as posse.schedule.Sequential()")
    check_run(schedule, horizon, found[0].players)
    rounds = _check_checkpoints(checkpoints, horizon)
    if not isinstance(anytime, bool):
        raise TypeError(f"anytime={anytime!r}, but expected True or False")
    if anytime and told_horizon is not None:
        raise ValueError(f"told_horizon={told_horizon!r} with anytime=True, but then policies are told no horizon")
    told = horizon if told_horizon is None else whole("told_horizon", told_horizon, least=1)
    if not isinstance(feedback, Feedback):
        raise TypeError(f"feedback={feedback!r}, but expected such as posse.simulation.Feedback(delay=100)")
    return Work(tuple(found), tuple(tried), tuple(repeated), horizon, seed, schedule, rounds, anytime, told, feedback)


def check_run(schedule: Schedule, horizon: int, players: int) -> None:
    """An error if the schedule does not fit so many rounds and players, or there are too many."""
    schedule.participation(players, horizon)
    if horizon * players > MAX_PLAYER_ROUNDS:
        raise ValueError(
            f"horizon={horizon} with {players} players, but sums are exact only up to {MAX_PLAYER_ROUNDS} player-rounds"
        )


def _check_problems(problems: Problem | Iterable[Problem]) -> list[Problem]:
    found = _listed("problem", "problems", problems, Problem, "a posse.Problem")
    numbers: dict[Problem, int] = {}
    for number, problem in enumerate(found):
        if problem.means.shape != found[0].means.shape:
            raise ValueError(
                f"problem {number} has {problem.players} players × {problem.arms} arms, but problem 0 has "
                f"{found[0].players} × {found[0].arms}; simulate problems of one shape in one call"
            )
        if numbers.setdefault(problem, number) != number:
            raise ValueError(
                f"problems {numbers[problem]} and {number} are the same, and would meet the same random numbers; "
                "to repeat a problem use replications=..., or give it another stream=..."
            )
    return found


def _check_policies(policies: Policy | Iterable[Policy]) -> list[Policy]:
    if isinstance(policies, type):
        raise TypeError(f"policies={policies.__name__}, but that is a class; make a policy of it, with its constants")
    found = _listed("policy", "policies", policies, Policy, "a policy such as posse.RobustAggTS(0.15)")
    labels: dict[str, int] = {}
    for number, policy in enumerate(found):
        first = labels.setdefault(policy.label, number)
        if first != number:
            raise ValueError(f"policies {first} and {number} are both labelled {policy.label!r}; give one a label=...")
        policy.for_rewards()
    return found


def _listed(one: str, several: str, given: object, kind: type[Any], expected: str) -> list[Any]:
    """What was given as a list of at least one, each of this kind."""
    if isinstance(given, kind):
        return [given]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{several}={given!r}, but expected {expected}, or a list of them")
    found = list(given)
    if not found:
        raise ValueError(f"no {several} given")
    for number, thing in enumerate(found):
        if not isinstance(thing, kind):
            raise TypeError(f"{one} {number} is {thing!r}, but expected {expected}")
    return found


def _check_replications(replications: int | Iterable[int]) -> list[int]:
    if isinstance(replications, Iterable):
        found = [whole("replications", number, least=0) for number in replications]
        if not found or len(set(found)) < len(found):
            raise ValueError(f"replications={found}, but expected at least one number, each once")
        return found
    return list(range(whole("replications", replications, least=1)))


def _check_checkpoints(checkpoints: int | Iterable[int], horizon: int) -> np.ndarray:
    if isinstance(checkpoints, Iterable):
        rounds = np.array([whole("checkpoints", number, least=0, most=horizon) for number in checkpoints], np.int64)
        if not len(rounds) or (np.diff(rounds) <= 0).any():
            raise ValueError(f"checkpoints={rounds.tolist()}, but expected rounds in increasing order, at least one")
        return rounds
    count = min(whole("checkpoints", checkpoints, least=1), horizon)
    return np.array([horizon * (k + 1) // count for k in range(count)], np.int64)


class Measurements:
    """What a backend fills in, for every [policy, problem, replication]; see `Result`."""

    def __init__(self, work: Work) -> None:
        pairs = work.problems[0].means.shape
        self.regret = np.zeros((*work.shape, len(work.checkpoints)))
        self.pulls = np.empty((*work.shape, *pairs), np.int64)
        self.late_pulls = np.empty_like(self.pulls)
        self.reward = np.empty(work.shape)
        self.offset = np.zeros((*work.shape, pairs[0]))  # of regrets by player, where means have changed


class Tracker:
    """Counts rounds done over all runs, and tells threads to stop."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total = total
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()
        self.progress = progress

    def add(self, rounds: int) -> bool:
        """Note that so many rounds are done; False if the work is to stop."""
        with self.lock:
            self.done += rounds
        return not self.stopped

    @functools.cached_property
    def report(self) -> Callable[[float], None] | None:
        """What to call with the fraction done. It is made when work begins, since compiling tells nothing about it."""
        return reporter(self.progress)

    def show(self) -> None:
        """Report how far the work is."""
        if self.report is not None:
            self.report(self.done / self.total)
