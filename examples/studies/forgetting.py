"""What forgetting costs where nothing changes, and what it saves where means do: PosseTS with several half-lives.

python examples/studies/forgetting.py            # half a minute on two cores
python examples/studies/forgetting.py --quick    # seconds, rougher
"""

from __future__ import annotations

import argparse

import posse


def main(count: int, horizon: int) -> None:
    half_lives = [None, *(horizon // part for part in (2, 4, 10, 20, 40))]
    policies = [posse.PosseTS(forget=half_life) for half_life in half_lives]
    often = {"every": horizon // 20, "times": 19, "count": count}
    families = {
        "no change": posse.generate.structured(count=count),
        "one change": posse.generate.changing("swap", every=horizon // 2, count=count),
        "slow drift": posse.generate.changing("drift", **often),
        "seasons": posse.generate.changing("season", **often),
    }
    print(f"mean regret after {horizon:,} rounds, {count} problems of 20 players and 10 arms")
    print(f"{'policy':<24}" + "".join(f"{name:>12}" for name in families))
    results = [posse.simulate(problems, policies, horizon, checkpoints=1) for problems in families.values()]
    for number, policy in enumerate(policies):
        print(f"{policy.label:<24}" + "".join(f"{each.final_regret[number].mean():>12,.0f}" for each in results))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    main(*((2, 1000) if parser.parse_args().quick else (20, 10_000)))
