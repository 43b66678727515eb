"""Pictures of the dashboard: the demonstration's shops after 7,200 decisions, light, dark and on a phone."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from posse.service import demo
from posse.service.client import Client
from posse.service.demo import COMPILING, SHARING, SHOPS, ShopChain
from posse.service.process.supervisor import background
from posse.service.settings import Settings

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
sys.path.append(str(ROOT / "tests" / "service"))
DECISIONS = 7200
STEP = 0.1  # seconds of the shops' own time between two groups of people


def main() -> None:
    from browsing import chromium

    demo.SETTINGS["seed"] = 7  # otherwise each picture would show other decisions
    demo.FORGOTTEN = 0.0  # otherwise the page would wait a minute for rewards that never come
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        database = f"sqlite:///{folder}/shops.db"
        with background(Settings(database, open=True, answer_seconds=COMPILING)) as url:
            with Client(url, timeout=COMPILING) as client:
                clock = itertools.count()
                chain = ShopChain(client, clock=lambda: STEP * next(clock))
                while chain.passed < DECISIONS:
                    chain.pass_by(len(SHOPS))
                    chain.report()
            for name, scheme, size, begin in (
                ("dashboard-light.png", "light", (1160, 1010), None),
                ("dashboard-dark.png", "dark", (1160, 1010), None),
                ("dashboard-phone.png", "light", (390, 844), "What is known so far"),
            ):
                view = browser.new_context(
                    viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme
                )
                page = view.new_page()
                page.goto(f"{url}/experiments/{SHARING}", wait_until="load")
                page.get_by_text("Chance of being the best for everybody").wait_for(timeout=60_000)
                time.sleep(5)  # parts of the page come one after the other
                if begin is not None:
                    place = page.get_by_role("heading", name=begin).bounding_box()
                    page.evaluate("top => scrollTo(0, top - 12)", place["y"])
                file = IMAGES / name
                page.screenshot(path=file)
                Image.open(file).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE).save(file, optimize=True)


if __name__ == "__main__":
    main()
