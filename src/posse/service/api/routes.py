"""The routes of the API: experiments, decisions and rewards, and what there is to see."""

import functools
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import FastAPI, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Discriminator, Tag
from pydantic_core import to_json
from sqlalchemy.engine import Connection

from posse.attributes import LONGEST_NAME
from posse.confidence import reward_interval, shares
from posse.insight.conclusion.text import at_the_end
from posse.insight.diagnosis.api import diagnose
from posse.insight.hierarchy.data import PlayerData
from posse.insight.logs import left_out
from posse.insight.watching.api import Watch
from posse.learner import Counts
from posse.service.api import bodies, ofrep, operation
from posse.service.api.answers import ConclusionResult, DiagnosisResult
from posse.service.api.bodies import ExperimentAnswer
from posse.service.api.middleware import WITH_BODY, ApiRouter, DirectRoute, json_answer
from posse.service.auth import CHANGE, CREATE, READ, Permission, needs
from posse.service.commands import Change, Choose, Create, Erase, Observe, Record, RewardOutcome
from posse.service.dashboard.analysis_process import LARGEST as LARGEST_DIAGNOSIS
from posse.service.dashboard.conclusions import concluded, summary
from posse.service.dashboard.snapshots import complete_snapshot
from posse.service.problems import FORM, HttpProblem, declared
from posse.service.settings import LARGEST_LIST, LARGEST_PAGE
from posse.service.storage import errors, queries
from posse.service.storage.complete_counts import complete_counts
from posse.service.storage.live_experiment import LiveExperiment
from posse.text import plain

EXPERIMENTS = "/v1/experiments"
EXPERIMENT = EXPERIMENTS + "/{name}"
LARGEST_NUMBER = 2**53  # of a row of the log
LEVEL = 0.05  # the probability that any of the intervals is ever wrong
LARGEST_STATE = 20_000  # pairs of a player and an arm in one answer
REFUSED = {"conflict": "conflicting-reward", "unknown": "unknown-decision", "invalid": "invalid"}

experiments, reading, decisions = map(ApiRouter, ("experiments", "reading", "decisions"))
direct = ApiRouter("decisions", DirectRoute)
Name = Annotated[bodies.ExperimentName, Path(description="The experiment")]
Key = Annotated[bodies.Key | None, Header(description="Repeat a request with the same key, and it happens once")]
KnownPlayers = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="How many players are known")]
KnownRow = Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The number of the last row that is known")]
Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE)]
PAGE: dict[int | str, Any] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "A page"}}
LOCATION = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


def add_routes(app: FastAPI) -> None:
    """Add all routes; the one that creates experiments takes the policies that are known by now."""
    bodies.ExperimentBody.model_rebuild(force=True)
    creation = ApiRouter("experiments")
    responses = {201: LOCATION, **declared(*WITH_BODY)}
    creation.add_api_route(EXPERIMENTS, create_experiment, methods=["POST"], status_code=201, responses=responses)
    routers = direct, creation, experiments, reading, decisions, ofrep.router, operation.router  # most called first
    app.router.routes.extend(route for each in routers for route in each.routes)  # so app.routes lists every one


# ---------------------------------------------------------------- experiments


@needs(CREATE)
async def create_experiment(
    body: bodies.ExperimentBody, request: Request, response: Response, idempotency_key: Key = None
) -> ExperimentAnswer:
    """Create an experiment."""
    try:
        settings = body.model_dump(exclude={"name", "policy"})
        asked = {"key": idempotency_key, "by": request.state.grant.who}
        command = Create(body.name, body.policy.policy(), **settings, **asked)
        made = await request.app.state.writer.apply(command)
    except (errors.ExperimentExists, errors.ConflictingKey):
        raise
    except (ValueError, TypeError) as error:  # of the policy's constants, or Refused
        raise HttpProblem("invalid", f"{str(error)[:1000].rstrip('.')}. Nothing was changed.") from error
    response.headers["Location"] = f"{EXPERIMENTS}/{quote(body.name, safe='')}"
    return ExperimentAnswer(**_shown(made))


