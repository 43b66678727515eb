"""Clients of the service, blocking and asynchronous."""

from posse.service.client.client import AsyncClient, Client
from posse.service.client.delivery import RewardReport
from posse.service.client.retry import ServiceError, Unreachable

__all__ = ["AsyncClient", "Client", "RewardReport", "ServiceError", "Unreachable"]
