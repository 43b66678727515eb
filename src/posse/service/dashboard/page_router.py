"""How a page becomes a route: who may look, and what a page says when it cannot be made."""

import functools
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service import auth
from posse.service.auth import CREATE, NO_TOKEN, Permission
from posse.service.dashboard import forms
from posse.service.dashboard.templates import PAGE_HEADERS, page
from posse.service.problems import KINDS, HttpProblem
from posse.service.reader import Handler, by_reader
from posse.service.storage.errors import Unavailable, UnknownExperiment


class PageRouter(APIRouter):
    """The routes of some pages, none of which the API's description names."""

    def __init__(self) -> None:
        super().__init__(include_in_schema=False)

    def page(
        self, path: str, permission: Permission, method: str = "GET", part: bool = False
    ) -> Callable[[Handler], Handler]:
        """Add a page, or a part of one, for those whose token is enough; others are sent to the login, or told why."""

        def add(function: Handler) -> Handler:
            shows_data = method == "GET" and permission != NO_TOKEN
            answer = by_reader(auth.needs(permission, in_reader=shows_data)(function), function)

            @functools.wraps(function)
            async def endpoint(request: Request) -> Response:
                try:
                    made = await _refused(request, permission, part) or await answer(request)
                except (ValueError, HttpProblem, Unavailable) as error:
                    made = _why_not(error)
                if part and made.status_code in (401, 403, 404):  # the whole page says why, or leads to the login
                    made.headers["HX-Refresh"] = "true"
                return made

            methods = [method, "HEAD"] if method == "GET" else [method]
            self.add_api_route(path, endpoint, methods=methods, response_model=None)
            return endpoint

        return add


def _why_not(error: Exception) -> Response:
    """The page that says why there is no other; whatever nobody expected is raised again."""
    if isinstance(error, forms.UnreadableForm):
        return trouble(400, "The form cannot be read", f"{error}.")
    if isinstance(error, UnknownExperiment):
        return trouble(
            404, "No such experiment", "It may have been deleted, have another name, or belong to another service."
        )
    if isinstance(error, HttpProblem) and KINDS[error.kind][0] == 503:
        return trouble(*KINDS[error.kind], error.detail)
    if isinstance(error, Unavailable):
        logging.getLogger("posse").warning("a page could not be made: %s", error)
        text = "The log of the service says why. Nothing is lost; try again soon."
        return trouble(503, "The storage cannot answer now", text)
    raise error


async def _refused(request: Request, permission: Permission, part: bool) -> Response | None:
    """The answer to somebody whose token is not enough; None for all others."""
    if permission == NO_TOKEN:
        return None
    grant = request.state.grant = await request.app.state.authenticator.page_grant(request)
    if grant is not None:
        denied = auth.why_denied(grant, permission, request.path_params.get("name"))
        return None if denied is None else trouble(403, "Not with this token", denied)
    if part:
        return Response(status_code=401, headers=PAGE_HEADERS)
    target = request.url.path if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={quote(target)}", 303, PAGE_HEADERS)


def shown(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page for whoever asks, with the ways to other pages that are for them."""
    may_create, may_leave = auth.allows(request.state.grant, CREATE), auth.COOKIE in request.cookies
    return page(template, status, may_create=may_create, may_leave=may_leave, **values)


def trouble(status: int, title: str, text: str) -> Response:
    """A page that says why there is no other."""
    return page("trouble.html", status, title=title, text=text)
