"""The API in OpenAPI's words, complete enough to generate a client from."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from posse.service.api.examples import EXAMPLES, KEY
from posse.service.auth import NO_TOKEN, needed
from posse.service.problems import ERRORS, KINDS, MEDIA_TYPE, TYPE, ProblemDetails

ABOUT = """Bodies are JSON in UTF-8. Every answer with status 400 or above is a problem (RFC 9457): `type` is for
programs, `detail` says what to do. A refused request has changed nothing. After a 503, or if no answer came, repeat a
request with the same Idempotency-Key; rewards may be repeated without one."""
TAGS = {
    "experiments": "Create and change experiments.",
    "decisions": "Decide, and report rewards.",
    "reading": "What there is to see.",
    "administration": "Tokens, and who changed what.",
    "operation": "Whether the service is well.",
}
TOKEN = "Made by `posse token create`; the scopes are decide, reward, read, and admin, which allows everything."
RETRY = {"Retry-After": {"description": "Seconds to wait before it is sent again", "schema": {"type": "integer"}}}
HEADERS = {
    401: {"WWW-Authenticate": {"description": "Which kind of token to send", "schema": {"type": "string"}}},
    429: RETRY,
    503: RETRY,
}
SCHEMAS = "#/components/schemas/{model}"


def describe(app: FastAPI) -> dict[str, Any]:
    """The description, which is made once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    found = FastAPI.openapi(app)  # which keeps it
    found["info"]["description"] = " ".join(ABOUT.split())
    found["tags"] = [{"name": name, "description": about} for name, about in TAGS.items()]
    found["security"] = [{"token": []}]
    parts, schema = found["components"], ProblemDetails.model_json_schema(ref_template=SCHEMAS)
    parts["schemas"] |= {**schema.pop("$defs"), "ProblemDetails": schema}
    for name in EXAMPLES.keys() & parts["schemas"].keys():
        parts["schemas"][name]["examples"] = EXAMPLES[name]
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": TOKEN}}
    parts["responses"] = {f"Problem{status}": _problems(status) for status, _ in KINDS.values()}
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                _complete(found["paths"][route.path_format][method.lower()], route)
    return found


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """Say what an operation asks of a token, and give an example of a key."""
    permission = needed(route.endpoint)
    scopes = [] if permission.scope is None else [permission.scope]
    operation["security"] = [] if permission == NO_TOKEN else [{"token": scopes}]
    for parameter in operation.get("parameters", ()):
        if parameter["name"].lower() == "idempotency-key":
            parameter["example"] = KEY


def _problems(status: int) -> dict[str, Any]:
    """The answer for a status: all problems that have it, each with an example."""
    kinds = {kind: title for kind, (at, title) in KINDS.items() if at == status}
    advice = {kind: f" {text}" for _, kind, text in ERRORS}
    examples = {}
    for kind, title in kinds.items():
        said = {"type": TYPE + kind, "title": title, "status": status, "detail": f"{title}.{advice.get(kind, '')}"}
        examples[kind] = {"summary": title, "value": said}
    content = {MEDIA_TYPE: {"schema": {"$ref": SCHEMAS.format(model="ProblemDetails")}, "examples": examples}}
    return {"description": " · ".join(kinds.values()), "headers": HEADERS.get(status, {}), "content": content}
