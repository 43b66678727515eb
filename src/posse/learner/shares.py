"""Limits on how often each arm is chosen: their checks, and the equal shares within them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from posse.checks import number
from posse.learner import kernel
from posse.text import listed

Shares = dict[str, tuple[float, float]]
"""The least and the greatest share of arms, by name."""
ROUNDING = 1e-9  # by which shares may miss 1, such as ten times 0.1
NO_LIMITS = np.zeros((2, 0))


def check_shares(shares: Any) -> Shares:
    """The least and the greatest share of each arm that is named; a number is both."""
    if not isinstance(shares, Mapping):
        raise TypeError(f"shares={shares!r:.200}, but expected {{arm: share}} or {{arm: (least, greatest)}}")
    return {str(arm): _check_share(f"the share of arm {arm!r}", share) for arm, share in shares.items()}


def _check_share(name: str, share: Any) -> tuple[float, float]:
    if not isinstance(share, (tuple, list)):
        share = (share, share)
    if len(share) != 2:
        raise ValueError(f"{name} is {share!r}, but expected one number or (least, greatest)")
    least, greatest = (number(name, each, least=0, most=1) for each in share)
    if least > greatest:
        raise ValueError(f"{name} is ({least:g}, {greatest:g}), but the least cannot be above the greatest")
    return least + 0.0, greatest + 0.0  # not −0.0, which would be a share of its own in logs and answers


def check_limits(shares: Shares, floor: float, here: Collection[str], known: Collection[str]) -> None:
    """An error if the arms that are here cannot keep their limits; `known` are all that may be named."""
    for arm in shares:
        if arm not in known:
            raise ValueError(f"shares has the arm {arm!r}, but the arms are {listed(known)}")
    check_least(shares, floor, here)
    greatest = math.fsum(most for _, most in _pairs(shares, floor, here))
    if greatest < 1 - ROUNDING:
        raise ValueError(f"the greatest shares of the {len(here)} arms add up to {greatest:g}, but expected at least 1")


def check_least(shares: Shares, floor: float, here: Collection[str]) -> None:
    """An error if these arms cannot all have their least shares."""
    if not shares and floor * len(here) > 1:
        raise ValueError(f"floor={floor:g}, but {len(here)} arms can have at most {1 / len(here):.4g} each")
    least = math.fsum(low for low, _ in _pairs(shares, floor, here))
    if least > 1 + ROUNDING:
        raise ValueError(f"the least shares of the {len(here)} arms add up to {least:g}, but expected at most 1")


def _pairs(shares: Shares, floor: float, arms: Iterable[str]) -> list[tuple[float, float]]:
    return [shares.get(arm, (floor, 1.0)) for arm in arms]


def limits(shares: Shares, floor: float, arms: Sequence[str]) -> np.ndarray:
    """The least and the greatest share of each arm, [2, arm]; [2, 0] if none is named."""
    return np.array(_pairs(shares, floor, arms)).T.copy() if shares else NO_LIMITS


def equal_shares(about: Mapping[str, Any], rounds: np.ndarray, offered: np.ndarray) -> np.ndarray:
    """What the holdout of a learner's log drew from: equal shares within the limits, [row, arm].

    `about` is what the log's metadata says, `rounds` the round of each row, and `offered` says which arms it could
    choose, [row, arm], in the order of `about["arms"]`.
    """
    setup, found = about.get("setup", {}), np.zeros(offered.shape)
    steps = [(0, setup.get("shares", {}))]
    steps += [(each["rounds"], each["shares"]) for each in about.get("changes", ()) if each["kind"] == "shares"]
    since = np.searchsorted([after for after, _ in steps], rounds, side="left") - 1
    packed = np.packbits(offered, axis=1)
    alike = packed.view(f"S{packed.shape[1]}")[:, 0]  # rows with the same arms on offer
    for step, (_, shares) in enumerate(steps):
        rows = np.flatnonzero(since == step)
        each = limits(check_shares(shares), setup.get("floor", 0.0), about["arms"])
        _, first, which = np.unique(alike[rows], return_index=True, return_inverse=True)
        if rows.size:
            found[rows] = np.array([_equal(each, offered[row]) for row in rows[first]])[which]
    return found


def _equal(each: np.ndarray, offered: np.ndarray) -> np.ndarray:
    """Equal shares of the arms on offer within their limits, 0 for the others."""
    shares, count = np.zeros(offered.size), int(np.count_nonzero(offered))
    if not each.size:
        shares[offered] = 1 / max(count, 1)
    else:
        found = np.empty(count)
        kernel.limit(*each[:, offered], np.ones(count), found)
        shares[offered] = found
    return shares
