"""posse plan: what sharing would save, before an experiment is run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

PLACE = 40
FIGURES = (".png", ".svg", ".pdf")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add planning."""
    plan = commands.add_parser(
        "plan",
        help="plan an experiment: what sharing would save and a wrong ε cost",
        description="Simulate a planned experiment on many problems that it may turn out to be, drawn from a guess or "
        "from historical data, and say what learning alone would lose, what sharing would save and what a wrong ε "
        "would cost. Some seconds.",
    )
    guess = plan.add_argument_group("a guess")
    guess.add_argument("--players", type=int, metavar="M", help="how many players (default: 12)")
    guess.add_argument("--arms", type=int, metavar="K", help="how many arms (default: 3)")
    guess.add_argument("--effect", type=float, metavar="E", help="how far the best arm leads (default: 0.03)")
    guess.add_argument("--base", type=float, metavar="B", help="mean reward of the other arms (default: 0.2)")
    history = plan.add_argument_group("or historical data")
    history.add_argument("--from", dest="history", metavar="LOG", help="a .parquet or .csv file: player, arm, reward")
    history.add_argument("--reward", metavar="COLUMN", help="its column of rewards (default: reward)")
    history.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="least and greatest reward possible (default: 0 1, or what a learner wrote)",
    )
    both = plan.add_argument_group("for both")
    both.add_argument(
        "--decisions",
        type=_numbers,
        metavar="D[,D,…]",
        help="decisions a player, or of each player (default: 2000, or as many as on record)",
    )
    both.add_argument("--days", type=int, metavar="N", help="how many days; --decisions is then a day")
    both.add_argument(
        "--epsilon",
        type=float,
        metavar="ε",
        help="the most by which players differ on an arm (default: 0.05); with --from, to be compared with the data's",
    )
    both.add_argument("--problems", type=int, metavar="N", help="how many problems to draw (default: up to 100)")
    both.add_argument("--seed", type=int, default=0, help="default: 0")
    both.add_argument("--threads", type=int, metavar="N", help="how many threads to use (default: all cores)")
    both.add_argument("--figure", metavar="FILE", help="also draw it: a .png, .svg or .pdf file")
    both.add_argument("--json", metavar="FILE", help="also write the numbers as JSON to FILE; - prints only JSON")
    plan.set_defaults(run=_plan)


def _numbers(text: str) -> float | list[float]:
    """One number, or several with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, or several with commas between them") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _plan(options: argparse.Namespace) -> None:
    _check_outputs(options.figure, options.json)
    if options.history is None and options.reward is not None:
        raise ValueError(f"--reward {options.reward}, but that is a column of a log; give one with --from")
    if options.history is None and options.range is not None:
        raise ValueError("--range is about the rewards of a log, but a guess is about rewards of 0 and 1; leave it out")
    from posse.insight import plan

    found = plan(
        options.history,
        players=options.players,
        arms=options.arms,
        decisions=options.decisions,
        days=options.days,
        epsilon=options.epsilon,
        effect=options.effect,
        base=options.base,
        reward=options.reward or "reward",
        reward_range=None if options.range is None else tuple(options.range),
        problems=options.problems,
        seed=options.seed,
        threads=options.threads,
        progress=True,
    )
    numbers = json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False)
    print(numbers if options.json == "-" else found)
    if options.json not in (None, "-"):
        Path(options.json).write_text(numbers + "\n", encoding="utf-8")
    if options.figure is not None:
        found.figure().savefig(options.figure)


def _check_outputs(figure: str | None, numbers: str | None) -> None:
    """Refuse a file that cannot be written now, not after the simulation."""
    if figure is not None and Path(figure).suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {figure}, but expected a file that ends in {', '.join(FIGURES)}")
    for option, file in (("--figure", figure), ("--json", numbers)):
        if file is None or (option, file) == ("--json", "-"):
            continue
        if not file or Path(file).is_dir():
            raise ValueError(f"{option} {file!r}, but expected a file")
        if not Path(file).parent.is_dir():
            raise ValueError(f"{option} {file}, but there is no directory {Path(file).parent}")
