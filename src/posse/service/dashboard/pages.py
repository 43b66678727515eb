"""The pages and their parts, as routes of the service."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.policies.base import Policy
from posse.policies.ind_ts import IndTS
from posse.policies.ind_tsv import IndTSV
from posse.policies.ind_ucb import IndUCB
from posse.policies.posse_ts import PosseTS
from posse.service.auth import permissions as access
from posse.service.auth.permissions import CHANGE, CREATE, READ, Permission
from posse.service.commands import Change, Create
from posse.service.dashboard import forms, insights, views
from posse.service.dashboard.analyst import Analyst
from posse.service.dashboard.charts import chart
from posse.service.dashboard.links import experiment_page
from posse.service.dashboard.rendering import PAGE_HEADERS, page, static_answer
from posse.service.dashboard.snapshot import Snapshot
from posse.service.dashboard.snapshots import Snapshots
from posse.service.storage.errors import ExperimentExists, Unavailable, UnknownExperiment

IDLE_SECONDS = 10  # after which a page is set anew although nothing happened, so that "12 s ago" stays true
SIGNED_IN_SECONDS = 12 * 3600

Endpoint = Callable[[Request], Awaitable[Response]]


def add_pages(app: FastAPI) -> None:
    """Add the pages to the app, which has its store, writer and authenticator in `app.state`."""
    app.state.analyst = Analyst()
    app.router.lifespan_context = _closing(app.state.analyst, app.router.lifespan_context)
    app.state.snapshots = Snapshots(app.state.store)
    one = "/experiments/{name}"
    for path, method, endpoint in (
        ("/", "GET", _list),
        ("/experiments", "GET", _cards),
        ("/experiments", "POST", _create),
        (one, "GET", _experiment),
        (f"{one}/live", "GET", _live),
        (f"{one}/chart.json", "GET", _chart),
        (f"{one}/pause", "POST", _pause),
        ("/login", "GET", _login),
        ("/login", "POST", _sign_in),
        ("/logout", "POST", _sign_out),
        ("/static/{path:path}", "GET", _static),
    ):
        methods = [method, "HEAD"] if method == "GET" else [method]
        app.add_api_route(path, endpoint, methods=methods, include_in_schema=False, response_model=None)


def _closing(analyst: Analyst, life: Any) -> Any:
    """The app's life, at the end of which the analyst goes too."""

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[Any]:
        async with life(app) as state:
            try:
                yield state
            finally:
                analyst.close()

    return closing


# ---------------------------------------------------------------- who may look


def _for(permission: Permission, part: bool = False) -> Callable[[Endpoint], Endpoint]:
    """A page for those whose token is enough; others are sent to the login, or told why not."""

    def wrap(function: Endpoint) -> Endpoint:
        @access.needs(access.NO_TOKEN)  # the page looks at the cookie itself
        @functools.wraps(function)
        async def endpoint(request: Request) -> Response:
            grant = await request.app.state.authenticator.page_grant(request)
            if grant is None:
                return _to_login(request, part)
            denied = access.why_denied(grant, permission, request.path_params.get("name"))
            if denied is not None:
                return _trouble(403, "Not with this token", denied)
            request.state.grant = grant
            try:
                return await function(request)
            except UnknownExperiment:
                return _trouble(404, "No such experiment", "It may have another name, or belong to another service.")
            except Unavailable as error:
                return _trouble(503, "The storage cannot answer now", f"{error}. Nothing is lost; try again soon.")

        return endpoint

    return wrap


def _to_login(request: Request, part: bool) -> Response:
    if part:
        return Response(status_code=401, headers={**PAGE_HEADERS, "HX-Refresh": "true"})
    target = request.url.path if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={quote(target)}", 303, PAGE_HEADERS)


def _trouble(status: int, title: str, text: str) -> Response:
    return page("trouble.html", status, title=title, text=text, may_leave=False)


def _common(request: Request) -> dict[str, Any]:
    return {"may_leave": access.COOKIE in request.cookies}


# ---------------------------------------------------------------- the list, and new experiments


@_for(READ)
async def _list(request: Request) -> Response:
    return page("list.html", **await _listed(request), form=forms.Form())


@_for(READ, part=True)
async def _cards(request: Request) -> Response:
    if "hx-request" not in request.headers:
        return RedirectResponse("/", 303, PAGE_HEADERS)
    values = await _listed(request)
    if request.query_params.get("seen") == values["seen"]:
        return Response(status_code=204, headers=PAGE_HEADERS)
    return page("parts/experiments.html", **values)


async def _listed(request: Request) -> dict[str, Any]:
    grant = request.state.grant
    found = await request.app.state.read_pool.run(request.app.state.snapshots.cards)
    mine = [card for card in found if access.allows(grant, READ, card.name)]
    return {
        "experiments": mine,
        "seen": _digest(mine),
        "may_create": access.allows(grant, CREATE),
        **_common(request),
    }


