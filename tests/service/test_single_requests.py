"""Requests for one decision or one reward, which come by the thousand: the short way is the same as the long one."""

from __future__ import annotations

import asyncio
import contextlib

import fastapi.routing
import httpx
import pytest
import sqlalchemy as sql
from test_store_writer import counted

from posse.service.admin.verify import verify
from posse.service.api import app as service_app
from posse.service.api.middleware import DirectRoute
from posse.service.commands import Change, Choose, Observe
from posse.service.settings import Settings
from posse.service.storage import database, live_experiment
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group
from posse.service.writer import Writer
from stores import BACKENDS, SHOPS, Call, answered, counts, new, stores

# ---------------------------------------------------------------- over HTTP


@contextlib.contextmanager
def app_of(folder):
    """The app on a new database with one experiment, without a server."""
    folder.mkdir(exist_ok=True)
    settings = Settings(f"sqlite:///{folder}/posse.db", open=True, defaults_seconds=None)
    store = ServiceStore(settings.database, create=True)
    new(store)
    store.close()
    app = service_app.create_app(settings)
    yield app
    app.state.writer.close()
    app.state.read_pool.close()
    app.state.store.close()


def ask(app, requests):
    """The answers to POST requests (part of the path, content, headers), one after another."""

    async def ask_all():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            usual = {"Content-Type": "application/json"}
            paths = (f"/v1/experiments/{part}" for part, _, _ in requests)
            return [
                await client.post(path, content=content, headers=usual | headers)
                for path, (_, content, headers) in zip(paths, requests, strict=True)
            ]

    return asyncio.run(ask_all())


