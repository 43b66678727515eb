"""Imported by the process that workers are forked from: makes a decision, so that everything is compiled already.

A worker that replaces another then answers its first request without the second or two that a new process needs.
"""

from posse.learner import Learner
from posse.policies.posse_ts import PosseTS

_learner = Learner(PosseTS(), arms=["one", "other"], players=["somebody"])
_learner.observe(_learner.choose("somebody").id, 1.0)
