"""Who may do what: every route of the app against every kind of token, and what no log may say."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from serving import problem_of, service
from starlette.datastructures import Headers

from posse.policies.posse_ts import PosseTS
from posse.service.api.app import create_app
from posse.service.auth import permissions, tokens
from posse.service.auth.permissions import COOKIE, needed
from posse.service.auth.tokens import CreateToken, RevokeToken
from posse.service.commands import Create
from posse.service.logs import TokenFilter
from posse.service.process.supervisor import bind, prepare, serve
from posse.service.settings import Settings
from posse.service.storage import queries
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

PAGES = {"/", "/experiments", "/experiments/{name}", "/experiments/{name}/live", "/experiments/{name}/chart.json"}
PAGES |= {"/experiments/{name}/pause"}
OPEN = {"/healthz", "/readyz", "/login", "/logout", "/static/{path:path}"}
"""The routes that ask for no token: those of the contract. A new one is not among them by itself."""

BODIES = {
    "/v1/experiments": {"name": "new", "arms": ["a", "b"]},
    "/v1/experiments/{name}": {"join": ["Lille"]},
    "/v1/experiments/{name}/decisions": {"player": "Lyon"},
    "/v1/experiments/{name}/rewards": {"rewards": [{"decision": "0-00000000", "reward": 1}]},
    "/v1/experiments/{name}/records": {"rewards": [{"player": "Lyon", "arm": "a", "reward": 1}]},
    "/v1/experiments/{name}/erasures": {"player": "Nice"},
}


@dataclass(frozen=True)
class Guarded:
    """A service with tokens of every kind."""

    client: httpx.Client
    store: ServiceStore
    secrets: dict[str, str]

    def ask(self, method: str, path: str, secret: str | None, by_cookie: bool = False) -> httpx.Response:
        """The answer to a request with a token, about the experiment `ours`."""
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        if by_cookie:
            headers = {} if secret is None else {"Cookie": f"{COOKIE}={secret}"}
        body = BODIES.get(path) if method in ("POST", "PATCH") else None
        return self.client.request(method, path.replace("{name}", "ours"), headers=headers, json=body)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    store = ServiceStore(f"sqlite:///{folder}/posse.db", create=True)
    for name in ("ours", "theirs"):
        commit(store, Create(name, PosseTS(), ["a", "b"], ["Lyon", "Nice"]))
    secrets = {scope: commit(store, CreateToken(scope)) for scope in tokens.SCOPES}
    secrets |= {f"{scope} ours": commit(store, CreateToken(scope, "ours")) for scope in tokens.SCOPES}
    secrets |= {f"{scope} theirs": commit(store, CreateToken(scope, "theirs")) for scope in tokens.SCOPES}
    secrets["revoked"] = commit(store, CreateToken("admin"))
    commit(store, RevokeToken(int(secrets["revoked"].split("_")[1])))
    past = ServiceStore(f"sqlite:///{folder}/posse.db", clock=lambda: 1.0)
    secrets["expired"] = commit(past, CreateToken("admin", expires=60))
    past.close()
    with service(folder, trust_seconds=0.0) as client:
        yield Guarded(client, store, secrets)
    store.close()


def all_routes() -> list[tuple[str, str, Callable[..., Any]]]:
    """Method, path and endpoint of every route there is."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(f"sqlite:///{folder}/posse.db")
        prepare(settings, "127.0.0.1")
        app = create_app(settings)
        app.state.writer.close()
        app.state.store.close()
    found = []
    for route in app.routes:
        assert isinstance(route, APIRoute), f"{route} is of a kind that these tests do not know"
        found += [(method, route.path, route.endpoint) for method in sorted(route.methods)]
    return found


