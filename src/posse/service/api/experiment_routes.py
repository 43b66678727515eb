"""The API: experiments, decisions and rewards."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Request, Response

from posse.learner import Decision
from posse.service.api import requests as bodies
from posse.service.api import responses as answers
from posse.service.api.auth_route import GuardedRoute, operation_id
from posse.service.api.dispatch import read, submit, translated, write
from posse.service.api.errors import Refusal, declared
from posse.service.auth.permissions import needs
from posse.service.storage.store import Experiment, Outcome, Store

ALWAYS = (401, 403, 421, 422, 500, 503)
WITH_BODY = (*ALWAYS, 400, 408, 409, 413, 415)

router = APIRouter(prefix="/v1/experiments", route_class=GuardedRoute, generate_unique_id_function=operation_id)
Name = Annotated[bodies.ExperimentName, Path(description="The experiment")]
Key = Annotated[bodies.Key | None, Header(description="Repeat a request with the same key, and it happens once")]
LOCATION = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


@router.post("", status_code=201, responses={201: LOCATION, **declared(*WITH_BODY)})
@needs("admin", every_experiment=True)
async def create_experiment(
    body: bodies.ExperimentBody, request: Request, response: Response
) -> answers.ExperimentAnswer:
    """Create an experiment."""
    with translated("invalid"):
        policy = body.policy.made()
        made = await submit(
            request,
            _store(request).create,
            body.name,
            policy,
            body.arms,
            body.players,
            body.horizon,
            seed=body.seed,
            reward_range=(body.reward_range[0], body.reward_range[1]),
            floor=body.floor,
            holdout=body.holdout,
            default_reward=body.default_reward,
            patience=body.patience,
        )
    response.headers["Location"] = f"{router.prefix}/{quote(body.name, safe='')}"
    return described(made)


@router.get("", responses=declared(*ALWAYS))
@needs("read")
async def list_experiments(request: Request) -> answers.ExperimentsAnswer:
    """All experiments that the token may see."""
    only = request.state.grant.experiment
    found = await read(request, _store(request).experiments)
    return answers.ExperimentsAnswer(experiments=[described(each) for each in found if only in (None, each.name)])


@router.get("/{name}", responses=declared(404, *ALWAYS))
@needs("read")
async def read_experiment(name: Name, request: Request) -> answers.ExperimentAnswer:
    """An experiment as it stands."""
    return described(await read(request, _store(request).experiment, name))


@router.patch("/{name}", responses=declared(404, *WITH_BODY))
@needs("admin")
async def change_experiment(name: Name, body: bodies.ChangeBody, request: Request) -> answers.ExperimentAnswer:
    """Let players and arms come and go, pause and resume; all of it or nothing."""
    return described(await write(request, _store(request).change, name, **body.model_dump()))


@router.post("/{name}/decisions", responses=declared(404, *WITH_BODY))
@needs("decide")
async def decide(
    name: Name,
    body: bodies.AnyDecisionBody,
    request: Request,
    idempotency_key: Key = None,
) -> answers.DecisionsAnswer:
    """Choose an arm for a player, or one for each of several who act in the same round."""
    key = idempotency_key or body.idempotency_key
    if body.idempotency_key not in (None, key):
        raise Refusal("conflicting-key", "Idempotency-Key and idempotency_key differ; give one of them.")
    made = await write(request, _store(request).decide, name, body.players, body.available, key=key)
    return answers.DecisionsAnswer(decisions=[_decision(each) for each in made])


@router.post("/{name}/rewards", responses=declared(404, *WITH_BODY))
@needs("reward")
async def reward(
    name: Name, body: bodies.AnyRewardBody, request: Request
) -> answers.OutcomeAnswer | answers.OutcomesAnswer:
    """Report the reward of a decision, or those of several: then each has its own outcome, and good ones are taken."""
    reports = [body] if isinstance(body, bodies.RewardBody) else body.rewards
    found = await write(request, _store(request).reward, name, [(each.decision, each.reward) for each in reports])
    if isinstance(body, bodies.RewardBody):
        return _only(found[0])
    outcomes = [_outcome(each) for each in found]
    return answers.OutcomesAnswer(outcomes=outcomes, taken=sum(each.status == "taken" for each in outcomes))


@router.post("/{name}/records", responses=declared(404, *WITH_BODY))
@needs("admin")
async def record(name: Name, body: bodies.RecordsBody, request: Request) -> answers.RecordsAnswer:
    """Take rewards of the past, which the service did not decide; one request is one round."""
    rewards = [(each.player, each.arm, each.reward) for each in body.rewards]
    await write(request, _store(request).record, name, rewards)
    return answers.RecordsAnswer(taken=len(rewards))


@router.post("/{name}/erasures", responses=declared(404, *WITH_BODY))
@needs("admin")
async def erase(name: Name, body: bodies.ErasureBody, request: Request) -> answers.ErasureAnswer:
    """Forget the name of a player; what it has learnt stays, under another name."""
    return answers.ErasureAnswer(player=await write(request, _store(request).erase, name, body.player))


def described(experiment: Experiment) -> answers.ExperimentAnswer:
    """An experiment, for an answer."""
    setup, policy = experiment.setup, experiment.setup.policy
    return answers.ExperimentAnswer(
        name=experiment.name,
        policy=answers.PolicyAnswer(
            name=type(policy).__name__,
            constants={name: getattr(policy, name) for name in policy.constant_names()},
            label=policy.label,
        ),
        arms=[answers.Place(name=name, here=here) for name, here in experiment.arms],
        players=[answers.Place(name=name, here=here) for name, here in experiment.players],
        paused=experiment.paused,
        horizon=setup.horizon,
        reward_range=[setup.low, setup.high],
        floor=setup.floor,
        holdout=setup.holdout,
        default_reward=setup.default_reward,
        patience=setup.patience,
        rounds=experiment.rounds,
        decisions=experiment.decisions,
        rewards=experiment.rewards,
        waiting=experiment.waiting,
        created_at=experiment.created_at,
    )


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _decision(decision: Decision) -> answers.DecisionAnswer:
    return answers.DecisionAnswer(**{field: getattr(decision, field) for field in decision.__slots__})


def _outcome(outcome: Outcome) -> answers.OutcomeAnswer:
    return answers.OutcomeAnswer(decision=outcome.decision, status=outcome.status, detail=outcome.detail or None)


REFUSED = {"conflict": "conflicting-reward", "unknown": "unknown-decision", "invalid": "invalid"}


def _only(outcome: Outcome) -> Any:
    """The answer to a single reward."""
    if outcome.status in REFUSED:
        raise Refusal(REFUSED[outcome.status], f"{outcome.detail}. Nothing was changed.")
    return _outcome(outcome)
