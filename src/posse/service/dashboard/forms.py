"""What people type into forms, and what it means. Several things are typed as text with one of them on each line."""

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from posse.attributes import CATEGORY, Attributes
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS
from posse.service.settings import LARGEST_BATCH

MOST_FIELDS = 40
DEFAULTS = {"reward": "yes-no", "low": "0", "high": "1", "sharing": "learnt", "holdout": "0"}
NUMBERS = {
    "low": "the lowest reward",
    "high": "the highest reward",
    "epsilon": "ε",
    "patience": "the minutes to wait",
    "default_reward": "the reward to count",
    "holdout": "the holdout",
    "burn_in": "the burn-in",
}
NUMBER = r"([-−+]?(?:\d+\.?\d*|\.\d+)(?:e[-−+]?\d+)?)"
WITH_VALUES = re.compile(r"(.+?)\s*:\s*([^\W\d]\w*\s*=.*)")  # a player's name, and its attributes
SHARES = re.compile(rf"(.+)\s*:\s*{NUMBER}\s*%?(?:\s*(?:to|-|–)\s*{NUMBER}\s*%?)?")
OUTCOME = re.compile(rf"(.+?)\s*:\s*{NUMBER} to {NUMBER}(?:\s*,\s*at (most|least) {NUMBER}(\s*,\s*retire.*)?)?")


class UnreadableForm(ValueError):
    """What was sent is no form."""


