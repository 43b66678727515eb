"""The app: everything put together."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from fastapi import FastAPI

from posse.policies.user import import_file
from posse.service.api import administration
from posse.service.api.middleware import RequestLimits, RunningRequests
from posse.service.api.routes import add_routes
from posse.service.auth import Authenticator
from posse.service.commands import TakeDefaults
from posse.service.dashboard import routes as dashboard
from posse.service.dashboard.analysis_process import AnalysisProcess
from posse.service.dashboard.snapshots import Snapshots
from posse.service.metrics import Metrics
from posse.service.problems import add_problems
from posse.service.reader import ReaderClient
from posse.service.settings import Settings
from posse.service.steady_clock import SteadyClock
from posse.service.storage import errors, queries
from posse.service.storage.read_cache import KeptExperiments, SharedAnswers
from posse.service.storage.store import ReadPool, ServiceStore
from posse.service.writer import Writer
from posse.version import __version__

RETRY_SECONDS = 10  # until default rewards are tried again that could not be taken


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
    clock = SteadyClock(settings.clock_offset)
    state.store = ServiceStore(settings.database, clock=clock, silence=settings.silence_seconds)
    state.writer = Writer(state.store, metrics=state.metrics)
    state.reader = None if settings.reader is None else ReaderClient(settings.reader, settings.answer_seconds)
    state.read_pool, state.quick_pool = ReadPool(state.store), ReadPool(state.store, threads=2)
    state.answers, state.kept_experiments = SharedAnswers(), KeptExperiments(state.read_pool)
    state.analyses, state.snapshots = AnalysisProcess(state.metrics.note_verdict), Snapshots(state.store)
    state.authenticator = Authenticator(settings, state.quick_pool, state.store.clock)
    add_routes(app)
    for router in (administration.router, *dashboard.ROUTERS):
        app.router.routes.extend(router.routes)
    add_problems(app)
    state.running = RunningRequests()
    app.add_middleware(RequestLimits, settings=settings, metrics=state.metrics, running=state.running)
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
        await asyncio.to_thread(app.state.quick_pool.close)
        await asyncio.to_thread(app.state.analyses.close)
        app.state.store.close()


async def _take_defaults(app: FastAPI) -> None:
    """Now and then, take the default rewards that are due. An experiment in which nothing waits costs nothing."""
    state, seconds = app.state, app.state.settings.defaults_seconds
    due: dict[int, float] = {}  # when to look at an experiment again, by id; ∞ where no default is ever taken
    while seconds is not None:
        await asyncio.sleep(seconds)
        with _logged("of all experiments"), suppress(errors.Unavailable):  # that is in the log, and none may be due
            now = state.store.clock()
            waiting = await state.read_pool.query(queries.where_decisions_wait)
            if new := waiting.keys() - due.keys():
                due |= dict.fromkeys(await state.read_pool.query(queries.without_patience, new), math.inf)
            for number, name in waiting.items():
                if due.get(number, now) > now:
                    continue
                due[number] = now + RETRY_SECONDS
                with _logged(f"of {name!r}"):  # if one experiment has a problem, the others still take theirs
                    due[number] = now + await state.writer.apply(TakeDefaults(name))
                    if math.isinf(due[number]):  # nothing waits any more
                        del due[number]


@contextmanager
def _logged(which: str) -> Iterator[None]:
    """Say in the log that default rewards were not taken, and why."""
    try:
        yield
    except (errors.Unavailable, errors.Damaged, ValueError) as error:
        logging.getLogger("posse").warning("default rewards %s wait: %s", which, error)
    except Exception:
        logging.getLogger("posse").exception("default rewards %s could not be taken", which)
