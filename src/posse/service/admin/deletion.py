"""Deleting an archived experiment for good."""

from typing import NamedTuple

import sqlalchemy as sql

from posse.service.storage import audit, errors
from posse.service.storage import schema as tables
from posse.service.storage.transaction import Transaction
from posse.text import plural

OUTLIVES = ("audit", "tokens")  # tables with a column `experiment` from which no row of it is removed


class Delete(NamedTuple):
    """Remove everything that there is of an archived experiment, and free its name. Result: how many decisions it had.

    Its tokens are revoked, and forget their label and the experiment: if they were removed, a service whose last
    tokens they were would be open again.
    """

    experiment: str
    key: str | None = None
    by: str = audit.COMMAND_LINE

    def apply(self, transaction: Transaction) -> int:
        request = transaction.ask_outside(self.key, "delete", self.experiment)
        if request.before is not None:
            return int(request.before)
        live = transaction.live(self.experiment)
        if live.life.status != "archived":
            said = f"experiment {live.name!r} is {live.life.status}, but only an archived one can be deleted"
            raise errors.Refused(f"{said}: finish and archive it first")
        connection, token = transaction.connection, tables.tokens
        its_own = sql.select(token).where(token.c.experiment == live.id).with_for_update()  # somebody may revoke one
        for row in connection.execute(its_own).mappings().all():
            ended = {"revoked_at": row["revoked_at"] or transaction.clock(), "label": "", "experiment": None}
            audit.seal(connection, token, {**row, **ended})
        transaction.forget(live.name)
        for table in reversed(tables.metadata.sorted_tables):
            if "experiment" in table.c and table.name not in OUTLIVES:
                connection.execute(sql.delete(table).where(table.c.experiment == live.id))
        connection.execute(sql.delete(tables.experiments).where(tables.experiments.c.id == live.id))
        decisions = live.state.decisions
        transaction.note(self.by, "delete", live.name, plural(decisions, "decision"))
        request.remember(str(decisions), [])
        return decisions
