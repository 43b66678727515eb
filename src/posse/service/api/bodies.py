"""What the bodies of requests and answers say. Requests are read strictly, before anything is done.

Decisions and outcomes of rewards are answered as the learner and the commands have them.
"""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, Tag, create_model
from pydantic_core import CoreSchema

from posse.attributes import LONGEST_NAME, MOST
from posse.decision import Decision
from posse.learner.setup import PLAYER_LIMIT, check_name, check_names
from posse.outcomes import MOST as MOST_OUTCOMES
from posse.policies.base import Policy, all_policies
from posse.service.api.answers import AnyLogRow, Table
from posse.service.commands import RewardOutcome
from posse.service.settings import LARGEST_BATCH, LONGEST_SECONDS, SHORTEST_PATIENCE
from posse.service.storage.lifecycle import LONGEST_DESCRIPTION, Status, check_description
from posse.service.storage.transaction import check_experiment_name

LARGEST = 2**63 - 1
LONGEST_ID = 40


# ---------------------------------------------------------------- parts of requests


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
Combination = Annotated[
    dict[str, str | Real | None],
    Field(
        max_length=MOST,
        json_schema_extra={"examples": [{"region": "south", "age": 44}]},
        description="The values of attributes; what is missing or null is not known",
    ),
]
Players = Annotated[
    Annotated[Names, Tag("names")]
    | Annotated[dict[Name, Combination], Field(max_length=LARGEST_BATCH), Tag("attributes")],
    Discriminator(lambda given: "attributes" if isinstance(given, dict) else "names"),
    Field(description="Names, or {name: {attribute: value}}"),
]
Share = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]
ArmShares = Annotated[
    dict[Name, Share | Annotated[list[Share], Field(min_length=2, max_length=2)]],
    Field(
        max_length=LARGEST_BATCH,
        json_schema_extra={"examples": [{"coupon": [0.05, 0.3], "nothing": 0.7}]},
        description="The least and the greatest share of decisions of arms, or one number for both",
    ),
]
Description = Annotated[
    str,
    Field(max_length=LONGEST_DESCRIPTION, description="What people say about it"),
    AfterValidator(check_description),
]
DecisionId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, examples=["17-0badcafe"])]


class Body(BaseModel):
    """What all bodies have in common: nothing is converted, and nothing unknown is accepted."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid", frozen=True)


# ---------------------------------------------------------------- requests


class PolicyBody(Body):
    """A policy, with its constants."""

    kind: ClassVar[type[Policy]]
    name: str
    constants: Body = Body()

    def policy(self) -> Policy:
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


def _policies() -> dict[str, type[Policy]]:
    """The policies that are known now, by name; of two with one name, posse's own."""
    known = [cls for cls in all_policies() if isinstance(inspect.getattr_static(cls, "index", None), staticmethod)]
    by_name = {cls.__name__: cls for cls in sorted(known, key=lambda cls: cls.__module__.startswith("posse.policies."))}
    return dict(sorted(by_name.items()))