def read(body: bytes) -> dict[str, str]:
    """The fields of a form as a browser sends them, without the empty ones."""
    try:
        fields = parse_qs(body.decode("utf-8"), strict_parsing=False, max_num_fields=MOST_FIELDS, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise UnreadableForm("Expected fields in the form that browsers send") from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


# ---------------------------------------------------------------- one thing on each line


def lines(text: str) -> list[str]:
    """What is typed, one on each line.

    >>> lines("blue\\n\\n red ")
    ['blue', 'red']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def arms_of(text: str) -> list[str]:
    """Arms, each on a line; no more of them than the API takes, because everybody waits while they are made."""
    found = lines(text)
    if len(found) > LARGEST_BATCH:
        raise ValueError(f"{len(found):,} arms, but expected at most {LARGEST_BATCH:,}")
    return found


def attributes_of(text: str) -> dict[str, Any]:
    """Attributes as they are declared, each on a line.

    >>> attributes_of("region\\ndevice: phone, desktop\\nage: 18, 30.5")
    {'region': 'category', 'device': ['phone', 'desktop'], 'age': [18.0, 30.5]}
    """
    found: dict[str, Any] = {}
    for line in lines(text):
        name, _, rest = line.partition(":")
        listed = [each.strip() for each in rest.split(",") if each.strip()]
        _add(found, "attribute", name.strip(), _all_numbers(listed) or listed or CATEGORY)
    return Attributes(found).to_dict()


def players_of(text: str, declared: Attributes) -> list[str] | dict[str, dict[str, Any]]:
    """Players, each on a line; where attributes are declared, with values after a colon.

    >>> players_of("Lyon: region=south, age=44\\nNice", Attributes({"region": "category", "age": [18, 30]}))
    {'Lyon': {'region': 'south', 'age': 44.0}, 'Nice': {}}
    """
    if not declared:
        return lines(text)
    found: dict[str, dict[str, Any]] = {}
    for line in lines(text):
        match = WITH_VALUES.fullmatch(line)
        pairs = [pair.partition("=")[::2] for pair in match[2].split(",")] if match else []
        values: dict[str, Any] = {name.strip(): value.strip() for name, value in pairs}
        for name in values:
            kind = declared.kinds.get(name, CATEGORY)
            if isinstance(kind[0], float):
                with contextlib.suppress(ValueError):  # what checks attributes says what is wrong
                    values[name] = float(values[name])
        _add(found, "player", match[1] if match else line, values)
    return found


def shares_of(text: str) -> dict[str, tuple[float, float]]:
    """Limits on the shares of arms, each on a line, in per cent: the least and the greatest, or one for both.

    >>> shares_of("new: 5 to 30\\ntoday: 20 %")
    {'new': (0.05, 0.3), 'today': (0.2, 0.2)}
    """
    found: dict[str, tuple[float, float]] = {}
    for line in lines(text):
        match = SHARES.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r:.60} gives no share of an arm; write it as today: 20, or as new: 5 to 30")
        least = _number(match[2]) / 100
        _add(found, "arm", match[1].strip(), (least, _number(match[3]) / 100 if match[3] else least))
    return found


def written_shares(shares: Mapping[str, Sequence[float]]) -> str:
    """Limits on shares as one would type them.

    >>> written_shares({"new": (0.05, 0.3), "today": (0.2, 0.2)})
    'new: 5 to 30\\ntoday: 20'
    """
    ends = {arm: [format(100 * share, ".10g") for share in limits] for arm, limits in shares.items()}
    return "\n".join(f"{arm}: {' to '.join(dict.fromkeys(texts))}" for arm, texts in ends.items())


def own_arms_of(text: str, arms: Iterable[str]) -> dict[str, str]:
    """Arms for some players, each on a line: the player, a colon and one of the arms.

    >>> own_arms_of("Lyon: blue\\nshop: Nice: tea: green", ["blue", "green", "tea: green"])
    {'Lyon': 'blue', 'shop: Nice': 'tea: green'}
    """
    found: dict[str, str] = {}
    for line in lines(text):
        arm = max((arm for arm in arms if line.endswith(f": {arm}")), key=len, default=None)
        if arm is None:
            raise ValueError(f"{line!r:.60} names no arm for a player; write it as Lyon: {next(iter(arms), 'blue')}")
        _add(found, "player", line.removesuffix(f": {arm}").strip(), arm)
    return found


def outcomes_of(text: str) -> dict[str, dict[str, Any]]:
    """Outcomes beside the reward, each on a line: the range, and perhaps a bound and what to do about it.

    >>> outcomes_of("refund: 0 to 1, at most 0.05, retire the arm\\nminutes: 0 to 60")["refund"]
    {'range': (0.0, 1.0), 'at_most': 0.05, 'action': 'retire'}
    """
    found: dict[str, dict[str, Any]] = {}
    for line in lines(text):
        match = OUTCOME.fullmatch(line)
        if match is None:
            example = "refund: 0 to 1, at most 0.05, retire the arm"
            raise ValueError(f"{line!r:.60} is no outcome; write it as minutes: 0 to 60, or as {example}")
        name, low, high, which, bound, retire = match.groups()
        made: dict[str, Any] = {"range": (_number(low), _number(high))}
        if which:
            made |= {f"at_{which}": _number(bound), "action": "retire" if retire else "alarm"}
        _add(found, "outcome", name, made)
    return found


def _number(text: str) -> float:
    """A number, with a minus of any kind."""
    return float(text.strip().replace("−", "-"))


def _add(found: dict[str, Any], kind: str, name: str, value: Any) -> None:
    if name in found:
        raise ValueError(f"{kind} {name!r} is named twice")
    found[name] = value


def _all_numbers(listed: list[str]) -> list[float] | None:
    """What is listed as numbers; None if something of it is none."""
    try:
        return [float(each) for each in listed]
    except ValueError:
        return None


# ---------------------------------------------------------------- a new experiment


def experiment_of(typed: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments that create the experiment, and what is wrong with the form, by field."""
    wrong: dict[str, str] = {}

    def number(name: str) -> float:
        text = typed.get(name, "").strip()
        try:
            return _number(text)
        except ValueError:
            wrong[name] = f"Give a number for {NUMBERS[name]}" + (f"; {text[:20]!r} is none." if text else ".")
            return math.nan

    def by_line(name: str, parse: Callable[..., Any], *more: Any) -> Any:
        try:
            return parse(typed.get(name, ""), *more)
        except (ValueError, TypeError) as error:
            wrong[name] = f"{error}."
            return None

    made: dict[str, Any] = {"name": typed.get("name", "").strip(), "policy": PosseTS()}
    made["description"] = typed.get("description", "").strip()
    made["arms"] = by_line("arms", arms_of)
    made["attributes"] = by_line("attributes", attributes_of)
    made["players"] = by_line("players", players_of, Attributes(made["attributes"]))
    made["shares"] = by_line("shares", shares_of)
    made["outcomes"] = by_line("outcomes", outcomes_of)
    made["control"] = typed.get("control", "").strip() or None
    if typed.get("burn_in", "").strip():
        burn_in = number("burn_in")
        made["burn_in"] = int(burn_in) if burn_in.is_integer() else burn_in
    if not made["name"]:
        wrong["name"] = "Give the experiment a name."
    if made["arms"] is not None and len(made["arms"]) < 2:
        wrong["arms"] = "Name at least two arms, each on a line of its own."
    if typed.get("reward") == "number":
        low, high = made["reward_range"] = number("low"), number("high")
        if low >= high:
            wrong["high"] = "The highest reward must be above the lowest."
    elif (typed.get("low", "0"), typed.get("high", "1")) != ("0", "1"):
        wrong["high"] = "A lowest and a highest reward are for rewards that are numbers: choose “A number”, or 0 and 1."
    if typed.get("sharing") == "alone":
        made["policy"] = IndTSV()
    elif typed.get("sharing") == "limit":
        try:
            made["policy"] = PosseTS(number("epsilon"))
        except ValueError as error:
            wrong.setdefault("epsilon", f"{error}.")
    if typed.get("sharing") != "limit" and typed.get("epsilon", "").strip():
        wrong["epsilon"] = "ε is for players that share up to a limit: choose that, or leave ε empty."
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