ROUTES = all_routes()
API = [(method, path) for method, path, _ in ROUTES if path not in PAGES | OPEN]
NEEDED = {  # the scope, and whether for every experiment; by hand, since what the code says cannot judge the code
    ("POST", "/v1/experiments"): ("admin", True),
    ("GET", "/v1/experiments"): ("read", False),
    ("GET", "/v1/experiments/{name}"): ("read", False),
    ("GET", "/v1/experiments/{name}/players"): ("read", False),
    ("PATCH", "/v1/experiments/{name}"): ("admin", False),
    ("POST", "/v1/experiments/{name}/decisions"): ("decide", False),
    ("POST", "/v1/experiments/{name}/rewards"): ("reward", False),
    ("POST", "/v1/experiments/{name}/records"): ("admin", False),
    ("POST", "/v1/experiments/{name}/erasures"): ("admin", False),
    ("GET", "/v1/experiments/{name}/log"): ("read", False),
    ("GET", "/v1/experiments/{name}/state"): ("read", False),
    ("GET", "/v1/experiments/{name}/diagnosis"): ("read", False),
    ("GET", "/metrics"): ("read", True),
    ("GET", "/openapi.json"): (None, False),
}


def test_every_route_is_known_to_these_tests():
    assert {path for _, path, _ in ROUTES} - PAGES - OPEN == {path for _, path in API}
    assert all(needed(endpoint)[0] == "nothing" for _, path, endpoint in ROUTES if path in PAGES | OPEN)
    assert {(method, path): needed(endpoint) for method, path, endpoint in ROUTES if (method, path) in API} == NEEDED


def test_an_endpoint_that_says_nothing_asks_for_an_admin_of_every_experiment():
    assert needed(lambda: None) == ("admin", True)


@pytest.mark.parametrize(("method", "path"), API)
@pytest.mark.parametrize("kind", ["none", "wrong", "malformed", "expired", "revoked", "by cookie"])
def test_without_a_good_token_every_route_is_closed(guarded, method, path, kind):
    real = guarded.secrets["admin"]
    wrong = real[:-4] + ("AAAA" if real[-4:] != "AAAA" else "BBBB")
    others = {"none": None, "wrong": wrong, "malformed": "x" * 5000, "by cookie": real}
    secret = others[kind] if kind in others else guarded.secrets[kind]
    answer = guarded.ask(method, path, secret, by_cookie=kind == "by cookie")
    assert problem_of(answer, 401) == ("no-token" if kind in ("none", "by cookie") else "bad-token")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), API)
@pytest.mark.parametrize("scope", tokens.SCOPES)
def test_a_token_opens_what_its_scope_is_for_and_nothing_else(guarded, method, path, scope):
    wanted, every_experiment = NEEDED[method, path]
    right_scope = wanted in (None, scope) or scope == "admin"
    for suffix, right_experiment in (
        ("", True),
        (" ours", not every_experiment),
        (" theirs", not every_experiment and "{name}" not in path),
    ):
        answer = guarded.ask(method, path, guarded.secrets[scope + suffix])
        if right_scope and right_experiment:
            assert answer.status_code in (200, 201, 409), answer.text  # 409: it was created or erased before
        else:
            assert problem_of(answer, 403) == "forbidden"


def test_the_list_shows_what_the_token_is_for(guarded):
    def listed(kind):
        answer = guarded.ask("GET", "/v1/experiments", guarded.secrets[kind])
        return {each["name"] for each in answer.json()["experiments"]}

    assert listed("read ours") == {"ours"}
    assert listed("read theirs") == {"theirs"}
    assert {"ours", "theirs"} <= listed("read")


def test_an_experiment_that_is_not_there_is_not_told_from_one_that_is_anothers(guarded):
    for name in ("theirs", "nobody's"):
        headers = {"Authorization": f"Bearer {guarded.secrets['admin ours']}"}
        assert problem_of(guarded.client.get(f"/v1/experiments/{name}", headers=headers), 403) == "forbidden"


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in ROUTES if path in PAGES])
def test_pages_send_to_the_login_or_refuse(guarded, method, path):
    for kind in (None, "wrong", "expired", "revoked", "decide", "reward", "read theirs"):
        secret = "posse_1_" + 43 * "x" if kind == "wrong" else guarded.secrets.get(kind)
        answer = guarded.ask(method, path, secret, by_cookie=True)
        if kind in ("decide", "reward") or (kind == "read theirs" and ("{name}" in path or method == "POST")):
            assert answer.status_code == 403
        elif kind == "read theirs":
            assert "ours" not in answer.text
        else:
            assert answer.status_code in (303, 401)
            assert answer.headers.get("location", "/login").startswith("/login")
            assert "ours" not in answer.text
        bearer = guarded.ask(method, path, guarded.secrets["admin"])
        assert bearer.status_code in (303, 401), "a page takes the cookie only"