def _any_policy(_: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
    """The body of any policy that is known now."""
    bodies: Any = functools.reduce(operator.or_, map(_policy_body, _policies().values()))
    return handler(Annotated[bodies, Field(discriminator="name")])


if TYPE_CHECKING:
    AnyPolicyBody = PolicyBody
else:
    AnyPolicyBody = Annotated[Any, pydantic.GetPydanticSchema(_any_policy)]


class OutcomeBody(Body):
    """What else comes of a decision besides its reward. With a bound, arms that cross it raise an alarm."""

    range: list[Real] = Field([0.0, 1.0], min_length=2, max_length=2)
    at_most: Real | None = Field(None, description="The mean of every arm should be at most this")
    at_least: Real | None = Field(None, description="The mean of every arm should be at least this")
    action: Literal["alarm", "retire"] = Field("alarm", description="With retire, such an arm is also retired")


class ExperimentBody(Body):
    """An experiment to be created. `model_rebuild` lets it know the policies that were defined meanwhile."""

    name: ExperimentName
    arms: SomeNames
    players: Players = []
    policy: AnyPolicyBody = Field(
        default_factory=lambda: {"name": "PosseTS"}, validate_default=True, description="PosseTS unless given"
    )
    horizon: Whole | None = Field(None, ge=1, le=LARGEST)
    seed: Whole | None = Field(None, ge=0, le=LARGEST, description="Drawn at random unless given")
    reward_range: list[Real] = Field([0.0, 1.0], min_length=2, max_length=2)
    floor: Real = Field(0.0, ge=0, le=1)
    holdout: Real = Field(0.0, ge=0, le=1)
    default_reward: Real | None = None
    patience: Real | None = Field(None, ge=SHORTEST_PATIENCE, le=LONGEST_SECONDS, description="In seconds")
    attributes: dict[str, Literal["category"] | list[str] | list[Real]] = Field(
        {},
        max_length=MOST,
        json_schema_extra={"examples": [{"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]}]},
        description="What is known of players: any strings, these strings, or a number cut into bins",
    )
    player_limit: Whole = Field(PLAYER_LIMIT, ge=1, le=LARGEST, description="Retired players included")
    shares: ArmShares = {}
    control: Name | None = Field(None, description="The arm that the others are compared with")
    burn_in: Whole = Field(0, ge=0, le=LARGEST, description="The first so many decisions have equal shares")
    outcomes: dict[str, OutcomeBody] = Field({}, max_length=MOST_OUTCOMES, description="By name")
    description: Description = ""


class ChangeBody(Body):
    """What is to change in an experiment; all of it or nothing."""

    join: Players = []
    retire: Names = []
    add_arms: Names = []
    retire_arms: Names = []
    status: Status | None = None
    ship: Name | None = Field(None, description='The arm that every decision is from now on; with status "finished"')
    ship_for: Annotated[dict[Name, Name], Field(max_length=LARGEST_BATCH)] | None = Field(
        None, description="Other arms for some players"
    )
    description: Description | None = None
    knows_others: bool = True
    shares: ArmShares | None = Field(None, description="Replaces all limits; null leaves them as they are")


class ChoiceBody(Body):
    """What one or several players may choose from."""

    available: SomeNames | None = None
    idempotency_key: Key | None = Field(None, description="As the header Idempotency-Key")


class OneDecisionBody(ChoiceBody):
    """A decision for one player."""

    player: Name


class DecisionsBody(ChoiceBody):
    """Decisions for several players who act in the same round."""

    players: SomeNames


class CombinationBody(ChoiceBody):
    """A decision for the player that is a combination of attributes, or one for each of several.

    A combination that was not seen before joins.
    """

    attributes: Combination | Annotated[list[Combination], Field(min_length=1, max_length=LARGEST_BATCH)]


class RewardBody(Body):
    """The reward of a decision, or outcomes, or both."""

    decision: DecisionId
    reward: Real | None = Field(None, description="May be missing if there are outcomes")
    outcomes: dict[str, Real] = Field({}, max_length=MOST_OUTCOMES, description="What else came of it, by name")

    @pydantic.model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.reward is None and not self.outcomes:
            raise ValueError("neither a reward nor outcomes: expected one of them")
        return self


class RewardsBody(Body):
    """The rewards and outcomes of several decisions."""

    rewards: list[RewardBody] = Field(min_length=1, max_length=LARGEST_BATCH)


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


# ---------------------------------------------------------------- answers


class RosterEntry(BaseModel):
    """A player or an arm."""

    name: str
    here: bool = Field(description="False once it has retired")


class PlayerEntry(RosterEntry):
    """A player."""

    attributes: dict[str, str] = Field(description="As people read them, without those that are not known")


class PolicyAnswer(BaseModel):
    """A policy."""

    name: str = Field(json_schema_extra=lambda schema: schema.update(enum=list(_policies())))
    constants: dict[str, float | None]
    label: str


class ExperimentEntry(BaseModel):
    """An experiment in a list."""

    name: str
    policy: PolicyAnswer
    arms: list[RosterEntry]
    player_count: int = Field(description="Of all that are here")
    status: Status
    description: str
    ship: str | None = Field(description="The arm that every decision is since it is finished; null for none")
    horizon: int | None
    reward_range: list[float] = Field(min_length=2, max_length=2)
    floor: float
    holdout: float
    default_reward: float | None
    patience: float | None
    attributes: dict[str, str | list[str] | list[float]] = Field(description="What is known of players, as declared")
    player_limit: int
    shares: dict[str, list[float]] = Field(description="The least and the greatest share of arms, as they are now")
    control: str | None = Field(description="The arm that the others are compared with")
    burn_in: int = Field(description="How many decisions have equal shares at first")
    outcomes: dict[str, OutcomeBody] = Field(description="What else comes of decisions, as declared")
    rounds: int
    decisions: int
    rewards: int
    waiting: int = Field(description="Decisions that wait for a reward")
    created_at: float = Field(description="In seconds since 1970")


class ExperimentAnswer(ExperimentEntry):
    """An experiment as it stands."""

    ship_for: dict[str, str] = Field(description="Other arms for some players")
    players: list[RosterEntry] = Field(description=f"The first {LARGEST_BATCH:,}; the path …/players has all")


class ExperimentsAnswer(BaseModel):
    """Experiments that the token may see, by name."""

    experiments: list[ExperimentEntry]
    next: str | None = Field(description="Give it as `after` for the next experiments; null at the end")


class PlayersAnswer(BaseModel):
    """Players, retired ones too."""

    players: list[PlayerEntry]
    next: int | None = Field(description="Give it as `after` for the next players; null at the end")


class DecisionsAnswer(BaseModel):
    """Decisions, in the order of the players."""

    decisions: list[Decision] = Field(
        description="`id` is what to report the reward with, `propensity` the probability with which this arm was "
        "chosen, and `shared` how much the choice rests on other players' data, from 0 to 1"
    )


class OutcomesAnswer(BaseModel):
    """What became of each report, in order: taken, known (the same came before), conflict, unknown or invalid."""

    outcomes: list[RewardOutcome]
    taken: int = Field(description="How many were new, and count from now on")


class RecordsAnswer(BaseModel):
    """What became of rewards of the past."""

    taken: int


class ErasureAnswer(BaseModel):
    """The name that stands in place of the one erased."""

    player: str


class LogAnswer(BaseModel):
    """Rows of the log."""

    rows: list[AnyLogRow]
    next: int | None = Field(description="Give it as `after` for the next rows; null at the end")


class StateAnswer(BaseModel):
    """The numbers behind the decisions of some players, [player][arm]; null where nothing is known."""

    players: list[str]
    arms: list[str]
    pulls: list[list[int]]
    means: Table
    low: Table = Field(description="Lower ends of intervals for the means")
    high: Table = Field(description="Upper ends")
    centers: Table = Field(
        description="Of the indices, bonus included, for rewards mapped to [0, 1]; no estimates of means"
    )
    scales: Table
    shared: Table = Field(description="How much each index rests on other players' data, 0 to 1")
    probabilities: Table
    next: int | None = Field(description="Give it as `after` for the next players; null at the end")


class HealthAnswer(BaseModel):
    """That all is well."""

    status: Literal["alive", "ready"]
