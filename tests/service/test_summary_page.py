"""The one-page summary in a real browser: printed, in light and dark, and on a phone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from browsing import Visit, chromium, faults

import posse
from posse.insight import conclude, watch

ARMS = ["today's page", "new banner", "free shipping from 30 euros on", "coupon", "two for one", "plain"]
ARMS += [f"offer number {number}, while stocks last" for number in range(6)]
TITLE = "Checkout in autumn: which of twelve offers sells most, and in which of our shops?"
PLAYERS = [f"shop {number}, with a name that is rather long" for number in range(12)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full page: many players, arms with long names, guards, a control and a holdout."""
    random = np.random.default_rng(0)
    bounds = {name: posse.Outcome(range=(0, 1), at_most=0.05) for name in ("refund", "complaint")}
    settings = {"floor": 0.05, "shares": {ARMS[0]: (0.1, 0.3)}, "control": ARMS[0], "holdout": 0.1, "burn_in": 60}
    learner = posse.Learner(posse.IndTS(), ARMS, PLAYERS, seed=1, outcomes=bounds, **settings)
    for _ in range(30):
        for decision in learner.choose(PLAYERS):
            refund = float(decision.arm == "coupon" and random.random() < 0.5)
            learner.observe(decision, float(random.random() < 0.3), outcomes={"refund": refund})
    made = conclude(learner).page(watch(learner), title=TITLE, asked="Which offer sells most, and where?")
    path = tmp_path_factory.mktemp("page") / "summary.html"
    path.write_text(made, encoding="utf-8")
    return path


def test_the_summary_prints_on_one_page_and_fits_every_screen(page: Path) -> None:
    with chromium() as browser:
        for paper in ("A4", "Letter"):
            with Visit(browser, page.as_uri()) as visit:
                visit.goto(page.as_uri())
                printed = visit.pdf(format=paper)
                assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1
        for scheme, width in (("light", 1000), ("dark", 1000), ("light", 400)):
            with Visit(browser, page.as_uri(), width, color_scheme=scheme) as visit:
                visit.goto(page.as_uri())
                assert faults(visit) == []
                assert visit.evaluate("document.documentElement.scrollWidth") <= width
