"""posse token: who may ask the service for what."""

from __future__ import annotations

import argparse
import datetime
import re

from posse.cli.db import add_action, opened
from posse.cli.experiments import add_import

PLACE = 71
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the making and ending of tokens."""
    parser = commands.add_parser(
        "token", help="make and revoke the service's tokens", description="The service's tokens."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = add_action(actions, "create", _create, "make a token; its secret is shown once")
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=("decide", "reward", "read", "admin"),
        help="what it is for (may be repeated); admin is everything",
    )
    create.add_argument("--experiment", metavar="NAME", help="only this one (default: all)")
    create.add_argument("--expires", type=_duration, metavar="TIME", help="such as 12h or 90d (default: never)")
    create.add_argument("--label", default="", metavar="TEXT", help="to know it by")
    add_import(create)
    add_action(actions, "list", _list, "list the tokens, without their secrets")
    revoke = add_action(actions, "revoke", _revoke, "end a token")
    revoke.add_argument("token", type=int, metavar="NUMBER", help="as in the list, and after posse_ in the token")


def _duration(text: str) -> float:
    """Seconds, from a number and a unit.

    >>> _duration("12h")
    43200.0
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}, but expected a time such as 30m, 12h or 90d")
    return float(match[1]) * SECONDS[match[2]]


def _create(options: argparse.Namespace) -> None:
    from posse.service.auth.tokens import CreateToken
    from posse.service.storage.transaction import commit

    with opened(options) as store:
        print(commit(store, CreateToken(options.scope, options.experiment, options.expires, options.label)))


def _list(options: argparse.Namespace) -> None:
    from posse.service.auth import tokens

    with opened(options) as store:
        now = store.clock()
        for token in store.read(tokens.all_tokens):
            until = "never expires" if token.expires_at is None else f"expires {_date(token.expires_at)}"
            if token.revoked_at is not None:
                until = f"revoked {_date(token.revoked_at)}"
            elif token.expires_at is not None and token.expires_at <= now:
                until = f"expired {_date(token.expires_at)}"
            where = "all experiments" if token.name is None else repr(token.name)
            label = f"  {token.label}" if token.label else ""
            print(f"{token.id:>4}  {token.scopes.replace(' ', '+'):<20}  {where}  {until}{label}")


def _revoke(options: argparse.Namespace) -> None:
    from posse.service.auth.tokens import RevokeToken
    from posse.service.storage.transaction import commit

    with opened(options) as store:
        commit(store, RevokeToken(options.token))
    print(f"token {options.token} is revoked")


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
