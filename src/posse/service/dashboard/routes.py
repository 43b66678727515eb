"""The routes of the dashboard: pages, their parts, forms, the login and static files."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service.auth import permissions as access
from posse.service.auth.permissions import CHANGE, CREATE, NO_TOKEN, READ, Permission
from posse.service.commands import Change, Create
from posse.service.dashboard import forms
from posse.service.dashboard.analysis_process import REST, AnalysisProcess
from posse.service.dashboard.experiment_page import chart, contents
from posse.service.dashboard.snapshots import FRESH, Snapshot, Snapshots
from posse.service.dashboard.templates import PAGE_HEADERS, experiment_address, page, render, static_files
from posse.service.problems import KINDS, HttpProblem
from posse.service.reader import Handler, by_reader, in_reader
from posse.service.storage import queries
from posse.service.storage.errors import ExperimentExists, Unavailable, UnknownExperiment
from posse.service.storage.lifecycle import Status
from posse.service.storage.store import ServiceStore

IDLE_SECONDS = 10  # after which a page is sent again even if nothing happened, so that "12 s ago" stays true
CARDS = 48  # experiments on one page of the list
SIGNED_IN_SECONDS = 12 * 3600
FOREVER = "public, max-age=31536000, immutable"  # for files whose address has their digest

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


def _route(path: str, permission: Permission, method: str = "GET", part: bool = False) -> Callable[[Handler], Handler]:
    """Add a page, or a part of one, for those whose token is enough; others are sent to the login, or told why not."""

    def add(function: Handler) -> Handler:
        if method == "GET" and permission != NO_TOKEN:  # it shows data
            in_reader(function)
        answer = by_reader(function, function)

        @access.needs(permission)
        @functools.wraps(function)
        async def endpoint(request: Request) -> Response:
            try:
                return await _refused(request, permission, part) or await answer(request)
            except forms.UnreadableForm as error:
                return _trouble(400, "The form cannot be read", f"{error}.")
            except UnknownExperiment:
                return _trouble(404, "No such experiment", "It may have another name, or belong to another service.")
            except HttpProblem as error:
                status, title = KINDS[error.kind]
                if status != 503:
                    raise
                return _trouble(status, title, error.detail)
            except Unavailable as error:
                logging.getLogger("posse").warning("a page could not be made: %s", error)
                text = "The log of the service says why. Nothing is lost; try again soon."
                return _trouble(503, "The storage cannot answer now", text)

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
    return await _list_page(request, {"typed": forms.DEFAULTS, "wrong": {}})


async def _list_page(request: Request, form: dict[str, Any], status: int = 200) -> Response:
    grant = request.state.grant
    may = {"may_create": access.allows(grant, CREATE), "may_leave": access.COOKIE in request.cookies}
    return page("list.html", status, **await _listed(request, 0.0), **may, form=form)


@_route("/experiments", READ, part=True)
async def _cards(request: Request) -> Response:
    if "hx-request" not in request.headers:
        return RedirectResponse("/", 303, PAGE_HEADERS)
    listed = await _listed(request, FRESH)
    return await _unless_seen(request, "parts/experiments.html", listed["seen"], lambda: listed)


async def _unless_seen(request: Request, template: str, seen: str, values: Callable[[], dict[str, Any]]) -> Response:
    """A part of a page, made once for all who look; nothing if the browser has it already."""
    if request.query_params.get("seen") == seen:
        return Response(status_code=204, headers=PAGE_HEADERS)
    state = request.app.state

    def make() -> bytes:
        return render(template, **{**values(), "seen": seen}).encode()

    html = await state.answers.get((template, seen), lambda: state.read_pool.run(make))
    return Response(html, 200, PAGE_HEADERS, "text/html; charset=utf-8")


async def _listed(request: Request, seconds: float) -> dict[str, Any]:
    """A page of the list, at most so many seconds old; one reading of it is for all who look."""
    state, search = request.app.state, request.query_params.get("q", "")[:200]
    asked = request.state.grant.experiment, search, _page_number(request)
    read = functools.partial(_read_list, state.store, *asked)
    found: dict[str, Any] = await state.answers.get(("list", *asked), lambda: state.read_pool.run(read), seconds)
    return found


def _page_number(request: Request) -> int:
    number = request.query_params.get("page", "1")
    return max(int(number), 1) if number.isdecimal() and len(number) < 9 else 1


def _read_list(store: ServiceStore, only: str | None, search: str, number: int) -> dict[str, Any]:
    def read(connection: Connection) -> tuple[int, int, int, list[queries.Experiment]]:
        found = queries.count_experiments(connection, only=only, search=search)
        pages = max(1, -(-found // CARDS))
        skip = (min(number, pages) - 1) * CARDS
        shown = queries.experiments(connection, only=only, search=search, skip=skip, limit=CARDS)
        return found, pages, min(number, pages), shown

    (found, pages, number, shown), now = store.read(read), float(store.clock())
    seen = _digest((only, search, number, found, shown, int(now / IDLE_SECONDS)))
    listed = {"experiments": shown, "found": found, "search": search, "page": number, "pages": pages}
    return {**listed, "now": now, "seen": seen}


def _digest(what: Any) -> str:
    """A short digest of what a page shows, by which the browser's next request says what it has already."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


