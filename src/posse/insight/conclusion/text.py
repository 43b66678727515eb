"""A conclusion in words. Each sentence is made here once, for the command line, the page and the dashboard."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from posse.insight.logs import takes_default
from posse.text import align, bullets, decimals, fixed, listed, plural, shorten, with_ends, wrap

if TYPE_CHECKING:
    from posse.insight.conclusion.api import ArmSummary, Conclusion

SHOWN = 12  # players in a table
LISTED = 50  # players that are listed below it
LIKELY = 0.9  # the chance from which on an arm is called a player's best
RARE = 0.01  # the share below which an arm is hardly ever chosen


def to_text(conclusion: Conclusion) -> str:
    """The verdict, what it costs, the arms, the players, and what all of it rests on."""
    parts = [wrap(verdict(conclusion))]
    parts.append(bullets([*costs(conclusion), *cautions(conclusion)]))
    if conclusion.answers:
        parts.append(wrap(unreliable(conclusion)))
        parts += ["\n".join(align(table)) for table in (arm_table(conclusion), player_table(conclusion))]
        parts.append(bullets(likely_arms(conclusion)))
    parts.append(bullets(reading(conclusion)))
    return "\n\n".join(part for part in parts if part)


def verdict(conclusion: Conclusion) -> str:
    """What to ship for whom, as far as it is shown, and what speaks against it; never more than that."""
    if not conclusion.answers:
        return f"There is nothing to conclude yet: no decision has a reward{' that counts' * bool(conclusion.notes)}."
    if len(conclusion.offered) < 2:
        return f"There is nothing to decide: {shorten(conclusion.leader)} is the only arm on offer."
    if conclusion.doubts:
        return f"Nothing can be concluded. {conclusion.doubts[0]}."
    by_arm: dict[str, list[str]] = defaultdict(list)
    for player in conclusion.players:
        if player.winner is not None and player.winner != conclusion.winner:
            by_arm[player.winner].append(shorten(player.name))
    broken = [
        f" But first look at {outcome}: {shorten(arm)} breaks its bound."
        for outcome, arm in conclusion.alarms
        if arm in (conclusion.leader, *by_arm)
    ]
    if (doubt := _doubted(conclusion)) is not None:
        broken.append(f" But look closer: by all rewards so far, {shorten(doubt.name)} is more likely the best.")
    return _to_ship(conclusion, by_arm) + "".join(broken)


def _doubted(conclusion: Conclusion) -> ArmSummary | None:
    """The arm that by now is more likely the best than the one that was shown to be; None if there is none."""
    likeliest = max(conclusion.arms, key=lambda arm: arm.chance)
    doubted = conclusion.winner not in (None, likeliest.name) and likeliest.chance > 0.5
    return likeliest if doubted else None


def at_the_end(verdict: str) -> str:
    """A verdict without the advice to go on, as on an experiment that has ended.

    >>> at_the_end("Go on: no arm is shown to be the best for everybody yet.")
    'No arm is shown to be the best for everybody yet.'
    """
    rest = verdict.removeprefix("Go on: ")
    return f"{rest[:1].upper()}{rest[1:]}"


def _to_ship(conclusion: Conclusion, by_arm: Mapping[str, list[str]]) -> str:
    """What to ship for everybody, and for the players who have another winner."""
    own = ", and ".join(f"{shorten(arm)} for {listed(names, 3)}" for arm, names in by_arm.items())
    if conclusion.winner is not None:
        but = f" But ship {own}." if own else ""
        return f"Ship {shorten(conclusion.winner)}{_for_everybody(conclusion)}: {_shown(conclusion)}.{but}"
    leader, whom = conclusion.arm(conclusion.leader), _for_everybody(conclusion)
    likely = f"no arm is shown to be the best{whom} yet; most likely it is {shorten(leader.name)}"
    likely += f" (chance {chance(leader.chance)})."
    likely += "".join(f" {sentence}" for sentence in _different(conclusion))
    if own:
        return f"Ship {own}: {_shown(conclusion)} there. But {likely}"
    return f"Go on: {likely}" if conclusion.going_loss <= conclusion.ship_loss else at_the_end(likely)


def _for_everybody(conclusion: Conclusion) -> str:
    """For whom an arm is shipped, where there is more than one player."""
    return " for everybody" if len(conclusion.players) > 1 else ""


def _different(conclusion: Conclusion) -> list[str]:
    """A sentence if players probably need different arms: two arms are each likely the best for somebody."""
    by_arm = _by_likely_arm(conclusion, LIKELY)
    whom = [f"{shorten(arm)} for {plural(len(names), 'player')}" for arm, names in by_arm.items()]
    sure = f"each with a chance of at least {percent(LIKELY)}"
    return [f"Players probably need different arms: {listed(whom, 4)} ({sure})."] if len(by_arm) > 1 else []


def _by_likely_arm(conclusion: Conclusion, least: float = 0.0) -> dict[str, list[str]]:
    """The players by the arm that is likely their best, if its chance is at least so much; most players first."""
    found: dict[str, list[str]] = defaultdict(list)
    for player in conclusion.players:
        if player.answers and player.chance >= least:
            found[player.likeliest].append(shorten(player.name))
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def likely_arms(conclusion: Conclusion) -> list[str]:
    """All players by the arm that is likely their best, if they are more than the table of players has."""
    if not SHOWN < len(conclusion.players) <= LISTED:
        return []
    found = _by_likely_arm(conclusion).items()
    return [f"Likely best is {shorten(arm)} for {listed(names, LISTED)}." for arm, names in found]


def _shown(conclusion: Conclusion) -> str:
    if conclusion.tolerance:
        return f"no other arm is better by more than {conclusion.tolerance:g}"
    return "it is better than every other arm"


def costs(conclusion: Conclusion) -> list[str]:
    """What stopping loses, and what going on loses, by the model."""
    if len(conclusion.offered) < 2 or not conclusion.answers or conclusion.doubts:
        return []
    arm, ship, going = shorten(conclusion.leader), conclusion.ship_loss, conclusion.going_loss
    best = "each player's best arm" if len(conclusion.players) > 1 else "the best arm"
    found = [
        f"Shipping {arm}{_for_everybody(conclusion)} loses {_reward(ship)} in 1,000 decisions, compared with {best}. "
        "Going on cannot gain more than that.",
        f"Going on as now earns {_reward(abs(going - ship))} {'less' if going >= ship else 'more'} in 1,000 decisions "
        f"than shipping it{_price(conclusion)}.",
    ]
    if len(conclusion.players) > 1:
        own = _reward(conclusion.own_loss)
        found.append(f"Giving each player the arm with its highest expected reward loses {own} in 1,000 decisions.")
    return found


def _price(conclusion: Conclusion) -> str:
    """What is paid for by earning less, if nothing is shown yet; or that it is hardly to be had."""
    rare = [shorten(arm.name) for arm in conclusion.arms if arm.offered and arm.share < RARE]
    if conclusion.winner is None and rare:
        return f". It will hardly bring a guarantee, because the share of {listed(rare, 3)} is below {percent(RARE)}"
    paid = conclusion.winner is None and conclusion.going_loss > conclusion.ship_loss
    return ", the price of a guarantee" if paid else ""


def _reward(each: float) -> str:
    """A reward in 1,000 decisions."""
    reward = 1000 * each
    if reward < 0.01:
        return "less than 0.01"
    return f"about {reward:,.0f}" if reward >= 10 else f"about {reward:.2g}"


def cautions(conclusion: Conclusion) -> list[str]:
    """What speaks against a verdict, and what is left out."""
    found = [*conclusion.notes, *(_different(conclusion) if conclusion.winner is not None else ())]
    likeliest = _doubted(conclusion)
    if conclusion.winner is not None and likeliest is not None:
        found.append(
            f"{shorten(conclusion.winner)} was shown to be the best after {conclusion.since:,} rewards. By all rewards "
            f"so far, {shorten(likeliest.name)} is more likely the best: means seem to have changed, so look closer."
        )
    if conclusion.alone:
        found.append(
            f"No arm can be shown to be the best for the {plural(conclusion.alone, 'player')} that joined last, "
            "because memory is bounded. Their rewards count for everybody."
        )
    return found


def unreliable(conclusion: Conclusion) -> str:
    """What stands above the tables of a log that failed a check."""
    if not conclusion.doubts:
        return ""
    return "The numbers below are those of a log that failed a check. Find the fault first, and rely on none of them."


def ordered(conclusion: Conclusion) -> list[ArmSummary]:
    """The arms, the likeliest best ones first, and those that are not on offer last."""
    return sorted(conclusion.arms, key=lambda arm: (not arm.offered, -arm.chance, -arm.answers))


def arm_table(conclusion: Conclusion) -> list[list[str]]:
    """A line for each arm below the headings: how often, what it earns, how likely it is the best."""
    leader = shorten(conclusion.leader)
    rows = [["arm", "rewards", "share now", "likely mean", "mean within", f"{leader} minus it", "chance of best"]]
    digits, apart = decimals(conclusion.setup["low"], conclusion.setup["high"], 4), known_differences(conclusion)
    for arm in ordered(conclusion):
        ends = with_ends(arm.mean, arm.low, arm.high).partition(" ")[2]
        mean = (fixed(arm.expected, digits), ends) if arm.answers else ("–", "–")
        share, best = (percent(arm.share), chance(arm.chance)) if arm.offered else ("retired", "–")
        difference = apart.get(arm.name, "–").partition(" ")
        rows.append([shorten(arm.name), f"{arm.answers:,}", share, *mean, difference[2] or difference[0], best])
    return rows


def known_differences(conclusion: Conclusion) -> dict[str, str]:
    """The leader's differences that have an interval, by the other arm."""
    known = (each for each in conclusion.differences if math.isfinite(each.high - each.low))
    return {each.against: with_ends(each.value, each.low, each.high, "+") for each in known}


