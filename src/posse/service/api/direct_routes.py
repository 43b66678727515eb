"""A shorter way to the two routes that programs call all the time: decisions and rewards.

FastAPI's general way through a request takes several times as long as the decision. Here the endpoint of the same route
is called with what the same models make of the request. Anything that is not as it should be goes the general way,
which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posse.service.api.middleware import check_type, read_json
from posse.service.auth.permissions import needed

NOT_HERE = ("request", "return")  # of an endpoint's hints, those that no part of the request gives


class DirectRoutes:
    """The layer of the app before FastAPI's own: serves some of the routes, and hands everything else on.

    Args:
        app: serves everything else.
        routes: each has an endpoint that takes `name`, `body`, `request`, perhaps `idempotency_key`, and gives a
            `Response`.
    """

    def __init__(self, app: ASGIApp, routes: list[APIRoute]) -> None:
        self._app = app
        self._routes = [(route, needed(route.endpoint), _readers(route)) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            for route, permission, readers in self._routes:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    request = Request(scope, receive)
                    request.state.grant = await request.app.state.authenticator.admit(request, permission)
                    check_type(request)
                    content = await _body(receive)
                    arguments = _arguments(request, content, readers) if content else None
                    if arguments is None:
                        await self._app(scope, _again(content, receive), send)
                    else:
                        response: Response = await route.endpoint(request=request, **arguments)
                        await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _readers(route: APIRoute) -> dict[str, Callable[[Any], Any]]:
    """What makes the endpoint's arguments from the parts of a request."""
    hints = get_type_hints(route.endpoint, include_extras=True)
    return {name: TypeAdapter(hint).validate_python for name, hint in hints.items() if name not in NOT_HERE}


async def _body(receive: Receive) -> bytes:
    """All of a body."""
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


def _arguments(request: Request, content: bytes, readers: dict[str, Callable[[Any], Any]]) -> dict[str, Any] | None:
    """The endpoint's arguments; None if something is wrong with them."""
    given = {"name": request.path_params["name"], "body": read_json(content)}
    if "idempotency_key" in readers:
        given["idempotency_key"] = request.headers.get("idempotency-key")
    try:
        return {name: readers[name](value) for name, value in given.items()}
    except ValidationError:
        return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was received already, then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
