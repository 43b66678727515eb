"""The routes for what an experiment's log says: whether it can be trusted, and whether the experiment can end."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from posse.insight.watching.api import Watch
from posse.service.api.middleware import new_router
from posse.service.api.routes import ALWAYS, EXPERIMENT, Name
from posse.service.auth.permissions import READ, needs
from posse.service.dashboard.snapshots import complete_snapshot
from posse.service.problems import declared
from posse.service.reader import in_reader

router = new_router()
RESPONSES: dict[int | str, dict[str, Any]] = declared(404, *ALWAYS)


@router.get(EXPERIMENT + "/watch", responses=RESPONSES, response_model=Watch)
@needs(READ)
@in_reader
async def read_watch(name: Name, request: Request) -> Response:
    """Whether choices follow their probabilities and rewards arrive alike, what adapting earns, and the guards."""
    snapshot = await complete_snapshot(request.app.state, name)
    return Response(to_json(snapshot.watch.to_dict()), media_type="application/json")
