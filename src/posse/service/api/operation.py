"""The routes of operation: whether the service is well, what it counts, and how its API is described."""

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import Request, Response

from posse.service.api import bodies
from posse.service.api.description import describe
from posse.service.api.middleware import ApiRouter
from posse.service.auth import NO_TOKEN, Endpoint, Permission, needs
from posse.service.commands import Probe
from posse.service.problems import HttpProblem, declared, problem_of
from posse.service.storage import database, errors, queries
from posse.service.writer import Writer

PROBE_SECONDS = 1.0  # for which the service is ready after something could be written
PROBE_LIMIT = 2.0  # seconds in which it has to be written

router = ApiRouter("operation")


def health(path: str) -> Callable[[Endpoint], Endpoint]:
    """Declare an answer about the process itself, which anybody may ask for."""

    def add(function: Endpoint) -> Endpoint:
        needs(NO_TOKEN)(function)
        router.add_api_route(path, function, methods=["HEAD"], include_in_schema=False)
        router.add_api_route(path, function, openapi_extra={"security": []}, responses=declared(500, 503))
        return function

    return add


@health("/healthz")
async def alive() -> bodies.HealthAnswer:
    """That the process is alive."""
    return bodies.HealthAnswer(status="alive")


@health("/readyz")
async def ready(request: Request) -> bodies.HealthAnswer:
    """That the database is as this version expects it, and could be written a moment ago."""
    state = request.app.state
    try:
        try:
            async with asyncio.timeout(PROBE_LIMIT):
                await state.quick_pool.run(database.check_version, state.store.engine)
        except TimeoutError as error:
            raise errors.Unavailable(f"the database did not answer in {PROBE_LIMIT:g} s") from error
        if state.writer.failed_at > time.monotonic() - PROBE_SECONDS:
            raise errors.Unavailable("the last transaction could not be written")
        failure = await state.answers.get("probe", lambda: _probe(state.writer), PROBE_SECONDS)
        if failure is not None:
            raise failure
    except (ValueError, errors.Unavailable, errors.Damaged) as error:
        logging.getLogger("posse").warning("not ready: %s", error)  # not in the answer, which needs no token
        detail = "The database does not answer, or not as this posse expects it; the log of the service says more."
        problem = problem_of(error)
        kind = "unavailable" if problem is None else problem.kind
        raise HttpProblem(kind, detail, None if kind == "damaged" else {"Retry-After": "1"}) from error
    return bodies.HealthAnswer(status="ready")


async def _probe(writer: Writer) -> Exception | None:
    """Why nothing can be written now; None if something was."""
    try:
        async with asyncio.timeout(PROBE_LIMIT):
            await writer.apply(Probe())
    except TimeoutError:
        return errors.Unavailable(f"nothing could be written in {PROBE_LIMIT:g} s")
    except (errors.Unavailable, errors.Damaged) as error:
        return error
    return None


@router.get("/metrics", include_in_schema=False)
@needs(Permission("read", every_experiment=True), in_reader=True)
async def metrics(request: Request) -> Response:
    """What is counted, for Prometheus; without what only the database knows if it does not answer."""
    read_pool = request.app.state.read_pool
    try:
        experiments, size = await read_pool.query(queries.experiment_counts), await read_pool.query(database.size)
    except errors.Unavailable:
        experiments, size = [], None
    text = await read_pool.run(request.app.state.metrics.text, experiments, size)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
@needs(Permission(None))
async def openapi(request: Request) -> dict[str, object]:
    """The API, described."""
    return describe(request.app)
