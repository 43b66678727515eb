"""The app: everything put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from posse.service.api import (
    experiment_routes as routes,
)
from posse.service.api import (
    insight_routes as routes_insight,
)
from posse.service.api import (
    operation_routes as routes_operations,
)
from posse.service.api.errors import Problem, Refusal, add_problems
from posse.service.api.middleware import Shell
from posse.service.auth.permissions import Guard
from posse.service.dashboard.routes import add_dashboard
from posse.service.process.metrics import Metrics
from posse.service.process.settings import Settings
from posse.service.storage.errors import Damaged, Unavailable
from posse.service.storage.read_pool import Reading
from posse.service.storage.store import Store
from posse.service.writer import Writer
from posse.version import __version__


def create_app(settings: Settings) -> FastAPI:
    """The service on a database that is there; `serve.prepare` makes one."""
    app = FastAPI(
        title="posse",
        version=__version__,
        summary="Decisions for many players who share what they learn",
        lifespan=_life,
        openapi_url=None,  # it has a route of its own, which asks for a token
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.state.store = Store.open(settings.database)
    app.state.writer = Writer(app.state.store, observe=lambda size: _wrote(app, size))
    app.state.reading = Reading()
    app.state.guard = Guard(app.state.store, settings, app.state.reading)
    for router in (routes.router, routes_insight.router, routes_operations.router):
        app.router.routes.extend(router.routes)  # as they are, so that app.routes lists every one
    add_dashboard(app)
    add_problems(app)
    app.add_middleware(Shell, settings=settings, metrics=app.state.metrics)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Take default rewards while the app runs; in the end finish what was accepted."""
    sweeping = asyncio.create_task(_sweep(app))
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.to_thread(app.state.writer.close)
        await asyncio.to_thread(app.state.reading.close)
        app.state.store.close()


def _wrote(app: FastAPI, size: int) -> None:
    app.state.metrics.wrote(size, app.state.writer.depth)


async def _sweep(app: FastAPI) -> None:
    """Now and then, take the default rewards that are due."""
    seconds, store = app.state.settings.sweep_seconds, app.state.store
    while seconds is not None:
        await asyncio.sleep(seconds)
        with _logged("of all experiments"):
            for name in await app.state.reading.do(store.impatient):
                with _logged(f"of {name!r}"):  # whatever is wrong with one, the others take theirs
                    await asyncio.wrap_future(app.state.writer.submit(store.sweep, name))


@contextmanager
def _logged(which: str) -> Iterator[None]:
    """Say in the log that default rewards were not taken, and why."""
    try:
        yield
    except (Unavailable, Damaged, Refusal, ValueError) as error:
        logging.getLogger("posse").warning("default rewards %s wait: %s", which, error)
    except Exception:
        logging.getLogger("posse").exception("default rewards %s could not be taken", which)


def _described(app: FastAPI) -> dict[str, Any]:
    """The API in OpenAPI's words."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = found.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        app.openapi_schema = found
    return app.openapi_schema
