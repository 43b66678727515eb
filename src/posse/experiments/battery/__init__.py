"""The battery: every policy on families of problems in which sharing helps, does nothing, or harms."""

from posse.experiments.battery.baseline import BetaBernoulliTS
from posse.experiments.battery.families import battery_spec
from posse.experiments.battery.report import write_battery
from posse.experiments.battery.score import BatteryBar, BatteryFamily, PolicyScore, Ratio, score

__all__ = [
    "BatteryBar",
    "BatteryFamily",
    "BetaBernoulliTS",
    "PolicyScore",
    "Ratio",
    "battery_spec",
    "score",
    "write_battery",
]
