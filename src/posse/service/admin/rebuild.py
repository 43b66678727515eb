"""Make everything that follows from a log anew from it, while decisions go on."""

import logging
from typing import NamedTuple

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from posse.service.admin.verify import AuditFinding, LogAudit, stored_experiments
from posse.service.storage import errors, log_rows, pair_statistics
from posse.service.storage import schema as tables
from posse.service.storage.live_experiment import FEW, LiveExperiment
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import Transaction, commit

LOGGER = logging.getLogger("posse.service")


def rebuild(store: ServiceStore, name: str | None = None) -> list[str]:
    """Make everything beside the log anew from it, in one experiment or in all; return their names.

    The log itself cannot be rebuilt: if it is damaged, an error says how, and nothing changes.
    """
    names = [name] if name is not None else [str(row["name"]) for row in store.read(stored_experiments, None)]
    for one in names:
        _rebuild(store, one)
    return names


def rebuild_outdated(store: ServiceStore) -> None:
    """Rebuild the experiments whose statistics or summary another version of their policy kept in another form."""
    for row in store.read(stored_experiments, None):
        try:
            store.read(pair_statistics.check_form, row)
        except errors.OtherVersion as found:
            LOGGER.info("%s; that is done now: experiment %r, %s rows", found, row["name"], f"{row['links']:,}")
            try:
                _rebuild(store, row["name"])
                LOGGER.info("experiment %r is made anew from its log", row["name"])
            except (RuntimeError, errors.Refused) as error:  # the log is damaged, or the database is away
                LOGGER.error("experiment %r could not be made anew: %s", row["name"], error)
        except (ValueError, TypeError, KeyError):  # whoever uses it is told what is wrong with its set-up
            continue


def _rebuild(store: ServiceStore, name: str) -> None:
    """Replay the log beside those who write to it, then what they wrote meanwhile, until it is little."""
    replay, behind = LogReplay(name), FEW + 1
    while behind > FEW:
        behind = store.read(replay.catch_up)
    commit(store, ReplaceBeside(name, replay))


class LogReplay:
    """An experiment's log, replayed as far as it went when somebody last looked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._audit: LogAudit | None = None
        self._found: list[AuditFinding] = []

    def catch_up(self, connection: Connection) -> int:
        """Replay the rows that are new; return how many. An error if the log is damaged."""
        row, audit, before = stored_experiments(connection, self._name)[0], self._audit, 0
        self._audit = None  # what fails halfway is of no use
        if audit is None:
            audit = LogAudit(connection, row, lambda *what: self._found.append(AuditFinding(self._name, *what)))
            live = audit.run()
        else:
            before = audit.links
            live = audit.go_on(connection)
        if live is None or audit.links < row["links"]:
            first = self._found[0] if self._found else f"it ends with row {audit.links} of {row['links']}"
            raise errors.Damaged(f"the log of {self._name!r} is damaged, restore a backup: {first}")
        self._audit = audit
        return audit.links - before

    def result(self) -> tuple[LiveExperiment, dict[str, list[log_rows.Values]]]:
        """The experiment as the log leads to it, to be written, and the names that there are."""
        audit = self._audit
        assert audit is not None
        assert audit.live is not None
        return LiveExperiment({**audit.row, **audit.live.progress()}, audit.live.state), audit.names


class ReplaceBeside(NamedTuple):
    """Replace everything beside an experiment's log by what the log leads to."""

    experiment: str
    replay: LogReplay

    def apply(self, transaction: Transaction) -> None:
        connection, table = transaction.connection, tables.experiments
        connection.execute(sql.select(table.c.id).where(table.c.name == self.experiment).with_for_update())
        self.replay.catch_up(connection)
        live, names = self.replay.result()
        for beside in (tables.stats, tables.summaries, tables.outcome_stats):
            connection.execute(sql.delete(beside).where(beside.c.experiment == live.id))
        for kind, roster in ((tables.players, live.state.player_roster), (tables.arms, live.state.arm_roster)):
            found = {entry["place"]: entry["here"] for entry in names[kind.name]}
            for place, here in enumerate(roster.here.tolist()):
                if found.get(place) != int(here):
                    same = sql.and_(kind.c.experiment == live.id, kind.c.place == place)
                    connection.execute(sql.update(kind).where(same), {"here": int(here)})
        live.append_change("rebuild", 0, live.time)  # so that other processes load everything anew
        live.write(connection)
