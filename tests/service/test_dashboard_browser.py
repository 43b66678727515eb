"""The dashboard in a real browser: an experiment created and watched live, by keyboard, on a phone, by axe's rules."""

from __future__ import annotations

import re
import time

import pytest
from browsing import Visit, chromium, faults
from serving import service
from test_dashboard import HOSTILE

import posse
from posse.service.auth import CreateToken
from posse.service.client import Client
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

PATIENCE = 20_000  # milliseconds; for slow machines only, nothing is measured


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with service(tmp_path_factory.mktemp("browser"), defaults_seconds=None) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def client(url):
    with Client(url) as client:
        yield client


@pytest.fixture(scope="module")
def busy(client):
    """The address of an experiment in which a shop is unlike the others, and ε is broken."""
    shops = [f"shop {number}" for number in range(6)]
    more = {"default_reward": 0.0, "patience": 3600.0, "holdout": 0.2, "control": "blue"}
    client.create("busy", ["blue", "red", "plants"], shops, posse.RobustAggTS(0.1), **more)
    client.record("busy", [(shop, "red", float(number % 4 > 0)) for shop in shops[1:] for number in range(160)])
    client.record("busy", [("shop 0", "red", float(number % 20 == 0)) for number in range(160)])
    client.record(
        "busy", [(shop, arm, float(number % 2)) for shop in shops for arm in ("blue", "plants") for number in range(20)]
    )
    for number in range(40):
        for decision in client.choose("busy", shops):
            if number > 1:
                client.observe("busy", decision.id, float(decision.arm == "red"))
    return "/experiments/busy"


def _number(page, label):
    text = page.locator(f"#figures div:has(dt:text-is('{label}')) .value").inner_text()
    return int(text.replace(",", ""))