def test_a_good_request_does_not_take_the_general_way(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the general way")

    with app_of(tmp_path) as app:
        monkeypatch.setattr(fastapi.routing, "solve_dependencies", refuse)
        (made,) = ask(app, [("teas/decisions", '{"player": "north"}', {"Idempotency-Key": "k"})])
        identity = made.json()["decisions"][0]["id"]
        (taken,) = ask(app, [("teas/rewards", f'{{"decision": "{identity}", "reward": 1}}', {})])
    assert taken.json() == {"decision": identity, "status": "taken", "detail": None}
    assert taken.headers["content-type"] == "application/json"
    assert taken.headers["posse-api"] == "1"


REQUESTS = [
    ("teas/decisions", '{"player": "north"}', {}),
    ("teas/decisions", '{"player": "north", "available": ["tea"]}', {"Idempotency-Key": "a"}),
    ("teas/decisions", '{"player": "north", "available": ["tea"], "idempotency_key": "a"}', {"Idempotency-Key": "a"}),
    ("teas/decisions", '{"player": "north", "idempotency_key": "b"}', {"Idempotency-Key": "a"}),
    ("teas/decisions", '{"player": "north"}', {"Idempotency-Key": "ü".encode()}),
    ("teas/decisions", '{"player": "north"}', {"Idempotency-Key": "x" * 1000}),
    ("teas/decisions", '{"players": ["north", "south"]}', {}),
    ("teas/decisions", '{"players": ["north", "north"]}', {}),
    ("teas/decisions", '{"player": "nobody"}', {}),
    ("teas/decisions", '{"player": 7, "more": 1}', {}),
    ("teas/decisions", '{"player": "north", "player": "south"}', {}),
    ("teas/decisions", '{"player": NaN}', {}),
    ("teas/decisions", '{"player": ', {}),
    ("teas/decisions", "[1]", {}),
    ("teas/decisions", "null", {}),
    ("teas/decisions", "", {}),
    ("teas/decisions", '{"player": "north"}', {"Content-Type": "text/plain"}),
    ("teas/decisions", '{"player": "north"}', {"Origin": "http://elsewhere"}),
    ("teas/decisions", '{"player": "north"}', {"Host": "elsewhere"}),
    ("beers/decisions", '{"player": "north"}', {}),
    ("%0A/decisions", '{"player": "north"}', {}),
    ("%0A/decisions", "null", {"Idempotency-Key": "x" * 1000}),
    (f"{'x' * 1000}/decisions", '{"player": "north"}', {}),
    ("teas/rewards", '{"decision": "0-00000000", "reward": 1}', {}),
    ("teas/rewards", '{"decision": "0-00000000", "reward": 1e999}', {}),
    ("teas/rewards", '{"decision": "", "reward": true}', {}),
    ("teas/rewards", '{"rewards": [{"decision": "x", "reward": 0.5}]}', {}),
    ("teas/rewards", '{"rewards": []}', {}),
    ("teas/nothing", '{"player": "north"}', {}),
]


def test_direct_routes_answer_as_fastapi_does(tmp_path, monkeypatch):
    with app_of(tmp_path / "direct") as app:
        direct = ask(app, REQUESTS)
    for route in (each for each in app.routes if isinstance(each, DirectRoute)):
        monkeypatch.setattr(route, "app", fastapi.routing.request_response(route.get_route_handler()))
    with app_of(tmp_path / "general") as app:
        general = ask(app, REQUESTS)

    def comparable(answer):
        body = answer.json()
        for each in body.get("decisions", ()):
            assert each.pop("id")  # it depends on the time
        headers = {
            name: value for name, value in answer.headers.items() if name not in ("content-length", "x-request-id")
        }
        return answer.status_code, headers, body

    assert [comparable(answer) for answer in direct] == [comparable(answer) for answer in general]
    assert {answer.status_code for answer in direct} >= {200, 400, 403, 404, 409, 415, 421, 422}


# ---------------------------------------------------------------- through the writer


def test_clients_share_transactions_and_each_wakes_the_loop_once(tmp_path):
    clients, rounds, sizes, wakes = 16, 10, [], []

    async def work(writer):
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *args, **options: (wakes.append(1), wake(*args, **options))[1]

        async def client(number):
            for _ in range(rounds):
                (made,) = await writer.apply(Choose("teas", [SHOPS[number % 3]]))
                assert (await writer.apply(Observe("teas", [(made.id, 1.0)])))[0].status == "taken"

        await asyncio.gather(*map(client, range(clients)))

    with stores("sqlite", tmp_path) as (store,):
        new(store)
        writer = Writer(store, metrics=counted(sizes.append))
        asyncio.run(work(writer))
        writer.close()
        assert verify(store) == []
    assert sum(sizes) == 2 * clients * rounds
    assert sum(sizes) / len(sizes) > clients / 2
    assert len(wakes) == len(sizes)


def test_a_caller_that_goes_away_cancels_nothing(tmp_path):
    async def give_up(writer):
        task = asyncio.create_task(writer.apply(Choose("teas", ["north"])))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return await writer.apply(Choose("teas", ["south"]))

    with stores("sqlite", tmp_path) as (store,):
        new(store)
        writer = Writer(store)
        assert asyncio.run(give_up(writer))[0].id.startswith("1-")
        writer.close()


# ---------------------------------------------------------------- into the database


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_come_back_to_the_last_bit(backend, tmp_path):
    numbers = [0.1, 0.0, 5e-324, 1.7976931348623157e308, 1 / 3, 1e16, 123456789.123456789]
    texts = ["", "plain", 'quote " and \\x41 \\u0041', "ünïcödé 😀 \u2028", "%s %(rows)s :name", None]
    contents = [b"", bytes(range(256)), b"\\x00", None]
    table = sql.Table("made", sql.MetaData(), sql.Column("id", sql.BigInteger, primary_key=True, autoincrement=False))
    for name, kind in {"number": sql.Double, "text": sql.Text, "content": sql.LargeBinary}.items():
        table.append_column(sql.Column(name, kind))
    values = [(n, t, c) for n in numbers for t in texts for c in contents]
    rows = [{"id": 2**63 - 1 - k, "number": n, "text": t, "content": c} for k, (n, t, c) in enumerate(values)]
    with stores(backend, tmp_path) as (store,), store.engine.begin() as connection:
        table.create(connection)
        database.insert_rows(connection, table, rows[1:])
        database.insert_rows(connection, table, [row | {"text": "old"} for row in rows[:1]])
        database.insert_rows(connection, table, rows, replace=True)
        found = connection.execute(sql.select(table).order_by(table.c.id.desc())).mappings().all()
    assert list(map(repr, map(dict, found))) == list(map(repr, rows))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reward_of_minus_zero_is_zero(backend, tmp_path):
    with stores(backend, tmp_path) as (store,):
        new(store)
        answered(store, reward=-0.0)
        assert verify(store) == []


@pytest.mark.parametrize("few", [2000, 3])
def test_what_others_wrote_comes_with_the_lock(tmp_path, monkeypatch, few):
    """PostgreSQL: only the first time that somebody else has written is the log asked in queries of its own."""
    asked, loaded, live = [], [], live_experiment.LiveExperiment
    catch_up, load = live.catch_up, live.load

    def counted(self, connection, row, read=()):
        if 0 < row["links"] - self.links <= few and not read:
            asked.append(1)
        return catch_up(self, connection, row, read)

    monkeypatch.setattr(live_experiment, "FEW", few)
    monkeypatch.setattr(live, "catch_up", counted)
    monkeypatch.setattr(live, "load", classmethod(lambda cls, *args: (loaded.append(1), load(*args))[1]))
    with stores("postgresql", tmp_path, 2) as opened:
        new(opened[0])
        answered(opened[1])
        asked.clear()
        loaded.clear()
        for turn in range(6):
            store = opened[turn % 2]
            made = commit_group(store, [Choose("teas", [shop]) for shop in SHOPS])
            reports = [[(each.id, 1.0)] for (each,) in made]
            assert all(each.status == "taken" for (each,) in commit_group(store, [Observe("teas", r) for r in reports]))
        assert len(asked) == (2 if few > 10 else 1)
        assert bool(loaded) == (few < 10)
        assert counts(opened[0], "teas").pulls.sum() == 19
        assert verify(opened[1]) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_who_comes_and_goes_in_one_transaction_is_written_as_in_the_end(backend, tmp_path):
    with stores(backend, tmp_path) as (store,):
        new(store)
        commit_group(store, [Change("teas", join=["west"]), Change("teas", retire=["west"])])
        assert verify(store) == []
        with pytest.raises(Exception, match=r"INSERT|UNIQUE|unique"):  # an error of what is written with COMMIT
            commit(store, Call(lambda transaction: spoil(transaction.live("teas"))))
        assert commit(store, Choose("teas", ["north"]))[0].player == "north"
        assert verify(store) == []


def spoil(live):
    """Add a row twice."""
    live.append_change("pause", 0, live.time)
    live._rows["changes"] *= 2
