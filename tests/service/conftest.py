"""A service over HTTP for the tests of a file, and a new experiment in it for each; two workers on one database."""

from __future__ import annotations

import pytest
from client_line import Line, clients
from serving import new_experiment, service

from posse.service.client import delivery, retry
from stores import BACKENDS, workers


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with service(tmp_path_factory.mktemp("http")) as client:
        yield client


@pytest.fixture(scope="module")
def client(http):
    return http


@pytest.fixture
def path(client):
    return new_experiment(client)


@pytest.fixture
def offers(http):
    """The name of a new experiment."""
    return http.get(new_experiment(http)).json()["name"]


@pytest.fixture
def line():
    return Line()


@pytest.fixture(params=["blocking", "awaited"])
def either_client(request, http, line, monkeypatch):
    """A client of posse's own, on a line that may go wrong."""
    monkeypatch.setattr(delivery, "SHORT", 0.05)
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.005)
    with clients(request.param, str(http.base_url), line, patience=10.0) as client:
        yield client


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    with workers(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    """For what depends on no database."""
    with workers("sqlite", tmp_path) as found:
        yield found
