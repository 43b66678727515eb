"""What answers say. Decisions and outcomes of rewards are answered as the learner and the storage have them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from posse.learner import Decision
from posse.service.commands import RewardOutcome


class RosterEntry(BaseModel):
    """A player or an arm."""

    name: str
    here: bool = Field(description="False once it has retired")


class PolicyAnswer(BaseModel):
    """A policy."""

    name: str
    constants: dict[str, float | None]
    label: str


class ExperimentAnswer(BaseModel):
    """An experiment as it stands."""

    name: str
    policy: PolicyAnswer
    arms: list[RosterEntry]
    players: list[RosterEntry]
    paused: bool
    horizon: int | None
    reward_range: list[float] = Field(min_length=2, max_length=2)
    floor: float
    holdout: float
    default_reward: float | None
    patience: float | None
    rounds: int
    decisions: int
    rewards: int
    waiting: int = Field(description="Decisions that wait for a reward")
    created_at: float = Field(description="In seconds since 1970")


class ExperimentsAnswer(BaseModel):
    """All experiments that the token may see."""

    experiments: list[ExperimentAnswer]


class DecisionsAnswer(BaseModel):
    """Decisions, in the order of the players."""

    decisions: list[Decision] = Field(
        description="`id` is what to report the reward with, `propensity` the probability with which this arm was "
        "chosen, and `shared` how much the choice rests on other players' data, from 0 to 1"
    )


class OutcomesAnswer(BaseModel):
    """What became of each reward, in order: taken, known (the same came before), conflict, unknown or invalid."""

    outcomes: list[RewardOutcome]
    taken: int = Field(description="How many were new, and count from now on")


class RecordsAnswer(BaseModel):
    """What became of rewards of the past."""

    taken: int


class ErasureAnswer(BaseModel):
    """The name that stands in place of the one erased."""

    player: str


class LogAnswer(BaseModel):
    """Rows of the log."""

    rows: list[dict[str, Any]] = Field(description="`event` is the row's number in the log")
    next: int | None = Field(description="Give it as `after` for the next rows; null at the end")


class StateAnswer(BaseModel):
    """The numbers behind the decisions, [player][arm]; null where nothing is known."""

    players: list[str]
    arms: list[str]
    pulls: list[list[int]]
    means: list[list[float | None]]
    low: list[list[float | None]] = Field(description="Lower ends of intervals for the means")
    high: list[list[float | None]] = Field(description="Upper ends")
    centers: list[list[float | None]] = Field(
        description="Of the indices, bonus included, for rewards mapped to [0, 1]; no estimates of means"
    )
    scales: list[list[float | None]]
    shared: list[list[float | None]] = Field(description="How much each index rests on other players' data, 0 to 1")
    probabilities: list[list[float | None]]


class HealthAnswer(BaseModel):
    """That all is well."""

    status: str
