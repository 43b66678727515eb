"""Errors as problem+json (RFC 9457) that say what to do."""

import json
import logging
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from posse.service.logs import without_tokens
from posse.service.storage import errors as storage
from posse.text import listed

TYPE = "urn:posse:problem:"
MEDIA_TYPE = "application/problem+json"
WORST = 20  # errors that are listed, at most
FORM = "form"  # the type of the error that a body has none of the fields that tell its forms apart, or several
SHOULD_BE = "Input should be "  # how most of pydantic's errors begin
TOLD = {"missing": "missing", "extra_forbidden": "there is no such field"}
WORDS = {
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "a whole number"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "bool_type": "true or false",
    "float_type": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "list_type": "a list",
    "string_pattern_mismatch": "visible ASCII characters without spaces",  # there is no other pattern
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "string_type": "a string",
    "too_long": "at most {max_length} entries",
    "too_short": "at least {min_length} entries",
    "union_tag_invalid": "one of {expected_tags}",
}
"""What was expected, by the type of pydantic's error; of all others pydantic's own words are taken."""
SHOWN = reprlib.Repr()  # values in errors, none of which is long
SHOWN.maxstring, SHOWN.maxlevel = 60, 2

KINDS: dict[str, tuple[int, str]] = {
    "not-json": (400, "The body is not JSON"),
    "bad-request": (400, "The request cannot be read"),
    "no-targeting-key": (400, "The context has no targeting key"),
    "wrong-context": (400, "The context does not fit"),
    "no-token": (401, "A token is needed"),
    "bad-token": (401, "The token is not valid"),
    "forbidden": (403, "The token does not allow this"),
    "cross-site": (403, "The request came from another site"),
    "proxied": (403, "The service is open, and not for proxies"),
    "not-found": (404, "Not found"),
    "unknown-experiment": (404, "No such experiment"),
    "wrong-method": (405, "Method not allowed"),
    "too-slow": (408, "The body took too long"),
    "experiment-exists": (409, "The experiment exists already"),
    "conflicting-key": (409, "The idempotency key was used for something else"),
    "conflicting-reward": (409, "The decision has another reward"),
    "unknown-decision": (409, "No such decision"),
    "paused": (409, "The experiment is paused"),
    "finished": (409, "The experiment is finished"),
    "archived": (409, "The experiment is archived"),
    "refused": (409, "The experiment cannot do this now"),
    "too-large": (413, "The body is too large"),
    "not-json-type": (415, "The body must be JSON"),
    "wrong-host": (421, "Wrong host name"),
    "invalid": (422, "The request is not valid"),
    "too-many-requests": (429, "Too many requests are waiting to be evaluated"),
    "headers-too-large": (431, "The headers are too large"),
    "damaged": (500, "The database is damaged"),
    "internal": (500, "The service failed"),
    "overloaded": (503, "Too many requests are waiting"),
    "unavailable": (503, "The storage cannot answer now"),
    "timeout": (503, "It took too long"),
    "stopping": (503, "The service is stopping"),
}
"""Every kind of problem: its status and title."""


ERRORS: list[tuple[type[Exception], str, str]] = [
    (storage.UnknownExperiment, "unknown-experiment", "GET /v1/experiments lists those there are."),
    (storage.UnknownToken, "not-found", "GET /v1/tokens lists those there are."),
    (storage.ExperimentExists, "experiment-exists", "Take another name, or use the one there is."),
    (
        storage.ConflictingKey,
        "conflicting-key",
        "Use a new key for each new request, and the same one only to repeat it.",
    ),
    (storage.Paused, "paused", 'PATCH the experiment with status "running" to go on.'),
    (
        storage.Finished,
        "finished",
        'PATCH the experiment with status "finished" and an arm to ship, or with "running" to go on.',
    ),
    (storage.Archived, "archived", 'PATCH the experiment with status "finished" to restore it.'),
    (storage.Invalid, "invalid", "Nothing was changed; correct it and send it again."),
    (storage.Refused, "refused", "Nothing was changed."),
    (storage.Overloaded, "overloaded", "Try again in a second, with the same idempotency key."),
    (
        storage.OutcomeUnknown,
        "unavailable",
        "It is not known whether it happened. Repeat it with the same idempotency key or the same reward; if it has "
        "neither, look first.",
    ),
    (storage.Unavailable, "unavailable", "Try again in a second, with the same idempotency key or the same reward."),
    (storage.Damaged, "damaged", "`posse db verify` says what is wrong."),
]
"""The storage's errors, each with the kind of problem that it is and what to do; the first that fits counts."""
SILENT = ("unavailable", "damaged")  # whose errors may name the database, so that their text goes to the log only


class ProblemPart(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="The field that it is about")
    what: str


class ProblemDetails(BaseModel):
    """What went wrong, and what to do about it."""

    type: str = Field(
        description="The kind of problem, for programs", json_schema_extra={"enum": [TYPE + kind for kind in KINDS]}
    )
    title: str
    status: int
    detail: str = Field(description="What it is about in this case, and what to do")
    errors: list[ProblemPart] | None = Field(None, description="Each thing that is wrong with a body")


