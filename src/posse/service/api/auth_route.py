"""Routes that look at the token first, then at the body, and only then at anything else."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from posse.service.api.errors import Refusal
from posse.service.auth.permissions import Guard, needed

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class JsonRequest(Request):
    """A request whose JSON is read strictly: no NaN, no half characters, bounded depth."""

    async def json(self) -> Any:
        """The body, read once."""
        if not hasattr(self, "_json"):
            try:
                self._json = from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                detail = (
                    f"{str(error)[:300]}. Send one JSON value in UTF-8, without NaN or Infinity, not nested deeply."
                )
                raise Refusal("not-json", detail) from None
        return self._json


class GuardedRoute(APIRoute):
    """A route for which `access.needs` says who may use it."""

    def get_route_handler(self) -> Handler:
        """What serves a request."""
        handle = super().get_route_handler()
        scope, every_experiment = needed(self.endpoint)
        takes_body = self.body_field is not None

        async def guarded(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            request.state.grant = await guard.admit(request, scope, every_experiment)
            if takes_body:
                _check_type(request)
                request = JsonRequest(request.scope, request.receive)
                if await request.body():
                    await request.json()
            return await handle(request)

        return guarded


def operation_id(route: APIRoute) -> str:
    """How OpenAPI names an endpoint."""
    return route.name


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        detail = f"Content-Type is {kind[:100]!r}; send JSON, as `Content-Type: application/json`."
        raise Refusal("not-json-type", detail, {"Accept": "application/json"})
