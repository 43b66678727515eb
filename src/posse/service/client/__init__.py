"""Clients of the service, blocking and asynchronous."""
