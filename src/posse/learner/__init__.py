"""The online learner: choose, observe, trust."""

from posse.learner.counts import Counts

__all__ = ["Counts"]
