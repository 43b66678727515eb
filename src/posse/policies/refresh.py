"""When a player's numbers for an arm are brought up to date; one rule for everything that runs policies."""

import enum


class Refresh(enum.Enum):
    """When a player's numbers for an arm are brought up to date."""

    OWN_PULL = "own pull"
    """When the player itself pulls the arm. It sees what others learned only then (RobustAgg-TS)."""

    ANY_PULL = "any pull"
    """When anybody pulls the arm (RobustAgg, RobustAgg-TS-V)."""

    SCHEDULE = "schedule"
    """When a summary of everybody's data is made: `summary_is_due`. In between, a player's first pulls of an arm count
    at once for the player itself: `counts_at_once` (PosseTS)."""


def summary_is_due(pulls, before, players):
    """Whether a new summary is due after `pulls` pulls in all, if the last one was made after `before`.

    It is due when the pulls since then reach a sixteenth of all, or 64 for each player. So there is one at every pull
    at first, and a fixed cost for each pull later.
    """
    return 16 * (pulls - before) >= min(pulls, 1024 * players) and pulls > before


FEW = 64


def counts_at_once(pulls):
    """Whether a player's own pull changes its index before the next summary; `pulls` includes this pull.

    It does while the pulls are few. Later, one more pull changes little, and the next summary is never far.
    """
    return pulls <= FEW
