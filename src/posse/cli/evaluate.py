"""posse evaluate: what would other policies have earned, judging from a log?"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.cli import Commands, add_columns, add_command, add_level, add_outputs, answer
from posse.cli.policies import policy_classes, read_policy
from posse.csv_form import csv_rows

if TYPE_CHECKING:
    from posse.insight.evaluation.targets import FixedPolicy


def add(commands: Commands) -> None:
    parser = add_command(commands, _evaluate, "judge policies from a log of decisions")
    parser.add_argument("source", metavar="LOG", help="a .parquet or .csv file")
    what = parser.add_argument_group("what to judge")
    what.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY",
        help="an arm for all players; uniform: every arm with the same probability; logged: what the log itself did; "
        "best: the best arm, as other rows of the log say; 'best by region': the same for each value of an attribute; "
        "segments: the same for each combination of attributes; a policy that learns, such as 'RobustAggTS(0.1)'; or a "
        "file with a fixed policy: JSON {player: arm} or {player: {arm: probability}}, or CSV "
        '"player,arm,probability", where the player * stands for all that are not named (may be repeated)',
    )
    what.add_argument("--against", metavar="POLICY", help="also show the differences to this one")
    text = "only this player's rows (may be repeated)"
    what.add_argument("--only", dest="players", action="append", metavar="PLAYER", help=text)
    text = (
        "columns in which each player has one value, such as region,device; best by … and segments use them (default: "
        "those that a learner's log says)"
    )
    what.add_argument("--attributes", metavar="COLUMN[,COLUMN,…]", help=text)
    text = "show results by this column's values, such as weeks, not by player"
    what.add_argument("--by", metavar="COLUMN", help=text)
    what.add_argument("--holdout", action="store_true", help="only the decisions that a learner held out")
    add_columns(parser.add_argument_group("which columns of the log hold what"), propensity=True)
    add_level(parser, 0.05, "how often an interval may miss")
    estimators = "auto, dr, snips or ips (default: auto; for a learner's log whose arms' means may drift: dr)"
    parser.add_argument("--estimator", default="auto", metavar="NAME", help=estimators)
    text = "whether the log's choices depended on its earlier rewards (default: what the log says or looks like)"
    parser.add_argument("--adaptive", action=argparse.BooleanOptionalAction, help=text)
    text = "how many shuffles of the log a replay uses (default: 10)"
    parser.add_argument("--passes", type=int, default=10, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of a replay (default: 0)")
    add_outputs(parser, figure=True, report=True)


def _evaluate(options: argparse.Namespace) -> None:
    """Say what other policies would have earned, overall and for each player. The log is a Parquet or CSV file with a
    player, an arm, a propensity (the probability with which the arm was chosen) and a reward. A CSV file carries no
    metadata, so pass --adaptive and --range yourself. Without a policy to judge, it judges every arm, the uniform
    policy and what the log itself did.
    """
    from posse.insight import evaluate

    options.target = [_target(text) for text in options.policy] or None
    options.against = None if options.against is None else _target(options.against)
    options.progress = sys.stderr.isatty()
    answer(evaluate, options)


def _target(text: str) -> Any:
    """What --policy names: a file, a policy that learns, or else an arm, uniform or logged."""
    if Path(text).suffix.lower() in (".json", ".csv"):
        return read_table(Path(text))
    learns = text.partition("(")[0].strip() in policy_classes() or re.match(r"\s*[A-Za-z]\w*\(", text)
    return read_policy(text) if learns else text


def read_table(path: Path) -> FixedPolicy:
    """A fixed policy from a JSON or CSV file; it gets the file's name."""
    from posse.insight.evaluation.targets import FixedPolicy

    if path.suffix.lower() == ".csv":
        return FixedPolicy(path.stem, _table_of_csv(path))
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(table, dict) or not all(isinstance(entry, (str, dict)) for entry in table.values()):
        raise ValueError(f"{path}: expected {{player: arm}} or {{player: {{arm: probability}}}}")
    return FixedPolicy(path.stem, table)


def _table_of_csv(path: Path) -> dict[str, dict[str, float]]:
    (_, columns), *rows = csv_rows(path) or [(0, [])]
    if not {"player", "arm"} <= set(columns):
        raise ValueError(
            f"{path} has the columns {', '.join(columns) or 'none'}, but expected player, arm, probability"
        )
    table: dict[str, dict[str, float]] = {}
    for line, row in rows:
        cells = dict(zip(columns, row, strict=False))
        player, arm, probability = (cells.get(name, "") for name in ("player", "arm", "probability"))
        entry = table.setdefault(player, {})
        if arm in entry:
            raise ValueError(f"{path}, line {line}: {player} and {arm} are there twice")
        try:
            entry[arm] = float(probability) if "probability" in columns else 1.0
        except ValueError:
            raise ValueError(f"{path}, line {line}: probability={probability!r}, but expected a number") from None
    return table
