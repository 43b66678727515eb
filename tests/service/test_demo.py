"""posse demo: shops that do not exist, on a service that does."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from serving import service

from posse.service import demo
from posse.service.client import Client


def test_both_experiments_meet_the_same_people(tmp_path):
    with service(tmp_path) as http, Client(str(http.base_url)) as client:
        now = [0.0]
        chain = demo.ShopChain(client, clock=lambda: now[0])
        for number in range(10):
            if number == 5:
                chain.begun.clear()  # whoever starts again goes on with the experiments that are there
            chain.pass_by(12)
            now[0] += 1.0
            chain.report()
        seen = {each["name"]: each for each in client.experiments()}
        assert set(seen) == {demo.SHARING, demo.ALONE}
        for each in seen.values():
            assert each["decisions"] == 120
            found = client.experiment(each["name"])
            assert (found["control"], found["holdout"]) == ("bare", 0.05)  # so that its page has something to compare
            assert 0 < each["rewards"] < 120
            assert each["rewards"] + each["waiting"] == 120
        assert client.experiment(demo.SHARING)["policy"]["label"] == "PosseTS"  # it needs no ε, so the demo states none
        client.change(demo.SHARING, status="paused")
        chain.pass_by(12)  # a pause of one does not stop the other
        assert client.experiment(demo.SHARING)["decisions"] == 120
        assert client.experiment(demo.ALONE)["decisions"] == 132


def test_the_command_says_where_it_is_and_stops_cleanly():
    command = [sys.executable, "-c", "import sys; from posse.cli import main; sys.exit(main(sys.argv[1:]))"]
    process = subprocess.Popen(
        [*command, "demo", "--no-browser", "--rate", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        url = re.search(r"http://[\d.:]+/", process.stdout.readline()).group()
        assert "posse" in httpx.get(url, timeout=60).text
        folders = list(Path("/tmp").glob("posse-demo-*"))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        assert "the demonstration has ended" in out
        assert (process.returncode, err) == (0, "")
        assert len(list(Path("/tmp").glob("posse-demo-*"))) < max(len(folders), 1)
    finally:
        process.kill()
        process.wait()
