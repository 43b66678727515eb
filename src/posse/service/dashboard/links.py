"""Addresses of the dashboard's pages."""

from __future__ import annotations

from urllib.parse import quote


def experiment_page(name: str, part: str = "") -> str:
    """The address of an experiment's page, or of a part of it.

    >>> experiment_page("100 % tea?", "live")
    '/experiments/100%20%25%20tea%3F/live'
    """
    return f"/experiments/{quote(name, safe='')}" + (f"/{part}" if part else "")
