"""posse serve, demo, db, token: the decision service, its database and its tokens."""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import re
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.cli import IMPORT, Commands, add_command
from posse.text import align, moment, plural

if TYPE_CHECKING:
    from posse.service.storage.store import ServiceStore

DATABASE = "sqlite:///posse.db"
RATE = 30.0
OPEN = "posse: everybody on this machine may do everything; never put a proxy in front of this service\n"
LONGEST_DAYS = 36_500  # that a token may be valid for
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "experiment": {"metavar": "EXPERIMENT", "help": "its name"},
    "player": {"metavar": "PLAYER", "help": "the player's name"},
    "log": {"metavar": "FILE", "type": Path, "help": "a .parquet file"},
    "--experiment": {"metavar": "NAME", "help": "only this one (default: all)"},
    "--import": IMPORT,
}
"""What several of the actions on the database take."""


def add(commands: Commands) -> None:
    serve = add_command(commands, _serve, "run the decision service, with a dashboard", extra="service")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    serve.add_argument("--port", type=int, default=8080, metavar="N", help="default: 8080; 0 takes a free one")
    _add_database(serve)
    own = "a Python file with policies of your own, imported first"
    serve.add_argument("--import", dest="import_file", metavar="FILE", help=own)
    serve.add_argument("--workers", type=int, default=1, metavar="N", help="worker processes (default: 1)")
    text = "ask nobody on this machine for a token; for trying out, and never behind a proxy"
    serve.add_argument("--open", action="store_true", help=text)
    serve.add_argument("--access-log", action="store_true", help="write a line for each request to standard error")
    serve.add_argument("--log-format", choices=("text", "json"), default="text", help="of log lines (default: text)")
    text = "open connections of a worker (default: 1000); to make room, those that wait for their client are closed"
    serve.add_argument("--connections", type=int, default=1000, metavar="N", help=text)
    text = "of these, from one address (default: 250); behind a proxy, which has one address, take as many as for all"
    serve.add_argument("--connections-per-address", type=int, default=250, metavar="N", help=text)

    text = "show the decision service at work, with made-up shops, in the browser"
    demo = add_command(commands, _demo, text, extra="service")
    demo.add_argument("--rate", type=float, default=RATE, metavar="N", help=f"passers-by a second (default: {RATE:g})")
    demo.add_argument("--database", metavar="URL", help="keep everything in this database (default: keep nothing)")
    demo.add_argument("--no-browser", action="store_true", help="only print where the dashboard is")

    db = commands.add_parser("db", help="look after the service's database", description="The service's database.")
    actions = db.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_database(add_command(actions, _upgrade, "make a new database", "init", extra="service"))
    text = "bring an older database to the newest schema; back it up before"
    _add_database(add_command(actions, _upgrade, text, extra="service"))
    text = "replay the logs, check their digests, compare with everything beside"
    add_action(actions, _verify, text, "--experiment", "--import")
    add_action(actions, _rebuild, "make everything beside the logs anew from them", "--experiment", "--import")
    add_action(actions, _export, "write an experiment's log to a Parquet file", "experiment", "log", "--import")
    text = "begin an experiment with a log from a Parquet file"
    add_action(actions, _import, text, "experiment", "log", "--import")
    text = "replace a player's name for good; what it taught the others stays"
    add_action(actions, _erase, text, "experiment", "player", "--import")
    backup = add_action(actions, _backup, "copy a SQLite database while it is in use")
    backup.add_argument("file", metavar="FILE", type=Path, help="a new file")

    token = commands.add_parser(
        "token", help="make and revoke the service's tokens", description="The service's tokens."
    )
    actions = token.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = add_action(actions, _create, "make a token; its secret is shown once", "--experiment", "--import")
    scopes, what = ("decide", "reward", "read", "admin"), "what it is for (may be repeated); admin is everything"
    create.add_argument("--scope", action="append", required=True, choices=scopes, help=what)
    create.add_argument("--expires", type=_duration, metavar="TIME", help="such as 12h or 90d (default: never)")
    create.add_argument("--label", default="", metavar="TEXT", help="to know it by")
    add_action(actions, _list, "list the tokens, without their secrets")
    revoke = add_action(actions, _revoke, "end a token")
    revoke.add_argument("token", type=int, metavar="NUMBER", help="as in the list, and after posse_ in the token")


def add_action(
    actions: Commands, action: Callable[..., None], text: str, *arguments: str, name: str = ""
) -> argparse.ArgumentParser:
    """Add an action on the service's database, which takes some of the ARGUMENTS."""

    @functools.wraps(action)
    def run(options: argparse.Namespace) -> None:
        from posse.service.storage.store import ServiceStore

        _check_reachable(options.database)
        with contextlib.closing(ServiceStore(options.database)) as store:
            action(store, options)

    parser = add_command(actions, run, text, name, extra="service")
    _add_database(parser)
    for argument in arguments:
        parser.add_argument(argument, **ARGUMENTS[argument])
    return parser


def _check_reachable(url: str) -> None:
    """An error that says why a PostgreSQL cannot be reached."""
    from posse.service.storage import database

    away = database.why_away(url)
    if away is not None:
        raise RuntimeError(away)


