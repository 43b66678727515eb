"""Insight: what theory says of a problem, beside what is measured on it."""

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

__all__ = [
    "Bound",
    "individual_gap_dependent",
    "individual_gap_independent",
    "lower_bound_gap_dependent",
    "lower_bound_gap_independent",
    "robustagg_gap_dependent",
    "robustagg_gap_independent",
    "robustagg_ts_gap_dependent",
    "robustagg_ts_gap_independent",
]
