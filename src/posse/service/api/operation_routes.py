"""The API: whether the service is well, and what it counts."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter, Request, Response

from posse.service.api.auth_route import GuardedRoute, operation_id
from posse.service.api.dispatch import read, refusal_of
from posse.service.api.errors import Refusal, declared
from posse.service.api.responses import HealthAnswer
from posse.service.auth.permissions import needs
from posse.service.storage.errors import Damaged, Unavailable

router = APIRouter(route_class=GuardedRoute, generate_unique_id_function=operation_id)
NO_TOKEN: dict[str, Any] = {"security": []}


@router.get("/healthz", openapi_extra=NO_TOKEN, responses=declared(500, 503))
@needs("nothing")
async def alive() -> HealthAnswer:
    """That the process is alive."""
    return HealthAnswer(status="alive")


@router.get("/readyz", openapi_extra=NO_TOKEN, responses=declared(500, 503))
@needs("nothing")
async def ready(request: Request) -> HealthAnswer:
    """That the database answers and is as this version expects it."""
    try:
        await request.app.state.reading.do(request.app.state.store.check)
    except (ValueError, Unavailable, Damaged) as error:
        logging.getLogger("posse").warning("not ready: %s", error)  # not in the answer, which needs no token
        detail = "The database does not answer, or not as this posse expects it; the log of the service says more."
        kind = (refusal_of(error) or Refusal("unavailable", "")).kind
        raise Refusal(kind, detail, None if kind == "damaged" else {"Retry-After": "1"}) from error
    return HealthAnswer(status="ready")


@router.get("/metrics", include_in_schema=False)
@needs("read", every_experiment=True)
async def metrics(request: Request) -> Response:
    """What is counted, for Prometheus."""
    text = await read(request, request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
@needs(None)
async def openapi(request: Request) -> dict[str, object]:
    """The API, described."""
    return request.app.openapi()
