"""What surrounds every request: limits, the token, its JSON, headers on its answer, a count and a line in the log."""

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from posse.checks import did_you_mean
from posse.service.auth import Endpoint, Permission, check_origin, may_read, needed, needs
from posse.service.logs import ACCESS, request_id, without_tokens
from posse.service.metrics import Metrics
from posse.service.problems import HttpProblem, answer_of, declared
from posse.service.reader import by_reader
from posse.service.settings import LARGEST_BODY, Settings

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Posse-API": "1",  # by which a client knows that it is the service that answers, and nobody else
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""What every answer says unless it says something else itself."""

ENCODED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
NAMES = {name for name, _ in ENCODED}
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}
DRAINED = 16 * LARGEST_BODY  # of a body that is too large, so that its sender is still there to read the answer
CLIENT_GONE = 499  # as other servers count a client that hung up before it was answered
GONE = "posse.gone"  # what a scope has if its client is gone
ALWAYS = (401, 403, 421, 422, 500, 503)  # statuses of the problems that any request may have
WITH_BODY = (*ALWAYS, 400, 408, 409, 413, 415)  # and any but GET
OUT_OF_TIME = "It may have happened or not. Repeat it with the same idempotency key, or the same reward."
SANE_ID = re.compile(rb"[!-~]{1,128}")
PLACES = {"name": ("path", "name"), "idempotency_key": ("header", "idempotency-key"), "body": ("body",)}
"""Where a request has the arguments of an endpoint, in the order in which FastAPI reads them."""

log = logging.getLogger(ACCESS)


class RunningRequests(set[asyncio.Timeout]):
    """The time limits of all requests that are under way."""

    stopping = False

    def stop(self) -> None:
        """Let every request that is under way be answered now, with 503 unless it is done."""
        self.stopping = True
        for limit in self:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())


class RequestLimits:
    """The outermost layer of the app: bounds each request, completes its answer, counts and logs it."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, running: RunningRequests) -> None:
        self._app, self._settings, self._metrics, self._running = app, settings, metrics, running
        self._counters: dict[tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}
        prefix = secrets.token_hex(6)  # a worker's ids are this and a number: unique, and made in no time
        self._new_ids = (f"{prefix}-{number:x}" for number in itertools.count())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        identity, length, origin = None, b"0", None
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = value
            elif name == b"origin":
                origin = value
            elif name == b"x-request-id" and SANE_ID.fullmatch(value):
                identity = value.decode("ascii")
        if identity is None or identity != without_tokens(identity):
            identity = next(self._new_ids)
        request_id.set(identity)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                said = [name for name, _ in message["headers"]]
                more = ENCODED if NAMES.isdisjoint(said) else [pair for pair in ENCODED if pair[0] not in said]
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode()), *more]
            await send(message)

        limit = asyncio.timeout(self._settings.body_seconds + self._settings.answer_seconds)
        try:
            if origin is not None:
                check_origin(scope["method"], Headers(scope=scope))
            bounded = BoundedBody(receive, self._settings.body_seconds)
            if not length.isdigit() or int(length[:20]) > LARGEST_BODY:
                await bounded.refuse()
            async with limit:
                self._running.add(limit)
                await self._app(scope, bounded.receive, send_on)
        except ClientDisconnect:
            status = status or CLIENT_GONE
        except Exception as error:
            if status:  # half an answer is out already; the server breaks the connection off
                raise
            if isinstance(error, TimeoutError):
                kind, why = ("stopping", "The service is stopping. ") if self._running.stopping else ("timeout", "")
                error = HttpProblem(kind, why + OUT_OF_TIME, {"Retry-After": "1"})
            await answer_of(error, may_read(scope))(scope, receive, send_on)
        finally:
            self._running.discard(limit)
            self._note(scope, CLIENT_GONE if GONE in scope else status, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "other"
        counters = self._counters.get((method, route, status))
        if counters is None:  # Prometheus takes longer to find them than to count
            counter, histogram = self._metrics.requests, self._metrics.seconds
            counters = counter.labels(method, route, str(status)).inc, histogram.labels(method, route).observe
            self._counters[method, route, status] = counters
        count, observe = counters
        count()
        observe(seconds)
        if self._settings.access_log:
            client, milliseconds = (scope.get("client") or ["?"])[0], round(1e3 * seconds, 1)
            path = without_tokens(ascii(scope["path"][:300])[1:-1])  # no query, and no line breaks
            fields = {"method": method, "route": route, "status": status, "milliseconds": milliseconds}
            line = "%s %s %s %d %.1f ms", client, method, path, status, milliseconds
            log.info(*line, extra={"fields": {**fields, "client": client}})


class BoundedBody:
    """Receives a body that may be neither too large nor too slow, whether its length is declared or not."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive, self._seconds = receive, seconds
        self._taken, self._complete, self._deadline = 0, False, 0.0

    async def receive(self) -> Message:
        if self._complete:  # after the body, messages only say whether the client is still connected
            return await self._receive()
        message = await self._next()
        if self._taken > LARGEST_BODY:
            await self.refuse()
        return message

    async def _next(self) -> Message:
        self._deadline = self._deadline or asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            detail = f"The body was not complete after {self._seconds:g} s; send it faster, or in smaller batches."
            raise HttpProblem("too-slow", detail, {"Connection": "close"}) from None
        self._taken += len(message.get("body", b""))
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def refuse(self) -> NoReturn:
        """Say that it is too large, once most of it has come."""
        while not self._complete and self._taken <= DRAINED:
            await self._next()
        detail = f"A body has at most {LARGEST_BODY:,} bytes; send several smaller batches."
        raise HttpProblem("too-large", detail, {"Connection": "close"})


# ---------------------------------------------------------------- the token, then the JSON


class JsonRequest(Request):
    """A request whose JSON is read strictly: no NaN, no half characters, bounded depth, no field twice."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                body = await self.body()
                self._json = from_json(body, allow_inf_nan=False)
                if body.count(b":") > _fields(self._json):  # only then may one be there twice
                    json.loads(body, object_pairs_hook=_check_once, parse_int=str, parse_float=str)
            except ValueError as error:
                advice = "Send one JSON value in UTF-8, without NaN or Infinity, not nested deeply."
                raise HttpProblem("not-json", f"{str(error)[:300]}. {advice}") from None
        return self._json


def _fields(value: Any) -> int:
    """How many fields all objects in a value have."""
    if isinstance(value, dict):
        return len(value) + sum(_fields(each) for each in value.values() if type(each) in (dict, list))
    return sum(_fields(each) for each in value if type(each) in (dict, list)) if isinstance(value, list) else 0


def _check_once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object in which a field is there twice: which one counts would be a guess."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise HttpProblem("invalid", f"The field {twice[:60]!r} is there twice. Nothing was changed; send it once.")


class AuthRoute(APIRoute):
    """A route that looks at the token first, as `auth.needs` says, then at the body, then at anything else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = by_reader(self.endpoint, super().get_route_handler())
        permission = needed(self.endpoint)
        takes_body = self.body_field is not None

        async def check_and_handle(request: Request) -> Response:
            request.state.grant = await request.app.state.authenticator.admit(request, permission)
            self.check_query(request)
            if takes_body:
                _check_type(request)
                request = JsonRequest(request.scope, request.receive)
                if await request.body():
                    await request.json()
            return await handle(request)

        return check_and_handle

    def check_query(self, request: Request) -> None:
        """Refuse what the API does not know behind the ?, which would be ignored otherwise."""
        if not request.scope["query_string"] or not self.path.startswith("/v1/"):
            return
        known = [field.alias for field in self.dependant.query_params]
        names = [name for name, _ in request.query_params.multi_items()]
        for name in names:
            if name not in known or names.count(name) > 1:
                what = "is there twice" if name in known else f"is not known{did_you_mean(name, known)}"
                expected = f"expected {', '.join(known) or 'nothing'} after the ?"
                raise HttpProblem("invalid", f"query.{name[:60]} {what}; {expected}. Nothing was changed.")


class DirectRoute(AuthRoute):
    """A route that programs call all the time. FastAPI's own way through a request takes longer than a decision.

    The endpoint takes the arguments in PLACES and `request`, and gives a `Response`. The same models read the request,
    and errors are as FastAPI would have them.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        hints = get_type_hints(endpoint, include_extras=True)
        self._readers = {name: TypeAdapter(hints[name]).validate_python for name in PLACES if name in hints}
        self.app = self._serve  # in place of FastAPI's

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = JsonRequest(scope, receive)
        request.state.grant = await request.app.state.authenticator.admit(request, needed(self.endpoint))
        self.check_query(request)
        _check_type(request)
        response = await self.endpoint(request=request, **await self._arguments(request))
        await response(scope, receive, send)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        given = {"name": request.path_params["name"], "idempotency_key": request.headers.get("idempotency-key")}
        if await request.body():
            given["body"] = await request.json()
        arguments: dict[str, Any] = {}
        wrong: list[Any] = []
        for name, read in self._readers.items():
            if name not in given:
                wrong.append({"type": "missing", "loc": PLACES[name], "msg": "missing"})
                continue
            try:
                arguments[name] = read(given[name], from_attributes=True)  # as FastAPI does
            except ValidationError as error:
                wrong += [{**each, "loc": (*PLACES[name], *each["loc"])} for each in error.errors()]
        if wrong:
            raise RequestValidationError(wrong, body=given.get("body"))
        return arguments


class ApiRouter(APIRouter):
    """A router for endpoints that say what they need; OpenAPI names them as the code does, and groups them by `tag`."""

    def __init__(self, tag: str, kind: type[AuthRoute] = AuthRoute) -> None:
        super().__init__(tags=[tag], route_class=kind, generate_unique_id_function=lambda route: route.name)

    def endpoint(
        self, method: str, path: str, permission: Permission, *statuses: int, **more: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare what serves a method and a path, what it asks of a token, and which problems it has beside the usual.

        What only reads is for the reader.
        """
        responses = declared(*statuses, *(ALWAYS if method == "GET" else WITH_BODY)) | more.pop("responses", {})
        add = self.api_route(path, methods=[method], responses=responses, **more)
        return lambda function: add(needs(permission, in_reader=method == "GET")(function))


def json_answer(content: Any, headers: dict[str, str] | None = None) -> Response:
    """An answer of records as they are; nothing of it has to be checked."""
    return Response(to_json(content), headers=headers, media_type="application/json")


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        detail = f"Content-Type is {kind[:100]!r}; send JSON, as `Content-Type: application/json`."
        raise HttpProblem("not-json-type", detail, {"Accept": "application/json"})
