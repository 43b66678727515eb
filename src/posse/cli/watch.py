"""posse watch: do choices and rewards come as they should?"""

from posse.cli import Commands, add_columns, add_level, add_outputs, insight


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "watch",
        help="check a running experiment's log, and say what adapting earns",
        description="Check that arms are chosen with their logged probabilities and that rewards arrive alike for all "
        "arms, say what the adaptive part earns compared with the holdout and the control, and show the guards. All of "
        "it holds at every look, so look as often as you like.",
    )
    parser.add_argument("source", metavar="LOG", help="a learner's log in Parquet, or with --propensity any log")
    add_level(parser, 0.01, "the largest probability that a check ever raises a false alarm")
    add_columns(parser.add_argument_group("a log from elsewhere, with fixed shares"), propensity=True)
    add_outputs(parser, figure=True)
    parser.set_defaults(run=insight("watch"))
