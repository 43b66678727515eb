"""The routes of the dashboard: pages, their parts, forms, the login and static files."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service.auth import permissions as access
from posse.service.auth.permissions import CHANGE, CREATE, NO_TOKEN, READ, Permission
from posse.service.commands import Change, Create
from posse.service.dashboard import forms
from posse.service.dashboard.analysis_process import AnalysisProcess
from posse.service.dashboard.experiment_page import chart, contents
from posse.service.dashboard.snapshots import Snapshot, Snapshots
from posse.service.dashboard.templates import PAGE_HEADERS, experiment_address, page, static_files
from posse.service.storage import queries
from posse.service.storage.errors import ExperimentExists, Unavailable, UnknownExperiment

IDLE_SECONDS = 10  # after which a page is sent again even if nothing happened, so that "12 s ago" stays true
SIGNED_IN_SECONDS = 12 * 3600
FOREVER = "public, max-age=31536000, immutable"  # for files whose address has their digest

Endpoint = Callable[[Request], Awaitable[Response]]

router = APIRouter(include_in_schema=False)


def add_dashboard(app: FastAPI) -> None:
    """Add the dashboard to the app, which has its store, writer and authenticator in `app.state`."""
    app.state.analyses = AnalysisProcess(app.state.metrics.note_verdict)
    app.state.snapshots = Snapshots(app.state.store)
    app.router.routes.extend(router.routes)
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[Any]:
        async with lifespan(app) as state:
            try:
                yield state
            finally:
                await asyncio.to_thread(app.state.analyses.close)

    app.router.lifespan_context = closing


# ---------------------------------------------------------------- who may look


def _route(
    path: str, permission: Permission, method: str = "GET", part: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Add a page, or a part of one, for those whose token is enough; others are sent to the login, or told why not."""

    def add(function: Endpoint) -> Endpoint:
        @access.needs(NO_TOKEN)  # the page looks at the cookie itself
        @functools.wraps(function)
        async def endpoint(request: Request) -> Response:
            try:
                return await _refused(request, permission, part) or await function(request)
            except forms.UnreadableForm as error:
                return _trouble(400, "The form cannot be read", f"{error}.")
            except UnknownExperiment:
                return _trouble(404, "No such experiment", "It may have another name, or belong to another service.")
            except Unavailable as error:
                return _trouble(503, "The storage cannot answer now", f"{error}. Nothing is lost; try again soon.")

        methods = [method, "HEAD"] if method == "GET" else [method]
        router.add_api_route(path, endpoint, methods=methods, response_model=None)
        return endpoint

    return add


async def _refused(request: Request, permission: Permission, part: bool) -> Response | None:
    """The answer to somebody whose token is not enough; None for all others."""
    if permission == NO_TOKEN:
        return None
    grant = request.state.grant = await request.app.state.authenticator.page_grant(request)
    if grant is not None:
        denied = access.why_denied(grant, permission, request.path_params.get("name"))
        return None if denied is None else _trouble(403, "Not with this token", denied)
    if part:
        return Response(status_code=401, headers={**PAGE_HEADERS, "HX-Refresh": "true"})
    target = request.url.path if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={quote(target)}", 303, PAGE_HEADERS)


def _trouble(status: int, title: str, text: str) -> Response:
    return page("trouble.html", status, title=title, text=text)


# ---------------------------------------------------------------- the list, and new experiments


@_route("/", READ)
async def _list(request: Request) -> Response:
    return page("list.html", **await _listed(request), form={"typed": forms.DEFAULTS, "wrong": {}})


@_route("/experiments", READ, part=True)
async def _cards(request: Request) -> Response:
    if "hx-request" not in request.headers:
        return RedirectResponse("/", 303, PAGE_HEADERS)
    return _unless_seen(request, "parts/experiments.html", await _listed(request))


def _unless_seen(request: Request, template: str, values: dict[str, Any]) -> Response:
    """A part of a page, or nothing if the browser has it already."""
    if request.query_params.get("seen") == values["seen"]:
        return Response(status_code=204, headers=PAGE_HEADERS)
    return page(template, **values)


async def _listed(request: Request) -> dict[str, Any]:
    grant, store = request.state.grant, request.app.state.store
    found = await request.app.state.read_pool.run(store.read, queries.experiments)
    mine, now = [each for each in found if access.allows(grant, READ, each.name)], float(store.clock())
    return {
        "experiments": mine,
        "now": now,
        "seen": _digest((mine, int(now / IDLE_SECONDS))),
        "may_create": access.allows(grant, CREATE),
        "may_leave": access.COOKIE in request.cookies,
    }


