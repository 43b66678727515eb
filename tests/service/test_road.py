"""The road of one decision: how many modules it takes from the socket to the commit."""

from __future__ import annotations

import asyncio
import sys
import threading

import httpx

from posse.service.api.app import create_app
from posse.service.auth import CreateToken
from posse.service.settings import Settings
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit

MOST = 15
COUNTED = ("posse.service.", "posse.learner.", "posse.policies.")


class Road:
    """The modules in which Python functions are called, in the order of their first calls, in all threads."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def note(self, frame, event, _) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(COUNTED) and module not in self.modules:
            self.modules.append(module)


async def _ask(app, secret: str, road: Road) -> None:
    headers = {"Authorization": f"Bearer {secret}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        body = {"name": "teas", "arms": ["tea", "coffee"], "players": ["north", "south"]}
        assert (await client.post("/v1/experiments", json=body)).status_code == 201
        for number in range(3):  # the third finds everything warm
            road.modules.clear()
            body = {"player": "north", "available": ["tea", "coffee"], "idempotency_key": f"k{number}"}
            sys.setprofile(road.note)
            try:
                answer = await client.post("/v1/experiments/teas/decisions", json=body)
            finally:
                sys.setprofile(None)
            assert answer.json()["decisions"][0]["player"] == "north"


def test_one_decision_takes_few_modules(tmp_path):
    settings = Settings(f"sqlite:///{tmp_path}/posse.db", defaults_seconds=None, trust_seconds=600)
    store = ServiceStore(settings.database, create=True)
    secret = commit(store, CreateToken("admin"))
    store.close()
    road = Road()
    threading.setprofile(road.note)  # for the writer's thread, which begins with the app
    try:
        app = create_app(settings)
    finally:
        threading.setprofile(None)
    asyncio.run(_ask(app, secret, road))
    app.state.writer.close()
    app.state.read_pool.close()
    app.state.store.close()
    assert "posse.service.api.middleware" in road.modules
    assert "posse.service.storage.log_rows" in road.modules
    assert len(road.modules) <= MOST, road.modules
