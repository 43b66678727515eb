"""posse serve: the decision service."""

from __future__ import annotations

import argparse

from posse.cli.db import add_database

PLACE = 50


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the service."""
    serve = commands.add_parser(
        "serve",
        help="run the decision service, with a dashboard",
        description="Run the decision service until Ctrl-C: an HTTP API, and a dashboard in the browser. Needs no "
        "set-up: everything is kept in posse.db, in this folder. On an address that other machines reach, tokens are "
        "needed; `posse token create` makes them.",
    )
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    serve.add_argument("--port", type=int, default=8080, metavar="N", help="default: 8080; 0 takes a free one")
    add_database(serve)
    own = "a Python file with policies of your own, imported first"
    serve.add_argument("--import", dest="import_file", metavar="FILE", help=own)
    serve.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    serve.add_argument("--access-log", action="store_true", help="write a line for each request to standard error")
    serve.set_defaults(run=_serve, extra="service")


def _serve(options: argparse.Namespace) -> None:
    from posse.service.process.supervisor import serve, write_log
    from posse.service.settings import Settings

    write_log()
    serve(
        options.host,
        options.port,
        Settings(options.database, access_log=options.access_log, import_file=options.import_file),
        options.workers,
        lambda url: print(f"posse: the dashboard is at {url}/ and the API at {url}/v1/; Ctrl-C stops", flush=True),
    )