@reading.endpoint("GET", EXPERIMENTS, READ)
async def list_experiments(
    request: Request,
    after: Annotated[str, Query(max_length=LONGEST_NAME, description="The last name that is known")] = "",
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIST)] = 100,
    search: Annotated[str, Query(max_length=LONGEST_NAME, description="A part of the name")] = "",
    archived: Annotated[bool, Query(description="The archived ones instead of all others")] = False,
) -> bodies.ExperimentsAnswer:
    """Experiments that the token may see, by name."""
    only = request.state.grant.experiment
    ask = functools.partial(queries.experiments, only=only, search=search, archived=archived, after=after, limit=limit)
    found = await request.app.state.read_pool.query(ask)
    entries = [bodies.ExperimentEntry(**_shown(each)) for each in found]
    return bodies.ExperimentsAnswer(experiments=entries, next=found[-1].name if len(found) == limit else None)


@reading.endpoint("GET", EXPERIMENT, READ, 404)
async def read_experiment(name: Name, request: Request) -> ExperimentAnswer:
    """An experiment as it stands."""
    return ExperimentAnswer(**_shown(await request.app.state.read_pool.query(queries.experiment, name)))


@reading.endpoint("GET", EXPERIMENT + "/players", READ, 404)
async def read_players(
    name: Name, request: Request, after: KnownPlayers = 0, limit: Limit = 1000
) -> bodies.PlayersAnswer:
    """All who ever joined, in the order in which they came."""
    found = await request.app.state.read_pool.query(queries.players, name, after, limit)
    players = [bodies.PlayerEntry(name=each, here=here, attributes=shown) for each, here, shown in found]
    return bodies.PlayersAnswer(players=players, next=after + limit if len(found) == limit else None)


@experiments.endpoint("PATCH", EXPERIMENT, CHANGE, 404)
async def change_experiment(
    name: Name, body: bodies.ChangeBody, request: Request, idempotency_key: Key = None
) -> ExperimentAnswer:
    """Let players and arms come and go, pause, resume, finish, archive and restore it; all of it or nothing."""
    command = Change(name, **body.model_dump(), key=idempotency_key, by=request.state.grant.who)
    return ExperimentAnswer(**_shown(await request.app.state.writer.apply(command)))


@experiments.endpoint("POST", EXPERIMENT + "/erasures", CHANGE, 404)
async def erase(
    name: Name, body: bodies.ErasureBody, request: Request, idempotency_key: Key = None
) -> bodies.ErasureAnswer:
    """Forget a player's name, its attributes and the keys of requests about it; what it has learnt stays."""
    command = Erase(name, body.player, idempotency_key, request.state.grant.who)
    return bodies.ErasureAnswer(player=await request.app.state.writer.apply(command))


def _shown(experiment: queries.Experiment) -> dict[str, Any]:
    setup, policy = experiment.setup, experiment.setup.policy
    shown: dict[str, Any] = {**vars(setup), **vars(experiment), "reward_range": [setup.low, setup.high]}
    shown["attributes"] = setup.attributes.to_dict()
    shown["outcomes"] = {name: each.to_dict() for name, each in setup.outcomes.items()}
    shown["policy"] = bodies.PolicyAnswer(name=type(policy).__name__, constants=policy.arguments(), label=policy.label)
    for kind in ("arms", "players"):
        shown[kind] = [bodies.RosterEntry(name=name, here=here) for name, here in shown[kind]]
    return shown


# ---------------------------------------------------------------- decisions and rewards


def _form(**forms: str) -> Discriminator:
    """Tell bodies apart by a field that only they have, so that errors are about the right one."""

    def form_of(body: Any) -> str | None:
        found = [form for field, form in forms.items() if isinstance(body, dict) and field in body]
        return found[0] if len(found) == 1 else None

    *others, last = forms
    return Discriminator(form_of, FORM, f"expected one of {', '.join(others)} and {last}")


