"""posse diagnose: is ε right?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

PLACE = 20
FIGURES = (".png", ".svg", ".pdf")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the diagnosis."""
    diagnose = commands.add_parser(
        "diagnose",
        help="say from a log how far players differ, and whether ε is right",
        description="Say how far players really differ: what is certain, with an alarm when it passes ε, and what is "
        "likely, with a suggestion for ε. Void where rewards go missing because of their value.",
    )
    diagnose.add_argument("log", metavar="LOG", help="a .parquet or .csv file with columns player, arm and a reward")
    diagnose.add_argument("--epsilon", type=float, metavar="E", help="the ε in question (default: the log's own)")
    diagnose.add_argument(
        "--reward", default="reward", metavar="COLUMN", help="the column of rewards (default: reward)"
    )
    diagnose.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="the least and the greatest reward (default: the log's own, or 0 1)",
    )
    diagnose.add_argument(
        "--level",
        type=float,
        default=0.05,
        metavar="P",
        help="how probable it may be at most that a false alarm is ever raised (default: 0.05)",
    )
    diagnose.add_argument("--figure", metavar="FILE", help="also draw it: .png, .svg or .pdf")
    diagnose.add_argument("--json", metavar="FILE", help="also write it as JSON to FILE; - prints only JSON")
    diagnose.set_defaults(run=_diagnose)


def _diagnose(options: argparse.Namespace) -> None:
    if options.figure is not None and Path(options.figure).suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {options.figure!r}, but expected a file that ends in {', '.join(FIGURES)}")
    for name, path in (("--figure", options.figure), ("--json", options.json)):
        if path not in (None, "-") and (not path or Path(path).is_dir() or not Path(path).parent.is_dir()):
            raise ValueError(f"{name} {path!r}, but expected a file in a directory that exists")
    from posse.insight import diagnose

    diagnosis = diagnose(
        options.log,
        epsilon=options.epsilon,
        reward=options.reward,
        reward_range=None if options.range is None else tuple(options.range),
        level=options.level,
    )
    text = json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
    print(text if options.json == "-" else diagnosis)
    if options.json not in (None, "-"):
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.figure is not None:
        diagnosis.figure().savefig(options.figure)
