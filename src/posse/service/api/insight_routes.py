"""The API: what there is to see of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request

from posse.insight.diagnosis.api import diagnose
from posse.insight.diagnosis.intervals import interval, shares
from posse.learner import Counts
from posse.service.api import responses as answers
from posse.service.api.auth_route import GuardedRoute, operation_id
from posse.service.api.dispatch import read
from posse.service.api.errors import declared
from posse.service.api.experiment_routes import ALWAYS, Name
from posse.service.auth.permissions import needs
from posse.service.process.settings import LARGEST_PAGE
from posse.service.storage import queries as views
from posse.service.storage.store import Indices, Store
from posse.text import plain

LARGEST_NUMBER = 2**53  # of a row of the log
LEVEL = 0.05  # the probability that any of the intervals is ever wrong

router = APIRouter(prefix="/v1/experiments", route_class=GuardedRoute, generate_unique_id_function=operation_id)


@router.get("/{name}/log", responses=declared(404, *ALWAYS))
@needs("read")
async def read_log(
    name: Name,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The number of the last row that is known")] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 1000,
) -> answers.LogAnswer:
    """The log: decisions, rewards and changes in the order in which they happened."""
    rows = await read(request, request.app.state.store.log, name, after, limit)
    return answers.LogAnswer(rows=rows, next=rows[-1]["event"] if len(rows) == limit else None)


@router.get("/{name}/state", responses=declared(404, *ALWAYS))
@needs("read")
async def read_state(name: Name, request: Request) -> answers.StateAnswer:
    """The numbers behind the decisions."""
    return await read(request, lambda: _state(_look(request.app.state.store, name)))


@router.get("/{name}/diagnosis", responses=declared(404, 409, *ALWAYS))
@needs("read")
async def read_diagnosis(name: Name, request: Request) -> dict[str, Any]:
    """Is ε right? How far players are shown to differ, and an alarm when that is by more."""
    return await read(request, lambda: diagnose(_look(request.app.state.store, name)).to_dict())


@dataclass(frozen=True)
class Look:
    """What was seen of an experiment at one moment, as `diagnose` takes it."""

    seen: Counts
    indices: Indices

    def counts(self) -> Counts:
        """Pulls and sums."""
        return self.seen

    def shared_weights(self) -> np.ndarray:
        """How much the next decision of each player is expected to rest on others' data."""
        return (self.indices.weights * self.indices.probabilities).sum(axis=1)


def _look(store: Store, name: str) -> Look:
    with store.reading() as connection:
        state = views.book(connection, name).state
    return Look(state.counts(), views.indices(state))


def _state(look: Look) -> answers.StateAnswer:
    counts, indices = look.seen, look.indices
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