def _digest(what: Any) -> str:
    """A short digest of what a page shows, by which the browser's next request says what it has already."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


@_route("/experiments", CREATE, "POST")
async def _create(request: Request) -> Response:
    typed = forms.read(await request.body())
    made, wrong = forms.experiment_of(typed)
    if not wrong:
        try:
            await request.app.state.writer.apply(Create(made.pop("name"), **made))
            return RedirectResponse(experiment_address(typed["name"].strip()), 303, PAGE_HEADERS)
        except ExperimentExists:
            wrong = {"name": "There is an experiment of this name already."}
        except (ValueError, TypeError) as error:
            wrong = {"form": f"{error}."}
    return page("list.html", 422, **await _listed(request), form={"typed": typed, "wrong": wrong})


# ---------------------------------------------------------------- one experiment


@_route("/experiments/{name}", READ)
async def _experiment(request: Request) -> Response:
    values = await _contents(request)
    base = str(request.base_url).rstrip("/")
    return page("experiment.html", **values, may_leave=access.COOKIE in request.cookies, base=base)


@_route("/experiments/{name}/live", READ, part=True)
async def _live(request: Request) -> Response:
    return _unless_seen(request, "live.html", await _contents(request))


@_route("/experiments/{name}/chart.json", READ, part=True)
async def _chart(request: Request) -> Response:
    data = chart(await _snapshot(request))
    return Response(json.dumps(data, allow_nan=False), 200, PAGE_HEADERS, "application/json")


@_route("/experiments/{name}/pause", CHANGE, "POST")
async def _pause(request: Request) -> Response:
    name = request.path_params["name"]
    typed = forms.read(await request.body())
    await request.app.state.writer.apply(Change(name, paused=typed.get("paused") == "yes"))
    return RedirectResponse(experiment_address(name), 303, PAGE_HEADERS)


async def _snapshot(request: Request) -> Snapshot:
    state = request.app.state
    found: Snapshot = await state.read_pool.run(state.snapshots.of, request.path_params["name"])
    return found


async def _contents(request: Request) -> dict[str, Any]:
    """Everything that the page of an experiment, or its parts, show."""
    snapshot, state = await _snapshot(request), request.app.state
    search, number = request.query_params.get("q", "")[:200], request.query_params.get("page", "1")
    page_number = int(number) if number.isdecimal() and len(number) < 9 else 1
    attribute = request.query_params.get("by", "")
    shown = await state.read_pool.run(contents, snapshot, state.analyses, search, page_number, attribute)
    numbers = snapshot.events, snapshot.decisions, snapshot.paused, int(snapshot.now / IDLE_SECONDS)
    seen = _digest((*numbers, shown["diagnosis"], shown["savings"], search, page_number, attribute))
    return {**shown, "seen": seen, "may_change": access.allows(request.state.grant, CHANGE, snapshot.name)}


# ---------------------------------------------------------------- login and files


@_route("/login", NO_TOKEN)
async def _login(request: Request) -> Response:
    return page("login.html", next=_inside(request.query_params.get("next", "/")), wrong="")


@_route("/login", NO_TOKEN, "POST")
async def _sign_in(request: Request) -> Response:
    typed = forms.read(await request.body())
    secret, target = typed.get("token", "").strip(), _inside(typed.get("next", "/"))
    grant = await request.app.state.authenticator.look_up(secret) if secret else None
    if grant is None or not access.allows(grant, READ):
        wrong = "This token is unknown, expired or revoked." if grant is None else "This token has no scope read."
        return page("login.html", 401, next=target, wrong=wrong)
    answer = RedirectResponse(target, 303, PAGE_HEADERS)
    answer.set_cookie(
        access.COOKIE,
        secret,
        max_age=SIGNED_IN_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https://"),  # TLS ends at the proxy in front
    )
    return answer


@_route("/logout", NO_TOKEN, "POST")
async def _sign_out(request: Request) -> Response:
    answer = RedirectResponse("/login", 303, PAGE_HEADERS)
    answer.delete_cookie(access.COOKIE)
    return answer


def _inside(target: str) -> str:
    """A path of this service, or the list of experiments."""
    return target if target.startswith("/experiments/") else "/"


@_route("/static/{path:path}", NO_TOKEN)
async def _static(request: Request) -> Response:
    found = static_files().get(request.path_params["path"])
    if found is None:
        return _trouble(404, "Nothing here", "There is no such file.")
    content, kind, digest = found
    cache = FOREVER if request.query_params.get("v") == digest else "no-cache"
    return Response(content, 200, {**PAGE_HEADERS, "Cache-Control": cache, "Content-Type": kind})
