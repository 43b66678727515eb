"""What the battery says: each family's regrets, ratios with their uncertainty, lock-ins, and the bars."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posse.checks import store
from posse.experiments.records import Records, check_records
from posse.experiments.spec.study import BLIND, KNOWS_GROUPS, Study
from posse.policies.base import all_policies
from posse.policies.labels import algorithm

CANDIDATE = "PosseTS"
ROBUST = "RobustAgg-TS"
LEVEL = 0.95
RESAMPLES = 2000
OTHER_LIMIT = 1.05  # times the best other policy
PAPER_FAMILIES, PAPER_MEAN = 10, 0.085  # so many, and how much of RobustAgg-TS's regret on average over them

PAPER, HELPS, LONG = "paper", "helps", "long"  # tags
EXPLAINED = {90: 0.65, 50: 0.9, 0: 1.03}  # how much attributes explain, in %, and the limit beside who is not told them
Verdict = Literal["won", "lost"]


@dataclass(frozen=True)
class Ratio:
    """A ratio of two policies' regrets with its 95 % interval, from resampling problems, both policies together."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 2 if self.value >= 0.2 else 3
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True)
class PolicyScore:
    """A policy in a family."""

    policy: str
    alone: bool  # whether each player learns from its own data alone
    mean: float  # mean final regret
    error: float  # its standard error, over problems
    tail: float  # the 99th percentile of final regret over runs
    worst: float  # the largest final regret of a run
    lock_ins: float  # players locked in on a bad arm at the end, a run


@dataclass(frozen=True)
class BatteryBar:
    """A limit that the candidate should keep in a family, and whether it did."""

    text: str
    rival: str  # what it is compared with, in words that are the same in all families
    against: str  # the policy that this is here
    limit: float
    ratio: Ratio
    verdict: Verdict = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        store(self, verdict="won" if self.ratio.value <= self.limit else "lost")

    @property
    def sure(self) -> bool:
        """Whether the whole interval is on the side of the verdict."""
        return self.ratio.high <= self.limit if self.verdict == "won" else self.ratio.low > self.limit

    @property
    def kind(self) -> str:
        """What the bar asks for, in words that are the same in all families."""
        return f"{self.text}: at most {self.limit:g} × {self.rival}"

    def __str__(self) -> str:
        doubt = "" if self.sure else " (unsure)"
        return f"{self.text}: {self.ratio} × {self.against}, limit {self.limit:g}{doubt}"


@dataclass(frozen=True)
class BatteryFamily:
    """A family's scores, best first, and bars."""

    name: str
    tags: tuple[str, ...]
    players: int
    arms: int
    horizon: int
    problems: int
    runs: int  # for each policy
    scores: tuple[PolicyScore, ...]
    to_alone: Ratio | None = None  # the candidate's mean regret to the best one's that shares nothing; None if missing
    to_other: Ratio | None = None  # the candidate's mean regret to that of the best other policy
    to_blind: Ratio | None = None  # the candidate's mean regret to its own where attributes are not told
    bars: tuple[BatteryBar, ...] = ()

    @property
    def half(self) -> str:
        """ "A" or "B", or nothing."""
        return next((tag for tag in self.tags if tag in ("A", "B")), "")

    def best(self, *, alone: bool = False) -> str | None:
        """The best policy besides the candidate, in any form, or the best that shares nothing."""
        others = (score for score in self.scores if not score.policy.startswith(CANDIDATE))
        return next((score.policy for score in others if score.alone or not alone), None)


def score(records: Records, studies: Iterable[Study]) -> list[BatteryFamily]:
    """Every family's scores and bars, in the order of the spec; families without records are left out."""
    check_records("records", records)
    there = set(records.distinct("study"))
    return [_family(records.where(study=study.name), study) for study in studies if study.name in there]