AnyDecisionBody = Annotated[
    Annotated[bodies.OneDecisionBody, Tag("one")]
    | Annotated[bodies.DecisionsBody, Tag("several")]
    | Annotated[bodies.CombinationBody, Tag("combination")],
    _form(player="one", players="several", attributes="combination"),
]
AnyRewardBody = Annotated[
    Annotated[bodies.RewardBody, Tag("one")] | Annotated[bodies.RewardsBody, Tag("several")],
    _form(decision="one", rewards="several"),
]


@direct.endpoint("POST", EXPERIMENT + "/decisions", Permission("decide"), 404, response_model=bodies.DecisionsAnswer)
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
    return json_answer({"decisions": made})


@direct.endpoint(
    "POST", EXPERIMENT + "/rewards", Permission("reward"), 404, response_model=RewardOutcome | bodies.OutcomesAnswer
)
async def reward(name: Name, body: AnyRewardBody, request: Request) -> Response:
    """Report the reward or outcomes of a decision, or those of several: then the good reports are taken."""
    reports = [body] if isinstance(body, bodies.RewardBody) else body.rewards
    given = [(each.decision, each.reward, each.outcomes) for each in reports]
    outcomes: list[RewardOutcome] = await request.app.state.writer.apply(Observe(name, given))
    if isinstance(body, bodies.RewardsBody):
        return json_answer({"outcomes": outcomes, "taken": sum(each.status == "taken" for each in outcomes)})
    if outcomes[0].status in REFUSED:
        raise HttpProblem(REFUSED[outcomes[0].status], f"{outcomes[0].detail}. Nothing was changed.")
    return json_answer(outcomes[0])


@decisions.endpoint("POST", EXPERIMENT + "/records", CHANGE, 404)
async def record(
    name: Name, body: bodies.RecordsBody, request: Request, idempotency_key: Key = None
) -> bodies.RecordsAnswer:
    """Take rewards of the past, which the service did not decide; one request is one round."""
    rewards = [(each.player, each.arm, each.reward) for each in body.rewards]
    command = Record(name, rewards, idempotency_key, request.state.grant.who)
    return bodies.RecordsAnswer(taken=await request.app.state.writer.apply(command))


# ---------------------------------------------------------------- what there is to see


@reading.endpoint("GET", EXPERIMENT + "/log", READ, 404, response_model=bodies.LogAnswer)
async def read_log(name: Name, request: Request, after: KnownRow = 0, limit: Limit = 1000) -> Response:
    """The log: decisions, rewards and changes in the order in which they happened."""
    rows = await request.app.state.read_pool.query(queries.log, name, after, limit)
    found = {"rows": rows, "next": rows[-1]["event"] if len(rows) == limit else None}
    return json_answer(found)  # 10,000 rows take 30 ms to check


@reading.endpoint("GET", EXPERIMENT + "/state", READ, 404, response_model=bodies.StateAnswer)
async def read_state(
    name: Name,
    request: Request,
    after: KnownPlayers = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIST, description="With many arms there may be fewer")] = 100,
) -> Response:
    """The numbers behind the decisions of some players, in the order in which they came."""
    return await _analyzed(request, name, _state, after, limit)


@reading.endpoint("GET", EXPERIMENT + "/diagnosis", READ, 404, 409, response_model=DiagnosisResult)
async def read_diagnosis(name: Name, request: Request) -> Response:
    """Is ε right? How far players are shown to differ, and an alarm when that is by more."""

    def note(found: dict[str, Any]) -> None:
        request.app.state.metrics.note_verdict(name, found["alarm"])

    return await _analyzed(request, name, _diagnosis, note=note)


@reading.endpoint("GET", EXPERIMENT + "/watch", READ, 404, response_model=Watch)
async def read_watch(name: Name, request: Request) -> Response:
    """Whether choices follow their probabilities and rewards arrive alike, what adapting earns, and the guards."""
    return json_answer((await complete_snapshot(request.app.state, name)).watch.to_dict())


