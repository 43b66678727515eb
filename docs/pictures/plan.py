"""The picture of docs/planning.md: the plan of its example, in docs/images/plan.png."""

from pathlib import Path

from posse.cli import main

FILE = Path(__file__).parents[1] / "images" / "plan.png"
GUESS = "--players 12 --arms 3 --decisions 150 --days 14 --base 0.2 --effect 0.03 --epsilon 0.05"

if __name__ == "__main__":
    main(["plan", *GUESS.split(), "--figure", str(FILE)])
