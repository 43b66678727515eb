"""SQLite and PostgreSQL through SQLAlchemy: connections, transactions, schema versions, and errors in our words."""

import contextlib
import functools
import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sql
from psycopg.rows import dict_row
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL, Connection, Engine

from posse.checks import output_file
from posse.service.storage import sqlite_file
from posse.service.storage.address import command, parse, shown
from posse.service.storage.errors import Damaged, Unavailable
from posse.service.storage.schema import SCHEMA, metadata

LOGGER = logging.getLogger("posse.service")
PATIENCE = 5  # seconds that SQLite waits to write, and PostgreSQL may take to let us in
UPGRADE_LOCK = 0x706F737365  # "posse": PostgreSQL's advisory lock while the schema changes
RETRIED = {"40001", "40P01"}  # PostgreSQL: serialization failure and deadlock; nothing was committed
FULL, READ_ONLY, SHUTTING_DOWN = "53", "25006", "57"  # classes of its errors, and one of them
COMES_BACK = ("starting up", "shutting down", "recovery", "not yet accepting", "too many", "connection slots")
"""Words of a server that will soon take connections, as far as it speaks English."""
DAMAGE = ("malformed", "not a database", "file is encrypted", "unsupported file format", "corrupt", "no such")


def connect(url: str, silence: float | None = None) -> Engine:
    """An engine for a database's address; nothing is opened yet.

    With `silence`, a PostgreSQL that says nothing for so many seconds counts as away, even in a long statement.
    """
    address = parse(url)
    if address.get_backend_name() == "sqlite":
        return _connect_sqlite(address)
    from posse.service.storage import postgres

    return postgres.connect(address, PATIENCE, silence)


def _connect_sqlite(address: URL) -> Engine:
    """An engine that works with one file for all of its life.

    SQLite would go on with a file that was deleted or replaced, and everything that it wrote would be lost.
    """
    opened = OpenedFile(os.path.abspath(str(address.database)))
    options = {"connect_args": {"timeout": PATIENCE}, "execution_options": {"opened_file": opened}}
    engine = sql.create_engine(address, pool_size=4, max_overflow=64, **options)
    sql.event.listen(engine, "do_connect", lambda *_: opened.check())
    sql.event.listen(engine, "connect", _prepare_sqlite)
    sql.event.listen(engine, "begin", _begin_sqlite)
    return engine


class OpenedFile:
    """The file that an engine has opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None  # of the file that was opened first

    def check(self) -> None:
        """An error unless the path leads to the same file as before."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise Unavailable(f"the database's file is gone: {error}; put it back, or restart the service") from error
        identity = found.st_dev, found.st_ino
        if identity != (self._identity or identity):
            raise Unavailable(f"another file is in the place of the database {self._path}; restart the service")
        self._identity = identity


def check_same(database: Engine | Connection) -> None:
    """An error if the file of a SQLite database was deleted or replaced since it was opened."""
    opened: OpenedFile | None = database.get_execution_options().get("opened_file")
    if opened is not None:
        opened.check()


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    """Commits are durable, and only we begin transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # an erased name is gone from the file too


def _begin_sqlite(connection: Connection) -> None:
    """A transaction that writes locks the database at once; one that upgraded its lock later could fail."""
    check_same(connection)
    reads = connection.get_execution_options().get("posse_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@contextlib.contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one moment of the database and changes nothing."""
    options: dict[str, Any] = {"posse_reads": True}
    if engine.dialect.name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with explained(engine), engine.connect() as connection, connection.execution_options(**options).begin():
        yield connection


@contextlib.contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Raise Unavailable or Damaged instead of the database's own errors."""
    try:
        yield
    except exc.DBAPIError as error:
        raise explain(engine, error) from error
    except exc.InvalidRequestError as error:  # a table or a column that is not there
        LOGGER.error("the database %s: %s", shown(engine.url), error)
        raise Damaged(f"the database: {error}") from error


