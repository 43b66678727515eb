"""The palette, and the settings of matplotlib that all of posse's figures share."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's colors, which people with color blindness can tell apart, and grays.
BLUE = "#0072B2"
VERMILION = "#D55E00"
BLACK = "#000000"
DARK = "#222222"
INK = "#444444"
SOFT = "#666666"
MIDDLE = "#999999"
BAND = "#BBBBBB"
LIGHT = "#c8c8c8"
GRID = "#dddddd"
FAVORABLE = "#E9F3EE"  # the background of the region in which a result is good
OTHER_COLORS = ("#332288", "#882255", "#117733", "#999933", "#AA4499", "#44AA99", SOFT)  # of policies without a look

HOUSE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a file is the same on every machine
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "posse",
}
PRINT: dict[str, Any] = {  # for figures that may be printed in a paper
    **HOUSE,
    "legend.fontsize": 8,
    "legend.handlelength": 3.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.7,
    "svg.fonttype": "path",
    "path.simplify": True,
}
DPI = 150
WIDTH = 7.2  # inches, the text width of a printed page
