"""The pages for whoever looks after the whole service: tokens, and the audit trail."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service import auth
from posse.service.auth import CREATE, SCOPES, CreateToken, RevokeToken
from posse.service.dashboard import forms
from posse.service.dashboard.page_router import PageRouter, shown, trouble
from posse.service.dashboard.templates import PAGE_HEADERS
from posse.service.storage import audit

ENTRIES = 100  # of the audit trail on one page
SHOWN = 500  # tokens, the newest first
DAY = 86_400.0
LIVES = {"1": "a day", "30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
"""For how many days a token can be made."""

DEFAULTS = {"days": "90", "scope-decide": "yes", "scope-reward": "yes"}

router = PageRouter()


@router.page("/tokens", CREATE)
async def _tokens(request: Request) -> Response:
    return await _tokens_page(request, {"typed": DEFAULTS, "wrong": {}})


async def _tokens_page(request: Request, form: dict[str, Any], status: int = 200, secret: str = "") -> Response:
    found = (await request.app.state.read_pool.query(auth.all_tokens))[::-1]
    cookie = request.cookies.get(auth.COOKIE, "")
    more = {"form": form, "secret": secret, "own": auth.token_number(cookie)}
    now = float(request.app.state.store.clock())
    lists = {"tokens": found[:SHOWN], "hidden": len(found[SHOWN:]), "scopes": SCOPES, "lives": LIVES}
    return shown(request, "manage/tokens.html", status, **lists, **more, now=now)


@router.page("/tokens", CREATE, "POST")
async def _make_token(request: Request) -> Response:
    typed, state = forms.read(await request.body()), request.app.state
    scopes = [scope for scope in SCOPES if typed.get(f"scope-{scope}")]
    experiment, days = typed.get("experiment", "").strip() or None, typed.get("days", "")
    first = not await state.read_pool.query(auth.tokens_exist)
    if not scopes:
        wrong = {"scope-decide": "Tick what the token is for."}
    elif days not in LIVES:
        wrong = {"days": "Choose how long it lasts."}
    elif first and ("admin" not in scopes or experiment is not None):
        wrong = {"scope-admin": "The first token must be for admin and all experiments: this page will ask for it."}
    else:
        try:
            lasts = DAY * int(days) if days else None
            label = typed.get("label", "").strip()
            command = CreateToken(scopes, experiment, lasts, label, by=request.state.grant.who)
            secret = await state.writer.apply(command)
            return await _tokens_page(request, {"typed": DEFAULTS, "wrong": {}}, secret=secret)
        except (ValueError, TypeError) as error:  # of an unknown experiment, or a label
            wrong = {"experiment" if experiment is not None and "experiment" in str(error) else "label": f"{error}."}
    return await _tokens_page(request, {"typed": typed, "wrong": wrong}, 422)


@router.page("/tokens/{number}/ask", CREATE)
async def _ask(request: Request) -> Response:
    number = request.path_params["number"]
    for token in await request.app.state.read_pool.query(auth.all_tokens):
        if str(token.id) == number:
            own = auth.token_number(request.cookies.get(auth.COOKIE, "")) == token.id
            return shown(request, "manage/ask_token.html", token=token, own=own)
    return trouble(404, "No such token", "The page of tokens lists those there are.")


@router.page("/tokens/{number}/revoke", CREATE, "POST")
async def _revoke(request: Request) -> Response:
    number = request.path_params["number"]
    try:
        token = int(number) if number.isdecimal() and len(number) < 9 else 0
        await request.app.state.writer.apply(RevokeToken(token, by=request.state.grant.who))
    except ValueError as error:
        return trouble(404, "No such token", f"{error}.")
    return RedirectResponse("/tokens", 303, PAGE_HEADERS)


@router.page("/audit", CREATE)
async def _audit(request: Request) -> Response:
    query, state = request.query_params, request.app.state
    experiment, before = query.get("experiment", "")[:200].replace("\0", ""), query.get("before", "")
    first = int(before) if before.isdecimal() and len(before) < 16 else 10**15
    found = await state.read_pool.query(audit.entries, 0, ENTRIES + 1, experiment or None, before=first)
    entries, more = found[:ENTRIES], found[ENTRIES:]
    listed = {"entries": entries, "next": entries[-1].id if more else None, "experiment": experiment}
    return shown(request, "manage/audit.html", **listed, now=float(state.store.clock()))
