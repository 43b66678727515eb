"""OpenFeature's remote evaluation protocol (OFREP): an experiment is a flag, an arm its variant, a decision its value.

The protocol: github.com/open-feature/protocol, service/openapi.yaml. Errors are the service's problems, with the
protocol's fields beside their own.
"""

import asyncio
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, NamedTuple

import sqlalchemy as sql
from fastapi import Header, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, WithJsonSchema
from pydantic_core import from_json
from sqlalchemy.engine import Connection

from posse.decision import Decision
from posse.service.api.bodies import ExperimentName
from posse.service.api.middleware import ApiRouter, AuthRoute, json_answer
from posse.service.auth import Permission, may_read, needs
from posse.service.commands import Choose, check_decides
from posse.service.problems import HttpProblem, declared, problem_of
from posse.service.storage import schema as tables
from posse.service.storage.errors import Invalid, Refused
from posse.service.storage.keyed_requests import request_digest
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.transaction import Transaction

FLAGS = "/ofrep/v1/evaluate/flags"
MOST_FLAGS = 100  # in one answer
EXACT = 2**53  # numbers up to this size are the same in every language
DECIDE = Permission("decide")
STATUSES = (400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503)
CODES = {
    "not-json": "PARSE_ERROR",
    "no-targeting-key": "TARGETING_KEY_MISSING",
    "wrong-context": "INVALID_CONTEXT",
    "unknown-experiment": "FLAG_NOT_FOUND",
}
"""The protocol's codes for kinds of problems; all others are GENERAL."""
TRANSLATED = {
    **dict.fromkeys(("invalid", "refused", "conflicting-key"), "wrong-context"),
    "overloaded": "too-many-requests",
}
"""Kinds of problems whose status the protocol does not know, and what stands for them here."""

Json: Any = {"description": "Any JSON"}
JsonObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": Json})]


class EvaluationContext(BaseModel, strict=True, extra="allow", json_schema_extra={"additionalProperties": Json}):
    """Who or what a flag is evaluated for. Whatever an experiment does not declare as an attribute is ignored."""

    targetingKey: str = Field(min_length=1, description="The player, or whoever else keeps the same decision")
    player: str | None = Field(None, description="The player, if it is not the targeting key")


class EvaluationBody(BaseModel, strict=True):
    """What a flag is evaluated for."""

    context: EvaluationContext


class FlagAnswer(BaseModel):
    """A flag, evaluated. Without a value, the default of whoever asked counts."""

    key: str = Field(description="The experiment")
    reason: Literal["SPLIT", "STATIC", "DISABLED"] = Field(
        description="It was drawn; the experiment has ended and this arm was shipped; it makes no decisions now"
    )
    variant: str = Field(description="The arm; empty if there is none")
    value: bool | int | float | str | JsonObject | None = Field(None, description="What the arm's name says")
    metadata: dict[str, str | float] = Field(description="`decision`, with which to report the reward, `propensity`, …")


class FlagsAnswer(BaseModel):
    """All flags that can be evaluated for this context."""

    flags: list[FlagAnswer]


# ---------------------------------------------------------------- what an experiment decides


class Evaluate(NamedTuple):
    """Decide for a context. Result: the flag's answer, without a value if the experiment makes no decisions.

    The player is named in the context, or a combination of attributes where the experiment has them; then the same
    targeting key gets the same decision again, as long as its arm is there. Otherwise the targeting key is the player,
    and every evaluation is a new decision.
    """

    experiment: str
    context: EvaluationContext

    def apply(self, transaction: Transaction) -> dict[str, Any]:
        live = transaction.live(self.experiment)
        answer: dict[str, Any] = {"key": live.name, "reason": "DISABLED", "variant": ""}
        told: dict[str, Any] = {"experiment": live.name}
        try:
            check_decides(live)  # also before a decision of the past is given again
        except Refused:
            return {**answer, "metadata": told}
        decision = self._decide(transaction, live)
        arms = live.state.arm_roster
        told |= {"decision": decision.id, "propensity": decision.propensity}
        answer |= {"reason": "SPLIT" if live.life.shipment is None else "STATIC", "variant": decision.arm}
        return {**answer, "value": values_of(tuple(arms.names))[arms.place(decision.arm)], "metadata": told}

    def _decide(self, transaction: Transaction, live: LiveExperiment) -> Decision:
        given, declared = self.context, live.state.setup.attributes.kinds
        player: Any = given.player
        if player is None and declared:
            player = {name: value for name, value in (given.model_extra or {}).items() if name in declared}
            if not player:
                raise Invalid(f"the context has none of the attributes {', '.join(declared)}, and no player")
        if player is None:
            return Choose(self.experiment, [given.targetingKey]).apply(transaction)[0]
        (name,), _ = live.state.named([player])
        shipped = live.life.shipment and live.life.shipment.written()
        for turn in itertools.count():  # one for each time that the arm of this subject went
            key = request_digest(given.targetingKey, "evaluate", name, shipped, turn)
            (decision,) = Choose(self.experiment, [player], None, key).apply(transaction)
            if live.state.arm_roster.here[live.state.arm_roster.place(decision.arm)]:
                break
        return decision


