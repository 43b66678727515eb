"""How a learner is set up, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from posse.attributes import LONGEST_NAME, Attributes
from posse.checks import number, store, value_range, whole
from posse.learner.ledger import COLUMNS
from posse.learner.shares import Shares, check_shares
from posse.outcomes import Outcome, declared
from posse.policies.base import OwnLabel, Policy, all_policies
from posse.streams import check_seed

Name = str | int
"""A player or an arm, as users name it."""
PLAYER_LIMIT = 100_000
UNLIMITED = 10**15  # of files from before there was a limit
LATER = ("attributes", "outcomes", "shares", "control", "burn_in")
TAKEN = (*COLUMNS, "id")  # names that no outcome may have: a data frame of reports may call a decision `id`


@dataclass(frozen=True)
class Setup:
    """All that is fixed for a learner's life. The fields are explained where users meet them, in `Learner`."""

    policy: Policy
    horizon: int | None
    seed: int
    low: float
    high: float
    floor: float
    holdout: float
    default_reward: float | None
    patience: float | None
    waiting_limit: int
    keep_log: bool
    attributes: Attributes = field(default_factory=Attributes)
    player_limit: int = PLAYER_LIMIT
    outcomes: Mapping[str, Outcome] = field(default_factory=dict, hash=False)
    shares: Shares = field(default_factory=dict, hash=False)  # at the start; they may be changed
    control: str | None = None
    burn_in: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise TypeError(f"policy={self.policy!r}, but expected a policy such as posse.PosseTS()")
        low, high = value_range("reward_range", (self.low, self.high), "reward")
        if (self.default_reward is None) != (self.patience is None):
            given = f"default_reward={self.default_reward!r} and patience={self.patience!r}"
            expected = "both or neither: the reward to take, and after how many seconds"
            raise ValueError(f"{given}, but expected {expected}")
        if not isinstance(self.keep_log, bool):
            raise TypeError(f"keep_log={self.keep_log!r}, but expected True or False")
        outcomes = declared(self.outcomes)
        for kind, names, taken in (("attribute", self.attributes.kinds, COLUMNS), ("outcome", outcomes, TAKEN)):
            for name in names:
                if name in taken or (kind == "outcome" and name in self.attributes.kinds):
                    raise ValueError(f"{kind} {name!r} has the name of a column of the log; call it something else")
        self.policy.for_rewards(low, high)
        store(
            self,
            horizon=None if self.horizon is None else whole("horizon", self.horizon, least=1),
            seed=check_seed(self.seed),
            low=low,
            high=high,
            floor=number("floor", self.floor, least=0, most=1),
            holdout=number("holdout", self.holdout, least=0, most=1),
            waiting_limit=whole("waiting_limit", self.waiting_limit, least=1),
            player_limit=whole("player_limit", self.player_limit, least=1),
            outcomes=outcomes,
            shares=check_shares(self.shares),
            burn_in=whole("burn_in", self.burn_in, least=0),
        )
        if self.default_reward is not None:
            default = number("default_reward", self.default_reward, least=low, most=high)
            store(self, default_reward=default, patience=number("patience in seconds", self.patience, above=0))

    def check_reward(self, name: str, reward: Any) -> float:
        """A reward as a float in the range that was declared."""
        return number(name, reward, least=self.low, most=self.high) + 0.0  # −0 becomes 0

    def check_outcome(self, decision: str, name: Any, value: Any) -> tuple[int, float]:
        """The place of an outcome, and its value as a float in the range that was declared."""
        if name not in self.outcomes:
            raise ValueError(f"outcome {name!r:.60} was not declared; declared: {', '.join(self.outcomes) or 'none'}")
        low, high = self.outcomes[name].range
        checked = number(f"{name} of decision {decision}", value, least=low, most=high)
        return list(self.outcomes).index(name), checked

    def check_players(self, players: int) -> None:
        """Check that there may be so many players."""
        if players > self.player_limit:
            raise ValueError(f"{players:,} players, but player_limit={self.player_limit:,}, retired ones included")

    def to_dict(self) -> dict[str, Any]:
        """The set-up as plain values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in LATER:  # where they are not used, files are as they were before
            if not plain[name]:
                del plain[name]
        if self.attributes:  # as pairs: the order matters, and JSON is written in the order of keys
            plain["attributes"] = [list(pair) for pair in self.attributes.to_dict().items()]
        if self.outcomes:
            plain["outcomes"] = [[name, outcome.to_dict()] for name, outcome in self.outcomes.items()]
        plain["policy"] = {
            "name": type(self.policy).__name__,
            "module": _module(type(self.policy)),
            "constants": self.policy.arguments(),
            "label": None if isinstance(self.policy.label, OwnLabel) else self.policy.label,
        }
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Setup:
        """The set-up from plain values."""
        policy = plain["policy"]
        known = {(_module(found), found.__name__): found for found in all_policies()}
        wanted = (policy["module"], policy["name"])
        if wanted not in known:
            name = ".".join(wanted)
            raise ValueError(f"the policy {name} is not known here; import the module that defines it first")
        made = known[wanted](**policy["constants"], label=policy["label"] or "")
        made_of = {"policy": made, "attributes": Attributes(dict(plain.get("attributes", ())))}
        made_of["outcomes"] = dict(plain.get("outcomes", ()))
        return cls(**{"player_limit": UNLIMITED, **plain, **made_of})


def _module(policy: type[Policy]) -> str:
    """Where a policy is defined; posse's own are all in one place, whatever their file."""
    return "posse" if policy.__module__.startswith("posse.policies.") else policy.__module__


def check_names(kind: str, names: Any) -> list[str]:
    """The names of arms or players, each a printable string of its own."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"{kind}s={names!r}, but expected names, such as ['first', 'second']")
    checked = [check_name(kind, name) for name in names]
    repeated = {name for name in checked if checked.count(name) > 1} if len(set(checked)) < len(checked) else set()
    if repeated:
        raise ValueError(f"{kind} {min(repeated)!r} is named twice")
    return checked


def check_name(kind: str, name: Any) -> str:
    """One name. A whole number that names a player or an arm becomes a string."""
    if not isinstance(name, str):
        if kind not in ("player", "arm") or not isinstance(name, (int, np.integer)) or isinstance(name, bool):
            raise TypeError(f"{kind}={name!r}, but a name is a string")
        name = str(name)
    if not (name.strip() and len(name) <= LONGEST_NAME and name.isprintable()):
        shown = name if len(name) <= LONGEST_NAME else name[:30] + "…"
        raise ValueError(f"{kind}={shown!r}, but a name has 1 to {LONGEST_NAME} printable characters")
    return str(name)
