"""Numbers and amounts as the pages write them."""

import math

from posse.insight.conclusion.text import percent as conclusion_percent
from posse.text import decimals, fixed


def percent(share: float) -> str:
    """A share as a percentage. A positive share never prints as 0 %, and one below 1 never as 100 %.

    >>> percent(0.003), percent(0.5), percent(0.998), percent(0)
    ('<1 %', '50 %', '>99 %', '0 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def amount(low: float, high: float, value: float | None, digits: int = 2) -> str:
    """A reward with as many digits as suit the range; a dash where there is none.

    >>> amount(0, 1, 0.4213), amount(0, 100, 12.3), amount(0, 1, math.nan)
    ('0.42', '12', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return fixed(value, min(decimals(low, high, digits), 12))


def span(seconds: float) -> str:
    """A length of time, roughly.

    >>> span(0.04), span(12), span(300), span(7300), span(400_000)
    ('40 ms', '12 s', '5 min', '2 h', '5 days')
    """
    if seconds < 1:
        return f"{1000 * max(seconds, 0):.0f} ms"
    if seconds < 10 and round(seconds, 1) != round(seconds):
        return f"{seconds:.1f} s"
    for unit, size, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds / size < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def rate(per_second: float) -> str:
    """How often something happens.

    >>> rate(12.34), rate(0.5), rate(0.001), rate(0)
    ('12 a second', '30 a minute', '3.6 an hour', 'none')
    """
    if per_second <= 0:
        return "none"
    for unit, size in (("second", 1), ("minute", 60)):
        if per_second * size >= 9.5:
            return f"{per_second * size:,.0f} a {unit}"
        if per_second * size >= 1:
            return f"{per_second * size:.2g} a {unit}"
    return f"{max(per_second * 3600, 0.1):.2g} an hour"


def chance(share: float) -> str:
    """A chance that was counted in a model's draws, none of which makes it certain.

    >>> chance(0.0), chance(0.25), chance(1.0)
    ('< 0.1 %', '25 %', '> 99.9 %')
    """
    return conclusion_percent(min(max(share, 1e-9), 1 - 1e-9))


def sentence(text: str) -> str:
    """What the command line prints as an item of a list, as a sentence.

    >>> sentence("rewards arrive alike")
    'Rewards arrive alike.'
    """
    return f"{text[:1].upper()}{text[1:]}."
