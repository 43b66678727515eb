"""A whole log as blocks of decisions: in the order in which they were made, and in which their rewards came."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.insight.logs import Log, read_log, takes_default
from posse.insight.watching.evidence import DecisionBlock
from posse.learner.shares import equal_shares

_COLUMNS = ("propensity", "observed", "decision", "round", "probabilities", "outcomes")


@dataclass(frozen=True, eq=False)
class LogBlocks:
    """The decisions of a learner's log whose probabilities are known."""

    log: Log  # all rows of the log, in its order
    choices: DecisionBlock  # in the order in which they were made
    answers: DecisionBlock
    """Those with rewards, in the order in which the rewards came; see `WatchEvidence.add_answers`."""
    unknown: int  # decisions without probabilities, from an older posse


def log_blocks(source: Any) -> LogBlocks:
    """Read a learner's log: a Parquet file, an Arrow table, or a learner."""
    log = read_log(source, also=_COLUMNS)
    if log.probabilities is None or log.is_decision is None or log.observed is None or log.rounds is None:
        raise ValueError(
            "the log does not say how likely every arm was in each decision: expected a learner's log with the column "
            "'probabilities', as learner.log() and posse db export write it, in Parquet"
        )
    known = log.is_decision & ~np.isnan(log.probabilities).any(axis=1)
    if not known.any():
        raise ValueError("no decision of the log has probabilities: an older posse wrote it, or it has no decision")
    chances, setup = log.probabilities[known], log.about.get("setup", {})
    low, high = log.about["reward_range"]
    reward = (log.reward[known] - low) / (high - low)
    limited = setup.get("shares") or any(each["kind"] == "shares" for each in log.about.get("changes", ()))
    equal = equal_shares(log.about, log.rounds[known], chances > 0) if setup.get("holdout") and limited else None
    choices = DecisionBlock(log.player[known], log.arm[known], chances, reward, equal)
    answered = np.flatnonzero(~np.isnan(reward))
    if not takes_default(setup):  # else the order is that of the decisions, up to the first that waits
        answered = answered[np.argsort(log.observed[known][answered], kind="stable")]
    return LogBlocks(log, choices, choices.taken(answered), int((log.is_decision & ~known).sum()))
