"""What theory says about a problem, whether ε is right, what other policies would have earned, what to expect."""

from posse.insight.columns import Columns
from posse.insight.conclusion.api import Conclusion, conclude
from posse.insight.diagnosis.api import Diagnosis, diagnose
from posse.insight.evaluation.api import Evaluation, evaluate
from posse.insight.evaluation.model import Estimate
from posse.insight.evaluation.targets import FixedPolicy
from posse.insight.planning.api import Plan, plan
from posse.insight.theory import (
    Bound,
    individual_gap_dependent,
    individual_gap_independent,
    lower_bound_gap_dependent,
    lower_bound_gap_independent,
    robustagg_gap_dependent,
    robustagg_gap_independent,
    robustagg_ts_gap_dependent,
    robustagg_ts_gap_independent,
)
from posse.insight.watching.api import Watch, watch

__all__ = [
    "Bound",
    "Columns",
    "Conclusion",
    "Diagnosis",
    "Estimate",
    "Evaluation",
    "FixedPolicy",
    "Plan",
    "Watch",
    "conclude",
    "diagnose",
    "evaluate",
    "individual_gap_dependent",
    "individual_gap_independent",
    "lower_bound_gap_dependent",
    "lower_bound_gap_independent",
    "plan",
    "robustagg_gap_dependent",
    "robustagg_gap_independent",
    "robustagg_ts_gap_dependent",
    "robustagg_ts_gap_independent",
    "watch",
]