def explain(engine: Engine, error: exc.DBAPIError) -> Exception:
    """What an error of the database means to us. Clients may see it, so where the database is goes to the log only."""
    said = _said(error)
    code = getattr(error.orig, "sqlstate", None) or ""
    LOGGER.warning("the database %s: %s", shown(engine.url), said)
    local = engine.dialect.name == "sqlite"
    if any(word in said for word in DAMAGE) and local:
        return Damaged(f"the database: {said}; restore a backup")
    if isinstance(error.orig, UnicodeDecodeError) or "Could not decode" in said:
        return Damaged(f"the database: {said}")
    passing = isinstance(error, exc.OperationalError | exc.InterfaceError) or code == READ_ONLY
    if passing or code[:2] in (FULL, SHUTTING_DOWN):
        reason = f": {said}" if local else ", and the log says why"  # PostgreSQL may name its host and its user
        return Unavailable(f"the database cannot do it now{reason}")
    return Damaged(f"the database: {said}")


def _said(error: exc.DBAPIError) -> str:
    return (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]


def why_away(url: str) -> str | None:
    """Why PostgreSQL's server cannot be reached now; None if it can. An error if it turns us away for good."""
    engine = connect(url)
    if engine.dialect.name == "sqlite":
        return None
    try:
        with engine.connect():
            return None
    except exc.DBAPIError as error:
        said = _said(error)
        why = f"the database {shown(engine.url)} cannot be reached: {said}"
        if "FATAL: " in said and not any(word in said for word in COMES_BACK):
            raise ValueError(f"{why}; check the user, the password and the names in the database's address") from None
        return why
    finally:
        engine.dispose()


def write_probe(connection: Connection) -> None:
    """Write something that changes nothing; whoever commits it knows that the database can be written."""
    local = connection.dialect.name == "sqlite"  # which writes no row that stays the same, but this number always
    connection.exec_driver_sql(
        "PRAGMA user_version = 1" if local else "UPDATE alembic_version SET version_num = version_num"
    )


def size(connection: Connection) -> int:
    """The bytes that the database takes; of SQLite without the -wal file beside it."""
    local = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    remote = "SELECT pg_database_size(current_database())"
    found = connection.exec_driver_sql(local if connection.dialect.name == "sqlite" else remote)
    return int(found.scalar_one())


def can_retry(error: exc.DBAPIError) -> bool:
    """Whether another try may do better: another transaction was in the way, or the connection broke."""
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in RETRIED


@contextlib.contextmanager
def pipeline(connection: Connection) -> Iterator[None]:
    """Let PostgreSQL have several statements without waiting for each; COMMIT raises what any of them met."""
    if connection.dialect.name == "sqlite":
        yield
        return
    driver = _driver(connection)
    try:
        with contextlib.suppress(psycopg.Error), driver.pipeline():  # SQLAlchemy has met errors, but for the end's
            yield
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            driver.rollback()  # SQLAlchemy would not: it takes a transaction for ended whose COMMIT was sent
        raise


def read_together(connection: Connection, asked: list[tuple[Any, Mapping[str, Any]]]) -> list[list[dict[str, Any]]]:
    """The rows of constant statements, each with its parameters, in one round trip to PostgreSQL."""
    driver = _driver(connection)
    try:
        with driver.pipeline():
            cursors = [driver.cursor(row_factory=dict_row) for _ in asked]
            for cursor, (statement, parameters) in zip(cursors, asked, strict=True):
                cursor.execute(_text_of(statement), parameters)
        return [cursor.fetchall() for cursor in cursors]
    except psycopg.Error as error:
        lost = driver.broken or driver.closed
        if lost:
            connection.invalidate(error)
        raise exc.DBAPIError.instance(None, None, error, psycopg.Error, False, lost, connection.dialect) from error


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


@functools.cache
def _text_of(statement: Any) -> str:
    """A statement for PostgreSQL's driver."""
    return str(statement.compile(dialect=PGDialect_psycopg()))


def insert_into(table: sql.Table, dialect: str) -> Any:
    """An insertion that can say what to do about a row that is there already."""
    return (sqlite if dialect == "sqlite" else postgresql).insert(table)


def insert_rows(connection: Connection, table: sql.Table, rows: list[dict[str, Any]], replace: bool = False) -> None:
    """Insert rows, with `replace` in place of those that have the same key.

    The driver takes all of them at once: as dictionaries, or as JSON, of which PostgreSQL makes a table. With a
    conversion for every value and a message for every row, they would cost more than all else in a transaction.
    """
    local = connection.dialect.name == "sqlite"
    if replace:  # of several with one key, the last: PostgreSQL does not replace a row twice
        key = [column.name for column in table.primary_key]
        rows = list({tuple(row[name] for name in key): row for row in rows}.values())
    given = rows if local else {"rows": json.dumps(rows, ensure_ascii=False, allow_nan=False, default=_hexadecimal)}
    connection.exec_driver_sql(_insertion(table, local, replace), given)


