"""The API: whether the service is well, and what it counts."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import Request, Response

from posse.service.api.errors import HttpProblem, declared, problem_of
from posse.service.api.requests import new_router
from posse.service.api.responses import HealthAnswer
from posse.service.auth.permissions import NO_TOKEN, Permission, needs
from posse.service.storage import database
from posse.service.storage.errors import Damaged, Unavailable

router = new_router()
OPEN: dict[str, Any] = {"security": []}


@router.get("/healthz", openapi_extra=OPEN, responses=declared(500, 503))
@needs(NO_TOKEN)
async def alive() -> HealthAnswer:
    """That the process is alive."""
    return HealthAnswer(status="alive")


@router.get("/readyz", openapi_extra=OPEN, responses=declared(500, 503))
@needs(NO_TOKEN)
async def ready(request: Request) -> HealthAnswer:
    """That the database answers and is as this version expects it."""
    try:
        await request.app.state.read_pool.run(database.check_version, request.app.state.store.engine)
    except (ValueError, Unavailable, Damaged) as error:
        logging.getLogger("posse").warning("not ready: %s", error)  # not in the answer, which needs no token
        detail = "The database does not answer, or not as this posse expects it; the log of the service says more."
        problem = problem_of(error)
        kind = "unavailable" if problem is None else problem.kind
        raise HttpProblem(kind, detail, None if kind == "damaged" else {"Retry-After": "1"}) from error
    return HealthAnswer(status="ready")


@router.get("/metrics", include_in_schema=False)
@needs(Permission("read", every_experiment=True))
async def metrics(request: Request) -> Response:
    """What is counted, for Prometheus."""
    text = await request.app.state.read_pool.run(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
@needs(Permission(None))
async def openapi(request: Request) -> dict[str, object]:
    """The API, described."""
    return request.app.openapi()
