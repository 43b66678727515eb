"""How often the checks of `posse watch` raise a false alarm, what they find, and how often its intervals hold.

    python examples/studies/watch_coverage.py  # the tables of docs/watching.md: some ten minutes on one core
    python examples/studies/watch_coverage.py --experiments 500 --only shares

Every experiment has an adaptive policy, three players, four arms, a holdout, and rewards that come late or never. All
checks look after every decision (every reward, every outcome) and count as an alarm if they ever raise one. Beside each
stands a test that is right for one look only, and looks as often.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posse.confidence import evidence_above, running_evidence
from posse.insight.watching.evidence import (
    REACHES,
    DecisionBlock,
    EffectEvidence,
    RewardGuess,
    WatchEvidence,
    effect_terms,
)

PLAYERS, ARMS, HOLDOUT, LATE = 3, 4, 0.1, 40
LEVEL, INTERVAL, GUARD = 0.01, 0.05, 0.05
SKIPPED = 50  # looks that the tests for one look leave out: they suit no small samples
AT_ONCE = 250  # experiments in memory


class Experiments(NamedTuple):
    """Several experiments at once: the first axis of every array is the experiment, the second the decision."""

    player: np.ndarray
    arm: np.ndarray
    probabilities: np.ndarray
    reward: np.ndarray
    arrival: np.ndarray  # after how many decisions the reward came; infinite if it never came
    means: np.ndarray  # of the decision's player with each arm

    def choices(self, number: int) -> DecisionBlock:
        """One experiment's decisions."""
        return DecisionBlock(*(each[number] for each in self[:4]))

    def answers(self, number: int) -> tuple[DecisionBlock, np.ndarray]:
        """One experiment's decisions in the order in which rewards came, and the true means of their arms."""
        order = np.argsort(self.arrival[number], kind="stable")[: int(np.isfinite(self.arrival[number]).sum())]
        return self.choices(number).taken(order), self.means[number, order]


def experiments(
    count: int,
    decisions: int,
    random: np.random.Generator,
    *,
    misrouted: str = "",
    lost: float = 0.0,
    learns: float = 3.0,
) -> Experiments:
    """Experiments whose policy prefers the arms that have earned most, by a softmax that sharpens as rewards come.

    `misrouted` is "" or how 2 % of the decisions get another arm than was drawn: "to one" arm, "spread" over all
    others. One arm loses `lost` more of its rewards than the fifth that all arms lose. With `learns=0`, shares stay
    equal.
    """
    every, width = np.arange(count), LATE + 1
    means = random.uniform(0.05, 0.4, (count, 1, ARMS)) * random.uniform(0.7, 1.3, (count, PLAYERS, ARMS))
    pulls, sums = np.zeros((2, count, PLAYERS, ARMS))
    coming = np.zeros((width, 2, count, PLAYERS, ARMS))  # by when they come: pulls and sums
    player = random.integers(PLAYERS, size=(count, decisions))
    late = random.integers(1, width, (count, decisions))
    chosen, marked = np.empty((count, decisions), np.int64), random.integers(ARMS, size=count)
    probabilities, reward, arrival = np.empty((count, decisions, ARMS)), *np.empty((2, count, decisions))
    for now in range(decisions):
        arrived = coming[now % width]
        pulls, sums = pulls + arrived[0], sums + arrived[1]
        arrived[:] = 0
        who = every, player[:, now]
        n, s = pulls[who], sums[who]
        heat = learns * np.sqrt(2 + n.sum(axis=1, keepdims=True)) * (s + 0.5) / (n + 2)
        wanted = np.exp(heat - heat.max(axis=1, keepdims=True))
        chances = HOLDOUT / ARMS + (1 - HOLDOUT) * wanted / wanted.sum(axis=1, keepdims=True)
        arm = np.minimum((random.random(count)[:, None] > chances.cumsum(axis=1)).sum(axis=1), ARMS - 1)
        moved = random.random(count)
        if misrouted == "to one":
            arm = np.where((arm != marked) & (moved * (1 - chances[every, marked]) < 0.02), marked, arm)
        elif misrouted == "spread":
            arm = np.where(moved < 0.02, (arm + random.integers(1, ARMS, count)) % ARMS, arm)
        got = (random.random(count) < means[(*who, arm)]) * 1.0
        came = random.random(count) >= 0.2 + lost * (arm == marked)
        slot = (now + late[:, now]) % width
        np.add.at(coming, (slot, 0, *who, arm), came * 1.0)
        np.add.at(coming, (slot, 1, *who, arm), came * got)
        chosen[:, now], probabilities[:, now], reward[:, now] = arm, chances, got
        arrival[:, now] = np.where(came, now + late[:, now], np.inf)
    return Experiments(player, chosen, probabilities, reward, arrival, means[every[:, None], player])


