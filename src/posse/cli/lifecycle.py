"""posse experiment, audit: the service's experiments from their pause to their end, and who changed what."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from posse.cli import Commands
from posse.cli.service import add_action
from posse.text import align, moment, plural, shorten

if TYPE_CHECKING:
    from posse.service.storage.store import ServiceStore

WIDEST = 40  # characters of a name in a list: one long name must not widen every line
STEPS = {
    "pause": ("paused", "let an experiment make no decisions for now; rewards still count"),
    "resume": ("running", "let a paused or finished experiment decide again"),
    "finish": ("finished", "end an experiment, with or without an arm to ship; late rewards still count"),
    "archive": ("archived", "put a finished experiment away: it can only be read"),
    "restore": ("finished", "make an archived experiment finished again"),
}
"""The status that each action leads to, and what it does."""


def add(commands: Commands) -> None:
    text = "pause, finish, archive or delete the service's experiments"
    experiment = commands.add_parser("experiment", help=text, description="Experiments in the service's database.")
    actions = experiment.add_subparsers(title="actions", metavar="ACTION", required=True)
    found = add_action(actions, _list, "list experiments")
    found.add_argument("--archived", action="store_true", help="the archived ones instead of all others")
    for name, (status, text) in STEPS.items():
        step = add_action(actions, _change, text, "experiment", "--import", name=name)
        step.set_defaults(step=name, status=status, ship=None, ship_for=[], description=None)
        if name == "finish":
            text = "every decision is this arm from now on (default: no decisions)"
            step.add_argument("--ship", metavar="ARM", help=text)
            text = "another arm for this player (may be repeated)"
            step.add_argument("--ship-for", metavar="PLAYER=ARM", action="append", default=[], type=_pair, help=text)
    describe = add_action(
        actions, _change, "set an experiment's description", "experiment", "--import", name="describe"
    )
    describe.add_argument("description", metavar="TEXT", help='what it is about; "" for none')
    describe.set_defaults(step="describe", status=None, ship=None, ship_for=[])
    add_action(actions, _delete, "remove an archived experiment for good", "experiment", "--import")
    add_action(commands, _audit, "list who changed what in the service", "--experiment")


def _pair(text: str) -> tuple[str, str]:
    player, equals, arm = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}, but expected PLAYER=ARM")
    return player, arm


def _list(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.storage import queries

    rows = [
        [shorten(one.name, WIDEST), one.status, plural(one.decisions, "decision"), one.description.partition("\n")[0]]
        for one in store.read(queries.experiments, archived=options.archived)
    ]
    print(*align(rows, "<<><"), sep="\n", end="\n" if rows else "")


def _change(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.commands import Change
    from posse.service.storage import queries
    from posse.service.storage.lifecycle import MOVES
    from posse.service.storage.transaction import commit

    before = store.read(queries.experiment, options.experiment).status
    if MOVES.get((before, options.status), options.step) != options.step:  # restore, for example, finishes nothing
        raise ValueError(f"experiment {options.experiment!r} is {before}, so there is nothing to {options.step}")
    asked: dict[str, Any] = {name: getattr(options, name) for name in ("status", "ship", "description")}
    made = commit(store, Change(options.experiment, **asked, ship_for=dict(options.ship_for)))
    ships = f", and every decision is {made.ship}" if made.ship is not None and made.status == "finished" else ""
    print(f"{made.name} is {made.status}{ships}{' for everybody else' if ships and made.ship_for else ''}")


def _delete(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.admin.deletion import Delete
    from posse.service.storage.transaction import commit

    print(f"{options.experiment} is deleted, with {plural(commit(store, Delete(options.experiment)), 'decision')}")


def _audit(store: ServiceStore, options: argparse.Namespace) -> None:
    from posse.service.storage import audit

    after = 0
    while found := store.read(audit.entries, after, experiment=options.experiment):
        rows = [
            [
                str(row.id),
                moment(row.at),
                shorten(row.who, WIDEST),
                row.action,
                shorten(row.experiment, WIDEST),
                row.detail,
            ]
            for row in found
        ]
        print(*align(rows, "><"), sep="\n")
        after = found[-1].id
