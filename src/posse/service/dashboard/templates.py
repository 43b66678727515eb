"""Templates and static files, and the headers that keep pages safe."""

import functools
import hashlib
import math
import mimetypes
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from starlette.responses import Response

from posse.insight.conclusion.text import at_the_end
from posse.insight.report import templates
from posse.insight.watching.text import check_sentence, effect_sentence
from posse.service.dashboard import words
from posse.text import fixed, interval_decimals, moment, plural

HERE = Path(__file__).parent

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",  # without it browsers would not say where a form comes from
}
"""What every page says in place of what the middleware says otherwise."""


def experiment_address(name: str) -> str:
    """The address of an experiment's page.

    >>> experiment_address("100 % tea?")
    '/experiments/100%20%25%20tea%3F'
    """
    return f"/experiments/{quote(name, safe='')}"


@functools.cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """All static files by path: content, media type and digest. They are few and small."""
    folder, found = HERE / "static", {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content, kind = path.read_bytes(), mimetypes.guess_type(path.name)[0] or "text/plain"
        kind += "; charset=utf-8" if kind.startswith("text/") else ""
        found[path.relative_to(folder).as_posix()] = content, kind, hashlib.sha256(content).hexdigest()[:16]
    return found


def static(path: str) -> str:
    """The address of a static file, which changes with its content."""
    return f"/static/{path}?v={static_files()[path][2]}"


@functools.cache
def _templates() -> Environment:
    environment = templates(HERE / "templates")
    functions = [static, experiment_address, plural, fixed, interval_decimals, repr, check_sentence, effect_sentence]
    functions += [at_the_end, moment, words.chance, words.percent, words.rate, words.span]
    environment.globals |= {function.__name__: function for function in functions}
    environment.filters["sentence"] = words.sentence
    environment.tests["finite"] = math.isfinite
    return environment


def render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)


def page(template: str, status: int = 200, **values: Any) -> Response:
    return Response(render(template, **values), status, PAGE_HEADERS, "text/html; charset=utf-8")
