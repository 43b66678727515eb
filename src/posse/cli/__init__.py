"""The command line: parse, call, print. Each module has `add(commands)`, which adds the parsers of its commands."""

import argparse
import importlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from posse.checks import did_you_mean, output_file
from posse.extras import MissingExtra, extra
from posse.text import align, to_json
from posse.version import __version__

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Run = Callable[[argparse.Namespace], None]
GROUPS = {
    "Simulate": ("experiments",),
    "Plan, check and judge from data": ("diagnose", "evaluate", "plan", "watch", "conclude"),
    "Run the decision service": ("service", "lifecycle"),
    "Measure and prepare": ("bench", "warm_up"),
}
"""The groups of commands in the help, and the modules that add them."""
FIGURES = (".png", ".svg", ".pdf")
FILES: dict[str, tuple[Sequence[str], Callable[[Any, str], Any]]] = {
    "figure": (FIGURES, lambda result, path: result.figure().savefig(path)),
    "effects_figure": (FIGURES, lambda result, path: result.effects_figure().savefig(path)),
    "report": ((".html",), lambda result, path: Path(path).write_text(result.report(), encoding="utf-8")),
}
"""What a result may be written as, by the option that names the file: how its name ends, and how it is written."""
IMPORT: dict[str, Any] = {
    "dest": "imports",
    "action": "append",
    "default": [],
    "metavar": "FILE.py",
    "help": "a Python file with policies of your own (may be repeated)",
}
"""The option --import of commands that use policies; `main` imports the files."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, 1 if something failed, 2 if what was given is wrong."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ε becomes ? where a terminal has no Greek
    try:
        for file in getattr(options, "imports", []):
            importlib.import_module("posse.policies.user").import_file(file)
        with extra(getattr(options, "extra", "experiments"), "this command"):
            options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has stopped reading, so stop quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RuntimeError, MissingExtra) as error:
        return _failed(str(error), 1)
    except (ValueError, TypeError, OSError) as error:
        return _failed(str(error), 2)
    except KeyboardInterrupt:
        again = "; started again, it goes on from here" if getattr(options, "resumes", False) else ""
        print(f"posse: interrupted{again}", file=sys.stderr)
        return 130
    return 0


def _failed(message: str, status: int) -> int:
    print(f"posse: error: {message}", file=sys.stderr)
    return status


def add_command(commands: Commands, run: Run, text: str, name: str = "", **defaults: Any) -> argparse.ArgumentParser:
    """Add the command that `run` performs. It is called like it, and the docstring says what it does, or else `text`.

    The defaults say what `main` should know: `extra`, the extra that the command needs, and `resumes`, whether it goes
    on where it was interrupted.
    """
    described = inspect.getdoc(run) or f"{text[0].upper()}{text[1:]}."
    parser = commands.add_parser(name or run.__name__.strip("_"), help=text, description=described)
    parser.set_defaults(run=run, **defaults)
    return parser


def call(function: Callable[..., Any], options: argparse.Namespace) -> Any:
    """Call a function with the options that are named like its parameters."""
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in vars(options).items() if name in names})


def add_outputs(parser: argparse._ActionsContainer, *, figure: bool, report: bool = False) -> None:
    """Add the options that say where else a result goes: --json, and --figure and --report if there are such."""
    if report:
        parser.add_argument("--report", metavar="FILE", help="also write it as a page with pictures: an .html file")
    if figure:
        parser.add_argument("--figure", metavar="FILE", help="also draw it: a .png, .svg or .pdf file")
    parser.add_argument("--json", metavar="FILE", help="also write it as JSON to FILE; - prints only JSON")


def add_level(parser: argparse._ActionsContainer, default: float, text: str) -> None:
    """Add the option --level, with what it is the probability of."""
    parser.add_argument("--level", type=float, default=default, metavar="P", help=f"{text} (default: {default})")


def answer(
    function: Callable[..., Any],
    options: argparse.Namespace,
    json_of: Callable[[Any], str] = lambda result: to_json(result.to_dict()),
) -> Any:
    """Call a function, print its result in words or as JSON, and write the files that were asked for; return it.

    Files that cannot be written, and packages that are missing, are refused before any long work.
    """
    files = {name: path for name in FILES if (path := getattr(options, name, None)) is not None}
    for name, path in files.items():
        output_file(path, f"--{name.replace('_', '-')}", endings=FILES[name][0])
        importlib.import_module("posse.figures")
    if "report" in files:
        importlib.import_module("posse.insight.report").templates()
    if options.json not in (None, "-"):
        output_file(options.json, "--json")
    result = call(function, options)
    print(json_of(result) if options.json == "-" else str(result))
    if options.json not in (None, "-"):
        Path(options.json).write_text(json_of(result) + "\n", encoding="utf-8")
    for name, path in files.items():
        FILES[name][1](result, path)
    return result


def insight(name: str) -> Run:
    """What runs a function of `posse.insight`, which is imported only then."""
    return lambda options: answer(getattr(importlib.import_module("posse.insight"), name), options)


def add_columns(parser: argparse._ActionsContainer, *, propensity: bool, reward: str | None = "reward") -> None:
    """Add the options that say which columns of a log hold what, and which range its rewards have."""
    text = (
        "the player, such as a shop, a clinic or a zip code: a column, or several with commas between them (default: "
        "player)"
    )
    parser.add_argument("--player", default="player", metavar="COLUMN", help=text)
    text = "the arm, that is, the option that was chosen (default: arm)"
    parser.add_argument("--arm", default="arm", metavar="COLUMN", help=text)
    add_rewards(parser, reward)
    if propensity:
        text = (
            "the probability with which the arm was chosen: a column, a number such as 0.5 or 1/3, or empirical, how "
            "often each player's rows have the arm (default: propensity)"
        )
        parser.add_argument("--propensity", default="propensity", metavar="COLUMN", help=text)
    else:
        text = (
            "rows are totals: this column has how many trials, such as visitors, a row stands for, and --reward how "
            "many of them succeeded"
        )
        parser.add_argument("--trials", metavar="COLUMN", help=text)
    text = "a column that may not repeat (default: decision or id, if there; none: no check)"
    parser.add_argument("--id", metavar="COLUMN", help=text)


def add_rewards(parser: argparse._ActionsContainer, default: str | None = "reward") -> None:
    """Add the options that say which column of a log has the rewards, and what range they have."""
    text = "the reward: a column, or a calculation such as '1 - day30' (default: reward)"
    parser.add_argument("--reward", default=default, metavar="COLUMN", help=text)
    text = "the least and the greatest possible reward (default: what the log says, or 0 1)"
    parser.add_argument("--range", dest="reward_range", nargs=2, type=float, metavar=("LOW", "HIGH"), help=text)


class _Parser(argparse.ArgumentParser):
    """A parser that names the choice which was probably meant."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        super().error(message + (did_you_mean(found[1], re.findall(r"[\w-]+", found[2])) if found else ""))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="posse",
        description="Multi-task bandits that share data robustly.",
        usage="posse COMMAND [OPTIONS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"posse {__version__}")
    commands = parser.add_subparsers(prog="posse", metavar="COMMAND", help=argparse.SUPPRESS)
    titles: dict[int, str] = {}  # by the number of the group's first command
    for title, modules in GROUPS.items():
        titles[len(commands._choices_actions)] = title
        for module in modules:
            importlib.import_module(f"{__name__}.{module}").add(commands)
    lines = align(([f"  {each.dest}", str(each.help)] for each in commands._choices_actions), "<")
    for number, title in titles.items():
        lines[number] = f"\n{title}:\n{lines[number]}"
    parser.epilog = "\n".join([*lines, "", "posse COMMAND --help says more about a command."]).lstrip()
    return parser
