"""The routes of the dashboard: pages, their parts, forms, the login and static files."""

import asyncio
import contextlib
import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service import auth
from posse.service.auth import CHANGE, CREATE, NO_TOKEN, READ
from posse.service.commands import Create
from posse.service.dashboard import admin_routes, forms, manage_routes
from posse.service.dashboard.analysis_process import REST
from posse.service.dashboard.conclusions import summary
from posse.service.dashboard.experiment_page import chart, contents
from posse.service.dashboard.page_router import PageRouter, shown, trouble
from posse.service.dashboard.snapshots import FRESH, latest_snapshot
from posse.service.dashboard.templates import PAGE_HEADERS, experiment_address, page, render, static_files
from posse.service.storage import errors, queries

IDLE_SECONDS = 10  # after which a page is sent again even if nothing happened, so that "12 s ago" stays true
CHECKS_SECONDS = 10.0  # for which the experiments of a list are not looked at again
CARDS = 48  # experiments on one page of the list
SIGNED_IN_SECONDS = 12 * 3600
FOREVER = "public, max-age=31536000, immutable"  # for files whose address has their digest

router = PageRouter()
ROUTERS = (router, manage_routes.router, admin_routes.router)


# ---------------------------------------------------------------- the list, and new experiments


@router.page("/", READ)
async def _list(request: Request) -> Response:
    return await _list_page(request, {"typed": forms.DEFAULTS, "wrong": {}})


async def _list_page(request: Request, form: dict[str, Any], status: int = 200) -> Response:
    deleted = request.query_params.get("done") == "delete"
    return shown(request, "list.html", status, **await _listed(request, 0.0), form=form, deleted=deleted)


@router.page("/experiments", READ, part=True)
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
    asked = request.state.grant.experiment, search, request.query_params.get("archived") == "yes", _page_number(request)

    async def read() -> dict[str, Any]:
        listed, now = await state.read_pool.query(_read_list, *asked), float(state.store.clock())
        guards = listed.pop("guards")
        listed["alarmed"] = [
            name
            for name, (id, alarm) in guards.items()
            if alarm or state.snapshots.alarm_of(id) or state.analyses.alarm_of(name, id)
        ]
        unchecked = [
            each.name
            for each in listed["experiments"]
            if not state.snapshots.is_checked(guards[each.name][0], each.decisions, each.events)
        ]
        if unchecked:  # nobody waits for it: the list shows at its next tick what is found
            check = functools.partial(_check, state, unchecked)
            state.checking = asyncio.create_task(state.answers.get(("checks", *asked), check, CHECKS_SECONDS))
        return {**listed, "now": now, "seen": _digest((asked, listed, int(now / IDLE_SECONDS)))}

    found: dict[str, Any] = await state.answers.get(("list", *asked), read, seconds)
    return found


async def _check(state: Any, names: list[str]) -> None:
    """Look at experiments one after another, so that it is known whether their checks raise an alarm."""
    for name in names:
        with contextlib.suppress(ValueError, TypeError, RuntimeError):  # its own page says why
            await latest_snapshot(state, name)


def _page_number(request: Request) -> int:
    number = request.query_params.get("page", "1")
    return max(int(number), 1) if number.isdecimal() and len(number) < 9 else 1


