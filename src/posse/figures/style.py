"""The palette, and the settings of matplotlib that all of posse's figures share."""

from pathlib import Path
from typing import Any

import matplotlib

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
FAVORABLE = "#E9F3EE"  # the background of the region in which a result is good
OTHER_COLORS = (
    "#2B3BE0",
    "#7A0045",
    "#E0218A",
    "#4A4A10",
    "#5B7FE0",
    "#0B3D4F",
    "#C23BD8",
)  # of policies without a look

DPI = 150
SCREEN_DPI = 100  # of a notebook
WIDTH = 7.2  # inches, the text width of a printed page


def _settings(name: str) -> dict[str, Any]:
    file = Path(__file__).with_name(f"{name}.mplstyle")
    return dict(matplotlib.rc_params_from_file(file, use_default_template=False))


HOUSE = _settings("house")
PRINT = {**HOUSE, **_settings("print")}  # for figures that may be printed in a paper
