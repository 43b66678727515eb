"""posse conclude: can the experiment end, and with which arm?"""

import argparse
from pathlib import Path

from posse.checks import output_file
from posse.cli import Commands, add_columns, add_command, add_level, add_outputs, answer, call


def add(commands: Commands) -> None:
    text = "say which arm to ship for whom, and whether the experiment can end"
    parser = add_command(commands, _conclude, text)
    parser.add_argument("source", metavar="LOG", help="a learner's log in Parquet, or with --propensity any log")
    text = "by how much the arm to ship may be worse than another, in rewards (default: 0)"
    parser.add_argument("--tolerance", type=float, default=0.0, metavar="D", help=text)
    add_level(parser, 0.05, "the largest probability that it ever says to ship a wrong arm")
    parser.add_argument("--html", metavar="FILE", help="also write a one-page summary: an .html file")
    text = "the summary's title, such as the experiment's name"
    parser.add_argument("--title", default="", metavar="TEXT", help=text)
    add_columns(parser.add_argument_group("a log from elsewhere, with fixed shares"), propensity=True)
    add_outputs(parser, figure=False)


def _conclude(options: argparse.Namespace) -> None:
    """Say which arm is shown to be the best, for everybody and for each player, how likely each arm is to be the best,
    and what stopping or going on costs. Look as often as you like: the probability that it ever says to ship a wrong
    arm is at most --level.
    """
    from posse.insight import conclude, watch
    from posse.insight.report import templates

    if options.html is not None:
        output_file(options.html, "--html", endings=(".html",))
        templates()  # an error now if the package for them is missing
    found = answer(conclude, options)
    if options.html is not None:
        del options.level  # of the conclusion
        page = found.page(call(watch, options), title=options.title)
        Path(options.html).write_text(page, encoding="utf-8")
