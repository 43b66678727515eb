"""The address of a database: as SQLAlchemy takes it, as people read it, and as they give it to a command."""

import os
import re

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import URL


def parse(url: str) -> URL:
    """The address as SQLAlchemy takes it; an error if it is of another kind of database."""
    expected = "expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
    if not isinstance(url, str):
        raise TypeError(f"database={url!r}, but {expected}")
    several = re.fullmatch(r"(postgres(?:ql)?://(?:[^/]*@)?)([^/@,]*(?:,[^/@,]*)+)(/.*)?", url)
    try:
        address = sql.make_url(url if several is None else f"{several[1]}{several[3] or ''}")
    except (exc.ArgumentError, ValueError):
        raise ValueError(f"database={url[:20]!r}, but {expected}") from None
    if several is not None:
        address = address.update_query_dict({"host": several[2].split(",")})
    if address.drivername == "sqlite" and "?" in url:  # SQLite would take another file, or open it in other ways
        raise ValueError(f"database={url[:60]!r}, but expected sqlite:///FILE; a ? in a file's name is written %3F")
    if address.drivername == "sqlite" and address.database not in (None, "", ":memory:"):
        return address
    if address.drivername in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    raise ValueError(f"database={address.render_as_string(hide_password=True)!r}, but {expected}")


def shown(address: URL) -> str:
    """An address without its password, and without the name of the driver, which `parse` does not take."""
    return address.set(drivername=address.get_backend_name()).render_as_string(hide_password=True)


def command(action: str, address: URL) -> str:
    """What to type for an action on a database; its address is left out where the environment names it.

    >>> command("db init", parse("sqlite:///posse.db"))
    'posse db init --database sqlite:///posse.db'
    """
    named = os.environ.get("POSSE_DATABASE")
    return f"posse {action}" + ("" if named and parse(named) == address else f" --database {shown(address)}")