def player_table(conclusion: Conclusion, most: int = SHOWN) -> list[list[str]]:
    """A line for each of the players with most rewards; none if there is one player."""
    if len(conclusion.players) < 2:
        return []
    rows = [["player", "rewards", "likely best", "chance", "from others", "shown"]]
    order = sorted(conclusion.players, key=lambda player: -player.answers)
    for each in order[:most]:
        shown = "not yet" if each.winner is None else f"{shorten(each.winner)} since {each.since:,}"
        numbers = chance(each.chance), percent(each.others)
        rows.append([shorten(each.name), f"{each.answers:,}", shorten(each.likeliest), *numbers, shown])
    if len(order) > most:
        rows.append([f"… {len(order) - most:,} more"])
    return rows


def reading(conclusion: Conclusion) -> list[str]:
    """How to read it, and on what it rests."""
    if conclusion.doubts:
        return []
    unseen = "All this is void if whether or when a reward comes depends on the arm; posse watch checks that."
    if takes_default(conclusion.setup):
        unseen = (
            "A decision whose reward does not come in time counts with the default reward. All this is about rewards "
            "that are counted so; nothing checks whether rewards get lost."
        )
    return [
        f"“Ship” is guaranteed: at most {percent(conclusion.level)} of experiments are ever told to ship a wrong arm "
        "for anybody, however often one looks, for any rewards in their range. The best arm is the one that is best on "
        "average over the decisions so far.",
        "Likely means, chances, costs, and the weight of rewards “from others” come from the model of the players that "
        "posse diagnose uses. Intervals rest on no model, so they allow for more. Each holds at every look with "
        f"probability {percent(1 - conclusion.level)}.",
        unseen,
    ]


def percent(share: float) -> str:
    """A share in percent; only 0 and 1 print as 0 % and 100 %.

    >>> percent(0.0004), percent(0.25), percent(0.99999), percent(1.0)
    ('< 0.1 %', '25 %', '> 99.9 %', '100 %')
    """
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.{2 if share < 0.1 else 3}g} %"


def chance(share: float) -> str:
    """A chance of the model in percent. It comes from draws, so that none of them, or all, is not yet certainty."""
    return percent(min(max(share, 1e-9), 1 - 1e-9))
