"""A real trial with contexts: does it pay to choose by region or by country, and to tell PosseTS the region?

The log is that of the International Stroke Trial (Sandercock and others, Trials 12:101, 2011): 19,435 patients in 36
countries, six treatments drawn at random. The countries are the players. What is known of a country is the region that
it lies in; the file has nothing else about patients. Judged from the log alone, with 95 % intervals:

- the best treatment for all, the best by region, and segments alone, which is the best by country;
- PosseTS told the regions, not told them, and Ind-TS-V, which learns in each country alone, by replay.

    python examples/studies/stroke_contexts.py stroke-trial.csv            # some minutes
    python examples/studies/stroke_contexts.py stroke-trial.csv --quick    # fewer passes, rougher
    python examples/studies/stroke_contexts.py                             # a made-up trial with the same columns
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv

import posse
from posse.insight import diagnose, evaluate

REGIONS = {
    "north": "UK EIRE NETH BELG SWED NORW FINL DENM SWIT AUST FRAN",
    "south": "ITAL SPAI PORT GREE TURK ISRA",
    "east": "POLA CZEC SLOK HUNG SLOV ROMA",
    "america": "ARGE BRAS CHIL USA CANA",
    "asia and pacific": "AUSL NEW INDI SING HONG SRI JAPA",
    "africa": "SOUT",
}
OUTCOMES = ("alive_14_days", "independent_6_months")


ARMS = [f"{aspirin}+{heparin}-heparin" for aspirin in ("aspirin", "no-aspirin") for heparin in ("no", "low", "medium")]


def made_up() -> pyarrow.Table:
    """A trial with the same columns in which no treatment does anything."""
    chance = np.random.default_rng(1)
    shares = np.array([0.25, 0.125, 0.125] * 2)
    arm = chance.choice(6, p=shares, size=3000)
    outcomes = {name: chance.integers(2, size=3000) for name in OUTCOMES}
    country = chance.choice(["UK", "ITAL", "SWIT", "POLA", "NETH", "ARGE", "AUSL", "CZEC"], size=3000)
    return pyarrow.table({"player": country, "arm": np.array(ARMS)[arm], "propensity": shares[arm], **outcomes})


def with_regions(table: pyarrow.Table) -> pyarrow.Table:
    """The log with a column for the region."""
    of = {country: region for region, countries in REGIONS.items() for country in countries.split()}
    return table.append_column("region", [[of.get(country) for country in table["player"].to_pylist()]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, nargs="?", help="the trial as a CSV file; a made-up one if omitted")
    parser.add_argument("--quick", action="store_true", help="2 passes of the replay, not 10")
    given = parser.parse_args()
    passes = 2 if given.quick else 10
    log = with_regions(made_up() if given.log is None else pyarrow.csv.read_csv(given.log))
    for outcome in OUTCOMES:
        print(f"\n===== {outcome}\n")
        found = diagnose(log, reward=outcome, attributes=["region"])
        print(*(line for line in str(found).splitlines() if "region" in line), sep="\n")
        learned = ["best", "best by region", "best by player"]
        print(evaluate(log, learned, against="best", reward=outcome, attributes=["region"], by="region"))
        for title, attributes in (("PosseTS is told the regions", ["region"]), ("it is not told", [])):
            alone = [posse.IndTSV()] if attributes else []
            judged = ["best", posse.PosseTS(), *alone]
            told = evaluate(log, judged, against="best", reward=outcome, attributes=attributes, passes=passes)
            print(f"\nby replay; {title}")
            print(*(line for line in str(told).splitlines()[2 : 3 + len(judged)]), sep="\n")


if __name__ == "__main__":
    main()
