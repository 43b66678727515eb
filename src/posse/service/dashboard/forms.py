"""The form that creates an experiment: what was typed, and what it means."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import parse_qs

from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS

MOST_FIELDS = 20
DEFAULTS = {"reward": "yes-no", "low": "0", "high": "1", "sharing": "learnt", "holdout": "0"}
NUMBERS = {
    "low": "the lowest reward",
    "high": "the highest reward",
    "epsilon": "ε",
    "patience": "the minutes to wait",
    "default_reward": "the reward to count",
    "holdout": "the share at random",
}


class UnreadableForm(ValueError):
    """What was sent is no form."""


def read(body: bytes) -> dict[str, str]:
    """The fields of a form as a browser sends them, without the empty ones."""
    try:
        fields = parse_qs(body.decode("utf-8"), strict_parsing=False, max_num_fields=MOST_FIELDS, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise UnreadableForm("Expected fields in the form that browsers send") from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


def experiment_of(typed: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments that create the experiment, and what is wrong with the form, by field."""
    wrong: dict[str, str] = {}

    def number(name: str) -> float:
        text = typed.get(name, "").strip()
        try:
            return float(text.replace("−", "-"))
        except ValueError:
            wrong[name] = f"Give a number for {NUMBERS[name]}" + (f"; {text[:20]!r} is none." if text else ".")
            return math.nan

    made: dict[str, Any] = {"name": typed.get("name", "").strip(), "policy": PosseTS()}
    for name in ("arms", "players"):
        made[name] = [line.strip() for line in typed.get(name, "").split("\n") if line.strip()]
    if not made["name"]:
        wrong["name"] = "Give the experiment a name."
    if len(made["arms"]) < 2:
        wrong["arms"] = "Name at least two arms, each on a line of its own."
    if typed.get("reward") == "number":
        low, high = made["reward_range"] = number("low"), number("high")
        if low >= high:
            wrong["high"] = "The highest reward must be above the lowest."
    if typed.get("sharing") == "alone":
        made["policy"] = IndTSV()
    elif typed.get("sharing") == "limit":
        try:
            made["policy"] = PosseTS(number("epsilon"))
        except ValueError as error:
            wrong.setdefault("epsilon", f"{error}.")
    if typed.get("patience", "").strip() or typed.get("default_reward", "").strip():
        minutes, made["default_reward"] = number("patience"), number("default_reward")
        made["patience"] = 60 * minutes
        if minutes <= 0:
            wrong["patience"] = "Wait for more than 0 minutes."
    if typed.get("holdout", "").strip():
        share = number("holdout")
        made["holdout"] = share / 100
        if not 0 <= share <= 100:
            wrong.setdefault("holdout", "Give a percentage from 0 to 100.")
    return made, wrong