class HttpProblem(Exception):
    """A request is answered with a problem, one of `KINDS`."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers, self.extra = kind, detail, headers, extra

    def response(self) -> Response:
        status, title = KINDS[self.kind]
        content = {"type": TYPE + self.kind, "title": title, "status": status, "detail": self.detail, **self.extra}
        body = without_tokens(json.dumps(content))  # ASCII, so that half a surrogate pair in a detail can be sent
        return Response(body, status, self.headers, MEDIA_TYPE)


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for OpenAPI; `api.description` says what is in them."""
    titles = {at: " · ".join(title for status, title in KINDS.values() if status == at) for at in statuses}
    return {at: {"description": title, "$ref": f"#/components/responses/Problem{at}"} for at, title in titles.items()}


def add_problems(app: FastAPI) -> None:
    """Let FastAPI's own errors become problems; the middleware answers all others."""

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        return answer_of(error)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            here = [one for one in app.routes if isinstance(one, Route) and one.matches(request.scope)[0] != Match.NONE]
            methods = sorted(set().union(*(route.methods or () for route in here)))
            detail = f"{request.method} does nothing at this path; use {' or '.join(methods)}."
            return HttpProblem("wrong-method", detail, {"Allow": ", ".join(methods)}).response()
        if error.status_code == 404:
            return HttpProblem("not-found", "No such path; /openapi.json lists those there are.").response()
        return HttpProblem("bad-request", str(error.detail), error.headers).response()


def answer_of(error: Exception, may_read: bool = False) -> Response:
    """The answer to a request that met an error; one that nobody expected goes to the log only."""
    problem = problem_of(error, may_read)
    if problem is not None:
        if problem.kind in SILENT and not isinstance(error, HttpProblem):
            logging.getLogger("posse").warning("%s: %s", problem.kind, error)
        return problem.response()
    logging.getLogger("posse").error("a request failed", exc_info=error)
    detail = "This is a fault of the service, and its log says more. The request may be repeated."
    return HttpProblem("internal", detail).response()


def problem_of(error: Exception, may_read: bool = False) -> HttpProblem | None:
    """The problem that an error is, with the names of other players only for who may read; None if not expected."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, RequestValidationError):
        return _what_is_wrong(error)
    for known, kind, advice in ERRORS:
        if isinstance(error, known):
            headers = {"Retry-After": "1"} if kind in ("overloaded", "unavailable") else None
            others = error.others if may_read and isinstance(error, storage.Refused) else ""
            said = KINDS[kind][1] if kind in SILENT else str(error) + others
            return HttpProblem(kind, f"{said[:1000].rstrip('.')}. {advice}", headers)
    return None


# ---------------------------------------------------------------- what is wrong with a request


def _what_is_wrong(error: RequestValidationError) -> HttpProblem:
    """All that is wrong with a request, each with its place, the value and what was expected."""
    by_place: dict[tuple[Any, ...], list[Any]] = {}
    for each in error.errors():
        by_place.setdefault(_place(each, error.body), []).append(each)
    inner = {place[:end] for place in by_place for end in range(1, len(place))}  # of a union, another form fits better
    places = [place for place in by_place if place not in inner]
    found = [
        {"where": ".".join(map(str, place))[:200], "what": _in_words(by_place[place])[:500]} for place in places[:WORST]
    ]
    more = f" ({len(places) - 1} more in `errors`.)" if len(places) > 1 else ""
    detail = f"{found[0]['where']}: {found[0]['what']}.{more} Nothing was changed; correct it and send it again."
    return HttpProblem("invalid", detail, errors=found)


def _place(error: Mapping[str, Any], body: Any) -> tuple[Any, ...]:
    """Where an error is in the request; what only names one of the forms that a value may have is left out."""
    first, *rest = error["loc"]
    if first != "body":
        return (first, *rest)
    place = [first]
    for number, part in enumerate(rest):
        known = part in body if isinstance(body, dict) else isinstance(body, list) and isinstance(part, int)
        if known:
            body = body[part]
        if known or (error["type"] == "missing" and number == len(rest) - 1):
            place.append(part)
    return tuple(place)


def _in_words(errors: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong in one place, where a value may have several forms and fits none of them."""
    kind, said, given = errors[0]["type"], str(errors[0]["msg"]), errors[0].get("input")
    if kind in TOLD:
        return TOLD[kind]
    shown = SHOWN.repr(given)
    if kind == FORM:
        shown = f"it has {listed(map(SHOWN.repr, given), 5) or 'no field'}" if isinstance(given, dict) else shown
        return f"{shown}, but {said}"
    expected = dict.fromkeys(filter(None, map(_expected, errors)))
    return f"{shown}, but expected {' or '.join(expected)}" if expected else said.removeprefix("Value error, ")


def _expected(error: Mapping[str, Any]) -> str:
    """What was expected; nothing if the error's message says all."""
    if error["type"] in WORDS:
        return WORDS[error["type"]].format(**error.get("ctx", {}))
    said = str(error["msg"])
    return said.removeprefix(SHOULD_BE) if said.startswith(SHOULD_BE) else ""