@pytest.mark.parametrize("path", sorted(OPEN - {"/logout", "/static/{path:path}"}))
def test_what_is_open_stays_open(guarded, path):
    assert guarded.ask("GET", path, None).status_code == 200


def test_a_token_counts_from_the_moment_it_is_made_and_no_longer_than_it_is_revoked(tmp_path):
    with service(tmp_path, trust_seconds=0.0) as client:
        assert client.get("/v1/experiments").status_code == 200
        store = ServiceStore(f"sqlite:///{tmp_path}/posse.db")
        secret = commit(store, CreateToken("read"))
        assert problem_of(client.get("/v1/experiments"), 401) == "no-token"
        headers = {"Authorization": f"Bearer {secret}"}
        assert client.get("/v1/experiments", headers=headers).status_code == 200
        commit(store, RevokeToken(1))
        store.close()
        assert problem_of(client.get("/v1/experiments", headers=headers), 401) == "bad-token"
        assert problem_of(client.get("/v1/experiments"), 401) == "no-token"  # the last one, but nothing opens again


def test_a_good_token_is_trusted_for_a_moment_and_a_bad_one_never(tmp_path, monkeypatch):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    secret = commit(store, CreateToken("read"))
    store.close()
    asked = itertools.count()
    grant_of = tokens.grant_of
    monkeypatch.setattr(tokens, "grant_of", lambda *arguments: (next(asked), grant_of(*arguments))[1])
    with service(tmp_path, trust_seconds=60) as client:
        for _ in range(3):
            assert client.get("/v1/experiments", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        for _ in range(3):
            assert client.get("/v1/experiments", headers={"Authorization": "Bearer posse_1_x"}).status_code == 401
    assert next(asked) == 1 + 3


def test_no_more_tokens_are_remembered_than_there_is_room_for(monkeypatch):
    class EveryTokenIsGood:
        async def query(self, *_):
            return permissions.EVERYTHING

    monkeypatch.setattr(permissions, "MOST_KNOWN", 3)
    authenticator = permissions.Authenticator(Settings("sqlite://"), EveryTokenIsGood(), clock=lambda: 0.0)
    sizes = []
    for number in range(8):
        asyncio.run(authenticator.look_up(f"token {number}"))
        sizes.append(len(authenticator._known))
    assert sizes == [1, 2, 3, 1, 2, 3, 1, 2]


def test_a_token_that_is_revoked_is_forgotten():
    class GoodOnce:
        answers = iter([permissions.EVERYTHING, None])

        async def query(self, *_):
            return next(self.answers)

    settings = Settings("sqlite://", trust_seconds=0.0)
    authenticator = permissions.Authenticator(settings, GoodOnce(), clock=lambda: 0.0)
    assert asyncio.run(authenticator.look_up("token")) == permissions.EVERYTHING
    assert asyncio.run(authenticator.look_up("token")) is None
    assert authenticator._known == {}


@pytest.mark.parametrize(
    ("method", "origin", "refused"),
    [
        ("POST", "http://posse.example:8000", False),
        ("POST", None, False),
        ("GET", "http://other.example", False),
        ("HEAD", "http://other.example", False),
        ("POST", "http://other.example", True),
        ("POST", "http://posse.example", True),  # another port is another site
        ("PATCH", "null", True),
        ("POST", "http://[", True),
    ],
)
def test_only_the_services_own_pages_may_change_anything(method, origin, refused):
    headers = Headers({"host": "posse.example:8000"} | ({} if origin is None else {"origin": origin}))
    with pytest.raises(permissions.HttpProblem) if refused else contextlib.nullcontext() as denied:
        permissions.check_origin(method, headers)
    assert not refused or denied.value.kind == "cross-site"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_this_machine(host, local):
    assert permissions.is_loopback(host) is local


def test_that_there_are_tokens_is_asked_until_there_are(tmp_path, monkeypatch):
    asked, exist = [], tokens.exist
    monkeypatch.setattr(tokens, "exist", lambda connection: asked.append(exist(connection)) or asked[-1])
    with service(tmp_path, trust_seconds=0.0) as client:
        for _ in range(2):
            assert client.get("/v1/experiments").status_code == 200
        store = ServiceStore(f"sqlite:///{tmp_path}/posse.db")
        headers = {"Authorization": f"Bearer {commit(store, CreateToken('read'))}"}
        store.close()
        for _ in range(3):
            assert client.get("/v1/experiments", headers=headers).status_code == 200
            assert problem_of(client.get("/v1/experiments"), 401) == "no-token"
    assert asked == [False, False, True]


def test_a_public_address_is_refused_without_a_token(tmp_path):
    settings = Settings(f"sqlite:///{tmp_path}/posse.db")
    with pytest.raises(ValueError, match="posse token create --scope admin"):
        serve("0.0.0.0", 0, settings)
    store = ServiceStore(settings.database)
    commit(store, CreateToken("read"))
    store.close()
    prepare(Settings(settings.database, loopback=False), "0.0.0.0")


def test_a_service_for_the_world_is_never_open(tmp_path):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    headers = {"Authorization": f"Bearer {commit(store, CreateToken('read'))}", "Host": "posse.example"}
    store.close()
    with service(tmp_path, loopback=False) as client:
        assert problem_of(client.get("/v1/experiments"), 401) == "no-token"
        assert client.get("/v1/experiments", headers=headers).status_code == 200


def test_no_token_in_any_line_of_the_log(tmp_path, caplog):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    secret = commit(store, CreateToken("admin"))
    store.close()
    with caplog.at_level(logging.DEBUG), service(tmp_path, access_log=True) as client:
        caplog.clear()
        for headers in ({"Authorization": f"Bearer {secret}"}, {"Cookie": f"{COOKIE}={secret}"}):
            client.get(f"/v1/experiments?token={secret}", headers=headers)
            client.get(f"/v1/{secret}", headers=headers)
            client.get(f"/v1/experiments/{secret}/log?after={secret}", headers=headers)
            client.post("/v1/experiments", json={"name": secret}, headers=headers)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith(("posse", "uvicorn"))]
    assert any("GET /v1/experiments 200" in line for line in lines)
    assert not any(secret[8:] in line or "token=" in line for line in lines)


