"""posse diagnose: is ε right?"""

import argparse

from posse.cli import Commands, add_columns, add_level, add_outputs, insight


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "diagnose",
        help="say from a log how players differ, and whether ε is right",
        description="Say from a log how players differ: in level, in what the arms do, and for whom; which ε follows "
        "for the policies that need one, and what each choice of policy would cost; and whether a stated ε is broken, "
        "which is guaranteed. The result is void if rewards go missing because of their value.",
    )
    parser.add_argument("source", metavar="LOG", help="a .parquet or .csv file with a player, an arm and a reward")
    parser.add_argument("--epsilon", type=float, metavar="E", help="the ε in question (default: the log's own)")
    text = "the arm that the best one is compared with, player by player (default: the second best)"
    parser.add_argument("--against", metavar="ARM", help=text)
    text = (
        "columns in which each player has one value, such as region,device: say how much each explains of how players "
        "differ (default: those that a learner's log says)"
    )
    parser.add_argument("--attributes", metavar="COLUMN[,COLUMN,…]", help=text)
    text = (
        "simulate what each choice of policy would cost with as much traffic again (default: yes; takes seconds, or a "
        "minute for many players)"
    )
    parser.add_argument("--costs", action=argparse.BooleanOptionalAction, default=True, help=text)
    add_columns(parser.add_argument_group("which columns of the log hold what"), propensity=False)
    add_level(parser, 0.05, "the largest probability of ever raising a false alarm")
    add_outputs(parser, figure=True, report=True)
    text = "also draw how much better one arm is than another, player by player: a .png, .svg or .pdf file"
    parser.add_argument("--effects-figure", metavar="FILE", help=text)
    parser.set_defaults(run=insight("diagnose"), progress=True)
