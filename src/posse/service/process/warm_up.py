"""Imported by the process that workers are forked from: a decision and a reward, so that the compiler is there already.

What a first decision costs a new process, a second or two, a worker that takes the place of another is spared.
"""

from posse.learner import Learner
from posse.policies.posse_ts import PosseTS

_learner = Learner(PosseTS(), arms=["one", "other"], players=["somebody"])
_learner.observe(_learner.choose("somebody").id, 1.0)