def batches(count: int, decisions: int, **options: Any) -> Iterator[Experiments]:
    """So many experiments, in parts that fit into memory, always the same."""
    random = np.random.default_rng([decisions, *map(ord, repr(options))])
    for start in range(0, count, AT_ONCE):
        yield experiments(min(AT_ONCE, count - start), decisions, random, **options)


def naive_shares(block: DecisionBlock) -> bool:
    """Whether Pearson's χ² test of the arms' counts is ever significant at LEVEL, at any decision."""
    chosen = (block.arm[:, None] == np.arange(ARMS)).cumsum(axis=0)
    expected = block.probabilities.cumsum(axis=0)
    found = ((chosen - expected) ** 2 / expected).sum(axis=1)[SKIPPED:]
    return bool((found > 11.345).any())  # the upper 1 % of χ² with 3 degrees of freedom


def shares_table(count: int, decisions: int, every: int = 1, **options: Any) -> dict[str, list[float]]:
    """When the two checks raised an alarm (infinite if never), and whether naive tests did, for each experiment."""
    found: dict[str, list[float]] = {"choices": [], "rewards": [], "naive choices": [], "naive rewards": []}
    for batch in batches(count, decisions, **options):
        for number in range(len(batch.arm)):
            choices, (answers, _) = batch.choices(number), batch.answers(number)
            evidence = WatchEvidence(ARMS, level=LEVEL, every=every)
            evidence.add_choices(choices)
            evidence.add_answers(answers)
            assert evidence.answers is not None
            for name, each in (("choices", evidence.choices), ("rewards", evidence.answers)):
                found[name].append(each.alarm.noticed if each.alarm else math.inf)
            found["naive choices"].append(naive_shares(choices))
            found["naive rewards"].append(naive_shares(answers))
    return found


def effect_misses(count: int, decisions: int) -> dict[str, np.ndarray]:
    """For each comparison: shares of intervals that were ever wrong, of naive ones, and how much wider ours end."""
    found = {name: np.zeros(3) for name in ("holdout", "control")}
    for batch in batches(count, decisions):
        for number in range(len(batch.arm)):
            block, means = batch.answers(number)
            guess = np.concatenate([each for _, each in RewardGuess(ARMS).follow(block)])
            adaptive = (block.probabilities - HOLDOUT / ARMS) / (1 - HOLDOUT)
            for name, other in (("holdout", np.full(ARMS, 1 / ARMS)), ("control", np.eye(ARMS)[0])):
                found[name] += effect_miss(block, means, adaptive - other, guess)
    return {name: each / count for name, each in found.items()}


def effect_miss(block: DecisionBlock, means: np.ndarray, stakes: np.ndarray, guess: np.ndarray) -> tuple[float, ...]:
    """Whether an interval was ever wrong, whether a naive one was, and the ratio of their widths at the end."""
    counts = np.arange(1, block.arm.size + 1)
    truth = (stakes * means).sum(axis=1).cumsum() / counts
    terms = effect_terms(block, stakes, guess)
    sums, spreads = terms.cumsum(axis=-1).transpose(2, 0, 1, 3)
    evidence = running_evidence(counts, sums, spreads, np.stack([truth, -truth])[:, None], REACHES[:, None])
    wrong = (evidence >= math.log(2 * REACHES.size / INTERVAL)).any()
    plain = terms[0, -1, 0]
    mean = plain.cumsum() / counts
    half = 1.96 * np.sqrt(np.maximum((plain**2).cumsum() / counts - mean**2, 1e-12) / counts)
    effect = EffectEvidence()
    effect.add(block, stakes, guess)
    _, low, high = effect.estimate(INTERVAL)
    return float(wrong), float((np.abs(mean - truth) > half)[SKIPPED:].any()), (high - low) / 2 / float(half[-1])


