"""Tokens: shown once, kept as hashes, and over when they are over."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from posse.service import auth
from posse.service.admin.verify import verify
from posse.service.auth import (
    CREATE,
    LOOKS,
    READ,
    Authenticator,
    CreateToken,
    Permission,
    RevokeToken,
    TokenGrant,
    allows,
)
from posse.service.settings import Settings
from posse.service.storage import database
from posse.service.storage.errors import UnknownExperiment
from posse.service.storage.transaction import commit
from stores import BACKENDS, Clock, new, stores


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    clock = Clock()
    with stores(request.param, tmp_path, 1, clock) as (store,):
        new(store)
        yield store, clock
        assert verify(store) == []


def grant_of(store, secret):
    """What a token grants, if it has the form of one and its number is known."""
    rows = {row.id: row for row in store.read(auth.all_tokens)}
    number = auth.token_number(secret)
    found = auth.grant_of(rows.get(number), secret, store.clock())
    return None if isinstance(found, str) else found


def test_a_token_grants_what_it_was_made_for(opened):
    store, _ = opened
    assert not store.read(auth.tokens_exist)
    secret = commit(store, CreateToken(["decide", "reward"], "teas", label="the till"))
    assert re.fullmatch(r"posse_1_[A-Za-z0-9_-]{43}", secret)
    grant = grant_of(store, secret)
    assert grant == TokenGrant(frozenset({"decide", "reward"}), "teas")
    decide = Permission("decide")
    assert allows(grant, decide, "teas")
    assert not allows(grant, READ, "teas")
    assert not allows(grant, decide, "beers")
    assert not allows(grant, Permission("decide", every_experiment=True))
    assert allows(grant, Permission(None), "teas")
    assert not allows(grant, Permission(None), "beers")
    everything = TokenGrant(frozenset({"admin"}), None)
    assert allows(everything, decide, "beers")
    assert allows(everything, CREATE)
    assert not allows(TokenGrant(frozenset({"admin"}), "teas"), CREATE)
    assert not allows(TokenGrant(frozenset({"decide", "reward", "read"}), None), CREATE)
    assert store.read(auth.tokens_exist)


def test_secrets_are_not_in_the_database(opened):
    store, _ = opened
    secret = commit(store, CreateToken("admin"))
    with database.reading(store.engine) as connection:
        rows = repr(connection.exec_driver_sql("SELECT * FROM tokens").all())
    assert secret.split("_", 2)[2] not in rows


def test_what_is_no_token_grants_nothing(opened):
    store, _ = opened
    secret = commit(store, CreateToken("read"))
    last = "A" if secret[-1] != "A" else "B"
    for wrong in ("", "posse_1_", secret[:-1], secret[:-1] + last, secret + "x", secret.replace("_1_", "_2_")):
        assert grant_of(store, wrong) is None
    assert grant_of(store, secret) is not None


def test_an_expired_or_revoked_token_grants_nothing(opened):
    store, clock = opened
    short, long = commit(store, CreateToken("read", expires=60)), commit(store, CreateToken("read"))
    clock.now += 59
    assert grant_of(store, short)
    clock.now += 1
    assert grant_of(store, short) is None
    assert grant_of(store, long)
    commit(store, RevokeToken(2))
    commit(store, RevokeToken(2))
    assert grant_of(store, long) is None
    assert store.read(auth.tokens_exist)
    assert [(token.id, token.expires_at, token.revoked_at) for token in store.read(auth.all_tokens)] == [
        (1, 1060.0, None),
        (2, None, 1060.0),
    ]


def test_who_revokes_the_last_token_for_everything_is_warned(opened, caplog):
    store, clock = opened
    for scope, experiment, expires in (("admin", None, None), ("admin", None, 60), ("admin", "teas", None)):
        commit(store, CreateToken(scope, experiment, expires))
    commit(store, RevokeToken(3))
    clock.now += 61
    assert "no token is left" not in caplog.text
    commit(store, RevokeToken(1))
    assert "token 1 is revoked, and no token is left that may do everything" in caplog.text


def test_what_makes_no_sense_is_refused(opened):
    store, _ = opened
    for wrong in (
        {"scopes": "all"},
        {"scopes": []},
        {"scopes": "read", "expires": 0},
        {"scopes": "read", "label": "\n"},
        {"scopes": "read", "label": "command line"},  # in the audit trail, its holder would pass for another
        {"scopes": "read", "label": " Open  service"},
        {"scopes": "read", "label": "token 12"},
    ):
        with pytest.raises(ValueError, match=r"expected|a name has"):
            commit(store, CreateToken(**wrong))
    with pytest.raises(UnknownExperiment):
        commit(store, CreateToken("read", "beers"))
    with pytest.raises(ValueError, match="no token 7"):
        commit(store, RevokeToken(7))
    assert not store.read(auth.tokens_exist)


class CountedReads:
    """Reads of the tokens, counted; each finds the same."""

    def __init__(self, *found: Any) -> None:
        self.found, self.times = found, []

    async def query(self, *_: Any) -> list[Any]:
        self.times.append(time.monotonic())
        await asyncio.sleep(0.002)
        return list(self.found)


def test_wrong_tokens_cost_the_database_next_to_nothing_and_keep_no_good_one_out(opened):
    store, _ = opened
    good = commit(store, CreateToken("read"))
    reads = CountedReads(*store.read(auth.all_tokens))

    async def flood() -> list[float]:
        authenticator = Authenticator(Settings("sqlite://", trust_seconds=0.2), reads, lambda: 0.0)
        waited = []

        async def attack(sender: int) -> None:
            for number in range(20):
                assert await authenticator.look_up(f"posse_{2 + 100 * sender + number}_{43 * 'x'}") == "unknown"
                assert await authenticator.look_up(f"posse_1_{43 * 'x'}") == "unknown"
                assert await authenticator.look_up("x" * 5000) == "unknown"

        async def work() -> None:
            for _ in range(100):
                began = time.monotonic()
                assert await authenticator.look_up(good) != "unknown"
                waited.append(time.monotonic() - began)
                await asyncio.sleep(0.004)

        await asyncio.gather(work(), *map(attack, range(50)))
        return waited

    began = time.monotonic()
    waited = asyncio.run(flood())
    assert len(reads.times) <= 2 + (time.monotonic() - began) * LOOKS / 0.2  # of 3,000 wrong tokens
    assert sorted(waited)[len(waited) // 2] < 0.02


def test_tokens_are_read_once_for_all_who_ask_and_again_when_they_are_old():
    reads = CountedReads()

    async def ask() -> None:
        authenticator = Authenticator(Settings("sqlite://", trust_seconds=0.1), reads, lambda: 0.0)
        for _ in range(2):
            await asyncio.gather(*(authenticator.look_up(f"posse_1_{43 * 'x'}") for _ in range(100)))
            await asyncio.sleep(0.12)

    asyncio.run(ask())
    assert len(reads.times) <= 4
