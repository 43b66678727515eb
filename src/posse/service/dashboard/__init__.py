"""The dashboard: web pages that show what is going on in the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def add_dashboard(app: FastAPI) -> None:
    """Add the dashboard to an app."""
    from posse.service.dashboard import routes  # here, so that the process for analyses need not load them

    routes.add_routes(app)
