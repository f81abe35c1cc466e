"""HTTP clients of the service. They need `httpx`, and no other package of ``peekrank[serve]``."""

from peekrank.service.api.problems import Problem
from peekrank.service.client._requests import item
from peekrank.service.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Problem", "item"]