def _family(records: Records, study: Study) -> BatteryFamily:
    labels = records.distinct("policy")
    algorithms = Counter(map(algorithm, labels))
    # Constants differ between families, so a name has none, unless it would be that of two policies.
    names: dict[str, str] = {
        label: algorithm(label) if algorithms[algorithm(label)] == 1 else label for label in labels
    }
    regrets, locks = (
        {names[label]: _table(part, column) for (label,), part in records.groups("policy").items()}
        for column in ("final_regret", "lock_ins")
    )
    shares = {cls.name or cls.__name__: cls.shares for cls in all_policies()}
    shares |= {algorithm(choice.label): choice.policy.shares for choice in study.policies if choice.label}
    scores = [
        PolicyScore(
            policy,
            not shares.get(algorithm(policy), True),
            float(table.mean()),
            float(table.mean(axis=1).std(ddof=1) / math.sqrt(len(table))) if len(table) > 1 else math.nan,
            float(np.quantile(table, 0.99)),
            float(table.max()),
            float(locks[policy].mean()),
        )
        for policy, table in regrets.items()
    ]
    players, arms, horizon = (int(records[column][0]) for column in ("players", "arms", "horizon"))
    runs = next(iter(regrets.values()))
    ranked = tuple(sorted(scores, key=lambda each: each.mean))
    family = BatteryFamily(study.name, study.tags, players, arms, horizon, len(runs), runs.size, ranked)
    alone, other = family.best(alone=True), family.best()
    if CANDIDATE not in regrets or other is None:
        return family
    bars = []
    against: str | None
    for tag, text, rival, against, limit, tables in (
        (None, "mean", "the best other", other, OTHER_LIMIT, regrets),
        (None, "mean", KNOWS_GROUPS, KNOWS_GROUPS, 1.5, regrets),
        (PAPER, "mean, paper's family", ROBUST, ROBUST, 0.14, regrets),
        (HELPS, "mean, sharing helps", "the best alone", alone, 0.5, regrets),
        *(
            (f"explained-{share}", f"mean, attributes explain {share} %", BLIND, BLIND, limit, regrets)
            for share, limit in EXPLAINED.items()
        ),
        (LONG, "lock-ins", "the best alone", alone, 1.0, locks),
    ):
        if against in tables and tag in (None, *family.tags):
            bars.append(BatteryBar(text, rival, against, limit, ratio(tables[CANDIDATE], tables[against])))
    own = regrets[CANDIDATE]
    for text, limit, quantile in (("99th percentile", 3.0, 0.99), ("worst run", 10.0, 1.0)):
        bars.append(BatteryBar(text, "its mean", "its mean", limit, ratio(own, own, quantile)))
    to_alone = None if alone is None else ratio(regrets[CANDIDATE], regrets[alone])
    to_other = ratio(regrets[CANDIDATE], regrets[other])
    to_blind = ratio(regrets[CANDIDATE], regrets[BLIND]) if BLIND in regrets else None
    return dataclasses.replace(family, to_alone=to_alone, to_other=to_other, to_blind=to_blind, bars=tuple(bars))


def _table(records: Records, column: str) -> np.ndarray:
    """A column as [problem, replication]."""
    order = np.lexsort((records["replication"], records["problem"]))
    return records[column][order].astype(float).reshape(len(set(records["problem"].tolist())), -1)


def paper_mean(families: Iterable[BatteryFamily]) -> BatteryBar | None:
    """The bar on the mean of the paper's ten ratios to RobustAgg-TS; None unless all ten are there.

    Families are independent, so the interval's squared distances from the mean add up.
    """
    found = [bar.ratio for family in families for bar in family.bars if bar.rival == ROBUST]
    if len(found) != PAPER_FAMILIES:
        return None
    mean = sum(each.value for each in found) / len(found)
    below = math.hypot(*(each.value - each.low for each in found)) / len(found)
    above = math.hypot(*(each.high - each.value for each in found)) / len(found)
    return BatteryBar("mean of the paper's ten", ROBUST, ROBUST, PAPER_MEAN, Ratio(mean, mean - below, mean + above))


def ratio(own: np.ndarray, other: np.ndarray, quantile: float | None = None) -> Ratio:
    """The ratio of a policy's mean, or of a quantile of its runs, to the mean of another, with a bootstrap interval.

    Both are [problem, replication]. Problems are resampled, the same for both, so that what makes a problem hard
    cancels. The ratio 0/0 counts as 1.
    """

    def ratios(own: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Of tables [sample, problem, replication]."""
        above = own.mean(axis=(1, 2)) if quantile is None else np.quantile(own.reshape(len(own), -1), quantile, axis=1)
        return quotient(above, other.mean(axis=(1, 2)))

    value = float(ratios(own[None], other[None])[0])
    if len(own) == 1:
        return Ratio(value, 0.0, math.inf)
    draws = np.random.default_rng(0).integers(len(own), size=(RESAMPLES, len(own)))
    found = ratios(own[draws], other[draws])
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
    return Ratio(value, float(low), float(high))


def quotient(above: np.ndarray | float, below: np.ndarray | float) -> np.ndarray:
    """A ratio that is 1 for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == below, 1.0, np.divide(above, below))


def three_digits(value: float) -> str:
    """A number with about three digits.

    >>> three_digits(1234.5), three_digits(0.01234)
    ('1,234', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 or not math.isfinite(value) else f"{value:.3g}"
