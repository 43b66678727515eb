"""posse diagnose: is ε right?"""

from __future__ import annotations

import argparse

from posse.cli import add_outputs, add_rewards, answer

PLACE = 20


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the diagnosis."""
    parser = commands.add_parser(
        "diagnose",
        help="say from a log how far players differ, and whether ε is right",
        description="Say from a log how far players really differ: what is certain, with an alarm if it is more than "
        "ε, and what is likely, with a suggestion for ε. The result is void if rewards go missing because of their "
        "value.",
    )
    parser.add_argument("source", metavar="LOG", help="a .parquet or .csv file with columns player, arm and a reward")
    parser.add_argument("--epsilon", type=float, metavar="E", help="the ε in question (default: the log's own)")
    add_rewards(parser)
    parser.add_argument(
        "--level",
        type=float,
        default=0.05,
        metavar="P",
        help="the largest probability of ever raising a false alarm (default: 0.05)",
    )
    add_outputs(parser, figure=True)
    parser.set_defaults(run=_diagnose)


def _diagnose(options: argparse.Namespace) -> None:
    from posse.insight import diagnose

    answer(diagnose, options)
