"""What the longer answers say: the rows of a log, a diagnosis, and a conclusion."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from posse.insight.conclusion.api import ArmSummary, PlayerSummary

Table = list[list[float | None]]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


# ---------------------------------------------------------------- rows of the log


class LogRow(BaseModel):
    """What all rows of the log have in common."""

    event: int = Field(description="The row's number in the log")


class LogAnyChange(LogRow):
    """What rows about changes have in common."""

    observed_at: float = Field(description="In seconds since 1970")


class LogPull(LogRow):
    """What rows about a player and an arm have in common."""

    round: int = Field(description="Of the decision, or of the records")
    player: str
    arm: str


class LogDecision(LogPull):
    """An arm was chosen for a player."""

    kind: Literal["decision"]
    decision: str
    propensity: float
    holdout: bool
    shared: float
    decided_at: float = Field(description="In seconds since 1970")


class LogObservation(LogPull):
    """What rows about rewards have in common."""

    reward: float
    observed: int = Field(description="The number of the event; rewards of one event came together")
    defaulted: bool = Field(description="Whether nothing came in time, and the default was taken")
    observed_at: float = Field(description="In seconds since 1970")


class LogReward(LogObservation):
    """The reward of a decision was observed."""

    kind: Literal["reward"]
    decision: str


class LogOutcome(LogPull):
    """The value of an outcome was observed."""

    kind: Literal["outcome"]
    decision: str
    outcome: str
    value: float
    observed_at: float = Field(description="In seconds since 1970")


class LogRecord(LogObservation):
    """A reward of the past was recorded, which the service did not decide."""

    kind: Literal["record"]
    decision: None


class LogChange(LogAnyChange):
    """The experiment's status changed, an import counted rounds, or everything beside the log was made anew."""

    kind: Literal["pause", "resume", "archive", "restore", "rounds", "rebuild"]


class LogFinish(LogAnyChange):
    """The experiment was finished, and may ship an arm from now on."""

    kind: Literal["finish"]
    ship: str | None = Field(description="The arm that every decision is from now on; null for no decisions")
    ship_for: dict[str, str] = Field(description="Other arms for some players")


class LogDescription(LogAnyChange):
    """The experiment was described."""

    kind: Literal["describe"]
    description: str


class LogPlayerChange(LogAnyChange):
    """A player joined, retired, or had its name erased."""

    kind: Literal["join", "retire", "erase"]
    player: str


class LogArmChange(LogAnyChange):
    """An arm was added or retired."""

    kind: Literal["add arm", "retire arm"]
    arm: str


class LogAlarm(LogAnyChange):
    """An arm was shown to cross the bound of an outcome."""

    kind: Literal["alarm"]
    arm: str
    outcome: str


class LogSharesChange(LogAnyChange):
    """The limits on arms' shares were replaced."""

    kind: Literal["shares"]
    shares: dict[str, list[float]] = Field(description="The least and the greatest share, by arm")


AnyLogRow = Annotated[
    LogDecision
    | LogReward
    | LogOutcome
    | LogAlarm
    | LogRecord
    | LogPlayerChange
    | LogArmChange
    | LogSharesChange
    | LogChange
    | LogFinish
    | LogDescription,
    Field(discriminator="kind"),
]


# ---------------------------------------------------------------- a diagnosis


class EstimateAnswer(BaseModel):
    """An estimate, and the ends of its interval."""

    value: float | None
    low: float | None
    high: float | None


class DifferenceAnswer(EstimateAnswer):
    """An estimate of how far players differ, and the test whether they do."""

    p: float | None = Field(description="The p-value of the hypothesis that they do not")


class EstimatesAnswer(BaseModel):
    """An estimate for each arm or player."""

    value: list[float | None]
    low: list[float | None]
    high: list[float | None]


class AttributeValueAnswer(BaseModel):
    """What goes for players with a value of an attribute."""

    players: int
    best: str = Field(description="The best arm")
    second: str = Field(description="The second best")
    lead: EstimateAnswer = Field(description="How far the best is ahead")


class AttributeAnswer(BaseModel):
    """What an attribute explains of how players differ, as shares from 0 to 1."""

    contrasts: EstimateAnswer | None = Field(description="Of what the arms do for them")
    levels: EstimateAnswer = Field(description="Of their levels")
    values: dict[str, AttributeValueAnswer]


