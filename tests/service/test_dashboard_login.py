"""Who may see the dashboard: the login, its cookie, and what a token opens."""

from __future__ import annotations

import httpx
import pytest
from serving import service
from test_dashboard import FORM, Page

from posse.service.auth import COOKIE, CreateToken
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with tokens, and the secrets of some."""
    folder = tmp_path_factory.mktemp("guarded")
    with service(folder, defaults_seconds=None, trust_seconds=0.0) as client:
        client.headers["origin"] = str(client.base_url).rstrip("/")
        for name in ("one", "two"):
            assert client.post("/experiments", data={**FORM, "name": name}).status_code == 303
        store = ServiceStore(f"sqlite:///{folder}/posse.db")
        secrets = {
            "admin": commit(store, CreateToken("admin")),
            "read": commit(store, CreateToken("read")),
            "one": commit(store, CreateToken("read", experiment="one")),
            "decide": commit(store, CreateToken("decide")),
        }
        store.close()
        yield client, secrets


def _sign_in(client, secret):
    client.cookies.clear()
    answer = client.post("/login", data={"token": secret, "next": "/experiments/one"})
    return answer


def test_who_has_no_token_is_sent_to_the_login(guarded):
    client, _ = guarded
    client.cookies.clear()
    answer = client.get("/experiments/one")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/experiments/one")
    assert client.get("/").status_code == 303
    part = client.get("/experiments/one/live")
    assert (part.status_code, part.headers["hx-refresh"]) == (401, "true")
    assert client.post("/experiments", data=FORM).status_code == 303
    assert client.get("/static/dashboard.css").status_code == 200


@pytest.mark.parametrize("secret", ["", "posse_1_" + "a" * 43, "nonsense", "decide"])
def test_a_wrong_token_opens_nothing(guarded, secret):
    client, secrets = guarded
    answer = _sign_in(client, secrets.get(secret, secret))
    assert answer.status_code == 401
    assert not client.cookies


def test_a_token_opens_what_its_scope_allows(guarded):
    client, secrets = guarded
    answer = _sign_in(client, secrets["read"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/experiments/one")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    page = Page(client.get("/experiments/one").text)
    assert not {"pause", "manage"} & {each.get("id") for _, each in page.tags}
    assert 'token="posse_…"' in page.text
    assert client.post("/experiments/one/manage", data={"do": "pause"}).status_code == 403
    assert client.post("/experiments", data=FORM).status_code == 403
    assert _sign_in(client, secrets["admin"]).status_code == 303
    assert client.post("/experiments/one/manage", data={"do": "pause"}).status_code == 303


@pytest.mark.parametrize(
    "sign", [{"origin": "https://posse.example"}, {"origin": "http://posse.example", "x-forwarded-proto": "https"}]
)
def test_behind_a_proxy_with_tls_the_cookie_never_travels_without(guarded, sign):
    client, secrets = guarded
    answer = client.post("/login", data={"token": secrets["read"]}, headers={"host": "posse.example", **sign})
    assert answer.status_code == 303
    assert "; secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
def test_a_page_of_another_site_signs_nobody_in_or_out(guarded, origin):
    client, secrets = guarded
    _sign_in(client, secrets["read"])
    for path in ("/login", "/logout"):
        answer = client.post(path, data={"token": secrets["admin"]}, headers={"origin": origin})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert client.get("/").status_code == 200


def test_a_cookie_that_was_there_before_is_worth_nothing_after_the_login(guarded):
    client, secrets = guarded
    for planted in (secrets["decide"], "planted", secrets["read"]):
        headers = {"cookie": f"{COOKIE}={planted}"}
        client.cookies.clear()
        answer = client.post("/login", data={"token": secrets["admin"]}, headers=headers)
        assert answer.headers["set-cookie"].startswith(f"{COOKIE}={secrets['admin']};")


def test_a_token_for_one_experiment_shows_only_that(guarded):
    client, secrets = guarded
    _sign_in(client, secrets["one"])
    links = [each.get("href") for _, each in Page(client.get("/").text).tags]
    assert "/experiments/one" in links
    assert "/experiments/two" not in links
    assert client.get("/experiments/one/chart.json").status_code == 200
    assert client.get("/experiments/two").status_code == 403
    assert client.get("/experiments/two/chart.json").status_code == 403


def test_signing_out_forgets_the_token(guarded):
    client, secrets = guarded
    _sign_in(client, secrets["read"])
    assert client.get("/").status_code == 200
    client.post("/logout")
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("target", ["https://elsewhere.example", "//elsewhere.example", "/\\elsewhere.example", "x"])
def test_the_login_leads_nowhere_else(guarded, target):
    client, secrets = guarded
    client.cookies.clear()
    answer = client.post("/login", data={"token": secrets["read"], "next": target})
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    "target", ["/experiments/..//elsewhere.example", "/experiments/\\elsewhere.example", "/experiments/x\r\nA: b"]
)
def test_the_login_stays_on_this_host_whatever_the_path(guarded, target):
    client, secrets = guarded
    client.cookies.clear()
    answer = client.post("/login", data={"token": secrets["read"], "next": target})
    assert answer.headers["location"].startswith("/experiments/")
    assert httpx.URL(client.base_url).join(answer.headers["location"]).netloc == client.base_url.netloc
    assert "a" not in answer.headers
