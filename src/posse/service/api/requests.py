"""What requests say, with strict limits: whatever is not expected is refused before anything is done."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

import posse.policies
from posse.learner.setup import LONGEST_NAME, check_name, check_names
from posse.policies import Policy
from posse.service.process.settings import LARGEST_BATCH
from posse.service.storage.transaction import check_experiment_name

POLICIES: dict[str, type[Policy]] = {
    name: found
    for name in posse.policies.__all__
    if isinstance(found := getattr(posse.policies, name), type) and issubclass(found, Policy) and found is not Policy
}
LARGEST = 2**63 - 1
LONGEST_ID = 40


def _whole(value: Any) -> Any:
    """2.0 is a whole number in JSON, whose numbers have no types."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unique(names: list[str]) -> list[str]:
    return check_names("name", names)


_TEXT = Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"format": "printable"})
Name = Annotated[str, _TEXT, AfterValidator(lambda name: check_name("name", name))]
ExperimentName = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"format": "segment"}),
    AfterValidator(check_experiment_name),
]
Names = Annotated[
    list[Name],
    Field(max_length=LARGEST_BATCH, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_unique),
]
SomeNames = Annotated[Names, Field(min_length=1)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole)]
Key = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[!-~]+$")]
DecisionId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, examples=["17-0badcafe"])]


class Body(BaseModel):
    """What all bodies have in common: nothing is converted, and nothing unknown is let through."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PolicyBody(Body):
    """A policy, with its constants."""

    name: str
    constants: Body = Body()

    def made(self) -> Policy:
        """The policy itself."""
        return POLICIES[self.name](**self.constants.model_dump())


def _policy_body(name: str, kind: type[Policy]) -> type[PolicyBody]:
    """The body for one kind of policy, which has the constants that this kind has."""
    constants: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in kind.constant_names():
            required = field.default is dataclasses.MISSING
            constants[field.name] = (
                Real if field.default is not None else Real | None,
                ... if required else field.default,
            )
    made = create_model(f"{name}Constants", __base__=Body, **constants)
    required = any(default is ... for _, default in constants.values())
    fields: dict[str, Any] = {"name": (Literal[name], ...), "constants": (made, ... if required else made())}
    return create_model(name, __base__=PolicyBody, **fields)


if TYPE_CHECKING:
    AnyPolicyBody = PolicyBody
else:
    AnyPolicyBody = Annotated[
        Union[tuple(_policy_body(name, kind) for name, kind in POLICIES.items())],  # noqa: UP007
        Field(discriminator="name"),
    ]


class ExperimentBody(Body):
    """An experiment to be created."""

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
