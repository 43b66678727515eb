"""A service over HTTP for the tests of a file, and a new experiment in it for each; some files have their own."""

from __future__ import annotations

import pytest
from serving import new_experiment, service


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with service(tmp_path_factory.mktemp("http")) as client:
        yield client


@pytest.fixture
def path(client):
    return new_experiment(client)
