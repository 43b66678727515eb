"""posse plan: what sharing would save, before an experiment is run."""

import argparse

from posse.cli import Commands, add_columns, add_command, add_outputs, answer
from posse.cli.policies import read_policy


def add(commands: Commands) -> None:
    text = "say before a run what sharing would save: with PosseTS, and with an ε that is right or wrong"
    plan = add_command(commands, _plan, text, progress=True)
    guess = plan.add_argument_group("a guess")
    guess.add_argument("--players", type=int, metavar="M", help="how many players (default: 12)")
    guess.add_argument("--arms", type=int, metavar="K", help="how many arms (default: 3)")
    text = "how far the best arm is ahead of the others (default: 0.03)"
    guess.add_argument("--effect", type=float, metavar="E", help=text)
    guess.add_argument("--base", type=float, metavar="B", help="the mean reward of the other arms (default: 0.2)")
    text = (
        "how far players differ in level, in rewards: with base 0.03 and levels 0.02, from 0.02 to 0.04 (default: 0); "
        "a level moves all means of a player together and changes nobody's best arm"
    )
    guess.add_argument("--levels", type=float, metavar="L", help=text)
    text = (
        "players have an attribute, such as a region, that explains this share of how they differ: say what telling it "
        "to PosseTS is worth (default: no attribute; with --values: 0.5)"
    )
    guess.add_argument("--explained", type=float, metavar="P", help=text)
    guess.add_argument("--values", type=int, metavar="N", help="how many values it has (with --explained: 4)")
    history = plan.add_argument_group("or historical data")
    history.add_argument("--from", dest="history", metavar="LOG", help="a .parquet or .csv file: player, arm, reward")
    text = (
        "columns in which each player has one value: say what telling them to PosseTS is worth (default: those that a "
        "learner's log says)"
    )
    history.add_argument("--attributes", metavar="COLUMN[,COLUMN,…]", help=text)
    add_columns(history, propensity=False, reward=None)
    both = plan.add_argument_group("for both")
    text = "how many decisions each player makes, or one number for each player (default: 2000, or as on record)"
    both.add_argument("--decisions", type=_numbers, metavar="D[,D,…]", help=text)
    both.add_argument("--days", type=int, metavar="N", help="how many days it takes; --decisions are then per day")
    text = "the least probability of every arm in each decision, as of a learner (default: 0)"
    both.add_argument("--floor", type=float, default=0.0, metavar="P", help=text)
    text = "the part of the decisions whose arm is drawn with equal shares, as of a learner (default: 0)"
    both.add_argument("--holdout", type=float, default=0.0, metavar="P", help=text)
    text = (
        "the most by which the means of two players for the same arm differ, beyond --levels; it is not how far arms "
        "are apart (default: 0.05); with --from, an ε to compare with the data's"
    )
    both.add_argument("--epsilon", type=float, metavar="ε", help=text)
    text = (
        "compare this with learning alone and PosseTS, such as 'RobustAggTS(0.1)' (may be repeated; default: a small "
        "set)"
    )
    both.add_argument("--policy", dest="policies", action="append", metavar="POLICY", help=text)
    both.add_argument("--problems", type=int, metavar="N", help="how many problems to draw (default: up to 100)")
    both.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of all draws (default: 0)")
    both.add_argument("--threads", type=int, metavar="N", help="how many threads to use (default: all cores)")
    add_outputs(both, figure=True)


def _numbers(text: str) -> float | list[float]:
    """One number, or several with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, or several with commas between them") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _plan(options: argparse.Namespace) -> None:
    """Simulate a planned run on many problems, drawn from a guess or from historical data. Say what learning alone
    would lose, what sharing would save, with PosseTS, which needs no ε, and with a stated ε, and what a wrong ε would
    cost. Takes some seconds.
    """
    if options.history is None and options.reward is not None:
        raise ValueError(f"--reward {options.reward}, but that is a column of a log; give one with --from")
    if options.history is None and options.reward_range is not None:
        raise ValueError("--range is about the rewards of a log, but a guess is about rewards of 0 and 1; leave it out")
    from posse.insight import plan

    options.policies = None if options.policies is None else [read_policy(text) for text in options.policies]
    options.reward = options.reward or "reward"
    answer(plan, options)