def guard_alarms(count: int, decisions: int, rates: np.ndarray, bound: float) -> tuple[int, int]:
    """In how many experiments a guard raised an alarm, and a one-sided normal test, at any outcome of any arm."""
    random, every = np.random.default_rng([decisions, *(1000 * rates).astype(int)]), np.arange(count)
    counts, sums, raised, naive = *np.zeros((2, count, ARMS)), *np.zeros((2, count), bool)
    enough, z = math.log(ARMS / GUARD), 2.24  # the upper 5 % / 4 of the normal law
    for _ in range(decisions):
        arm = random.integers(ARMS, size=count)
        counts[every, arm] += 1
        sums[every, arm] += random.random(count) < rates[arm]
        n, s = counts[every, arm], sums[every, arm]
        raised |= evidence_above(n, s, bound) >= enough
        naive |= (n > SKIPPED) & (s - n * bound > z * np.sqrt(n * bound * (1 - bound)))
    return int(raised.sum()), int(naive.sum())


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="for each line (default: 10,000)")
    parser.add_argument("--decisions", type=int, default=1000, help="in an experiment (default: 1,000)")
    parser.add_argument("--only", default="", help="shares, misrouting, effects or guards")
    parser.add_argument("--quick", action="store_true", help="a few experiments, to see that it works")
    options = parser.parse_args()
    count, decisions = (20, 200) if options.quick else (options.experiments, options.decisions)
    few, long = (5, 400) if options.quick else (max(count // 20, 1), 20_000)
    if options.only in ("", "shares"):
        print(f"| {decisions:,} decisions, a look after each | experiments | alarms | a test for one look |")
        print("| --- | --- | --- | --- |")
        found = shares_table(count, decisions)
        for name in ("choices", "rewards"):
            cells = [f"{np.mean(each):.2%}" for each in (np.isfinite(found[name]), found[f"naive {name}"])]
            print(f"| {name}, all is well | {count:,} | {' | '.join(cells)} |", flush=True)
    if options.only in ("", "misrouting"):
        print(f"\n| {long:,} decisions | experiments | found | half of them within | false alarms of the other check |")
        print("| --- | --- | --- | --- | --- |")
        kinds = (
            ("2 % misrouted to one arm", "choices", {"misrouted": "to one"}),
            ("2 % misrouted to one arm, shares stay equal", "choices", {"misrouted": "to one", "learns": 0.0}),
            ("2 % misrouted, spread over the others", "choices", {"misrouted": "spread"}),
            ("one arm loses 40 % of its rewards, the others 20 %", "rewards", {"lost": 0.2}),
        )
        for name, check, how in kinds:
            found = shares_table(few, long, every=64, **how)
            other = "–" if check == "choices" else f"{np.isfinite(found['choices']).mean():.2%}"
            cells = [f"{np.isfinite(found[check]).mean():.1%}", f"{np.median(found[check]):,.0f}", other]
            print(f"| {name} | {few:,} | {' | '.join(cells)} |", flush=True)
    if options.only in ("", "effects"):
        print(
            "\n| what adapting earns | experiments | ever wrong | width over one for one look | that one ever wrong |"
        )
        print("| --- | --- | --- | --- | --- |")
        for name, (wrong, naive, wider) in effect_misses(count, decisions).items():
            cells = f"{count:,} | {wrong:.2%} | {wider:.1f} times | {naive:.2%}"
            print(f"| against the {name} | {cells} |", flush=True)
    if options.only in ("", "guards"):
        print(f"\n| guards, bound 5 %, {4 * decisions:,} decisions | experiments | alarms | a test for one look |")
        print("| --- | --- | --- | --- |")
        for name, rates in (("all arms at 5 %", [0.05] * 4), ("one arm at 10 %, others 4 %", [0.1, 0.04, 0.04, 0.04])):
            raised, naive = guard_alarms(count, 4 * decisions, np.array(rates), 0.05)
            print(f"| {name} | {count:,} | {raised / count:.2%} | {naive / count:.2%} |", flush=True)


if __name__ == "__main__":
    main()