def _add_database(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get("POSSE_DATABASE", DATABASE)
    text = f"sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME (default: $POSSE_DATABASE, or {DATABASE})"
    parser.add_argument("--database", default=default, metavar="URL", help=text)


def _duration(text: str) -> float:
    """Seconds, from a number and a unit.

    >>> _duration("12h")
    43200.0
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text)
    seconds = 0.0 if match is None else float(match[1]) * SECONDS[match[2]]
    if not 0 < seconds <= LONGEST_DAYS * SECONDS["d"]:
        expected = f"a time such as 30m, 12h or 90d, and at most {LONGEST_DAYS}d"
        raise argparse.ArgumentTypeError(f"{text!r}, but expected {expected}")
    return seconds


# ---------------------------------------------------------------- the service


def _serve(options: argparse.Namespace) -> None:
    """Run the decision service until Ctrl-C: an HTTP API, and a dashboard in the browser.

    Needs no set-up: everything is kept in posse.db, in this folder. The first start shows a token, with which one may
    do everything; `posse token create` makes others. An address that other machines reach needs a token beforehand.
    """

    def say(text: str) -> None:
        if sys.stderr.isatty():  # whoever waits at a terminal should know that something happens
            print(f"posse: {text}", file=sys.stderr)

    say("starting …")
    from posse.service.logs import write_log
    from posse.service.process.supervisor import serve
    from posse.service.settings import Settings

    def announce(url: str) -> None:
        print(f"posse: the dashboard is at {url}/ and the API at {url}/v1/; Ctrl-C stops", flush=True)
        print(OPEN if options.open else _first_token(options.database, url), end="", flush=True)

    write_log(options.log_format)
    names = ("database", "open", "access_log", "import_file", "connections", "connections_per_address", "log_format")
    settings = Settings(**{name: getattr(options, name) for name in names})
    opened = functools.partial(say, "the database is open; starting the processes that answer …")
    serve(options.host, options.port, settings, options.workers, announce, opened)


def _first_token(database: str, url: str) -> str:
    """Make a token if there never was one, and say how to use it. It is shown on a terminal only, not in a log."""
    from posse.service import auth
    from posse.service.storage.store import ServiceStore
    from posse.service.storage.transaction import commit

    with contextlib.closing(ServiceStore(database)) as store:
        if store.read(auth.tokens_exist):
            another = "`posse token create --scope admin` makes one, with the same --database"
            return f"posse: sign in at {url}/login with a token; {another}\n" if sys.stdout.isatty() else ""
        if not sys.stdout.isatty():
            return "posse: there is no token yet; make one with the same --database: posse token create --scope admin\n"
        token = commit(store, auth.CreateToken("admin", label="first"))
    return (
        "posse: this token may do everything, and is shown only now\n"
        f"  sign in:      {url}/login#{token}\n"
        f"  for clients:  export POSSE_TOKEN={token}\n"
    )


def _demo(options: argparse.Namespace) -> None:
    """Run the decision service on a free port of this machine, and send it the passers-by of a made-up chain of shops.

    The dashboard opens in the browser. Twelve shops try five windows; one shop is unlike the others. Ctrl-C stops it.
    Nothing is kept unless --database says where.
    """
    importlib.import_module("posse.service.process")  # before the client, whose extra is not enough
    from posse.service import demo

    def announce(url: str) -> None:
        print(f"posse: the dashboard is at {url}/; Ctrl-C stops", flush=True)
        if not options.no_browser:
            webbrowser.open(f"{url}/")

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends it as Ctrl-C does
    with tempfile.TemporaryDirectory(prefix="posse-demo-") as folder:
        database = options.database or f"sqlite:///{Path(folder) / 'demo.db'}"
        with contextlib.suppress(KeyboardInterrupt):
            demo.run(database, options.rate, announce)
    print("posse: the demonstration has ended", flush=True)


# ---------------------------------------------------------------- its database


def _upgrade(options: argparse.Namespace) -> None:
    from posse.service.storage import database
    from posse.service.storage.schema import SCHEMA

    _check_reachable(options.database)
    before = database.upgrade(options.database)
    since = {None: "a new database", SCHEMA: "it was there already"}.get(before, f"it was {before} before")
    print(f"schema {SCHEMA}: {since}")


def _verify(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.admin.verify import verify
    from posse.service.storage import queries

    findings = verify(store, options.experiment)
    rows = sum(one.decisions for one in store.read(queries.experiments, archived=None)) if not findings else 0
    for finding in findings:
        print(finding)
    if findings:
        raise RuntimeError(plural(len(findings), "finding"))
    print(f"all is well: {rows:,} decisions")


def _rebuild(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.admin.rebuild import rebuild

    for name in rebuild(store, options.experiment):
        print(f"{name}: made anew from its log")


def _export(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.admin.transfer import export_log

    print(f"{export_log(store, options.experiment, options.log):,} rows to {options.log}")


def _import(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.admin.transfer import import_log

    made = import_log(store, options.experiment, options.log)
    print(f"{made.name}: {made.decisions:,} decisions, {made.rewards:,} rewards")


def _erase(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.commands import Erase
    from posse.service.storage.transaction import commit

    print(f"{options.player} is now {commit(store, Erase(options.experiment, options.player))}")


def _backup(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.storage import database

    database.backup(store.engine, options.file)
    print(f"copied to {options.file}")


# ---------------------------------------------------------------- its tokens


def _create(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.auth import CreateToken
    from posse.service.storage.transaction import commit

    print(commit(store, CreateToken(options.scope, options.experiment, options.expires, options.label)))


def _list(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service import auth

    now, rows = store.clock(), []
    for token in store.read(auth.all_tokens):
        if token.revoked_at is not None:
            until = f"revoked {moment(token.revoked_at)}"
        elif token.expires_at is None:
            until = "never expires"
        else:
            until = f"{'expired' if token.expires_at <= now else 'expires'} {moment(token.expires_at)}"
        where = "all experiments" if token.name is None else repr(token.name)
        rows.append([str(token.id), token.scopes.replace(" ", "+"), where, until, token.label])
    print(*align(rows, "><"), sep="\n", end="\n" if rows else "")


def _revoke(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.auth import RevokeToken
    from posse.service.storage.transaction import commit

    commit(store, RevokeToken(options.token))
    print(f"token {options.token} is revoked")
