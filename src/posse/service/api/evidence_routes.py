"""The routes for what an experiment's log says: whether it can be trusted, and whether the experiment can end."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from pydantic_core import to_json

from posse.insight.watching.api import Watch
from posse.service.api.answers import ConclusionResult
from posse.service.api.middleware import new_router
from posse.service.api.routes import ALWAYS, EXPERIMENT, Name
from posse.service.auth.permissions import READ, needs
from posse.service.dashboard.conclusions import concluded, summary
from posse.service.dashboard.snapshots import complete_snapshot
from posse.service.problems import declared
from posse.service.reader import in_reader

router = new_router()
RESPONSES: dict[int | str, dict[str, Any]] = declared(404, *ALWAYS)
PAGE = {"text/html": {"schema": {"type": "string"}}}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": PAGE, "description": "A page"}}


@router.get(EXPERIMENT + "/watch", responses=RESPONSES, response_model=Watch)
@needs(READ)
@in_reader
async def read_watch(name: Name, request: Request) -> Response:
    """Whether choices follow their probabilities and rewards arrive alike, what adapting earns, and the guards."""
    snapshot = await complete_snapshot(request.app.state, name)
    return Response(to_json(snapshot.watch.to_dict()), media_type="application/json")


@router.get(EXPERIMENT + "/conclusion", responses=RESPONSES | declared(409), response_model=ConclusionResult)
@needs(READ)
@in_reader
async def read_conclusion(name: Name, request: Request) -> Response:
    """Whether the experiment can end: which arm to ship for whom, and what stopping or going on costs."""
    found = (await concluded(request.app.state, name))[1].to_dict()
    found["differences"] = [
        dict(zip(("against", "value", "low", "high"), row, strict=True)) for row in found["differences"]
    ]
    del found["setup"]  # which the experiment itself has
    return Response(to_json(found), media_type="application/json")


@router.get(EXPERIMENT + "/summary", responses=RESPONSES | declared(409) | HTML, response_class=HTMLResponse)
@needs(READ)
@in_reader
async def read_summary(name: Name, request: Request) -> Response:
    """The whole experiment on one page of HTML that prints well."""
    return await summary(request.app.state, name)
