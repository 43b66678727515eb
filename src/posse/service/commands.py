"""Commands: everything that changes the database, each as one small frozen record.

A command names the experiment that it is about. The writer groups the commands that wait, a transaction applies them
in order, and each has its own result. This is the road of one decision, from the socket to the commit:

    api.middleware           limits on the body, a deadline, headers
    auth.permissions         where the request comes from, its token, and what the token allows
    api.requests             the body, checked
    api.experiment_routes    the endpoint makes a `Choose`
    writer                   the queue, and the thread that writes
    storage.transaction      begin, lock, apply, commit
    storage.database         how SQLite begins
    storage.live_experiment  the experiment in memory, and its new rows of the log
    learner                  setup, roster, state, core and ledger: the choice, its propensity and its id
    storage.log_chain        each row's digest
    storage.pair_statistics  the statistics that changed

tests/service/test_road.py counts these modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from posse.policies.base import Policy


class Command(Protocol):
    """Any command. Those about tokens are in auth/tokens.py; those that import or rebuild are in admin/."""

    @property
    def experiment(self) -> str | None:
        """The experiment that it is about, which is locked before anything is done; None for no particular one."""


class Choose(NamedTuple):
    """Choose an arm for each of the players, as one round. Result: a `Decision` for each.

    The same key again gives the same decisions again.
    """

    experiment: str
    players: Sequence[str]
    available: Sequence[str] | None = None
    key: str | None = None


class Observe(NamedTuple):
    """Observe the rewards of decisions. Result: a `RewardOutcome` for each; a refused one does not stop the others."""

    experiment: str
    reports: Sequence[tuple[str, float]]
    """Pairs of a decision's id and its reward."""


class Record(NamedTuple):
    """Observe rewards of the past, which were not decided here, as one round. Result: how many."""

    experiment: str
    rewards: Sequence[tuple[str, str, float]]
    """Player, arm and reward."""


class Create(NamedTuple):
    """Begin an experiment; the arguments are those of `posse.Learner`. Result: the `Experiment`."""

    experiment: str
    policy: Policy
    arms: Sequence[str]
    players: Sequence[str] = ()
    horizon: int | None = None
    seed: int | None = None
    """Drawn at random if None."""
    reward_range: Sequence[float] = (0.0, 1.0)
    floor: float = 0.0
    holdout: float = 0.0
    default_reward: float | None = None
    patience: float | None = None


class Change(NamedTuple):
    """Let players and arms come and go, pause and resume: all of it or nothing. Result: the `Experiment`."""

    experiment: str
    join: Sequence[str] = ()
    retire: Sequence[str] = ()
    add_arms: Sequence[str] = ()
    retire_arms: Sequence[str] = ()
    paused: bool | None = None
    knows_others: bool = True


class Erase(NamedTuple):
    """Retire a player and replace its name for good. Result: the name that stands there now."""

    experiment: str
    player: str


class TakeDefaults(NamedTuple):
    """Take the default reward for every decision that has waited too long."""

    experiment: str