@functools.lru_cache(1000)
def values_of(arms: tuple[str, ...]) -> list[Any]:
    """What the names of arms stand for: JSON if all are true or false, all numbers or all objects, or else themselves.

    >>> values_of(("true", "false")), values_of(("1", "2.5")), values_of(("1", "many"))
    ([True, False], [1.0, 2.5], ['1', 'many'])
    """
    try:
        found = [from_json(arm, allow_inf_nan=False) for arm in arms]
    except ValueError:
        return list(arms)
    kinds = {type(value) for value in found}
    if kinds <= {int, float} and all(abs(value) <= EXACT for value in found):
        return [float(value) for value in found] if float in kinds else found  # SDKs tell 1 from 1.0
    return found if kinds in ({bool}, {dict}) else list(arms)


# ---------------------------------------------------------------- routes


class FlagRoute(AuthRoute):
    """A route whose problems have the protocol's fields too, and a status that it knows."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                problem = _translated(error, request)
                if problem is None:
                    raise
                raise problem from error

        return answer


def _translated(error: Exception, request: Request) -> HttpProblem | None:
    """The problem that an error is, as the protocol has it; None for one that nobody expected."""
    problem = problem_of(error, may_read(request.scope))
    if problem is None:
        return None
    kind = TRANSLATED.get(problem.kind, problem.kind)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first["loc"][0] == "path":
            kind = "unknown-experiment"
        elif first["type"] in ("missing", "string_too_short"):  # nothing else is required
            kind = "no-targeting-key"
    fields = {"errorCode": CODES.get(kind, "GENERAL"), "errorDetails": problem.detail}
    key = {"key": request.path_params["name"]} if "name" in request.path_params else {}
    return HttpProblem(kind, problem.detail, problem.headers, **problem.extra, **key, **fields)


router = ApiRouter("decisions", FlagRoute)


@router.post(FLAGS + "/{name}", responses=declared(404, *STATUSES), response_model=FlagAnswer)
@needs(DECIDE)
async def evaluate_flag(
    name: Annotated[ExperimentName, Path(description="The experiment")], body: EvaluationBody, request: Request
) -> Response:
    """Decide in an experiment, as a flag of OpenFeature's protocol."""
    found = await request.app.state.writer.apply(Evaluate(name, body.context))
    return json_answer(found)


@router.post(
    FLAGS,
    responses={
        200: {"headers": {"ETag": {"description": "Send it as If-None-Match", "schema": {"type": "string"}}}},
        304: {"description": "Nothing has changed, and nothing was decided"},
        **declared(*STATUSES),
    },
    response_model=FlagsAnswer,
)
@needs(DECIDE)
async def evaluate_flags(
    body: EvaluationBody,
    request: Request,
    if_none_match: Annotated[str, Header(description="What ETag said before")] = "",
) -> Response:
    """Decide in every experiment that the context fits and the token is for."""
    state, context = request.app.state, body.context
    fitting = await state.read_pool.query(experiments_for, context, request.state.grant.experiment)
    if len(fitting) > MOST_FLAGS:
        detail = f"This context fits more than {MOST_FLAGS} experiments; use a token for one experiment."
        raise HttpProblem("wrong-context", detail)
    digest = hashlib.sha256(json.dumps([context.model_dump(), fitting], sort_keys=True).encode()).hexdigest()
    headers = {"ETag": f'"{digest[:32]}"'}
    if headers["ETag"] in if_none_match:
        return Response(status_code=304, headers=headers)
    evaluations = [state.writer.apply(Evaluate(name, context)) for name, *_ in fitting]
    found = await asyncio.gather(*evaluations, return_exceptions=True)
    for error in found:
        if isinstance(error, BaseException) and not isinstance(error, Refused):
            raise error
    flags = [each for each in found if not isinstance(each, Refused)]  # whom the attributes or the moment did not suit
    return json_answer({"flags": flags}, headers)


def experiments_for(connection: Connection, context: EvaluationContext, only: str | None) -> list[list[Any]]:
    """The experiments that a context fits, at most one too many: the name of each, then all that its flag rests on."""
    table, players, arms = tables.experiments, tables.players, tables.arms
    name = context.player or context.targetingKey
    name = name if name.isprintable() else ""  # nobody's; PostgreSQL does not take every character
    fits: list[sql.ColumnElement[bool]]
    fits = [sql.exists().where(players.c.experiment == table.c.id, players.c.name == name, players.c.here == 1)]
    if context.player is None:
        fits.append(table.c.setup.contains('"attributes": [['))  # as `Setup.to_dict` has them, if there are any
    query = sql.select(table).where(table.c.status != "archived", sql.or_(*fits)).order_by(table.c.name)
    found: dict[int, list[Any]] = {}
    for row in connection.execute(query if only is None else query.where(table.c.name == only)):
        declared = {attribute for attribute, _ in json.loads(row.setup).get("attributes", ())}
        if context.player is None and declared.isdisjoint(context.model_extra or ()) and declared:
            continue  # nothing in the context says what kind of player it is
        found[row.id] = [row.name, row.id, row.status, row.shipped]
        if len(found) > MOST_FLAGS:
            break
    here = sql.select(arms.c.experiment, arms.c.place).where(arms.c.experiment.in_(found), arms.c.here == 1)
    for number, place in connection.execute(here.order_by(arms.c.experiment, arms.c.place)):
        found[number].append(place)
    return list(found.values())
