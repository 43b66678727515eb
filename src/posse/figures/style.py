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
OTHER_COLORS = ("#332288", "#882255", "#117733", "#999933", "#AA4499", "#44AA99", SOFT)  # of policies without a look

DPI = 150
SCREEN_DPI = 100  # of a notebook
WIDTH = 7.2  # inches, the text width of a printed page


def _settings(name: str) -> dict[str, Any]:
    file = Path(__file__).with_name(f"{name}.mplstyle")
    return dict(matplotlib.rc_params_from_file(file, use_default_template=False))


HOUSE = _settings("house")
PRINT = {**HOUSE, **_settings("print")}  # for figures that may be printed in a paper
