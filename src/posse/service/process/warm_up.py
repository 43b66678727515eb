"""Imported by the process that workers are forked from: makes a decision, so that everything is compiled already.

The first decision of a new process takes a second or two. A worker that is forked after it answers at once.
"""

from posse.learner import Learner
from posse.policies.posse_ts import PosseTS

_learner = Learner(PosseTS(), arms=["one", "other"], players=["somebody"])
_learner.observe(_learner.choose("somebody").id, 1.0)
