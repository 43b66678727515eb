"""The API: experiments, decisions and rewards."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Header, Path, Request, Response

from posse.service.api import requests as bodies
from posse.service.api import responses as answers
from posse.service.api.errors import HttpProblem, declared
from posse.service.api.requests import new_router
from posse.service.api.responses import ExperimentAnswer
from posse.service.auth.permissions import CHANGE, CREATE, READ, Permission, allows, needs
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record, RewardOutcome
from posse.service.storage import queries
from posse.service.storage.errors import ExperimentExists

ALWAYS = (401, 403, 421, 422, 500, 503)
WITH_BODY = (*ALWAYS, 400, 408, 409, 413, 415)
PREFIX = "/v1/experiments"
REFUSED = {"conflict": "conflicting-reward", "unknown": "unknown-decision", "invalid": "invalid"}

router = new_router(PREFIX)
Name = Annotated[bodies.ExperimentName, Path(description="The experiment")]
Key = Annotated[bodies.Key | None, Header(description="Repeat a request with the same key, and it happens once")]
LOCATION = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


def add_create_route(app: FastAPI) -> None:
    """Add the route that creates experiments, with all policies that are known by now."""
    bodies.ExperimentBody.model_rebuild(force=True)
    creation = new_router()
    responses = {201: LOCATION, **declared(*WITH_BODY)}
    creation.add_api_route(PREFIX, create_experiment, methods=["POST"], status_code=201, responses=responses)
    app.router.routes.extend(creation.routes)


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
    response.headers["Location"] = f"{PREFIX}/{quote(body.name, safe='')}"
    return _described(made)


@router.get("", responses=declared(*ALWAYS))
@needs(READ)
async def list_experiments(request: Request) -> answers.ExperimentsAnswer:
    """All experiments that the token may see."""
    found = await request.app.state.read_pool.query(queries.experiments)
    seen = [_described(each) for each in found if allows(request.state.grant, READ, each.name)]
    return answers.ExperimentsAnswer(experiments=seen)


@router.get("/{name}", responses=declared(404, *ALWAYS))
@needs(READ)
async def read_experiment(name: Name, request: Request) -> ExperimentAnswer:
    """An experiment as it stands."""
    return _described(await request.app.state.read_pool.query(queries.experiment, name))


@router.patch("/{name}", responses=declared(404, *WITH_BODY))
@needs(CHANGE)
async def change_experiment(name: Name, body: bodies.ChangeBody, request: Request) -> ExperimentAnswer:
    """Let players and arms come and go, pause and resume; all of it or nothing."""
    return _described(await request.app.state.writer.apply(Change(name, **body.model_dump())))


@router.post("/{name}/decisions", responses=declared(404, *WITH_BODY))
@needs(Permission("decide"))
async def decide(
    name: Name, body: bodies.AnyDecisionBody, request: Request, idempotency_key: Key = None
) -> answers.DecisionsAnswer:
    """Choose an arm for a player, or one for each of several who act in the same round."""
    key = idempotency_key or body.idempotency_key
    if body.idempotency_key not in (None, key):
        raise HttpProblem("conflicting-key", "Idempotency-Key and idempotency_key differ; give one of them.")
    made = await request.app.state.writer.apply(Choose(name, body.players, body.available, key))
    return answers.DecisionsAnswer(decisions=made)


@router.post("/{name}/rewards", responses=declared(404, *WITH_BODY))
@needs(Permission("reward"))
async def reward(name: Name, body: bodies.AnyRewardBody, request: Request) -> RewardOutcome | answers.OutcomesAnswer:
    """Report the reward of a decision, or those of several: then each has its own outcome, and good ones are taken."""
    reports = [body] if isinstance(body, bodies.RewardBody) else body.rewards
    pairs = [(each.decision, each.reward) for each in reports]
    outcomes: list[RewardOutcome] = await request.app.state.writer.apply(Observe(name, pairs))
    if isinstance(body, bodies.RewardsBody):
        return answers.OutcomesAnswer(outcomes=outcomes, taken=sum(each.status == "taken" for each in outcomes))
    if outcomes[0].status in REFUSED:
        raise HttpProblem(REFUSED[outcomes[0].status], f"{outcomes[0].detail}. Nothing was changed.")
    return outcomes[0]


@router.post("/{name}/records", responses=declared(404, *WITH_BODY))
@needs(CHANGE)
async def record(name: Name, body: bodies.RecordsBody, request: Request) -> answers.RecordsAnswer:
    """Take rewards of the past, which the service did not decide; one request is one round."""
    rewards = [(each.player, each.arm, each.reward) for each in body.rewards]
    return answers.RecordsAnswer(taken=await request.app.state.writer.apply(Record(name, rewards)))


@router.post("/{name}/erasures", responses=declared(404, *WITH_BODY))
@needs(CHANGE)
async def erase(name: Name, body: bodies.ErasureBody, request: Request) -> answers.ErasureAnswer:
    """Forget the name of a player; what it has learnt stays, under another name."""
    return answers.ErasureAnswer(player=await request.app.state.writer.apply(Erase(name, body.player)))


def _described(experiment: queries.Experiment) -> ExperimentAnswer:
    """An experiment, for an answer."""
    setup, policy = experiment.setup, experiment.setup.policy
    constants = {name: getattr(policy, name) for name in policy.constant_names()}
    return ExperimentAnswer(
        policy=answers.PolicyAnswer(name=type(policy).__name__, constants=constants, label=policy.label),
        arms=[answers.RosterEntry(name=name, here=here) for name, here in experiment.arms],
        players=[answers.RosterEntry(name=name, here=here) for name, here in experiment.players],
        reward_range=[setup.low, setup.high],
        **{name: getattr(setup, name) for name in ("horizon", "floor", "holdout", "default_reward", "patience")},
        **{name: getattr(experiment, name) for name in ("name", "created_at", "paused", "rounds", "decisions")},
        **{name: getattr(experiment, name) for name in ("rewards", "waiting")},
    )