def _digest(what: Any) -> str:
    """A short name for what a page says, by which it is known whether there is anything new."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


@_for(CREATE)
async def _create(request: Request) -> Response:
    try:
        typed = forms.read(await request.body())
    except ValueError as error:
        return _trouble(400, "The form cannot be read", f"{error}.")
    made, wrong = forms.experiment_of(typed)
    if not wrong:
        try:
            await request.app.state.writer.apply(Create(made.pop("name"), **made))
            return RedirectResponse(experiment_page(typed["name"].strip()), 303, PAGE_HEADERS)
        except ExperimentExists:
            wrong = {"name": "There is an experiment of this name already."}
        except (ValueError, TypeError) as error:
            wrong = {"form": f"{error}."}
    return page("list.html", 422, **await _listed(request), form=forms.Form(typed, wrong))


# ---------------------------------------------------------------- one experiment


@_for(READ)
async def _experiment(request: Request) -> Response:
    values = await _about(request)
    example = _example(values["snapshot"], str(request.base_url))
    return page("experiment.html", **values, **_common(request), example=example)


@_for(READ, part=True)
async def _live(request: Request) -> Response:
    values = await _about(request)
    if request.query_params.get("seen") == values["seen"]:
        return Response(status_code=204, headers=PAGE_HEADERS)
    return page("live.html", **values)


@_for(READ, part=True)
async def _chart(request: Request) -> Response:
    data = chart(await _snapshot(request))
    return Response(json.dumps(data, allow_nan=False), 200, PAGE_HEADERS, "application/json")


@_for(CHANGE)
async def _pause(request: Request) -> Response:
    name = request.path_params["name"]
    typed = forms.read(await request.body())
    await request.app.state.writer.apply(Change(name, paused=typed.get("paused") == "yes"))
    return RedirectResponse(experiment_page(name), 303, PAGE_HEADERS)


async def _snapshot(request: Request) -> Snapshot:
    state = request.app.state
    found: Snapshot = await state.read_pool.run(state.snapshots.of, request.path_params["name"])
    return found


async def _about(request: Request) -> dict[str, Any]:
    """All that the page of an experiment, or its parts, say."""
    snapshot = await _snapshot(request)
    search, page_number = request.query_params.get("q", "")[:200], request.query_params.get("page", "1")
    number = int(page_number) if page_number.isdecimal() and len(page_number) < 9 else 1
    may_change = access.allows(request.state.grant, CHANGE, snapshot.name)
    values: dict[str, Any] = await request.app.state.read_pool.run(
        about, snapshot, request.app.state.analyst, search, number, may_change
    )
    return values


def about(snapshot: Snapshot, analyst: Analyst, search: str, page_number: int, may_change: bool) -> dict[str, Any]:
    """All that the page of an experiment says, for the templates."""
    answers = [analyst.ask(kind, snapshot) if snapshot.rewards else None for kind in ("diagnosis", "savings")]
    stamps = [answer.at if answer else 0 for answer in answers]
    state = (snapshot.events, snapshot.decisions, snapshot.paused, int(snapshot.now / IDLE_SECONDS), stamps)
    return {
        "snapshot": snapshot,
        "address": experiment_page(snapshot.name),
        "seen": _digest((state, search, page_number)),
        "may_change": may_change,
        "arms": views.arms_of(snapshot),
        "left_out": sum(here for _, here in snapshot.players) - len(snapshot.trail.players),
        "lead": views.lead(snapshot),
        "figures": views.figures(snapshot),
        "matrix": views.matrix(snapshot, search, page_number),
        "recent": views.recent(snapshot),
        "rewards_words": views.rewards_in_words(snapshot),
        "diagnosis": insights.diagnosis_view(answers[0], snapshot),
        "savings": insights.savings_view(answers[1], snapshot),
        "policy": snapshot.setup.policy.label,
        "policy_words": _policy_words(snapshot.setup.policy),
    }


def _policy_words(policy: Policy) -> str:
    if isinstance(policy, PosseTS):
        return "It learns how alike players are and how much chance there is in rewards, and shares as far as it helps."
    if isinstance(policy, IndTSV | IndTS | IndUCB):
        return "Every player learns from its own rewards only."
    epsilon = getattr(policy, "epsilon", None)
    if epsilon is not None:
        return f"Players share, on the promise that they differ by at most ε = {epsilon:g}."
    return "See the documentation of posse."


def _example(snapshot: Snapshot, base: str) -> str:
    """A first program for an experiment."""
    player = next((name for name, here in snapshot.players if here), "Lyon")
    lines = ["import posse", "", f"client = posse.Client({base.rstrip('/')!r})"]
    if not snapshot.players:
        lines.append(f"client.change({snapshot.name!r}, join=[{player!r}])")
    lines += [
        f"decision = client.choose({snapshot.name!r}, {player!r})",
        "print(decision.arm)  # use this arm; then, when you know what came of it:",
        f"client.observe({snapshot.name!r}, decision.id, {snapshot.setup.high:g})",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- login and files


@access.needs(access.NO_TOKEN)
async def _login(request: Request) -> Response:
    return page("login.html", next=_inside(request.query_params.get("next", "/")), wrong="", may_leave=False)


@access.needs(access.NO_TOKEN)
async def _sign_in(request: Request) -> Response:
    try:
        typed = forms.read(await request.body())
    except ValueError:
        typed = {}
    secret, target = typed.get("token", "").strip(), _inside(typed.get("next", "/"))
    grant = await request.app.state.authenticator.look_up(secret) if secret else None
    if grant is None or not access.allows(grant, READ):
        wrong = "This token is unknown, expired or revoked." if grant is None else "This token has no scope read."
        return page("login.html", 401, next=target, wrong=wrong, may_leave=False)
    answer = RedirectResponse(target, 303, PAGE_HEADERS)
    answer.set_cookie(
        access.COOKIE,
        secret,
        max_age=SIGNED_IN_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https://"),  # a proxy in front speaks TLS, not we
    )
    return answer


@access.needs(access.NO_TOKEN)
async def _sign_out(request: Request) -> Response:
    answer = RedirectResponse("/login", 303, PAGE_HEADERS)
    answer.delete_cookie(access.COOKIE)
    return answer


def _inside(target: str) -> str:
    """A path of this service, or the list of experiments."""
    return target if target.startswith("/experiments/") else "/"


@access.needs(access.NO_TOKEN)
async def _static(request: Request) -> Response:
    found = static_answer(request.path_params["path"], request.query_params.get("v", ""))
    return found or _trouble(404, "Nothing here", "There is no such file.")
