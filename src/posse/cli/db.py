"""posse db: the service's database, made, checked, copied and carried elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from posse.cli.experiments import add_import, import_policies
from posse.text import plural

if TYPE_CHECKING:
    from posse.service.storage.store import ServiceStore

PLACE = 70
DATABASE = "sqlite:///posse.db"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the care of the service's database."""
    parser = commands.add_parser("db", help="look after the service's database", description="The service's database.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_action(actions, "init", _upgrade, "make a new database")
    add_action(actions, "upgrade", _upgrade, "bring an older database to the newest schema; back it up before")
    verify = add_action(
        actions, "verify", _verify, "replay the logs, check their digests, compare with everything beside"
    )
    rebuild = add_action(actions, "rebuild", _rebuild, "make everything beside the logs anew from them")
    for one in (verify, rebuild):
        one.add_argument("--experiment", metavar="NAME", help="only this one (default: all)")
    export = add_action(actions, "export", _export, "write an experiment's log to a Parquet file")
    from_file = add_action(actions, "import", _import, "begin an experiment with a log from a Parquet file")
    for one in (export, from_file):
        one.add_argument("experiment", metavar="EXPERIMENT")
        one.add_argument("file", metavar="FILE", type=Path, help="a .parquet file")
    erase = add_action(actions, "erase", _erase, "replace a player's name for good; what it taught the others stays")
    erase.add_argument("experiment", metavar="EXPERIMENT")
    erase.add_argument("player", metavar="PLAYER")
    for one in (verify, rebuild, export, from_file, erase):
        add_import(one)
    backup = add_action(actions, "backup", _backup, "copy a SQLite database while it is in use")
    backup.add_argument("file", metavar="FILE", type=Path, help="a new file")


def add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: object, text: str
) -> argparse.ArgumentParser:
    """Add an action on the service's database."""
    parser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    add_database(parser)
    parser.set_defaults(run=run, extra="service")
    return parser


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which database."""
    parser.add_argument(
        "--database",
        default=os.environ.get("POSSE_DATABASE", DATABASE),
        metavar="URL",
        help=f"sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME (default: $POSSE_DATABASE, or {DATABASE})",
    )


def opened(options: argparse.Namespace) -> contextlib.closing[ServiceStore]:
    """The store, to be closed at the end; the user's policies are imported first."""
    from posse.service.storage.store import ServiceStore

    import_policies(options)
    return contextlib.closing(ServiceStore(options.database))


def _upgrade(options: argparse.Namespace) -> None:
    from posse.service.storage import database
    from posse.service.storage.schema import SCHEMA

    database.upgrade(options.database)
    print(f"schema {SCHEMA}")


def _verify(options: argparse.Namespace) -> None:
    from posse.service.admin.verify import verify
    from posse.service.storage import queries

    with opened(options) as store:
        findings = verify(store, options.experiment)
        rows = sum(one.decisions for one in store.read(queries.experiments)) if not findings else 0
    for finding in findings:
        print(finding)
    if findings:
        raise RuntimeError(plural(len(findings), "finding"))
    print(f"all is well: {rows:,} decisions")


def _rebuild(options: argparse.Namespace) -> None:
    from posse.service.admin.verify import rebuild

    with opened(options) as store:
        for name in rebuild(store, options.experiment):
            print(f"{name}: made anew from its log")


def _export(options: argparse.Namespace) -> None:
    from posse.service.admin.transfer import export_log

    with opened(options) as store:
        print(f"{export_log(store, options.experiment, options.file):,} rows to {options.file}")


def _import(options: argparse.Namespace) -> None:
    from posse.service.admin.transfer import import_log

    with opened(options) as store:
        made = import_log(store, options.experiment, options.file)
        print(f"{made.name}: {made.decisions:,} decisions, {made.rewards:,} rewards")


def _erase(options: argparse.Namespace) -> None:
    from posse.service.commands import Erase
    from posse.service.storage.transaction import commit

    with opened(options) as store:
        print(f"{options.player} is now {commit(store, Erase(options.experiment, options.player))}")


def _backup(options: argparse.Namespace) -> None:
    from posse.service.storage import database

    with opened(options) as store:
        database.backup(store.engine, options.file)
    print(f"copied to {options.file}")
