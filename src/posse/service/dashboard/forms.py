"""The form that creates an experiment: what was typed, and what it means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from posse.policies.base import Policy
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


@dataclass(frozen=True)
class ExperimentForm:
    """What was typed, and what is wrong with it, by field."""

    typed: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    wrong: dict[str, str] = field(default_factory=dict)


def read(body: bytes) -> dict[str, str]:
    """The fields of a form as a browser sends them, without the empty ones."""
    try:
        fields = parse_qs(body.decode("utf-8"), strict_parsing=False, max_num_fields=MOST_FIELDS, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise ValueError("the form cannot be read; expected fields in the form that browsers send") from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


def experiment_of(typed: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments that create the experiment, and what is wrong with the form, by field."""
    wrong: dict[str, str] = {}
    made: dict[str, Any] = {"name": typed.get("name", "").strip()}
    if not made["name"]:
        wrong["name"] = "Give the experiment a name."
    made["arms"], made["players"] = _lines(typed.get("arms", "")), _lines(typed.get("players", ""))
    if len(made["arms"]) < 2:
        wrong["arms"] = "Name at least two arms, each on a line of its own."
    if typed.get("reward") == "number":
        low, high = (_number(typed, name, wrong) for name in ("low", "high"))
        if low is not None and high is not None:
            made["reward_range"] = low, high
            if not low < high:
                wrong["high"] = "The highest reward must be above the lowest."
    made["policy"] = _policy(typed, wrong)
    if typed.get("patience", "").strip() or typed.get("default_reward", "").strip():
        minutes, reward = _number(typed, "patience", wrong), _number(typed, "default_reward", wrong)
        if minutes is not None and reward is not None:
            made["patience"], made["default_reward"] = 60 * minutes, reward
            if minutes <= 0:
                wrong["patience"] = "Wait for more than 0 minutes."
    if typed.get("holdout", "").strip():
        share = _number(typed, "holdout", wrong)
        if share is not None:
            made["holdout"] = share / 100
            if not 0 <= share <= 100:
                wrong["holdout"] = "Give a percentage from 0 to 100."
    return made, wrong


def _policy(typed: dict[str, str], wrong: dict[str, str]) -> Policy:
    if typed.get("sharing") == "alone":
        return IndTSV()
    epsilon = _number(typed, "epsilon", wrong) if typed.get("sharing") == "limit" else None
    try:
        return PosseTS(epsilon)
    except ValueError as error:
        wrong["epsilon"] = f"{error}."
        return PosseTS()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _number(typed: dict[str, str], name: str, wrong: dict[str, str]) -> float | None:
    text = typed.get(name, "").strip()
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        wrong[name] = f"Give a number for {NUMBERS[name]}" + (f"; {text[:20]!r} is none." if text else ".")
        return None
