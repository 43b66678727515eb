import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples" / "studies")]
pytest.register_assert_rewrite("learner_pair", "learner_machine")  # for their assertions to show what differs


def pytest_configure(config):
    """Of several processes, which all collect the same tests, let the first say how far it is."""
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        config.pluginmanager.register(CollectionProgress())  # a hook of this file would hear of tests/ only


class CollectionProgress:
    """Names on the terminal each file that is collected: pytest-xdist says nothing until all are."""

    def pytest_collectstart(self, collector):
        if isinstance(collector, pytest.File):
            self.show(collector.config, f"collecting {collector.path.name}")

    def pytest_collection_finish(self, session):
        self.show(session.config, "")

    def show(self, config, text):
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            if sys.stderr.isatty():
                print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
