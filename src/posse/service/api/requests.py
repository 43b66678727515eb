"""What requests say: the token is checked first, then the body, with strict limits, before anything is done."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    create_model,
)
from pydantic_core import CoreSchema, from_json

from posse.learner.setup import LONGEST_NAME, check_name, check_names
from posse.policies.base import Policy, all_policies
from posse.service.api.errors import HttpProblem
from posse.service.auth.permissions import Authenticator, needed
from posse.service.settings import LARGEST_BATCH
from posse.service.storage.transaction import check_experiment_name

LARGEST = 2**63 - 1
LONGEST_ID = 40


# ---------------------------------------------------------------- token and body


class JsonRequest(Request):
    """A request whose JSON is read strictly: no NaN, no half characters, bounded depth."""

    async def json(self) -> Any:
        """The body, read once."""
        if not hasattr(self, "_json"):
            try:
                self._json = from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                advice = "Send one JSON value in UTF-8, without NaN or Infinity, not nested deeply."
                raise HttpProblem("not-json", f"{str(error)[:300]}. {advice}") from None
        return self._json


class AuthRoute(APIRoute):
    """A route that looks at the token first, as `permissions.needs` says, then at the body, then at anything else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What serves a request."""
        handle = super().get_route_handler()
        permission = needed(self.endpoint)
        takes_body = self.body_field is not None

        async def check_and_handle(request: Request) -> Response:
            authenticator: Authenticator = request.app.state.authenticator
            request.state.grant = await authenticator.admit(request, permission)
            if takes_body:
                _check_type(request)
                request = JsonRequest(request.scope, request.receive)
                if await request.body():
                    await request.json()
            return await handle(request)

        return check_and_handle


def new_router(prefix: str = "") -> APIRouter:
    """A router for endpoints that say what they need; OpenAPI names them as the code does."""
    return APIRouter(prefix=prefix, route_class=AuthRoute, generate_unique_id_function=lambda route: route.name)


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        detail = f"Content-Type is {kind[:100]!r}; send JSON, as `Content-Type: application/json`."
        raise HttpProblem("not-json-type", detail, {"Accept": "application/json"})


# ---------------------------------------------------------------- parts of bodies


def _whole(value: Any) -> Any:
    """2.0 is a whole number in JSON, whose numbers have no types."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_TEXT = Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"format": "printable"})
Name = Annotated[str, _TEXT, AfterValidator(functools.partial(check_name, "name"))]
ExperimentName = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"format": "segment"}),
    AfterValidator(check_experiment_name),
]
Names = Annotated[
    list[Name],
    Field(max_length=LARGEST_BATCH, json_schema_extra={"uniqueItems": True}),
    AfterValidator(functools.partial(check_names, "name")),
]
SomeNames = Annotated[Names, Field(min_length=1)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
Key = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[!-~]+$")]
DecisionId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, examples=["17-0badcafe"])]


class Body(BaseModel):
    """What all bodies have in common: nothing is converted, and nothing unknown is accepted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


# ---------------------------------------------------------------- experiments


class PolicyBody(Body):
    """A policy, with its constants."""

    kind: ClassVar[type[Policy]]
    name: str
    constants: Body = Body()

    def policy(self) -> Policy:
        """The policy itself."""
        return self.kind(**self.constants.model_dump())


def _policy_body(kind: type[Policy]) -> type[PolicyBody]:
    """The body for one kind of policy, which has the constants that this kind has."""
    constants: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in kind.constant_names():
            default = ... if field.default is dataclasses.MISSING else field.default
            constants[field.name] = (Real | None if default is None else Real, default)
    name = kind.__name__
    made = create_model(f"{name}Constants", __base__=Body, **constants)
    required = any(default is ... for _, default in constants.values())
    fields: dict[str, Any] = {"name": (Literal[name], ...), "constants": (made, ... if required else made())}
    body = create_model(name, __base__=PolicyBody, **fields)
    body.kind = kind
    return body


def _any_policy(_: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
    """The body of any policy that is known now; of two with one name, posse's own."""
    known = [cls for cls in all_policies() if isinstance(inspect.getattr_static(cls, "index", None), staticmethod)]
    by_name = {cls.__name__: cls for cls in sorted(known, key=lambda cls: cls.__module__.startswith("posse.policies."))}
    bodies = tuple(_policy_body(by_name[name]) for name in sorted(by_name))
    return handler(Annotated[Union[bodies], Field(discriminator="name")])  # noqa: UP007


if TYPE_CHECKING:
    AnyPolicyBody = PolicyBody
else:
    AnyPolicyBody = Annotated[Any, GetPydanticSchema(_any_policy)]


class ExperimentBody(Body):
    """An experiment to be created. `model_rebuild` lets it know the policies that were defined meanwhile."""

    name: ExperimentName
    arms: SomeNames
    players: Names = []
    policy: AnyPolicyBody = Field(default={"name": "PosseTS"}, validate_default=True)
    horizon: Whole | None = Field(None, ge=1, le=LARGEST)
    seed: Whole | None = Field(None, ge=0, le=LARGEST, description="Drawn at random unless given")
    reward_range: list[Real] = Field([0.0, 1.0], min_length=2, max_length=2)
    floor: Real = Field(0.0, ge=0, le=1)
    holdout: Real = Field(0.0, ge=0, le=1)
    default_reward: Real | None = None
    patience: Real | None = Field(None, gt=0)


class ChangeBody(Body):
    """What is to change in an experiment; all of it or nothing."""

    join: Names = []
    retire: Names = []
    add_arms: Names = []
    retire_arms: Names = []
    paused: bool | None = None
    knows_others: bool = True


# ---------------------------------------------------------------- decisions and rewards


def _form(several: str) -> Discriminator:
    """Tell the body for several from the one for one, so that errors are about the right one."""
    return Discriminator(lambda body: "several" if isinstance(body, dict) and several in body else "one")


class ChoiceBody(Body):
    """What one or several players may choose from."""

    available: SomeNames | None = None
    idempotency_key: Key | None = Field(None, description="As the header Idempotency-Key")


class OneDecisionBody(ChoiceBody):
    """A decision for one player."""

    player: Name

    @property
    def players(self) -> list[str]:
        """The player, as several."""
        return [self.player]


class DecisionsBody(ChoiceBody):
    """Decisions for several players who act in the same round."""

    players: SomeNames


AnyDecisionBody = Annotated[
    Annotated[OneDecisionBody, Tag("one")] | Annotated[DecisionsBody, Tag("several")], _form("players")
]


class RewardBody(Body):
    """The reward of a decision."""

    decision: DecisionId
    reward: Real


class RewardsBody(Body):
    """The rewards of several decisions."""

    rewards: list[RewardBody] = Field(min_length=1, max_length=LARGEST_BATCH)


AnyRewardBody = Annotated[Annotated[RewardBody, Tag("one")] | Annotated[RewardsBody, Tag("several")], _form("rewards")]


class RecordBody(Body):
    """A reward of the past."""

    player: Name
    arm: Name
    reward: Real


class RecordsBody(Body):
    """Rewards of the past, which the service did not decide."""

    rewards: list[RecordBody] = Field(min_length=1, max_length=LARGEST_BATCH)


class ErasureBody(Body):
    """A player whose name is to be forgotten."""

    player: Name
