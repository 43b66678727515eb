"""Tokens: shown once, kept as hashes, and over when they are over."""

from __future__ import annotations

import re

import pytest

from posse.service.admin.verify import verify
from posse.service.auth import tokens
from posse.service.auth.permissions import CREATE, READ, Permission, allows
from posse.service.auth.tokens import CreateToken, RevokeToken, TokenGrant
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
    rows = {row.id: row for row in store.read(tokens.all_tokens)}
    number = tokens.number_of(secret)
    return tokens.grant_of(rows[number], secret, store.clock()) if number in rows else None


def test_a_token_grants_what_it_was_made_for(opened):
    store, _ = opened
    assert not store.read(tokens.exist)
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
    assert store.read(tokens.exist)


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
    assert store.read(tokens.exist)
    assert [(token.id, token.expires_at, token.revoked_at) for token in store.read(tokens.all_tokens)] == [
        (1, 1060.0, None),
        (2, None, 1060.0),
    ]


def test_what_makes_no_sense_is_refused(opened):
    store, _ = opened
    for wrong in (
        {"scopes": "all"},
        {"scopes": []},
        {"scopes": "read", "expires": 0},
        {"scopes": "read", "label": "\n"},
    ):
        with pytest.raises(ValueError, match=r"expected|a name has"):
            commit(store, CreateToken(**wrong))
    with pytest.raises(UnknownExperiment):
        commit(store, CreateToken("read", "beers"))
    with pytest.raises(ValueError, match="no token 7"):
        commit(store, RevokeToken(7))
    assert not store.read(tokens.exist)
