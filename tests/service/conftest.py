"""A service over HTTP for the tests of a file, and a new experiment in it for each; two workers on one database."""

from __future__ import annotations

import pytest
from serving import new_experiment, service

from stores import BACKENDS, workers


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("http")) as client:
        yield client


@pytest.fixture
def path(client):
    return new_experiment(client)


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path):
    with workers(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    """For what depends on no database."""
    with workers("sqlite", tmp_path) as found:
        yield found