class DiagnosisResult(BaseModel):
    """How players differ, and whether ε is right. Tables are [player][arm]; null is what is not known.

    The last fields, from `difference_p` on, are missing until two players have rewards that can be compared.
    """

    schema_: Literal[2] = Field(alias="schema", description="The version of this form")
    kind: Literal["diagnosis"]
    players: list[str]
    arms: list[str]
    pulls: list[list[int]] = Field(description="Those whose reward is known")
    means: Table
    lower: Table = Field(description="Lower ends of the intervals for the means")
    upper: Table = Field(description="Upper ends")
    bounds: list[float] = Field(description="For each arm the least by which some two players differ; 0 if none do")
    pairs: list[Pair | None] = Field(description="For each arm the two players that the bound is about")
    low: float = Field(description="The least possible reward")
    high: float = Field(description="The greatest possible reward")
    epsilon: float | None = Field(description="The ε in question; null if the policy has none")
    level: float = Field(description="The probability of ever raising a false alarm is at most this")
    shared: list[float | None] | None = Field(description="How much each player's decisions rest on others' data")
    decisions: int | None = Field(description="Null: the service diagnoses from counts")
    missing: int | None = Field(description="Null, likewise")
    alarm: bool = Field(description="Whether ε is provably too small")
    broken: list[str] = Field(description="The arms on which players provably differ by more than ε, the worst first")
    bound: float = Field(description="The largest of `bounds`")
    verdict: str = Field(description="All of it in one line")
    notes: list[str] = Field(description="What is left out because a default reward is taken")
    costs: None = Field(description="Null: `posse diagnose --costs` simulates them")
    difference_p: float | None = Field(None, description="The p-value of the hypothesis that players do not differ")
    levels: DifferenceAnswer | None = Field(None, description="Standard deviation between players of their levels")
    contrasts: DifferenceAnswer | None = Field(None, description="The same of what an arm does beyond the level")
    odds_deviation: EstimateAnswer | None = Field(None, description="The same on the logit scale: τ")
    i_squared: float | None = Field(None, description="How much of the variation of contrasts is true, not noise: I²")
    spread: EstimateAnswer | None = Field(
        None, description="What 95 % of the pairs of players stay within, on the arm where they differ most"
    )
    spreads: EstimatesAnswer | None = Field(None, description="The same for each arm")
    compared: Pair | None = Field(None, description="The best arm and another, which the effects are about")
    effect: EstimateAnswer | None = Field(None, description="How much better the first is, on average over players")
    effect_by_traffic: EstimateAnswer | None = Field(None, description="The same on average over rewards")
    effects: EstimatesAnswer | None = Field(None, description="The same for each player")
    effect_chances: list[float] | None = Field(None, description="The chance that the first is better for each player")
    attributes: dict[str, AttributeAnswer] | None = Field(None, description="What each attribute explains")


# ---------------------------------------------------------------- a conclusion


class ArmDifferenceAnswer(EstimateAnswer):
    """By how much the leader is better than another arm, with an interval that holds at every look."""

    against: str


class BestChancesAnswer(BaseModel):
    """What the model of the players says; tables are [player][arm], losses are per decision."""

    chances: Table = Field(description="The chance that an arm is the player's best")
    overall: list[float] = Field(description="For each arm the chance that it is best on average over all decisions")
    means: list[float] = Field(description="The mean reward of each arm on average over all decisions")
    others: Table = Field(description="The weight of other players' data in what is known of the mean, from 0 to 1")
    one_loss: list[float] = Field(description="What shipping each arm for everybody loses against every player's best")
    own_loss: float = Field(description="The same if each player gets the arm with its highest expected reward")
    going_loss: float = Field(description="The same if decisions go on with the present probabilities")


class ConclusionResult(BaseModel):
    """Whether an experiment can end: which arm to ship for whom, and what stopping or going on costs."""

    schema_: Literal[1] = Field(alias="schema", description="The version of this form")
    kind: Literal["conclusion"]
    verdict: str = Field(description="What to do, in a sentence or two")
    level: float = Field(description="The largest probability that the verdict ever says to ship a wrong arm")
    tolerance: float = Field(description="By how much the arm to ship may be worse than another, in rewards")
    decisions: int
    answers: int = Field(description="How many decisions have a reward, and probabilities")
    arms: list[ArmSummary]
    players: list[PlayerSummary]
    winner: str | None = Field(description="The arm that is shown to be the best for everybody")
    since: int = Field(description="After how many rewards it was shown; 0 if none is")
    leader: str = Field(description="The winner, or else the arm that is most likely the best for everybody")
    differences: list[ArmDifferenceAnswer] = Field(description="The leader against every other arm on offer")
    ship_loss: float = Field(description="What shipping the leader for everybody loses a decision, by the model")
    own_loss: float = Field(description="The same if each player gets the arm with its highest expected reward")
    going_loss: float = Field(description="The same if decisions go on with the present probabilities")
    best: BestChancesAnswer
    alone: int = Field(description="Players that have no evidence of their own, because memory is bounded")
    alarms: list[Pair] = Field(description="Outcomes whose bounds are broken, each with the arm")
    notes: list[str] = Field(description="What is left out because a default reward is taken")
    doubts: list[str] = Field(description="Alarms of the checks, in words: then nothing can be concluded")
    digest: str = Field(description="The digest of the log's last row")