@_route("/experiments", CREATE, "POST")
async def _create(request: Request) -> Response:
    typed = forms.read(await request.body())
    made, wrong = forms.experiment_of(typed)
    if not wrong:
        try:
            await request.app.state.writer.apply(Create(made.pop("name"), **made, by=request.state.grant.who))
            return RedirectResponse(experiment_address(typed["name"].strip()), 303, PAGE_HEADERS)
        except ExperimentExists:
            wrong = {"name": "There is an experiment of this name already."}
        except (ValueError, TypeError) as error:
            wrong = {"form": f"{error}."}
    return await _list_page(request, {"typed": typed, "wrong": wrong}, 422)


# ---------------------------------------------------------------- one experiment


@_route("/experiments/{name}", READ)
async def _experiment(request: Request) -> Response:
    state, (seen, make) = request.app.state, await _contents(request)
    base = str(request.base_url).rstrip("/")
    values = {**await state.read_pool.run(make), "seen": seen}
    return page("experiment.html", **values, may_leave=access.COOKIE in request.cookies, base=base)


@_route("/experiments/{name}/live", READ, part=True)
async def _live(request: Request) -> Response:
    return await _unless_seen(request, "live.html", *await _contents(request))


@_route("/experiments/{name}/chart.json", READ, part=True)
async def _chart(request: Request) -> Response:
    state, snapshot = request.app.state, await _snapshot(request)

    def make() -> bytes:
        return json.dumps(chart(snapshot), allow_nan=False).encode()

    data = await state.answers.get(("chart", snapshot.name, snapshot.now), lambda: state.read_pool.run(make))
    return Response(data, 200, PAGE_HEADERS, "application/json")


@_route("/experiments/{name}/pause", CHANGE, "POST")
async def _pause(request: Request) -> Response:
    name = request.path_params["name"]
    typed = forms.read(await request.body())
    status: Status = "paused" if typed.get("paused") == "yes" else "running"
    await request.app.state.writer.apply(Change(name, status=status, by=request.state.grant.who))
    return RedirectResponse(experiment_address(name), 303, PAGE_HEADERS)


async def _snapshot(request: Request) -> Snapshot:
    state, name = request.app.state, request.path_params["name"]
    found: Snapshot = await state.answers.get(
        ("snapshot", name), lambda: state.read_pool.run(state.snapshots.of, name), seconds=0.0
    )
    return found


async def _contents(request: Request) -> tuple[str, Callable[[], dict[str, Any]]]:
    """A digest of what the page of an experiment, or its parts, show, and a function that makes all of it."""
    snapshot, analyses = await _snapshot(request), request.app.state.analyses
    asked = request.query_params.get("q", "")[:200], _page_number(request), request.query_params.get("by", "")[:200]
    may_change = access.allows(request.state.grant, CHANGE, snapshot.name)
    numbers = snapshot.events, snapshot.decisions, snapshot.status, int(snapshot.now / IDLE_SECONDS)
    latest = {kind: analyses.latest(kind, snapshot) for kind in REST}
    seen = _digest((snapshot.name, snapshot.id, *numbers, latest, asked, may_change))
    return seen, lambda: {**contents(snapshot, *asked), **latest, "may_change": may_change}


# ---------------------------------------------------------------- login and files


@_route("/login", NO_TOKEN)
async def _login(request: Request) -> Response:
    typed = request.headers.get("sec-fetch-site") == "none"  # or a link in a terminal: no page of another site led here
    return page("login.html", next=_inside(request.query_params.get("next", "/")), wrong="", submit=typed)


@_route("/login", NO_TOKEN, "POST")
async def _sign_in(request: Request) -> Response:
    typed = forms.read(await request.body())
    secret, target = typed.get("token", "").strip(), _inside(typed.get("next", "/"))
    grant = await request.app.state.authenticator.look_up(secret) if secret else None
    if grant is None or not access.allows(grant, READ):
        wrong = "This token is unknown, expired or revoked." if grant is None else "This token has no scope read."
        return page("login.html", 401, next=target, wrong=wrong, submit=False)
    answer = RedirectResponse(target, 303, PAGE_HEADERS)
    answer.set_cookie(
        access.COOKIE,
        secret,
        max_age=SIGNED_IN_SECONDS,
        httponly=True,
        samesite="strict",
        secure=_by_tls(request),
    )
    return answer


def _by_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, which ends at the proxy in front."""
    headers = request.headers
    return headers.get("origin", "").startswith("https://") or headers.get("x-forwarded-proto", "").startswith("https")


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
