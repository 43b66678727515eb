import sys
import threading
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples" / "studies")]
pytest.register_assert_rewrite("learner_pair", "learner_machine")  # for their assertions to show what differs


def pytest_configure(config):
    """Of several processes, which all collect the same tests, let the first say how far it is."""
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        config.pluginmanager.register(CollectionProgress())  # a hook of this file would hear of tests/ only
    elif config.getoption("numprocesses", None) and sys.stdout.isatty():
        config.pluginmanager.register(SignOfLife(config))


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


class SignOfLife:
    """Writes … among the dots whenever no test has ended for a while: the first use of a policy takes seconds.

    It is for tests in processes of their own. pytest keeps what is written beside a test in its own process.
    """

    SECONDS = 1.5

    def __init__(self, config):
        self.config, self.thread, self.ended, self.over = config, None, threading.Event(), False

    def pytest_runtest_logstart(self):
        if self.thread is None:
            self.thread = threading.Thread(target=self.watch, daemon=True)
            self.thread.start()

    def pytest_runtest_logfinish(self):
        self.ended.set()

    def pytest_sessionfinish(self):
        self.over = True
        self.ended.set()

    def watch(self):
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        while not self.over:
            if not self.ended.wait(self.SECONDS):
                reporter.write("…", flush=True)
            self.ended.clear()
