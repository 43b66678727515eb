"""What diagnosis and planning start from: counts, and the model of the players fitted to them."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posse.insight.columns import Columns
from posse.insight.hierarchy.model import PlayerModel, fit
from posse.insight.hierarchy.shares import AttributeShares, attribute_shares
from posse.insight.logs import Log, read_log, with_attributes, with_range
from posse.learner import Counts

NO_LOG = (
    "A reward that is reported counts at once, the default reward only when a decision's patience is over. There is no "
    "log, so the newest rewards cannot be left out: while decisions wait, means mislead."
)
FORGETS = (
    "The policy forgets old rewards, and there is no log of them: this is about what is left, and no interval or alarm "
    "is guaranteed at more than one look."
)


@dataclass(frozen=True, eq=False)
class PlayerData:
    """Counts from a learner or a log. Two answers that start from the same source rest on the same model."""

    counts: Counts
    log: Log | None = None
    """The log that they come from; None if they do not come from one."""
    shared: np.ndarray | None = None
    """How much each player's next decision rests on others' data, where a learner says so, [player]."""
    notes: tuple[str, ...] = ()
    """What is left out because a default reward is taken, or forgotten."""

    @classmethod
    def read(
        cls, source: Any, columns: Columns, reward_range: Any, attributes: str | Iterable[str] | None = None
    ) -> "PlayerData":
        """Read counts, anything that has counts such as a learner, or a log in any form that `read_log` takes."""
        if isinstance(source, PlayerData):
            return source if attributes is None else replace(source, counts=with_attributes(source.counts, attributes))
        setup = getattr(source, "setup", None)
        default = getattr(setup, "default_reward", None) is not None
        forgets = getattr(getattr(setup, "policy", None), "forget", None) is not None
        by_log = (default or forgets) and getattr(setup, "keep_log", False)  # which then has more than the counts
        given = isinstance(source, Counts)
        if given or (callable(getattr(source, "counts", None)) and not by_log):
            weights = getattr(source, "shared_weights", None)
            shared = None if weights is None else np.asarray(weights())
            counts = with_attributes(with_range(source if given else source.counts(), reward_range), attributes)
            return cls(counts, shared=shared, notes=(NO_LOG,) * default + (FORGETS,) * forgets)
        how: dict[str, Any] = {"attributes": attributes, "in_order": True, "reward_range": reward_range}
        log = read_log(source, columns, also=("shared", "decision"), **how)
        return cls(with_attributes(log.counts(), attributes), log, notes=tuple(log.left_out()))

    @functools.cached_property
    def model(self) -> PlayerModel:
        """The model of the players."""
        return fit(self.counts)

    @functools.cached_property
    def shares(self) -> AttributeShares | None:
        """What each attribute explains; None if players have none, or nobody can be compared."""
        if not self.counts.attributes or not self.model.comparable:
            return None
        return attribute_shares(self.counts, self.model)