def _read_list(connection: Connection, only: str | None, search: str, archived: bool, number: int) -> dict[str, Any]:
    asked: dict[str, Any] = {"only": only, "search": search}
    found, others = (queries.count_experiments(connection, **asked, archived=each) for each in (archived, not archived))
    pages = max(1, -(-found // CARDS))
    page, asked["archived"] = min(number, pages), archived
    some = queries.experiments(connection, **asked, skip=(page - 1) * CARDS, limit=CARDS)
    guards = queries.guard_alarms(connection, [each.name for each in some])
    return {
        "experiments": some,
        "guards": guards,
        "found": found,
        "others": others,
        "page": page,
        "pages": pages,
        **asked,
    }


def _digest(what: Any) -> str:
    """A short digest of what a page shows, by which the browser's next request says what it has already."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


@router.page("/experiments", CREATE, "POST")
async def _create(request: Request) -> Response:
    typed = forms.read(await request.body())
    made, wrong = forms.experiment_of(typed)
    if not wrong:
        try:
            await request.app.state.writer.apply(Create(made.pop("name"), **made, by=request.state.grant.who))
            return RedirectResponse(experiment_address(typed["name"].strip()), 303, PAGE_HEADERS)
        except errors.ExperimentExists:
            wrong = {"name": "There is an experiment of this name already."}
        except (ValueError, TypeError) as error:
            wrong = {"form": f"{error}."}
    return await _list_page(request, {"typed": typed, "wrong": wrong}, 422)


# ---------------------------------------------------------------- one experiment


@router.page("/experiments/{name}", READ)
async def _experiment(request: Request) -> Response:
    state, (seen, make) = request.app.state, await _contents(request)
    base, needs_token = str(request.base_url).rstrip("/"), request.state.grant is not auth.EVERYTHING
    values = {**await state.read_pool.run(make), "seen": seen}
    return shown(request, "experiment.html", **values, base=base, needs_token=needs_token)


@router.page("/experiments/{name}/live", READ, part=True)
async def _live(request: Request) -> Response:
    return await _unless_seen(request, "live.html", *await _contents(request))


@router.page("/experiments/{name}/chart.json", READ, part=True)
async def _chart(request: Request) -> Response:
    state = request.app.state
    snapshot = await latest_snapshot(state, request.path_params["name"])

    def make() -> bytes:
        return json.dumps(chart(snapshot), allow_nan=False).encode()

    data = await state.answers.get(("chart", snapshot.name, snapshot.now), lambda: state.read_pool.run(make))
    return Response(data, 200, PAGE_HEADERS, "application/json")


async def _contents(request: Request) -> tuple[str, Callable[[], dict[str, Any]]]:
    """A digest of what the page of an experiment, or its parts, show, and a function that makes all of it."""
    analyses = request.app.state.analyses
    snapshot = await latest_snapshot(request.app.state, request.path_params["name"])
    asked = request.query_params.get("q", "")[:200], _page_number(request), request.query_params.get("by", "")[:200]
    may_change = auth.allows(request.state.grant, CHANGE, snapshot.name)
    numbers = snapshot.head, snapshot.watch.decisions, snapshot.watch.answered, int(snapshot.now / IDLE_SECONDS)
    latest = {kind: analyses.latest(kind, snapshot) for kind in REST}
    seen = _digest((snapshot.name, *numbers, latest, asked, may_change))
    return seen, lambda: {**contents(snapshot, latest["conclusion"], *asked), **latest, "may_change": may_change}


@router.page("/experiments/{name}/summary", READ)
async def _summary(request: Request) -> Response:
    return await summary(request.app.state, request.path_params["name"])


# ---------------------------------------------------------------- login and files


@router.page("/login", NO_TOKEN)
async def _login(request: Request) -> Response:
    typed = request.headers.get("sec-fetch-site") == "none"  # or a link in a terminal: no page of another site led here
    return page("login.html", next=_inside(request.query_params.get("next", "/")), wrong="", submit=typed)


@router.page("/login", NO_TOKEN, "POST")
async def _sign_in(request: Request) -> Response:
    typed = forms.read(await request.body())
    secret, target = typed.get("token", "").strip(), _inside(typed.get("next", "/"))
    grant = await request.app.state.authenticator.look_up(secret)
    if isinstance(grant, str) or not auth.allows(grant, READ):
        wrong = f"This token is {grant}." if isinstance(grant, str) else "This token has no scope read."
        return page("login.html", 401, next=target, wrong=wrong, submit=False)
    answer = RedirectResponse(target, 303, PAGE_HEADERS)
    how: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": _by_tls(request)}
    answer.set_cookie(auth.COOKIE, secret, max_age=SIGNED_IN_SECONDS, **how)
    return answer


def _by_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, which ends at the proxy in front."""
    headers = request.headers
    return headers.get("origin", "").startswith("https://") or headers.get("x-forwarded-proto", "").startswith("https")


@router.page("/logout", NO_TOKEN, "POST")
async def _sign_out(request: Request) -> Response:
    answer = RedirectResponse("/login", 303, PAGE_HEADERS)
    answer.delete_cookie(auth.COOKIE)
    return answer


def _inside(target: str) -> str:
    """A path of this service, or the list of experiments."""
    return target if target.startswith("/experiments/") else "/"


@router.page("/static/{path:path}", NO_TOKEN)
async def _static(request: Request) -> Response:
    found = static_files().get(request.path_params["path"])
    if found is None:
        return trouble(404, "Nothing here", "There is no such file.")
    content, kind, digest = found
    cache = FOREVER if request.query_params.get("v") == digest else "no-cache"
    return Response(content, 200, {**PAGE_HEADERS, "Cache-Control": cache, "Content-Type": kind})
