"""The online learner: choose, observe, trust."""

from posse.learner.counts import Counts
from posse.learner.learner import ConflictingReward, Learner
from posse.learner.ledger import UnknownDecision
from posse.learner.snapshot import SnapshotError
from posse.learner.state import Decision

__all__ = ["ConflictingReward", "Counts", "Decision", "Learner", "SnapshotError", "UnknownDecision"]
