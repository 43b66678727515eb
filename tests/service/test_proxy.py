"""The service as somebody starts it, with and without an nginx in front that has nothing but `proxy_pass`."""

from __future__ import annotations

import os
import pty
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import httpx
import pytest
from fleet import POSSE, POSTGRES

from posse.service.process.supervisor import background
from posse.service.settings import Settings

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {url}; proxy_http_version 1.0; }}  # 1.0 was the default up to nginx 1.29
    }}
}}
"""
pytestmark = pytest.mark.skipif(NGINX is None and POSTGRES is None, reason="needs nginx; make test-service gives one")


@contextmanager
def behind_nginx(folder, url):
    """The address of a proxy in front of the service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port, url=url))
    process = subprocess.Popen([NGINX, "-c", configuration], stderr=subprocess.DEVNULL)
    try:
        address, until = f"http://127.0.0.1:{port}", time.monotonic() + 30
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            assert time.monotonic() < until
            with suppress(httpx.ConnectError):
                httpx.get(f"{address}/healthz")
                break
            time.sleep(0.02)
        yield address
    finally:
        process.terminate()
        process.wait()


@contextmanager
def on_a_terminal(folder):
    """`posse serve` with a terminal for its standard output; gives what it says until it is ready."""
    screen, terminal = pty.openpty()
    command = [*POSSE, "serve", "--port", "0"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=terminal, stderr=log)
    os.close(terminal)
    try:
        said = b""
        while said.count(b"\n") < 4:
            said += os.read(screen, 10_000)
        yield said.decode().replace("\r", "")
    finally:
        process.terminate()
        process.wait()
        os.close(screen)
    assert (folder / "log").read_text() == ""


def test_a_new_service_asks_for_the_token_that_it_shows_also_behind_a_proxy(tmp_path):
    with on_a_terminal(tmp_path) as said:
        url, token = re.search(r"sign in: +(\S+)/login#(posse_1_\S+)\n", said).groups()
        assert f"export POSSE_TOKEN={token}\n" in said
        bearer = {"Authorization": f"Bearer {token}"}
        with behind_nginx(tmp_path, url) as proxy:
            for address in (url, proxy):
                assert httpx.get(f"{address}/v1/experiments").status_code == 401
                assert httpx.get(f"{address}/").headers["location"] == "/login?next=/"
                assert httpx.get(f"{address}/v1/experiments", headers=bearer).status_code == 200
                assert httpx.get(f"{address}/metrics", headers=bearer).status_code == 200
                assert httpx.post(f"{address}/login", data={"token": token}).headers["location"] == "/"


def test_an_open_service_refuses_what_comes_through_a_proxy(tmp_path):
    settings = Settings(f"sqlite:///{tmp_path}/posse.db", open=True)
    with background(settings) as url, behind_nginx(tmp_path, url) as proxy:
        for path in ("/v1/experiments", "/", "/metrics", "/openapi.json"):
            assert httpx.get(f"{url}{path}").status_code == 200
            refused = httpx.get(f"{proxy}{path}")
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:posse:problem:proxied")
