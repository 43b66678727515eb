"""The paper's whole evaluation: its spec, at full size or smaller."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable

from posse.checks import whole
from posse.experiments.spec.document import shipped, to_toml
from posse.experiments.spec.reader import parse
from posse.experiments.spec.study import Spec
from posse.streams import check_seed

QUICK_HORIZON = 5_000
QUICK_INSTANCES = 6


def paper_spec(
    *,
    horizon: int | None = None,
    instances: int | None = None,
    subpar: Iterable[int] | None = None,
    seed: int | None = None,
    own_only: bool = False,
    quick: bool = False,
) -> Spec:
    """The shipped spec of the evaluation, changed where asked.

    Args:
        horizon: rounds, in place of 50,000.
        instances: problems for each setting, in place of 30; the studies beyond the paper have a third as many.
        subpar: the numbers of subpar arms of the paper's own study, in place of 0 … 9.
        seed: in place of 0.
        own_only: leave out the studies that the paper does not have.
        quick: all studies, but short: 5,000 rounds and 6 problems, unless horizon and instances say otherwise.

    >>> len(paper_spec(subpar=[8], instances=3, own_only=True).units()) > 0
    True
    """
    text = shipped("paper.toml")
    document = tomllib.loads(text)
    own, *others = document["study"]
    horizon = QUICK_HORIZON if quick and horizon is None else horizon
    instances = QUICK_INSTANCES if quick and instances is None else instances
    if horizon is not None:
        rounds = whole("horizon", horizon, least=1)
        for study in (own, *others):
            study["turns" if "turns" in study else "horizon"] = rounds
    if instances is not None:
        count = whole("instances", instances, least=1)
        own["problems"]["count"] = count
        for study in others:
            study["problems"]["count"] = -(-count // 3)
    if subpar is not None:
        if not isinstance(subpar, Iterable):
            raise TypeError(f"subpar={subpar!r}, but expected a list of whole numbers, such as [8, 5]")
        own["problems"]["n_subpar"] = [whole("subpar", number, least=0, most=9) for number in subpar]
    if seed is not None:
        document["seed"] = check_seed(seed)
    if own_only:
        document["study"] = [own]
    return parse(text if document == tomllib.loads(text) else to_toml(document))
