"""The decision service: durable decisions, over HTTP."""
