"""Tokens: shown once, kept as hashes, and over when they are over."""

from __future__ import annotations

import re

import pytest

from posse.service.admin.verify import verify
from posse.service.auth import tokens
from posse.service.auth.tokens import Grant
from posse.service.storage.store import UnknownExperiment
from stores import BACKENDS, Clock, new, stores


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    clock = Clock()
    with stores(request.param, tmp_path, 1, clock) as (store,):
        new(store)
        yield store, clock
        assert verify(store) == []


def test_a_token_grants_what_it_was_made_for(opened):
    store, _ = opened
    assert not tokens.exist(store)
    secret = tokens.create(store, ["decide", "reward"], "teas", label="the till")
    assert re.fullmatch(r"posse_1_[A-Za-z0-9_-]{43}", secret)
    grant = tokens.check(store, secret)
    assert grant == Grant(frozenset({"decide", "reward"}), "teas")
    assert grant.allows("decide", "teas")
    assert not grant.allows("read", "teas")
    assert not grant.allows("decide", "beers")
    assert not grant.allows("decide")
    assert Grant(frozenset({"admin"}), None).allows("decide", "beers")
    assert tokens.exist(store)


def test_secrets_are_not_in_the_database(opened):
    store, _ = opened
    secret = tokens.create(store, "admin")
    with store.reading() as connection:
        rows = repr(connection.exec_driver_sql("SELECT * FROM tokens").all())
    assert secret.split("_", 2)[2] not in rows


def test_what_is_no_token_grants_nothing(opened):
    store, _ = opened
    secret = tokens.create(store, "read")
    last = "A" if secret[-1] != "A" else "B"
    for wrong in ("", "posse_1_", secret[:-1], secret[:-1] + last, secret + "x", secret.replace("_1_", "_2_"), None, 5):
        assert tokens.check(store, wrong) is None
    assert tokens.check(store, secret) is not None


def test_an_expired_or_revoked_token_grants_nothing(opened):
    store, clock = opened
    short, long = tokens.create(store, "read", expires=60), tokens.create(store, "read")
    clock.now += 59
    assert tokens.check(store, short)
    clock.now += 1
    assert tokens.check(store, short) is None
    assert tokens.check(store, long)
    tokens.revoke(store, 2)
    tokens.revoke(store, 2)
    assert tokens.check(store, long) is None
    assert tokens.exist(store)
    assert [(token.id, token.expires_at, token.revoked_at) for token in tokens.everyone(store)] == [
        (1, 1060.0, None),
        (2, None, 1060.0),
    ]


def test_what_makes_no_sense_is_refused(opened):
    store, _ = opened
    for wrong in ({"scope": "all"}, {"scope": []}, {"scope": "read", "expires": 0}, {"scope": "read", "label": "\n"}):
        with pytest.raises(ValueError, match=r"expected|a name has"):
            tokens.create(store, **wrong)
    with pytest.raises(UnknownExperiment):
        tokens.create(store, "read", "beers")
    with pytest.raises(ValueError, match="no token 7"):
        tokens.revoke(store, 7)
    assert not tokens.exist(store)
