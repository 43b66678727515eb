"""The routes of the API: experiments, decisions and rewards, what there is to see, and whether the service is well."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import FastAPI, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import Discriminator, Tag
from pydantic_core import to_json
from sqlalchemy.engine import Connection

from posse.insight.diagnosis.api import diagnose
from posse.insight.diagnosis.intervals import interval, shares
from posse.service.api import bodies
from posse.service.api.bodies import ExperimentAnswer
from posse.service.api.middleware import new_router
from posse.service.auth.permissions import CHANGE, CREATE, NO_TOKEN, READ, Endpoint, Permission, allows, needs
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record, RewardOutcome
from posse.service.problems import HttpProblem, declared, problem_of
from posse.service.settings import LARGEST_PAGE
from posse.service.storage import database, queries
from posse.service.storage.errors import Damaged, ExperimentExists, Unavailable
from posse.text import plain

ALWAYS = (401, 403, 421, 422, 500, 503)
WITH_BODY = (*ALWAYS, 400, 408, 409, 413, 415)
EXPERIMENTS = "/v1/experiments"
EXPERIMENT = EXPERIMENTS + "/{name}"
LARGEST_NUMBER = 2**53  # of a row of the log
LEVEL = 0.05  # the probability that any of the intervals is ever wrong
REFUSED = {"conflict": "conflicting-reward", "unknown": "unknown-decision", "invalid": "invalid"}

router = new_router()
Name = Annotated[bodies.ExperimentName, Path(description="The experiment")]
Key = Annotated[bodies.Key | None, Header(description="Repeat a request with the same key, and it happens once")]
LOCATION = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


def endpoint(
    method: str, path: str, permission: Permission, *statuses: int, **more: Any
) -> Callable[[Endpoint], Endpoint]:
    """Declare what serves a method and a path, what it asks of a token, and which problems it has beside the usual."""
    usual = ALWAYS if method == "GET" else WITH_BODY
    add = router.api_route(path, methods=[method], responses=declared(*statuses, *usual), **more)
    return lambda function: add(needs(permission)(function))


def add_routes(app: FastAPI) -> None:
    """Add all routes; the one that creates experiments takes the policies that are known by now."""
    bodies.ExperimentBody.model_rebuild(force=True)
    creation = new_router()
    responses = {201: LOCATION, **declared(*WITH_BODY)}
    creation.add_api_route(EXPERIMENTS, create_experiment, methods=["POST"], status_code=201, responses=responses)
    app.router.routes.extend([*creation.routes, *router.routes])  # as they are, so that app.routes lists every one


def direct_routes() -> list[APIRoute]:
    """The routes that are worth a shorter way."""
    return [each for each in router.routes if isinstance(each, APIRoute) and each.endpoint in (decide, reward)]


# ---------------------------------------------------------------- experiments


@needs(CREATE)
async def create_experiment(body: bodies.ExperimentBody, request: Request, response: Response) -> ExperimentAnswer:
    """Create an experiment."""
    try:
        settings = body.model_dump(exclude={"name", "policy"})
        made = await request.app.state.writer.apply(Create(body.name, body.policy.policy(), **settings))
    except ExperimentExists:
        raise
    except (ValueError, TypeError) as error:  # of the policy's constants, or Refused
        raise HttpProblem("invalid", f"{str(error)[:1000].rstrip('.')}. Nothing was changed.") from error
    response.headers["Location"] = f"{EXPERIMENTS}/{quote(body.name, safe='')}"
    return _described(made)


@endpoint("GET", EXPERIMENTS, READ)
async def list_experiments(request: Request) -> bodies.ExperimentsAnswer:
    """All experiments that the token may see."""
    found = await request.app.state.read_pool.query(queries.experiments)
    seen = [_described(each) for each in found if allows(request.state.grant, READ, each.name)]
    return bodies.ExperimentsAnswer(experiments=seen)


@endpoint("GET", EXPERIMENT, READ, 404)
async def read_experiment(name: Name, request: Request) -> ExperimentAnswer:
    """An experiment as it stands."""
    return _described(await request.app.state.read_pool.query(queries.experiment, name))


@endpoint("GET", EXPERIMENT + "/players", READ, 404)
async def read_players(
    name: Name,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="How many players are known")] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 1000,
) -> bodies.PlayersAnswer:
    """All who ever joined, in the order in which they came."""
    found = await request.app.state.read_pool.query(queries.players, name, after, limit)
    players = [bodies.PlayerEntry(name=each, here=here, attributes=shown) for each, here, shown in found]
    return bodies.PlayersAnswer(players=players, next=after + limit if len(found) == limit else None)


@endpoint("PATCH", EXPERIMENT, CHANGE, 404)
async def change_experiment(name: Name, body: bodies.ChangeBody, request: Request) -> ExperimentAnswer:
    """Let players and arms come and go, pause and resume; all of it or nothing."""
    return _described(await request.app.state.writer.apply(Change(name, **body.model_dump())))


@endpoint("POST", EXPERIMENT + "/erasures", CHANGE, 404)
async def erase(name: Name, body: bodies.ErasureBody, request: Request) -> bodies.ErasureAnswer:
    """Forget the name of a player, and its attributes; what it has learnt stays, under another name."""
    return bodies.ErasureAnswer(player=await request.app.state.writer.apply(Erase(name, body.player)))


def _described(experiment: queries.Experiment) -> ExperimentAnswer:
    setup, policy = experiment.setup, experiment.setup.policy
    shown: dict[str, Any] = {**vars(setup), **vars(experiment), "reward_range": [setup.low, setup.high]}
    shown["attributes"] = setup.attributes.to_dict()
    shown["policy"] = bodies.PolicyAnswer(name=type(policy).__name__, constants=policy.arguments(), label=policy.label)
    return ExperimentAnswer(**shown | {names: _entries(shown[names]) for names in ("arms", "players")})


def _entries(names: list[tuple[str, bool]]) -> list[bodies.RosterEntry]:
    return [bodies.RosterEntry(name=name, here=here) for name, here in names]


# ---------------------------------------------------------------- decisions and rewards


def _form(*others: str) -> Discriminator:
    """Tell bodies apart by a field that only they have, so that errors are about the right one."""
    fields = [*others]
    return Discriminator(lambda body: next((f for f in fields if isinstance(body, dict) and f in body), "one"))


AnyDecisionBody = Annotated[
    Annotated[bodies.OneDecisionBody, Tag("one")]
    | Annotated[bodies.DecisionsBody, Tag("players")]
    | Annotated[bodies.CombinationBody, Tag("attributes")],
    _form("players", "attributes"),
]
AnyRewardBody = Annotated[
    Annotated[bodies.RewardBody, Tag("one")] | Annotated[bodies.RewardsBody, Tag("rewards")], _form("rewards")
]


@endpoint("POST", EXPERIMENT + "/decisions", Permission("decide"), 404, response_model=bodies.DecisionsAnswer)
async def decide(name: Name, body: AnyDecisionBody, request: Request, idempotency_key: Key = None) -> Response:
    """Choose an arm for a player, or one for each of several who act in the same round.

    A player is a name, or a combination of attributes, which joins when it is first seen.
    """
    key = idempotency_key or body.idempotency_key
    if body.idempotency_key not in (None, key):
        raise HttpProblem("conflicting-key", "Idempotency-Key and idempotency_key differ; give one of them.")
    players: Any
    match body:
        case bodies.OneDecisionBody(player=player):
            players = [player]
        case bodies.CombinationBody(attributes=given):
            players = [given] if isinstance(given, dict) else given
        case _:
            players = body.players
    made = await request.app.state.writer.apply(Choose(name, players, body.available, key))
    return _json({"decisions": made})


@endpoint(
    "POST",
    EXPERIMENT + "/rewards",
    Permission("reward"),
    404,
    response_model=RewardOutcome | bodies.OutcomesAnswer,
)
async def reward(name: Name, body: AnyRewardBody, request: Request) -> Response:
    """Report the reward of a decision, or those of several: then each has its own outcome, and good ones are taken."""
    reports = [body] if isinstance(body, bodies.RewardBody) else body.rewards
    pairs = [(each.decision, each.reward) for each in reports]
    outcomes: list[RewardOutcome] = await request.app.state.writer.apply(Observe(name, pairs))
    if isinstance(body, bodies.RewardsBody):
        return _json({"outcomes": outcomes, "taken": sum(each.status == "taken" for each in outcomes)})
    if outcomes[0].status in REFUSED:
        raise HttpProblem(REFUSED[outcomes[0].status], f"{outcomes[0].detail}. Nothing was changed.")
    return _json(outcomes[0])


def _json(content: Any) -> Response:
    """An answer of records as they are; nothing of it has to be checked."""
    return Response(to_json(content), media_type="application/json")


@endpoint("POST", EXPERIMENT + "/records", CHANGE, 404)
async def record(name: Name, body: bodies.RecordsBody, request: Request) -> bodies.RecordsAnswer:
    """Take rewards of the past, which the service did not decide; one request is one round."""
    rewards = [(each.player, each.arm, each.reward) for each in body.rewards]
    return bodies.RecordsAnswer(taken=await request.app.state.writer.apply(Record(name, rewards)))


# ---------------------------------------------------------------- what there is to see


@endpoint("GET", EXPERIMENT + "/log", READ, 404)
async def read_log(
    name: Name,
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The number of the last row that is known")] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 1000,
) -> bodies.LogAnswer:
    """The log: decisions, rewards and changes in the order in which they happened."""
    rows = await request.app.state.read_pool.query(queries.log, name, after, limit)
    return bodies.LogAnswer(rows=rows, next=rows[-1]["event"] if len(rows) == limit else None)


@endpoint("GET", EXPERIMENT + "/state", READ, 404)
async def read_state(name: Name, request: Request) -> bodies.StateAnswer:
    """The numbers behind the decisions."""
    return await request.app.state.read_pool.query(_state, name)


@endpoint("GET", EXPERIMENT + "/diagnosis", READ, 404, 409)
async def read_diagnosis(name: Name, request: Request) -> dict[str, Any]:
    """Is ε right? How far players are shown to differ, and an alarm when that is by more."""
    return await request.app.state.read_pool.query(_diagnosis, name)


def _diagnosis(connection: Connection, name: str) -> dict[str, Any]:
    state = queries.live_experiment(connection, name).state
    indices = queries.indices(state)
    shared = (indices.weights * indices.probabilities).sum(axis=1)  # floor and holdout included
    return diagnose(SimpleNamespace(counts=state.counts, shared_weights=lambda: shared)).to_dict()


def _state(connection: Connection, name: str) -> bodies.StateAnswer:
    state = queries.live_experiment(connection, name).state
    counts, indices = state.counts(), queries.indices(state)
    unit, pulls = counts.high - counts.low, counts.pulls
    level = LEVEL * np.outer(shares(len(counts.players)), shares(len(counts.arms)))
    low, high = interval(pulls, np.clip((counts.sums - pulls * counts.low) / unit, 0, pulls), level)
    return bodies.StateAnswer(
        players=list(counts.players),
        arms=list(counts.arms),
        pulls=pulls.tolist(),
        means=plain(np.divide(counts.sums, pulls, out=np.full(pulls.shape, np.nan), where=pulls > 0)),
        low=plain(counts.low + unit * low),
        high=plain(counts.low + unit * high),
        centers=plain(indices.centers),
        scales=plain(indices.scales),
        shared=plain(indices.weights),
        probabilities=plain(indices.probabilities),
    )


# ---------------------------------------------------------------- operation


@router.get("/healthz", openapi_extra={"security": []}, responses=declared(500, 503))
@needs(NO_TOKEN)
async def alive() -> bodies.HealthAnswer:
    """That the process is alive."""
    return bodies.HealthAnswer(status="alive")


@router.get("/readyz", openapi_extra={"security": []}, responses=declared(500, 503))
@needs(NO_TOKEN)
async def ready(request: Request) -> bodies.HealthAnswer:
    """That the database answers and is as this version expects it."""
    try:
        await request.app.state.read_pool.run(database.check_version, request.app.state.store.engine)
    except (ValueError, Unavailable, Damaged) as error:
        logging.getLogger("posse").warning("not ready: %s", error)  # not in the answer, which needs no token
        detail = "The database does not answer, or not as this posse expects it; the log of the service says more."
        problem = problem_of(error)
        kind = "unavailable" if problem is None else problem.kind
        raise HttpProblem(kind, detail, None if kind == "damaged" else {"Retry-After": "1"}) from error
    return bodies.HealthAnswer(status="ready")


@router.get("/metrics", include_in_schema=False)
@needs(Permission("read", every_experiment=True))
async def metrics(request: Request) -> Response:
    """What is counted, for Prometheus."""
    text = await request.app.state.read_pool.run(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
@needs(Permission(None))
async def openapi(request: Request) -> dict[str, object]:
    """The API, described."""
    return request.app.openapi()