def test_an_admin_of_one_experiment_creates_no_others_on_the_pages(guarded):
    form = {"name": "sneaked in", "arms": "a\nb", "reward": "yes-no", "sharing": "learnt", "holdout": "0"}

    def create(secret):
        headers = {"Cookie": f"{COOKIE}={guarded.secrets[secret]}"}
        return guarded.client.post("/experiments", data=form, headers=headers)

    answer = create("admin ours")
    assert answer.status_code == 403
    assert "The token is for one experiment" in answer.text
    assert create("read").status_code == 403
    names = {experiment.name for experiment in guarded.store.read(queries.experiments)}
    assert "sneaked in" not in names
    assert create("admin").status_code == 303


def test_a_line_of_the_log_cannot_be_forged(tmp_path, caplog):
    with caplog.at_level(logging.INFO), service(tmp_path, access_log=True) as client:
        client.get("/x%0A2026-01-01%20INFO%20forged")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "posse.access"]
    assert "\n" not in line


def test_the_filter_blots_out_tokens_wherever_they_are():
    secret = "posse_12_" + 43 * "a"
    try:
        raise ValueError(f"about {secret}")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "with %s", (secret,), (type(error), error, None))
    assert TokenFilter().filter(record)
    assert secret not in logging.Formatter().format(record)
    assert "posse_…" in logging.Formatter().format(record)


def test_a_port_that_is_taken_is_named():
    with bind("127.0.0.1", 0) as taken, pytest.raises(OSError, match="--port"):
        bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ValueError, match="host="):
        bind("no such host", 80)
