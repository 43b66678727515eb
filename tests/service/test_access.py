"""Who may do what: every route of the app against every kind of token, and what no log may say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_table import Attempt, Credential, answers, app_in, entrances, fill, outcome, printed
from fastapi import FastAPI
from serving import problem_of, service
from starlette.datastructures import Headers

from posse.policies.ind_tsv import IndTSV
from posse.service import auth
from posse.service.auth import COOKIE, CreateToken, RevokeToken
from posse.service.commands import Create
from posse.service.logs import TokenFilter
from posse.service.process.supervisor import bind, prepare, serve
from posse.service.settings import Settings
from posse.service.storage import queries
from posse.service.storage.errors import Damaged, OutcomeUnknown, Unavailable
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

RUNNING = Path(__file__).parents[2] / "docs" / "running.md"
NOT_CHANGING = ("GET", "HEAD")
FOREIGN = ("origin", "http://evil.example")
PROXIES = [
    ("forwarded", "for=192.0.2.1"),
    ("x-forwarded-for", "192.0.2.1"),
    ("x-forwarded-host", "posse.example"),
    ("x-forwarded-proto", "https"),
    ("x-real-ip", "192.0.2.1"),
    ("via", "1.1 proxy"),
]


@dataclass(frozen=True)
class Guarded:
    """A service with tokens of every kind."""

    app: FastAPI
    credentials: dict[str, Credential]

    def ask(self, method: str, path: str, kind: str = "none", **body: Any) -> httpx.Response:
        """The answer to a request with a credential, as a bearer token or, on pages, as a cookie."""
        secret = self.credentials[kind].secret
        bearer = {"Authorization": f"Bearer {secret}"} if path.startswith("/v1") else {"Cookie": f"{COOKIE}={secret}"}

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, path, headers=bearer, **body)

        return asyncio.run(ask())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with app_in(tmp_path_factory.mktemp("access")) as app:
        yield Guarded(app, fill(app.state.store))


def expected(attempt: Attempt) -> str:
    """What should become of a request: the rule, in other words than the code's."""
    (method, path, (scope, every_experiment), page), credential = attempt.entrance, attempt.credential
    if method not in NOT_CHANGING and FOREIGN in attempt.headers:
        return "cross-site"
    if scope == "nothing":
        return "in"
    if credential.scope is None or attempt.by_cookie is not page:
        return "token"
    if credential.scope not in ("admin", scope) and scope is not None:
        return "forbidden"
    if credential.experiment is not None and every_experiment:
        return "forbidden"
    if credential.experiment == "theirs" and "{name}" in path:
        return "forbidden"
    return "in"


def surprises(app: FastAPI, attempts: list[Attempt], expected: Callable[[Attempt], str] = expected) -> list[str]:
    """The requests of which something else became than should have."""
    found = [outcome(answer) for answer in answers(app, attempts)]
    return [f"{attempt}: {seen}" for attempt, seen in zip(attempts, found, strict=True) if seen != expected(attempt)]


def test_every_route_lets_in_whom_it_says_and_nobody_else(guarded):
    app, credentials = guarded.app, guarded.credentials
    attempts = [
        Attempt(entrance, credential, by_cookie)
        for entrance in entrances(app)
        for credential in credentials.values()
        for by_cookie in (False, True)
    ]
    assert len(attempts) > 1000
    assert surprises(app, attempts) == []


def test_headers_open_nothing(guarded):
    """With tokens, a request that comes through a proxy or by another name needs one, as any other."""
    app, tokens = guarded.app, (guarded.credentials["none"], guarded.credentials["admin every"])
    attempts = [
        Attempt(entrance, token, entrance.page, headers)
        for entrance in entrances(app)
        for token in tokens
        for headers in ((("host", "evil.example"),), (FOREIGN,), tuple(PROXIES))
    ]
    assert surprises(app, attempts) == []


def test_a_service_without_tokens_lets_nobody_in(tmp_path):
    with app_in(tmp_path) as app:
        assert surprises(app, [Attempt(entrance) for entrance in entrances(app)]) == []


