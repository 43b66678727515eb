"""The whole life of an experiment in a real browser, with the keyboard alone: from its form to its archive."""

from __future__ import annotations

import numpy as np
import pytest
from browsing import Visit, chromium, faults
from serving import service
from sizes import FULL
from test_dashboard_browser import PATIENCE, _fits, _tab_to

from posse.service.client import Client

BEST, OTHER, TODAY = "99 % free shipping weekend", "coupon", "nothing"
MEANS, REFUNDS = {BEST: 0.9, OTHER: 0.2, TODAY: 0.1}, {BEST: 0.0, OTHER: 0.9, TODAY: 0.0}
SHOPS = ["Lyon", "Nice", "Gare du Nord, platform 12"]
LOOKS = [("dark", 400), *([("light", 400), ("dark", 1200), ("light", 1200)] if FULL else [])]


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def _type_into(page, **fields):
    for name, text in fields.items():
        _tab_to(page, f"#{name}")
        page.keyboard.press("ControlOrMeta+a")  # what is there by default
        page.keyboard.type(text)


def _use(client, rounds):
    """What programs do: decide, and report rewards and refunds."""
    random = np.random.default_rng(1)
    for _ in range(rounds):
        made = [decision for _ in range(4) for decision in client.choose("offers", SHOPS)]
        drawn = random.random((len(made), 2))
        client.observe(
            "offers",
            [
                (each.id, float(one < MEANS[each.arm]), {"refund": float(two < REFUNDS[each.arm])})
                for each, (one, two) in zip(made, drawn, strict=True)
            ],
        )


def test_an_experiment_begins_is_watched_concluded_finished_summed_up_and_archived(browser, tmp_path):
    from playwright.sync_api import expect

    with (
        service(tmp_path, defaults_seconds=None) as http,
        Client(str(http.base_url)) as client,
        Visit(browser, str(http.base_url)) as page,
    ):
        press = page.keyboard.press
        page.goto("/")
        _type_into(page, name="offers", arms=f"{BEST}\n{OTHER}\n{TODAY}", players="\n".join(SHOPS))
        _tab_to(page, "details.more > summary")
        press("Enter")
        _type_into(
            page, description="Which offer sells?", control=TODAY, outcomes="refund: 0 to 1, at most 0.3", holdout="30"
        )
        _tab_to(page, "button.primary")
        press("Enter")
        expect(page.get_by_role("heading", name="offers", level=1)).to_be_visible()
        page.evaluate("window.stays = true")  # a reload would lose it
        _use(client, 25)
        sentence = page.locator("#sentence")
        expect(sentence).to_contain_text(f"Ship {BEST} for everybody", timeout=60_000)
        expect(page.locator("#checks .good")).to_have_count(2)
        expect(page.locator("#earned")).to_contain_text("The adaptive part earns more than the holdout")
        expect(page.locator("#earned-holdout canvas")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#earned-control canvas")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#alarm")).to_contain_text(f"{OTHER} is above the bound of refund")
        expect(page.locator("#guards .broken")).to_have_count(1)
        expect(page.locator("#matrix td.best")).to_have_count(3)
        assert page.evaluate("window.stays")
        verdict = sentence.inner_text()

        _tab_to(page, "#finish")
        press("Enter")
        dialog = page.get_by_role("dialog", name="Finish offers?")
        expect(dialog).to_contain_text(verdict, timeout=PATIENCE)
        expect(dialog.locator("#ship")).to_have_value(BEST)
        _tab_to(page, "#dialog button")
        press("Enter")
        expect(page.locator(".lede")).to_contain_text(f"Every decision is {BEST}")
        shipped = client.choose("offers", SHOPS[0])
        assert (shipped.arm, shipped.propensity) == (BEST, 1.0)

        page.goto("/experiments/offers")
        _tab_to(page, "#summary")
        press("Enter")
        expect(page.get_by_role("heading", name="offers", level=1)).to_be_visible()
        expect(page.locator("body")).to_contain_text(verdict)
        expect(page.locator("body")).to_contain_text("Which offer sells?")
        assert len(page.pdf(format="A4")) > 10_000
        for scheme, width in LOOKS:
            with Visit(browser, str(http.base_url), width, color_scheme=scheme) as look:
                for path in ("/experiments/offers/summary", *(["/experiments/offers"] if FULL else [])):
                    look.goto(path)
                    for details in look.locator("details").all():
                        details.evaluate("each => each.open = true")
                    assert _fits(look), (path, scheme, width)
                    assert faults(look) == [], (path, scheme, width)

        page.goto("/experiments/offers/manage")
        _tab_to(page, "#archive")
        press("Enter")
        expect(page.get_by_role("dialog", name="Archive offers?")).to_be_visible()
        _tab_to(page, "#dialog button")
        press("Enter")
        expect(page.locator("#restore")).to_be_visible()
        page.goto("/experiments/offers")
        expect(page.locator("#notice")).to_contain_text("Archived")
        assert client.experiments() == []
