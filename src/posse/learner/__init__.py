"""The online learner: choose, observe, trust."""

from posse.decision import ConflictingReward, Decision, UnknownDecision
from posse.learner.counts import Counts
from posse.learner.learner import Learner
from posse.learner.snapshot import SnapshotError

__all__ = ["ConflictingReward", "Counts", "Decision", "Learner", "SnapshotError", "UnknownDecision"]