def test_an_open_service_is_open_to_its_machine_only(tmp_path):
    def expected(attempt: Attempt) -> str:
        if FOREIGN in attempt.headers and attempt.entrance.method not in NOT_CHANGING:
            return "cross-site"
        if attempt.entrance.permission.scope == "nothing" or attempt.headers[:1] in ((), (FOREIGN,)):
            return "in" if attempt.http == "1.1" or attempt.entrance.permission.scope == "nothing" else "proxied"
        return "wrong-host" if attempt.headers[0][0] == "host" else "proxied"

    with app_in(tmp_path, open=True) as app:
        commit(app.state.store, Create("ours", IndTSV(), ["a", "b"], ["Lyon", "Nice"]))
        asked = [entrance for entrance in entrances(app) if entrance.method != "HEAD"]  # whose answers do not say why
        for headers in ((), (FOREIGN,), (("host", "evil.example"),), *((header,) for header in PROXIES)):
            assert surprises(app, [Attempt(entrance, headers=headers) for entrance in asked], expected) == []
        assert surprises(app, [Attempt(entrance, http="1.0") for entrance in asked], expected) == []


def test_a_route_that_forgets_to_ask_is_found_out(guarded):
    async def forgetful() -> None:
        """Asks for nothing and says nothing, which means an admin of every experiment."""

    app = FastAPI()
    app.add_api_route("/forgetful", forgetful)
    forgotten = [entrance for entrance in entrances(app) if entrance.path == "/forgetful"]
    assert [entrance.permission for entrance in forgotten] == [("admin", True)]
    assert len(surprises(app, [Attempt(forgotten[0], each) for each in guarded.credentials.values()])) > 10


def test_the_docs_show_what_each_scope_opens(guarded):
    rows = printed(guarded.app, guarded.credentials)
    assert "\n".join(rows) in RUNNING.read_text(), "print it with: python tests/service/access_table.py"


def test_the_list_shows_what_the_token_is_for(guarded):
    def listed(kind):
        return {each["name"] for each in guarded.ask("GET", "/v1/experiments", kind).json()["experiments"]}

    assert listed("read ours") == {"ours"}
    assert listed("read theirs") == {"theirs"}
    assert {"ours", "theirs"} <= listed("read every")
    page = guarded.ask("GET", "/", "read theirs")
    assert "theirs" in page.text
    assert "ours" not in page.text


def test_an_experiment_that_is_not_there_is_not_told_from_one_that_is_anothers(guarded):
    for name in ("theirs", "nobody's"):
        assert problem_of(guarded.ask("GET", f"/v1/experiments/{name}", "admin ours"), 403) == "forbidden"


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
    with pytest.raises(auth.HttpProblem) if refused else contextlib.nullcontext() as denied:
        auth.check_origin(method, headers)
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
    assert auth.is_loopback(host) is local


@pytest.mark.parametrize("open_", [False, True])
def test_a_public_address_is_refused_without_a_token_and_never_open(tmp_path, open_):
    settings = Settings(f"sqlite:///{tmp_path}/posse.db", open=open_)
    with pytest.raises(ValueError, match="leave out --open" if open_ else "posse token create --scope admin"):
        serve("0.0.0.0", 0, settings)
    store = ServiceStore(settings.database)
    commit(store, CreateToken("read"))
    store.close()
    if open_:
        with pytest.raises(ValueError, match="its database has tokens; leave out --open"):
            prepare(settings, "127.0.0.1")
    else:
        prepare(settings, "0.0.0.0")


def test_no_token_in_any_line_of_the_log(tmp_path, caplog):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    secret = commit(store, CreateToken("admin"))
    store.close()
    with caplog.at_level(logging.DEBUG), service(tmp_path, open=False, access_log=True) as client:
        caplog.clear()
        for headers in ({"Authorization": f"Bearer {secret}"}, {"Cookie": f"{COOKIE}={secret}"}):
            client.get(f"/v1/experiments?search={secret}", headers=headers)
            client.get(f"/v1/experiments?token={secret}", headers=headers)
            client.get(f"/v1/{secret}", headers=headers)
            client.get(f"/v1/experiments/{secret}/log?after={secret}", headers=headers)
            client.post("/v1/experiments", json={"name": secret}, headers=headers)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith(("posse", "uvicorn"))]
    assert any("GET /v1/experiments 200" in line for line in lines)
    assert not any(secret[8:] in line or "token=" in line or "search=" in line for line in lines)


