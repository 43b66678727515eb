"""The app: everything put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI

from posse.policies.user import import_file
from posse.service.api.middleware import DirectRoutes, RequestLimits
from posse.service.api.routes import add_routes, direct_routes
from posse.service.auth.permissions import Authenticator
from posse.service.commands import TakeDefaults
from posse.service.dashboard.routes import add_dashboard
from posse.service.metrics import Metrics
from posse.service.problems import ProblemDetails, add_problems
from posse.service.settings import Settings
from posse.service.storage import queries
from posse.service.storage.errors import Damaged, Unavailable
from posse.service.storage.store import ReadPool, ServiceStore
from posse.service.writer import Writer
from posse.version import __version__


def create_app(settings: Settings) -> FastAPI:
    """The service on a database that is there; `supervisor.prepare` makes one."""
    if settings.import_file is not None:
        import_file(settings.import_file)
    app = FastAPI(
        title="posse",
        version=__version__,
        summary="Decisions for many players who share what they learn",
        lifespan=_life,
        openapi_url=None,  # it has a route of its own, which asks for a token
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it looks for a receiver at every request
    )
    state = app.state
    state.settings = settings
    state.metrics = Metrics()
    state.store = ServiceStore(settings.database)
    state.writer = Writer(state.store, metrics=state.metrics)
    state.read_pool = ReadPool(state.store)
    state.authenticator = Authenticator(settings, state.read_pool, state.store.clock)
    add_routes(app)
    add_dashboard(app)
    add_problems(app)
    app.add_middleware(DirectRoutes, routes=direct_routes())
    app.add_middleware(RequestLimits, settings=settings, metrics=state.metrics)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Take default rewards while the app runs; in the end finish what was accepted."""
    defaults = asyncio.create_task(_take_defaults(app))
    try:
        yield
    finally:
        defaults.cancel()
        await asyncio.to_thread(app.state.writer.close)
        await asyncio.to_thread(app.state.read_pool.close)
        app.state.store.close()


async def _take_defaults(app: FastAPI) -> None:
    """Now and then, take the default rewards that are due."""
    seconds = app.state.settings.defaults_seconds
    while seconds is not None:
        await asyncio.sleep(seconds)
        with _logged("of all experiments"):
            for name in await app.state.read_pool.query(queries.with_patience):
                with _logged(f"of {name!r}"):  # if one experiment has a problem, the others still take theirs
                    await asyncio.wrap_future(app.state.writer.submit(TakeDefaults(name)))


@contextmanager
def _logged(which: str) -> Iterator[None]:
    """Say in the log that default rewards were not taken, and why."""
    try:
        yield
    except (Unavailable, Damaged, ValueError) as error:
        logging.getLogger("posse").warning("default rewards %s wait: %s", which, error)
    except Exception:
        logging.getLogger("posse").exception("default rewards %s could not be taken", which)


def _described(app: FastAPI) -> dict[str, Any]:
    """The API in OpenAPI's words."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    found = FastAPI.openapi(app)  # which keeps it
    found["components"]["schemas"]["ProblemDetails"] = ProblemDetails.model_json_schema()
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found
