"""A whole log as blocks of decisions: in the order in which they were made, and in which their rewards came."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posse.insight.columns import EMPIRICAL, Columns, Source
from posse.insight.logs import Log, fixed_shares, read_log, takes_default
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


def log_blocks(source: Any, columns: Columns = Columns(), reward_range: Any = None) -> LogBlocks:
    """Read a learner's log: a Parquet file, an Arrow table, or a learner. Or any log whose arms had fixed shares."""
    log = read_log(source, columns, also=_COLUMNS, reward_range=reward_range)
    if "setup" not in log.about:
        log = _with_fixed_shares(log, source, given=columns.propensity != EMPIRICAL)
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


def _with_fixed_shares(log: Log, source: Any, given: bool) -> Log:
    """A log from elsewhere whose arms had the same probabilities throughout, as a learner's.

    They must be `given`: those that are counted in the log itself are not what was planned.
    """
    each, arms = fixed_shares(log.design()) if given else None, len(log.arms)
    if each is None or log.propensity is None:
        if "probabilities" in Source(source).names:
            raise ValueError(
                "the log has the column 'probabilities', but not what its learner wrote about itself, which is in the "
                "metadata of the table: data frames and CSV files lose it. Pass learner.log() itself, or in Parquet"
            )
        raise ValueError(
            "the log does not say how likely every arm was in each decision: expected a learner's log, as "
            "learner.log() and posse db export write it, in Parquet; or propensities that are the same throughout for "
            "a player and an arm, and add up to 1 over the arms. If all arms were equally likely throughout, say so: "
            f"--propensity 1/{arms} (propensity='1/{arms}'), because the log has {arms} arms"
        )
    each = each / each.sum(axis=1, keepdims=True)
    low, high = log.about["reward_range"]
    setup = {"policy": {"name": "fixed shares"}, "holdout": 1.0, "floor": 0.0, "low": low, "high": high}
    about = {"setup": setup, "arms": list(log.arms), "first": {"arms": list(log.arms)}, "changes": [], **log.about}
    rows, drawn = np.arange(log.arm.size), ~np.isnan(log.propensity)
    return replace(
        log, about=about, probabilities=each[log.player], is_decision=drawn, observed=rows + 1.0, rounds=rows
    )