def test_a_refusal_says_what_is_wrong_with_the_token_and_which_is_needed(tmp_path):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    expired, revoked = commit(store, CreateToken("read", expires=0.001)), commit(store, CreateToken("read"))
    commit(store, RevokeToken(2))
    commit(store, Create("ours", IndTSV(), ["a", "b"]))
    ours = commit(store, CreateToken("read", "ours"))
    store.close()
    wrong = expired[:-5] + "wrong"
    with service(tmp_path, open=False) as client:

        def said(secret, path="/v1/experiments"):
            headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
            return client.get(path, headers=headers).json()["detail"]

        assert said(None).endswith("`posse token create --scope read` makes one.")
        assert said(None, "/v1/audit").endswith("`posse token create --scope admin` makes one.")
        assert said(expired).startswith("The token is expired;")
        assert said(revoked).startswith("The token is revoked;")
        assert said(wrong).startswith("The token is unknown;")
        assert said(ours, "/v1/experiments/theirs").startswith("The token is for one experiment, 'ours', and")


def test_an_admin_of_one_experiment_creates_no_others_on_the_pages(guarded):
    form = {"name": "sneaked in", "arms": "a\nb", "reward": "yes-no", "sharing": "learnt", "holdout": "0"}
    answer = guarded.ask("POST", "/experiments", "admin ours", data=form)
    assert answer.status_code == 403
    assert "The token is for one experiment" in answer.text
    assert guarded.ask("POST", "/experiments", "read every", data=form).status_code == 403
    names = {experiment.name for experiment in guarded.app.state.store.read(queries.experiments)}
    assert "sneaked in" not in names
    assert guarded.ask("POST", "/experiments", "admin every", data=form).status_code == 303


@pytest.mark.parametrize(
    "body",
    [
        {"player": "Metz"},
        {"players": ["Lyon", "Metz"]},
        {"players": ["Lyon", "Lyon"]},
        {"player": "Lyon", "available": ["c"]},
        {"player": ""},
        {"players": []},
        {"attributes": {"region": "south"}},
        {"rewards": []},
    ],
)
def test_who_may_not_read_learns_no_names(guarded, body):
    path = "/v1/experiments/ours/decisions"
    for kind in ("decide every", "decide ours", "reward ours"):
        answer = guarded.ask("POST", path, kind, json=body)
        assert answer.status_code in (403, 409, 422)
        assert "Nice" not in answer.text
        assert "Lille" not in answer.text


def test_who_may_read_is_told_who_there_is(guarded):
    for kind, told in (("decide ours", False), ("admin ours", True)):
        answer = guarded.ask("POST", "/v1/experiments/ours/decisions", kind, json={"player": "Metz"})
        assert problem_of(answer, 409) == "refused"
        assert answer.json()["detail"].startswith("no player 'Metz'")
        assert ("Lyon" in answer.text) is told


def test_attributes_of_a_player_are_told_to_no_decider(guarded):
    store = guarded.app.state.store
    players = {"region=south": {"region": "north"}}
    commit(store, Create("regions", IndTSV(), ["a", "b"], players, attributes={"region": "category"}))
    for kind, told in (("decide every", False), ("admin every", True)):
        body = {"attributes": {"region": "south"}}
        answer = guarded.ask("POST", "/v1/experiments/regions/decisions", kind, json=body)
        assert problem_of(answer, 409) == "refused"
        assert ("north" in answer.text) is told


def test_problems_repeat_no_token_and_name_no_database(guarded, monkeypatch, caplog):
    secret = guarded.credentials["admin every"].secret
    for body in ({"player": secret}, {secret: 1}):
        answer = guarded.ask("POST", f"/v1/experiments/{secret}/decisions", "admin every", json=body)
        assert answer.status_code in (404, 422)
        assert secret not in answer.text
    place = "postgresql://posse@db.internal/posse"
    for error in (Unavailable(f"{place} is away"), OutcomeUnknown(place), Damaged(f"{place} is damaged")):
        caplog.clear()
        monkeypatch.setattr(queries, "experiment", lambda *_, error=error: throw(error))
        answer = guarded.ask("GET", "/v1/experiments/ours", "admin every")
        assert answer.status_code == (500 if isinstance(error, Damaged) else 503)
        assert "internal" not in answer.text
        assert ("not known whether" in answer.text) is isinstance(error, OutcomeUnknown)
        assert place in caplog.text
    monkeypatch.setattr(guarded.app.state.snapshots, "of", lambda *_: throw(Unavailable(f"{place} is away")))
    answer = guarded.ask("GET", "/experiments/ours", "admin every")
    assert (answer.status_code, "internal" in answer.text) == (503, False)


def throw(error):
    raise error


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