@reading.endpoint("GET", EXPERIMENT + "/conclusion", READ, 404, 409, response_model=ConclusionResult)
async def read_conclusion(name: Name, request: Request) -> Response:
    """Whether the experiment can end: which arm to ship for whom, and what stopping or going on costs."""
    snapshot, conclusion = await concluded(request.app.state, name)
    found = conclusion.to_dict()
    del found["setup"]  # which the experiment itself has
    if snapshot.status in ("finished", "archived"):
        found["verdict"] = at_the_end(found["verdict"])
    return json_answer(found)


@reading.endpoint("GET", EXPERIMENT + "/summary", READ, 404, 409, responses=PAGE, response_class=HTMLResponse)
async def read_summary(name: Name, request: Request) -> Response:
    """The whole experiment on one page of HTML that prints well."""
    return await summary(request.app.state, name)


async def _analyzed(
    request: Request,
    name: str,
    analyze: Callable[..., Callable[[], Any]],
    *asked: int,
    note: Callable[[Any], None] = lambda found: None,
) -> Response:
    """JSON about an experiment's state, made once for each moment of its log.

    `analyze` takes what it needs from the experiment, which others wait for, and returns what makes the answer of it.
    """
    state = request.app.state
    row = await state.read_pool.query(queries.find, name)

    def written(finish: Callable[[], Any]) -> bytes:
        found = finish()
        note(found)
        return to_json(found, inf_nan_mode="null")

    async def make() -> bytes:
        finish = await state.kept_experiments.read(name, lambda connection, live: analyze(connection, live, *asked))
        return await state.read_pool.run(written, finish)

    found = await state.answers.get((analyze, row["id"], row["head"], *asked), make)
    return Response(found, media_type="application/json")


def _diagnosis(connection: Connection, live: LiveExperiment) -> Callable[[], dict[str, Any]]:
    state = live.state
    players, arms = (len(roster.names) for roster in (state.player_roster, state.arm_roster))
    if players * arms > LARGEST_DIAGNOSIS:
        raise errors.Refused(
            f"{players:,} players × {arms:,} arms are more than the {LARGEST_DIAGNOSIS:,} pairs that are diagnosed "
            "here; export the log with `posse db export`, and run `posse diagnose` on it"
        )
    (counts, early), indices = complete_counts(connection, live), queries.indices(state)
    shared = (indices.weights * indices.probabilities).sum(axis=1)  # floor and holdout included

    def diagnosed() -> dict[str, Any]:
        try:
            return diagnose(PlayerData(counts, shared=shared, notes=tuple(left_out(early)))).to_dict()
        except ValueError as error:
            raise errors.Refused(str(error)) from error

    return diagnosed


def _state(connection: Connection, live: LiveExperiment, after: int, limit: int) -> Callable[[], bodies.StateAnswer]:
    state = live.state
    counts, arms = state.counts(), len(state.arm_roster.names)
    some = slice(after, after + max(1, min(limit, LARGEST_STATE // max(arms, 1))))
    indices = queries.indices(state, range(after, after + len(counts.players[some])))
    return functools.partial(_shown_state, counts, indices, some)


def _shown_state(counts: Counts, indices: queries.Indices, some: slice) -> bodies.StateAnswer:
    level = LEVEL * np.outer(shares(len(counts.players))[some], shares(len(counts.arms)))
    means, low, high = reward_interval(counts.pulls[some], counts.sums[some], level, counts.low, counts.high)
    return bodies.StateAnswer(
        players=list(counts.players[some]),
        arms=list(counts.arms),
        pulls=counts.pulls[some].tolist(),
        **plain({"means": means, "low": low, "high": high, "shared": indices.weights}),
        **plain({name: getattr(indices, name) for name in ("centers", "scales", "probabilities")}),
        next=some.stop if some.stop < len(counts.players) else None,
    )
