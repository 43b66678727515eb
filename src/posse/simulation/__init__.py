"""The simulator: policies on problems, exactly and fast."""

from posse.simulation.feedback import Feedback
from posse.simulation.result import Result
from posse.simulation.simulate import simulate
from posse.simulation.statistics import Difference
from posse.simulation.trace import Trace, trace

__all__ = ["Difference", "Feedback", "Result", "Trace", "simulate", "trace"]
