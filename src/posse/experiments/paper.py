"""The paper's whole evaluation: its spec, at full size or smaller."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources

from posse.checks import whole
from posse.experiments.reading import parse
from posse.experiments.spec import Spec
from posse.streams import check_seed

QUICK_HORIZON = 5_000
QUICK_INSTANCES = 6


def paper_spec(
    *,
    horizon: int | None = None,
    instances: int | None = None,
    subpar: Sequence[int] | None = None,
    seed: int | None = None,
    own_only: bool = False,
    quick: bool = False,
) -> Spec:
    """The shipped spec of the evaluation, changed where asked.

    Args:
        horizon: rounds, in place of 50,000.
        instances: problems for each setting, in place of 30; the studies beyond the paper have a third of it.
        subpar: the numbers of subpar arms of the paper's own study, in place of 0 … 9.
        seed: in place of 0.
        own_only: leave out the studies that the paper does not have.
        quick: all studies, but short: 5,000 rounds and 6 problems where nothing else is said.

    >>> len(paper_spec(subpar=[8], instances=3, own_only=True).units()) > 0
    True
    """
    text = shipped("paper.toml")
    if own_only:
        first, own, *_ = re.split(r"(?m)^(?=\[\[study\]\])", text)
        text = first + own
    horizon = QUICK_HORIZON if quick and horizon is None else horizon
    instances = QUICK_INSTANCES if quick and instances is None else instances
    if horizon is not None:
        text = _set(text, r"horizon|turns", str(whole("horizon", horizon, least=1)))
    if instances is not None:
        count = whole("instances", instances, least=1)
        text = _set(text, "count", str(max(1, -(-count // 3))))
        text = _set(text, "count", str(count), most=1)
    if subpar is not None:
        wanted = [whole("subpar", number, least=0, most=9) for number in subpar]
        text = _set(text, "n_subpar", str(wanted), most=1)
    if seed is not None:
        text = _set(text, "seed", str(check_seed(seed)))
    return parse(text)


def shipped(name: str) -> str:
    """The text of a spec that comes with posse: "paper.toml" or "example.toml"."""
    return (resources.files("posse.experiments") / "specs" / name).read_text(encoding="utf-8")


def _set(text: str, key: str, value: str, most: int = 0) -> str:
    """The spec with another value for a key, in its first `most` places or in all."""
    return re.sub(rf"(?m)^({key}) = [^#\n]*", lambda found: f"{found[1]} = {value}", text, count=most)
