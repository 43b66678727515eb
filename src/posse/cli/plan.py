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
        help="the most by which players differ on an arm (default: 0.05, or as on record)",
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
    if options.figure and Path(options.figure).suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {options.figure}, but expected a file that ends in {', '.join(FIGURES)}")
    if options.history is None and options.reward is not None:
        raise ValueError(f"--reward {options.reward}, but that is a column of a log; give one with --from")
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
    if options.figure:
        found.figure().savefig(options.figure)
    text = json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False) if options.json else ""
    if options.json == "-":
        print(text)
        return
    print(found)
    if options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
