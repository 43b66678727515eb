"""The dashboard: web pages that show what is going on in the service."""
