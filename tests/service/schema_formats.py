"""What the API's own formats mean, for schemathesis: names, often those of the experiment that is there."""

import unicodedata

import schemathesis
from hypothesis import strategies

ANY = strategies.text(strategies.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=100).map(
    lambda name: unicodedata.normalize("NFC", name)[:200]
)
THERE = strategies.sampled_from(["Lyon", "Nice", "coupon", "nothing"])

schemathesis.openapi.format("printable", THERE | ANY)
schemathesis.openapi.format(
    "segment",
    strategies.just("ours") | ANY.filter(lambda name: not {"/", "\\"} & set(name) and name.strip(".")),
)
