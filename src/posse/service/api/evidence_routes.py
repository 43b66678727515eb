"""The routes for what an experiment's log says: whether it can be trusted, and whether the experiment can end."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from posse.insight.watching.api import Watch
from posse.service.api.answers import ConclusionResult
from posse.service.api.middleware import ApiRouter, json_answer
from posse.service.api.routes import EXPERIMENT, Name
from posse.service.auth.permissions import READ
from posse.service.dashboard.conclusions import concluded, summary
from posse.service.dashboard.snapshots import complete_snapshot

router = ApiRouter()
PAGE = {"text/html": {"schema": {"type": "string"}}}
HTML: dict[str, Any] = {
    "responses": {200: {"content": PAGE, "description": "A page"}},
    "response_class": HTMLResponse,
}


@router.endpoint("GET", EXPERIMENT + "/watch", READ, 404, response_model=Watch)
async def read_watch(name: Name, request: Request) -> Response:
    """Whether choices follow their probabilities and rewards arrive alike, what adapting earns, and the guards."""
    return json_answer((await complete_snapshot(request.app.state, name)).watch.to_dict())


@router.endpoint("GET", EXPERIMENT + "/conclusion", READ, 404, 409, response_model=ConclusionResult)
async def read_conclusion(name: Name, request: Request) -> Response:
    """Whether the experiment can end: which arm to ship for whom, and what stopping or going on costs."""
    found = (await concluded(request.app.state, name))[1].to_dict()
    del found["setup"]  # which the experiment itself has
    return json_answer(found)


@router.endpoint("GET", EXPERIMENT + "/summary", READ, 404, 409, **HTML)
async def read_summary(name: Name, request: Request) -> Response:
    """The whole experiment on one page of HTML that prints well."""
    return await summary(request.app.state, name)
