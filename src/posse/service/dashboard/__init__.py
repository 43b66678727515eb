"""The dashboard: what is going on in the service, as web pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def add_dashboard(app: FastAPI) -> None:
    """Add the pages to an app."""
    from posse.service.dashboard import pages  # here, so that the process that analyses need not load them

    pages.add_pages(app)
