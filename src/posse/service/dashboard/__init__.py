"""The dashboard: what is going on in the service, as web pages."""

from posse.service.dashboard.pages import add_dashboard

__all__ = ["add_dashboard"]