def test_somebody_creates_an_experiment_and_watches_it_live(browser, tmp_path):
    from playwright.sync_api import expect

    with service(tmp_path, defaults_seconds=None) as http, Visit(browser, str(http.base_url)) as page:
        page.goto("/")
        expect(page.get_by_role("heading", name="Nothing is being tried yet")).to_be_visible()
        page.get_by_role("button", name="Create the experiment").click()
        expect(page.get_by_role("alert")).to_contain_text("Give the experiment a name.")
        page.get_by_label("Name", exact=True).fill("shop windows")
        page.get_by_label("Arms: what there is").fill("blue\nred")
        page.get_by_label("Players: who chooses").fill("Lyon\nNice\nLille")
        page.get_by_role("button", name="Create the experiment").click()
        expect(page.get_by_role("heading", name="shop windows", level=1)).to_be_visible()
        expect(page.locator("#lead")).to_contain_text("3 players choose among 2 arms")
        page.evaluate("window.stays = true")  # a reload would lose it
        with Client(str(http.base_url)) as client:
            for _ in range(5):
                for decision in client.choose("shop windows", ["Lyon", "Nice", "Lille"]):
                    client.observe("shop windows", decision.id, 1.0)
        expect(page.locator("#figures")).to_contain_text("15", timeout=PATIENCE)
        expect(page.locator("#recent tbody tr")).to_have_count(15, timeout=PATIENCE)
        expect(page.locator("#shares canvas")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#ribbons .ribbon")).to_have_count(3, timeout=PATIENCE)
        assert page.evaluate("window.stays")
        page.goto("/")
        expect(page.get_by_role("link", name="shop windows")).to_be_visible()


def test_numbers_go_on_changing_without_a_reload(browser, url, client, busy):
    with Visit(browser, url) as page:
        page.goto(busy)
        page.evaluate("window.stays = true")
        first = _number(page, "Decisions")
        seen = {first}
        for _ in range(3):
            client.choose("busy", "shop 1")
            target = max(seen) + 1
            page.wait_for_function(
                "target => document.querySelector('#figures .value').textContent.replace(',', '') >= target",
                arg=target,
                timeout=PATIENCE,
            )
            seen.add(_number(page, "Decisions"))
        assert len(seen) == 4
        assert page.evaluate("window.stays")


def test_the_alarm_shows_and_says_what_to_do(browser, url, busy):
    from playwright.sync_api import expect

    with Visit(browser, url) as page:
        page.goto(busy)
        alarm = page.locator("#alarm .alarm")
        expect(alarm).to_contain_text("the players differ more than was said", timeout=60_000)
        expect(alarm).to_contain_text("shop 0")
        alarm.get_by_role("link").click()
        expect(page.locator("#diagnosis")).to_contain_text("What to do")
        expect(page.locator("#diagnosis tr.broken")).to_contain_text("red")
        expect(page.locator("#savings")).not_to_contain_text("Being worked out", timeout=180_000)


def test_nothing_in_hostile_names_runs(browser, url, client):
    from playwright.sync_api import expect

    name = "<img src=x onerror=alert(1)> " + "w" * 150
    client.create(name, HOSTILE, HOSTILE)
    for player in HOSTILE:
        client.observe(name, client.choose(name, player).id, 1.0)
    for width in (1200, 375):
        with Visit(browser, url, width) as page:
            page.goto("/")
            page.get_by_role("link", name=re.compile("onerror")).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
            expect(page.locator("#ribbons .ribbon")).to_have_count(len(HOSTILE), timeout=PATIENCE)
            for hostile in HOSTILE:
                expect(page.locator("#matrix th[scope=row]", has_text=hostile)).to_be_visible()
            page.wait_for_timeout(2500)  # a tick and what it brings
            assert page.locator("main img, main script, main b").count() == 0
            assert _fits(page)


@pytest.mark.parametrize("width", [320, 375, 768])
def test_pages_fit_a_narrow_screen(browser, url, busy, width):
    with Visit(browser, url, width, 700, has_touch=True, is_mobile=True, device_scale_factor=2) as page:
        for path in ("/", busy, "/login", "/experiments/none"):
            page.goto(path)
            page.wait_for_timeout(300)
            for details in page.locator("details").all():
                details.evaluate("each => each.open = true")
            assert _fits(page), path


def test_a_table_that_goes_on_beyond_the_edge_fades_there(browser, url, busy):
    from playwright.sync_api import expect

    with Visit(browser, url, 390, 700) as page:
        page.goto(busy)
        table = page.get_by_role("region", name="Table of players and arms")
        expect(table).to_have_class("scroller more", timeout=PATIENCE)
        assert "gradient" in table.evaluate("each => getComputedStyle(each).maskImage")
        table.evaluate("each => { each.scrollLeft = each.scrollWidth; }")
        expect(table).to_have_class("scroller", timeout=PATIENCE)


def _fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_everything_can_be_done_with_the_keyboard_alone(browser, tmp_path):
    from playwright.sync_api import expect

    with service(tmp_path, defaults_seconds=None) as http, Visit(browser, str(http.base_url)) as page:
        page.goto("/")
        press, write = page.keyboard.press, page.keyboard.type
        press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        press("Enter")
        _tab_to(page, "#name")
        write("by hand")
        press("Tab")
        write("blue\nred")
        press("Tab")
        write("Lyon\nNice")
        press("Tab")
        press("ArrowDown")
        expect(page.locator("input[name=reward][value=number]")).to_be_checked()
        press("ArrowUp")
        _tab_to(page, "details.more > summary")
        press("Enter")
        expect(page.get_by_label("after so many minutes")).to_be_visible()
        _tab_to(page, "button.primary")
        press("Enter")
        expect(page.get_by_role("heading", name="by hand")).to_be_visible()
        _tab_to(page, "#pause")
        press("Enter")
        expect(page.get_by_role("dialog", name="Pause by hand?")).to_be_visible()
        press("Escape")
        expect(page.locator("#pause")).to_be_focused()
        expect(page.locator("#state .state")).to_have_text("Running")
        press("Enter")
        _tab_to(page, "#dialog button")
        press("Enter")
        expect(page.locator("#state .state")).to_have_text("Paused")
        _tab_to(page, "#chosen-title + .explain > summary")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        press("Enter")
        expect(page.get_by_text("Time runs from left to right")).to_be_visible()
        _tab_to(page, ".scroller")
        page.wait_for_timeout(2500)  # a tick does not take the focus away
        assert page.evaluate("document.activeElement.matches('.scroller')")


def _tab_to(page, selector):
    for _ in range(60):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached by Tab")


def test_the_focus_stays_on_a_button_that_is_drawn_anew(browser, url, client, busy):
    with Visit(browser, url) as page:
        page.goto(busy)
        page.locator("#pause").focus()
        before = _number(page, "Decisions")
        client.choose("busy", "shop 2")
        page.wait_for_function(
            "before => document.querySelector('#figures .value').textContent.replace(',', '') > before",
            arg=before,
            timeout=PATIENCE,
        )
        assert page.evaluate("document.activeElement.id") == "pause"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 375])
