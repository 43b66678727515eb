"""Figures: records in, matplotlib figures out. An algorithm has one colour, line, marker and hatch in all of them.

Curves and bars are means over problems, each averaged over its replications (over replications where there is one
problem); bands and whiskers are one standard deviation.
"""

from posse.experiments.figures.gallery import SECTIONS, Entry, catalogue, save_all, to_bytes
from posse.experiments.figures.paper import (
    comparison_with_v,
    figure_1,
    overview_pulls,
    overview_regret,
    overview_regret_by_kind,
    overview_with_v,
    pulls,
    regret,
    regret_by_kind,
)
from posse.experiments.figures.studies import participation, regret_by_players, study_sheet
from posse.experiments.figures.style import LOOKS, Look, family, looks
from posse.experiments.figures.summary import SETTING, describe, mean_and_deviation, schedule_words, settings, units
from posse.experiments.figures.theory import (
    Bound,
    Bounds,
    theory_bounds,
    theory_over_players,
    theory_over_subpar,
    theory_over_time,
)

__all__ = [
    "LOOKS",
    "SECTIONS",
    "SETTING",
    "Bound",
    "Bounds",
    "Entry",
    "Look",
    "catalogue",
    "comparison_with_v",
    "describe",
    "family",
    "figure_1",
    "looks",
    "mean_and_deviation",
    "overview_pulls",
    "overview_regret",
    "overview_regret_by_kind",
    "overview_with_v",
    "participation",
    "pulls",
    "regret",
    "regret_by_kind",
    "regret_by_players",
    "save_all",
    "schedule_words",
    "settings",
    "study_sheet",
    "theory_bounds",
    "theory_over_players",
    "theory_over_subpar",
    "theory_over_time",
    "to_bytes",
    "units",
]