@functools.cache
def _insertion(table: sql.Table, local: bool, replace: bool) -> str:
    """An insertion of any number of rows."""
    quoted = (sqlite if local else postgresql).dialect().identifier_preparer.quote
    name, key = quoted(table.name), [quoted(column.name) for column in table.primary_key]
    columns = [quoted(column.name) for column in table.c]
    if local:
        text = (
            f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join(f':{column.name}' for column in table.c)})"
        )
    else:
        listed = ", ".join(columns)
        source = f"json_populate_recordset(NULL::{name}, %(rows)s)"
        text = f"INSERT INTO {name} ({listed}) SELECT {listed} FROM {source}"
    if replace:
        rest = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
        text += f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {rest}"
    return text


def _hexadecimal(value: bytes) -> str:
    return "\\x" + value.hex()


# ---------------------------------------------------------------- schema


def version(connection: Connection) -> str | None:
    """The schema's version, None for an empty database."""
    if not sql.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if found is None else str(found)


def check_version(engine: Engine) -> None:
    """An error that says what to do, unless the schema is the one that this posse works with."""
    place = shown(engine.url)
    sqlite_file.check_file(engine)
    with reading(engine) as connection:
        found = version(connection)
    if found is None:
        raise ValueError(f"{place} holds no posse database; `{command('db init', engine.url)}` makes one")
    if found != SCHEMA:
        upgrade_it = f"back it up, then run `{command('db upgrade', engine.url)}`"
        advice = "use a newer posse" if found > SCHEMA else upgrade_it
        raise ValueError(f"{place} has schema {found}, but this posse works with {SCHEMA}; {advice}")


def upgrade(url: str) -> str | None:
    """Create the tables, or bring an older schema to the newest version, in one transaction; return what it was."""
    engine = connect(url)
    if engine.dialect.name == "sqlite":  # else no table could be made anew to which others refer
        sql.event.listen(engine, "connect", lambda opened, _: opened.execute("PRAGMA foreign_keys = OFF"))
    sqlite_file.check_file(engine, create=True)
    try:
        with explained(engine), engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
            found = version(connection)
            if found is not None and found > SCHEMA:
                raise ValueError(
                    f"the database has schema {found}, but this posse works with {SCHEMA}; use a newer posse"
                )
            if found is None:
                metadata.create_all(connection, checkfirst=False)
            if found != SCHEMA:
                _run_alembic("stamp" if found is None else "upgrade", connection)
        return found
    finally:
        engine.dispose()


def _run_alembic(command: str, connection: Connection) -> None:
    import alembic.command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", os.path.join(os.path.dirname(__file__), "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    getattr(alembic.command, command)(config, "head")


def forget(engine: Engine) -> str | None:
    """Remove what was overwritten from SQLite's write-ahead file too; return what hindered it, such as a reader.

    Nobody can write while it is tried, so it does not wait for whoever reads.
    """
    if engine.dialect.name != "sqlite":
        return None
    try:
        check_same(engine)
        with contextlib.closing(sqlite3.connect(str(engine.url.database), timeout=0)) as connection:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return "somebody is still reading it, or writing to it" if busy else None
    except (Unavailable, sqlite3.Error) as error:  # the erasure is committed, so this is no failure of it
        return str(error)


def backup(engine: Engine, target: Path) -> None:
    """A copy of a SQLite database as it is at one moment, while others go on writing; a whole one or none."""
    if engine.dialect.name != "sqlite":
        raise ValueError("posse backs up SQLite databases; for PostgreSQL use pg_dump, which sees one moment too")
    part = output_file(target, new=True).with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with explained(engine), engine.connect() as connection, sqlite_file.private(part) as file:
            with contextlib.closing(sqlite3.connect(part)) as copy:
                source = connection.connection.dbapi_connection
                assert isinstance(source, sqlite3.Connection)
                source.backup(copy)
            os.fsync(file.fileno())
        part.rename(target)
    except sqlite3.Error as error:
        raise Unavailable(f"no backup was made to {target}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