def test_no_page_breaks_a_rule_of_accessibility(browser, url, busy, scheme, width):
    with Visit(browser, url, width, color_scheme=scheme) as page:
        for path in ("/", busy, "/login"):
            page.goto(path)
            if path == busy:
                page.locator("#diagnosis .verdict:not(.quiet)").wait_for(timeout=60_000)
                page.locator("#ribbons .ribbon").first.wait_for(timeout=PATIENCE)
            for details in page.locator("details").all():
                details.evaluate("each => each.open = true")
            assert faults(page) == [], path


def test_a_hidden_page_asks_for_nothing_and_a_lost_service_is_said(browser, tmp_path):
    from playwright.sync_api import expect

    with service(tmp_path, defaults_seconds=None) as http:
        visit = Visit(browser, str(http.base_url))
        http.post("/v1/experiments", json={"name": "lost", "arms": ["a", "b"], "players": ["p"]})
        page = visit.page
        page.goto("/experiments/lost")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")
        page.wait_for_timeout(300)
        asked.clear()
        page.wait_for_timeout(4500)
        assert asked == []
        page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'visible', configurable: true})")
        page.wait_for_timeout(2500)
        assert asked != []
        page.context.set_offline(True)
        expect(page.locator("#lost")).to_contain_text("No answer from the service", timeout=PATIENCE)
        page.context.set_offline(False)
        expect(page.locator("#lost")).to_be_hidden(timeout=PATIENCE)
        visit.context.close()
        time.sleep(0.1)


def test_colours_and_motion_follow_the_reader_s_wishes(browser, url, busy):
    papers = set()
    for scheme in ("light", "dark"):
        with Visit(browser, url, color_scheme=scheme, reduced_motion="reduce") as page:
            page.goto(busy)
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    assert len(papers) == 2


def test_a_link_with_a_token_signs_in_unless_another_site_leads_there(browser, tmp_path):
    from playwright.sync_api import expect

    with service(tmp_path, trust_seconds=0.0) as http:
        store = ServiceStore(f"sqlite:///{tmp_path}/posse.db")
        token = commit(store, CreateToken("admin", label="first"))
        store.close()
        url = str(http.base_url).rstrip("/")
        with Visit(browser, url) as page:
            page.goto(f"/login#{token}")
            expect(page.get_by_role("heading", name="Nothing is being tried yet")).to_be_visible()
            assert page.url == f"{url}/"
        with browser.new_context() as context:
            page = context.new_page()
            link = f"<a href='{url}/login#{token}'>go</a>"
            page.route("**/elsewhere", lambda route: route.fulfill(body=link, content_type="text/html"))
            page.goto(url.replace("127.0.0.1", "localhost") + "/elsewhere")
            page.get_by_text("go").click()
            expect(page.get_by_label("Token")).to_have_value(token)  # filled in, and left to the person
            assert page.url == f"{url}/login"
            assert context.cookies() == []
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Nothing is being tried yet")).to_be_visible()
