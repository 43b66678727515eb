"""The pages that manage experiments in a real browser: by keyboard, without scripts, on a phone, by axe's rules."""

from __future__ import annotations

import pytest
from browsing import Visit, chromium, faults
from serving import service
from sizes import FULL
from test_dashboard_browser import _fits, _tab_to

from posse.service.client import Client

LOOKS = [("light", 1200), ("dark", 400), *([("dark", 1200), ("light", 400)] if FULL else [])]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A browser, the address of a service, and a client of it."""
    with chromium() as browser, service(tmp_path_factory.mktemp("manage"), defaults_seconds=None) as http:
        url = str(http.base_url).rstrip("/")
        with Client(url) as client:
            yield browser, url, client


def test_an_experiment_is_managed_with_the_keyboard_alone(place):
    from playwright.sync_api import expect

    browser, url, client = place
    client.create("by keys", ["blue", "red"], ["Lyon"])
    with Visit(browser, url) as page:
        press = page.keyboard.press
        page.goto("/experiments/by%20keys")
        _tab_to(page, "#manage")
        press("Enter")
        expect(page.get_by_role("heading", name="Manage by keys")).to_be_visible()
        _tab_to(page, "#arms")
        page.keyboard.type("plants")
        press("Tab")
        press("Enter")
        expect(page.get_by_role("status").filter(has_text="The arms are in use.")).to_be_visible()
        _tab_to(page, "#finish")
        press("Enter")
        dialog = page.get_by_role("dialog", name="Finish by keys?")
        expect(dialog).to_be_visible()
        press("Escape")
        expect(dialog).not_to_be_visible()
        expect(page.locator("#finish")).to_be_focused()
        press("Enter")
        expect(dialog).to_be_visible()
        _tab_to(page, "#ship")
        page.keyboard.type("plants")
        _tab_to(page, "#dialog button")
        press("Enter")
        expect(page.locator(".lede")).to_contain_text("Every decision is plants")
        _tab_to(page, "#archive")
        press("Enter")
        expect(page.get_by_role("dialog", name="Archive by keys?")).to_be_visible()
        _tab_to(page, "#dialog [data-close]")
        press("Enter")
        expect(page.locator("#archive")).to_be_focused()
        assert client.experiment("by keys")["status"] == "finished"


def test_a_question_stays_while_text_in_it_is_selected_and_a_typed_number_chooses_what_it_is_for(place):
    from playwright.sync_api import expect

    browser, url, client = place
    client.create("selected", ["blue", "red"], ["Lyon"])
    with Visit(browser, url) as page:
        page.goto("/experiments/selected/manage")
        page.locator("#finish").click()
        dialog = page.get_by_role("dialog", name="Finish selected?")
        box = dialog.bounding_box()
        page.mouse.click(box["x"] + 5, box["y"] + 5)  # on its edge
        text = page.locator("#ship_for").bounding_box()
        page.mouse.move(text["x"] + 50, text["y"] + 20)
        page.mouse.down()
        page.mouse.move(5, 5)
        page.mouse.up()
        expect(dialog).to_be_visible()
        page.mouse.click(5, 5)
        expect(dialog).not_to_be_visible()
        page.goto("/")
        page.locator("details.create > summary").click()
        page.locator("#epsilon").fill("0.2")
        expect(page.locator("input[name=sharing][value=limit]")).to_be_checked()
        expect(page.locator("input[name=reward][value=yes-no]")).to_be_checked()


def test_players_have_rows_in_the_picture_once_something_was_chosen(place):
    from playwright.sync_api import expect

    browser, url, client = place
    client.create("rows", ["blue", "red"], ["Lyon", "Nice"], holdout=0.5)
    with Visit(browser, url) as page:
        page.goto("/experiments/rows")
        page.wait_for_timeout(500)
        expect(page.locator(".ribbon")).to_have_count(0)
        expect(page.locator("#earned-title ~ figure")).not_to_be_visible()  # no caption without its picture
        client.choose("rows", "Nice")
        for _ in range(8):
            client.choose("rows", "Lyon")
        expect(page.locator(".ribbon .now").nth(1)).to_have_text("nothing lately", timeout=30_000)
        expect(page.locator("#first-title")).to_have_count(0)


def test_everything_works_without_scripts(place):
    from playwright.sync_api import expect

    browser, url, client = place
    client.create("no scripts", ["blue", "red"], ["Lyon", "Nice"])
    with Visit(browser, url, java_script_enabled=False) as page:
        page.goto("/experiments/no%20scripts")
        page.locator("#pause").click()
        expect(page.get_by_role("heading", name="Pause no scripts?")).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#state .state")).to_have_text("Paused")
        page.locator("#manage").click()
        page.get_by_role("link", name="Erase… Lyon").click()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("link", name="Retire… Lyon").click()
        page.get_by_role("button", name="Retire").click()
        page.get_by_role("button", name="Bring back Lyon").click()
        page.get_by_role("link", name="Finish…").click()
        page.get_by_label("From now on").select_option("red")
        page.get_by_role("button", name="Finish").click()
        page.get_by_role("link", name="Archive…").click()
        page.get_by_role("button", name="Archive").click()
        page.get_by_role("button", name="Restore").click()
        found = client.experiment("no scripts")
        assert (found["status"], found["ship"]) == ("finished", "red")
        page.get_by_role("link", name="Archive…").click()
        page.get_by_role("button", name="Archive").click()
        page.get_by_role("link", name="Delete…").click()
        page.get_by_label("To confirm").fill("no scripts")
        page.get_by_role("button", name="Delete for good").click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert "no scripts" not in [each["name"] for each in client.experiments()]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_pages_that_manage_fit_and_break_no_rule_of_accessibility(place, scheme, width):
    browser, url, client = place
    name = f"rules {scheme} {width}"
    players = {f"shop {number}": {"region": "south"} for number in range(30)}
    client.create(name, ["blue", "w" * 200], players, attributes={"region": "category"})
    client.change(name, retire=["shop 3"])
    address = f"/experiments/{name}"
    paths = [f"{address}/manage", "/tokens", f"{address}/ask?do=erase&who=x", "/audit"]
    dialog, form = (FULL or scheme == "light"), (FULL or scheme == "dark")
    with Visit(browser, url, width, color_scheme=scheme) as page:
        for path in paths if FULL else paths[:2] if form else paths[2:]:
            page.goto(path)
            assert _fits(page), path
            assert faults(page) == [], path
        if dialog:
            page.goto(f"{address}/manage")
            page.locator("#finish").click()
            page.locator("#dialog #ship").wait_for()
            assert faults(page) == []
        if form:
            page.goto("/")
            for details in page.locator("details").all():
                details.evaluate("each => each.open = true")
            page.get_by_role("button", name="Create the experiment").click()  # with nothing typed
            assert _fits(page)
            assert faults(page) == []
