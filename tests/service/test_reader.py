"""Slow reads and viewers never stop decisions: the reader as a process, the way to it, and what it keeps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from fleet import fleet
from serving import new_experiment, problem_of, service
from starlette.requests import Request

import posse
from posse.service.auth import COOKIE, CreateToken
from posse.service.commands import Change, Choose, Create, Erase, Observe
from posse.service.dashboard.snapshots import Snapshots
from posse.service.logs import request_id
from posse.service.problems import HttpProblem
from posse.service.process.supervisor import background, bind_reader
from posse.service.reader import MOST_UNDER_WAY, ReaderClient
from posse.service.storage import queries
from posse.service.storage.read_cache import KeptExperiments, SharedAnswers
from posse.service.storage.store import ReadPool, ServiceStore
from posse.service.storage.transaction import commit
from stores import BACKENDS, database, new, stores

SLOW = """
import time
import posse
from posse.service.storage import queries

class Unused(posse.IndTSV):
    pass

queries.indices = lambda *args: time.sleep(25)
"""


@contextlib.contextmanager
def asked(url, headers, count):
    """So many requests for the state under way; gives where their answers go."""
    with ThreadPoolExecutor(count) as threads:
        answers = [threads.submit(httpx.get, url, headers=headers, timeout=60) for _ in range(count)]
        time.sleep(0.5)
        yield answers


def check_that_it_decides(url, headers):
    """Decisions, tokens that were not seen for a while, and health are answered, all within a few seconds."""
    with httpx.Client(base_url=url, headers=headers, timeout=8) as client:
        time.sleep(1.1)  # until the token is looked up again
        assert client.post("/v1/experiments/teas/decisions", json={"player": "p1"}).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_slow_reads_and_a_reader_that_hangs_or_dies_stop_no_decision(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    address = f"sqlite:///{tmp_path}/posse.db"
    store = ServiceStore(address, create=True)
    commit(store, Create("teas", posse.IndTSV(), ["a", "b"], ["p1", "p2"]))
    secret = commit(store, CreateToken("admin"))
    headers = {"Authorization": f"Bearer {secret}"}
    store.close()
    with fleet(address, tmp_path, 1, "--import", str(tmp_path / "slow.py"), open_to_all=False) as running:
        experiment = f"{running.url}/v1/experiments/teas"
        with asked(f"{experiment}/state", headers, 8):
            check_that_it_decides(running.url, headers)
            os.kill(running.reader(), signal.SIGKILL)  # which ends those eight
        first = httpx.get(experiment, headers=headers, timeout=30)  # waits for the reader that takes its place
        assert first.json()["decisions"] == 1
        reader = running.reader()
        os.kill(reader, signal.SIGSTOP)
        with asked(experiment, headers, 2) as answers:
            check_that_it_decides(running.url, headers)
            assert not any(answer.done() for answer in answers)
            os.kill(reader, signal.SIGCONT)
            assert [answer.result().json()["decisions"] for answer in answers] == [2, 2]
        metrics = httpx.get(f"{running.url}/metrics", headers=headers).text
        read = 'posse_requests_total{method="GET",route="/v1/experiments/{name}",status="200"}'
        assert f"{read} 3.0" in metrics  # counted by the worker, and not again by the reader
        assert 'class="card"' in httpx.get(f"{running.url}/", headers={"Cookie": f"{COOKIE}={secret}"}).text


# ---------------------------------------------------------------- the way to it


def asking(method="GET", path=b"/x", **headers):
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "raw_path": path, "query_string": b"a=1", "headers": encoded}
    return Request(scope | {"path": path.decode()})


@contextlib.asynccontextmanager
async def answering(path, answer):
    """A reader that answers like this; gives what it was asked."""
    questions = []

    async def serve(incoming, outgoing):
        questions.append(await incoming.readuntil(b"\r\n\r\n"))
        outgoing.write(answer if answer is not None else await incoming.read())  # until the other end gives up
        outgoing.close()

    async with await asyncio.start_unix_server(serve, path):
        yield questions


OK = b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: text/x\r\ncontent-length: 5\r\nConnection: close\r\n\r\n"


def test_a_request_is_passed_on_without_what_belongs_to_its_connection(tmp_path):
    async def ask():
        request_id.set("r7")
        async with answering(tmp_path / "r", OK + b"hello") as questions:
            client = ReaderClient(str(tmp_path / "r"), 5.0)
            headers = {"host": "h", "content-length": "7", "transfer-encoding": "chunked", "x-request-id": "posse_1_x"}
            return questions, await client.answer(asking(**headers)), await client.answer(asking("HEAD"))

    questions, answer, _ = asyncio.run(ask())
    assert questions[0] == b"GET /x?a=1 HTTP/1.1\r\nconnection: close\r\nhost: h\r\nx-request-id: r7\r\n\r\n"
    assert (answer.status_code, answer.body) == (200, b"hello")
    assert answer.raw_headers == [(b"content-type", b"text/x"), (b"content-length", b"5")]


def test_a_folder_with_too_long_a_path_for_a_socket_is_said(tmp_path):
    (tmp_path / ("x" * 100)).mkdir()
    with pytest.raises(OSError, match="TMPDIR"):
        bind_reader(str(tmp_path / ("x" * 100)))


@pytest.mark.parametrize("answer", [OK + b"hell", b"", b"HTTP/1.1 nothing\r\n\r\n", "nobody"])
def test_a_reader_that_dies_over_a_request_is_away_for_a_moment(tmp_path, answer):
    async def ask():
        async with answering(tmp_path / "r", answer):
            await ReaderClient(str(tmp_path / ("r" if isinstance(answer, bytes) else "s")), 5.0).answer(asking())

    with pytest.raises(HttpProblem) as raised:
        asyncio.run(ask())
    assert (raised.value.kind, raised.value.headers) == ("unavailable", {"Retry-After": "1"})


def test_a_reader_that_hangs_has_a_bounded_number_of_requests_for_a_bounded_time(tmp_path):
    async def ask():
        async with answering(tmp_path / "r", None):
            client = ReaderClient(str(tmp_path / "r"), 0.3)
            asks = [client.answer(asking()) for _ in range(MOST_UNDER_WAY + 1)]
            return await asyncio.gather(*asks, return_exceptions=True)

    kinds = [problem.kind for problem in asyncio.run(ask())]
    assert kinds == ["timeout"] * MOST_UNDER_WAY + ["overloaded"]


# ---------------------------------------------------------------- what it keeps


def test_an_answer_is_worked_out_once_for_all_who_ask():
    calls = []

    async def work_out():
        calls.append(len(calls))
        await asyncio.sleep(0.02)
        if calls[-1] == 2:
            raise ValueError("no")
        return b"x" * 10

    async def ask():
        answers = SharedAnswers(25)
        gone = asyncio.create_task(answers.get("a", work_out))
        await asyncio.sleep(0)
        gone.cancel()  # one who goes away takes nothing from the others
        assert await asyncio.gather(*(answers.get("a", work_out) for _ in range(9))) == [b"x" * 10] * 9
        assert len(calls) == 1
        await answers.get("b", work_out)
        for _ in range(2):  # an error is for those who asked, and is not kept
            with contextlib.suppress(ValueError):
                await answers.get("c", work_out)
        assert len(calls) == 4
        await answers.get("c", work_out)
        await answers.get("b", work_out)
        assert len(calls) == 4
        await answers.get("a", work_out)  # which had to make room
        await answers.get("a", work_out, seconds=0.0)
        assert len(calls) == 6
        await answers.get("d", work_out, seconds=0.03)
        await answers.get("d", work_out, seconds=0.03)
        assert len(calls) == 7
        await asyncio.sleep(0.04)
        await answers.get("d", work_out, seconds=0.03)
        assert len(calls) == 8

    asyncio.run(ask())


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_experiment_that_is_kept_is_the_one_in_the_database(backend, tmp_path):
    def numbers(live):
        return queries.indices(live.state), list(live.state.player_roster), live.state.counts().sums

    async def look(store, kept):
        found = await kept.read("teas", lambda _, live: numbers(live))
        fresh = numbers(store.read(queries.live_experiment, "teas"))
        assert found[1] == fresh[1]
        for one, other in zip((*found[0], found[2]), (*fresh[0], fresh[2]), strict=True):
            np.testing.assert_array_equal(one, other)

    async def compare(writes, reads):
        kept = KeptExperiments(ReadPool(reads))
        for step in range(6):
            made = commit(writes, Choose("teas", ["north", "south"]))
            commit(writes, Observe("teas", [(each.id, step % 2) for each in made]))
            if step == 2:
                commit(writes, Change("teas", join=["west"], add_arms=["milk"], retire=["east"]))
            if step == 4:
                commit(writes, Erase("teas", "north"))
                commit(writes, Change("teas", join=["north"]))
            await look(reads, kept)
        with pytest.raises(KeyError):  # half-used, it is not kept
            await kept.read("teas", lambda _, live: live.state.__dict__.pop("nothing"))
        await look(reads, kept)

    with stores(backend, tmp_path, 2) as (writes, reads):
        new(writes, posse.PosseTS())
        asyncio.run(compare(writes, reads))


def test_as_many_experiments_are_kept_as_have_room(tmp_path, monkeypatch):
    loads, load = [], queries.LiveExperiment.load

    async def look(kept, *names):
        for name in names:
            await kept.read(name, lambda _, live: None)

    with stores("sqlite", tmp_path) as (store,):
        for name in ("one", "two", "three"):  # with three shops and three arms each
            new(store, posse.IndTSV(), name)
        monkeypatch.setattr(queries.LiveExperiment, "load", lambda *args: loads.append(args[1]["name"]) or load(*args))
        asyncio.run(look(KeptExperiments(ReadPool(store), most=20), "one", "two", "one", "three", "one", "two"))
        assert loads == ["one", "two", "three", "two"]
        snapshots = Snapshots(store)
        snapshots._kept._most = 25_000  # two small ones
        first = [snapshots.of(name) for name in ("one", "two", "three")]
        assert snapshots.of("three") is first[2]
        assert snapshots.of("one") is not first[0]


# ---------------------------------------------------------------- page by page


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("reader"), defaults_seconds=None) as client:
        yield client


def test_the_state_page_by_page(client):
    shops = [f"shop {number}" for number in range(250)]
    path = new_experiment(client, players=shops)
    past = [{"player": shops[number % 250], "arm": "coupon", "reward": number % 2} for number in range(600)]
    client.post(f"{path}/records", json={"rewards": past})
    first = client.get(f"{path}/state").json()
    assert (len(first["players"]), first["next"]) == (100, 100)
    whole = client.get(f"{path}/state?limit=1000").json()
    assert whole["next"] is None
    pages = [client.get(f"{path}/state?after={after}&limit=120").json() for after in (0, 120, 240)]
    assert [page["next"] for page in pages] == [120, 240, None]
    for field in ("players", "pulls", "means", "low", "high", "centers", "scales", "shared", "probabilities"):
        assert [row for page in pages for row in page[field]] == whole[field]
    assert client.get(f"{path}/state?after=250").json()["players"] == []
    assert problem_of(client.get(f"{path}/state?limit=1001"), 422) == "invalid"
    with posse.Client(str(client.base_url)) as other:
        assert other.state(path.rpartition("/")[2].replace("%20", " ")) == {
            field: whole[field] for field in whole if field != "next"
        }


def test_an_answer_about_many_arms_has_fewer_players_and_no_diagnosis(client):
    path = new_experiment(client, arms=[f"arm {number}" for number in range(900)], players=[f"p{n}" for n in range(50)])
    page = client.get(f"{path}/state?limit=1000").json()
    assert (len(page["players"]), page["next"]) == (22, 22)
    began = time.process_time()
    answer = client.get(f"{path}/diagnosis")
    assert problem_of(answer, 409) == "refused"
    assert "50 players × 900 arms" in answer.json()["detail"]
    assert time.process_time() - began < 5


def test_a_diagnosis_is_made_once_for_each_moment_of_the_log(client, monkeypatch):
    from posse.service.api import routes

    made, diagnose = [], routes.diagnose
    monkeypatch.setattr(routes, "diagnose", lambda data: made.append(1) or diagnose(data))
    path = new_experiment(client)
    answers = [client.get(f"{path}/diagnosis").json() for _ in range(3)]
    assert answers[0] == answers[2]
    assert len(made) == 1
    client.post(f"{path}/records", json={"rewards": [{"player": "Lyon", "arm": "coupon", "reward": 1}]})
    assert client.get(f"{path}/diagnosis").json()["pulls"] == [[1, 0], [0, 0]]
    assert len(made) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_experiments_are_listed_page_by_page_and_searched(backend, tmp_path, monkeypatch):
    with stores(backend, tmp_path) as (store,):
        names = sorted([*(f"tea {number:02}" for number in range(12)), "100% tea", "50_tea", "Green TEA"])
        for name in names:
            new(store, posse.IndTSV(), name)
        commit(store, Change("tea 03", retire=["north"]))
        everything = store.read(queries.experiments)
        assert sorted(each.name for each in everything) == names
        opened, from_dict = [], queries.Setup.from_dict
        monkeypatch.setattr(queries.Setup, "from_dict", lambda given: opened.append(1) or from_dict(given))
        pages, after = [], ""
        while page := store.read(queries.experiments, after=after, limit=4):
            pages, after = pages + page, page[-1].name
        assert pages == everything
        assert len(opened) == len(names)  # a page opens its own only
        by_name = {each.name: each for each in everything}
        assert (by_name["tea 03"].player_count, by_name["tea 04"].player_count) == (2, 3)
        assert [arm for arm, _ in by_name["tea 03"].arms] == ["tea", "coffee", "cocoa"]
        for search, expected in (
            ("green tea", ["Green TEA"]),
            ("%", ["100% tea"]),
            ("_", ["50_tea"]),
            ("tea 1", ["tea 10", "tea 11"]),
            ("none", []),
            ("\0", []),
        ):
            found = store.read(queries.experiments, search=search)
            assert [each.name for each in found] == expected
            assert store.read(queries.count_experiments, search=search) == len(expected)
        assert store.read(queries.experiments, only="tea 03", search="4") == []
        assert store.read(queries.experiments, after="a\0") == []


def test_the_list_of_the_api_and_of_the_dashboard_page_by_page(tmp_path, monkeypatch):
    monkeypatch.setattr("posse.service.dashboard.routes.CARDS", 9)
    read, experiments = [], queries.experiments
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    for number in range(12):
        commit(store, Create(f"teas {number:02}", posse.IndTSV(), ["a", "b"], ["p"]))
    with service(tmp_path, defaults_seconds=None) as client:
        page = client.get("/v1/experiments?limit=3&after=teas 05").json()
        assert [each["name"] for each in page["experiments"]] == ["teas 06", "teas 07", "teas 08"]
        assert page["next"] == "teas 08"
        assert client.get("/v1/experiments?after=teas 08").json()["next"] is None
        assert [each["name"] for each in client.get("/v1/experiments?search=S 07").json()["experiments"]] == ["teas 07"]
        with posse.Client(str(client.base_url)) as other:
            assert len(other.experiments()) == 12
        first, last = client.get("/").text, client.get("/?page=2").text
        assert (first.count('class="card"'), last.count('class="card"')) == (9, 3)
        assert "Page 1 of 2" in first
        found = client.get("/?q=S 07").text
        assert "teas 07" in found
        assert found.count('class="card"') == 1
        assert "0 experiments" in client.get("/?q=nothing").text
        monkeypatch.setattr(queries, "experiments", lambda *args, **more: read.append(1) or experiments(*args, **more))
        with ThreadPoolExecutor(15) as viewers:
            ask = {"url": f"{client.base_url}/experiments", "headers": {"hx-request": "true"}, "timeout": 30}
            answers = [viewers.submit(httpx.get, **ask) for _ in range(15)]
            (html,) = {answer.result().text for answer in answers}
        assert html.count('class="card"') == 9
        assert len(read) <= 2  # a second may have passed
        seen = html.partition('name="seen" value="')[2].partition('"')[0]
        assert client.get(f"/experiments?seen={seen}", headers=ask["headers"]).status_code in (200, 204)
    store.close()


# ---------------------------------------------------------------- health


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_not_ready_while_nothing_can_be_written(backend, tmp_path, monkeypatch):
    monkeypatch.setattr("posse.service.api.operation.PROBE_SECONDS", 0.1)
    monkeypatch.setattr("posse.service.api.operation.PROBE_LIMIT", 0.5)
    with database(backend, tmp_path) as address, background(address) as url:
        store = ServiceStore(address)
        assert httpx.get(f"{url}/readyz").status_code == 200
        with store.engine.connect() as connection:  # others may read, but not write
            lock = "SELECT 1" if backend == "sqlite" else "LOCK TABLE alembic_version IN EXCLUSIVE MODE"
            connection.exec_driver_sql(lock)
            time.sleep(0.2)
            assert problem_of(httpx.get(f"{url}/readyz"), 503) == "unavailable"
            assert httpx.get(f"{url}/healthz").status_code == 200
        until = time.monotonic() + 30
        while (answer := httpx.get(f"{url}/readyz")).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert answer.json() == {"status": "ready"}
        store.close()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_may_be_asked_for_its_head_only(client, path):
    head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_an_answer_of_the_reader_has_one_id_which_its_log_has_too(tmp_path):
    with fleet(f"sqlite:///{tmp_path}/posse.db", tmp_path, 1) as running, httpx.Client(base_url=running.url) as client:
        for path in ("/", "/metrics", "/v1/experiments/none"):
            assert client.get(path, headers={"X-Request-Id": "r7"}).headers.get_list("x-request-id") == ["r7"]
            (made,) = client.get(path).headers.get_list("x-request-id")
            assert made
        (tmp_path / "posse.db").rename(tmp_path / "moved.db")
        gone = client.get("/v1/experiments")
        (tmp_path / "moved.db").rename(tmp_path / "posse.db")
    assert gone.status_code == 503
    assert f"[{gone.headers['x-request-id']}]" in running.log.read_text()
