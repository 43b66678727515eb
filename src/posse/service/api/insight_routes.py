"""The API: an experiment's log, statistics and diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request
from sqlalchemy.engine import Connection

from posse.insight.diagnosis.api import diagnose
from posse.insight.diagnosis.intervals import interval, shares
from posse.learner import Counts
from posse.learner.state import LearnerState
from posse.service.api import responses as answers
from posse.service.api.errors import declared
from posse.service.api.experiment_routes import ALWAYS, PREFIX, Name
from posse.service.api.requests import new_router
from posse.service.auth.permissions import READ, needs
from posse.service.settings import LARGEST_PAGE
from posse.service.storage import queries
from posse.text import plain

LARGEST_NUMBER = 2**53  # of a row of the log
LEVEL = 0.05  # the probability that any of the intervals is ever wrong

router = new_router(PREFIX)


@router.get("/{name}/log", responses=declared(404, *ALWAYS))
@needs(READ)
async def read_log(
    name: Name,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The number of the last row that is known")] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 1000,
) -> answers.LogAnswer:
    """The log: decisions, rewards and changes in the order in which they happened."""
    rows = await request.app.state.read_pool.query(queries.log, name, after, limit)
    return answers.LogAnswer(rows=rows, next=rows[-1]["event"] if len(rows) == limit else None)


@router.get("/{name}/state", responses=declared(404, *ALWAYS))
@needs(READ)
async def read_state(name: Name, request: Request) -> answers.StateAnswer:
    """The numbers behind the decisions."""
    state: answers.StateAnswer = await request.app.state.read_pool.query(_state, name)
    return state


@router.get("/{name}/diagnosis", responses=declared(404, 409, *ALWAYS))
@needs(READ)
async def read_diagnosis(name: Name, request: Request) -> dict[str, Any]:
    """Is ε right? How far players are shown to differ, and an alarm when that is by more."""
    diagnosis: dict[str, Any] = await request.app.state.read_pool.query(_diagnosis, name)
    return diagnosis


@dataclass(frozen=True)
class DiagnosisSource:
    """An experiment at one moment, as `diagnose` takes it."""

    state: LearnerState

    def counts(self) -> Counts:
        """Pulls and sums."""
        return self.state.counts()

    def shared_weights(self) -> np.ndarray:
        """How much the next decision of each player is expected to rest on others' data, floor and holdout included."""
        indices = queries.indices(self.state)
        return (indices.weights * indices.probabilities).sum(axis=1)


def _diagnosis(connection: Connection, name: str) -> dict[str, Any]:
    return diagnose(DiagnosisSource(queries.live_experiment(connection, name).state)).to_dict()


def _state(connection: Connection, name: str) -> answers.StateAnswer:
    state = queries.live_experiment(connection, name).state
    counts, indices = state.counts(), queries.indices(state)
    unit, pulls = counts.high - counts.low, counts.pulls
    level = LEVEL * np.outer(shares(len(counts.players)), shares(len(counts.arms)))
    low, high = interval(pulls, np.clip((counts.sums - pulls * counts.low) / unit, 0, pulls), level)
    return answers.StateAnswer(
        players=list(counts.players),
        arms=list(counts.arms),
        pulls=pulls.tolist(),
        means=plain(np.divide(counts.sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0)),
        low=plain(counts.low + unit * low),
        high=plain(counts.low + unit * high),
        centers=plain(indices.centers),
        scales=plain(indices.scales),
        shared=plain(indices.weights),
        probabilities=plain(indices.probabilities),
    )
