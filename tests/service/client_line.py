"""Both kinds of clients, on a line to the service that goes wrong as it is told."""

from __future__ import annotations

import asyncio

import httpx

from posse.service.client import AsyncClient, Client


class Line(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The way to the service, which goes wrong as it is told: each word is about one request.

    "lost" delivers the request but loses the answer, "away" and "cut" deliver nothing, "busy" answers 503, "no" 403,
    "page" is a proxy's page in place of an answer, "other" another service's, "garbled" the service's own with another
    body. Requests about the `damaged` experiment fail in any case.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.damaged = ""
        self.sent: list[httpx.Request] = []
        self._blocking = httpx.HTTPTransport()

    def handle_request(self, request):
        self.sent.append(request)
        word = self.words.pop(0) if self.words else "well"
        if word == "away":
            raise httpx.ConnectError("nobody there", request=request)
        if word == "cut":
            raise httpx.ReadError("cut off", request=request)
        if word == "no":
            problem = {"type": "urn:posse:problem:forbidden", "detail": "enough"}
            return httpx.Response(403, json=problem, headers={"Content-Type": "application/problem+json"})
        if word == "busy":
            problem = {"type": "urn:posse:problem:unavailable", "detail": "the disk is full"}
            return httpx.Response(503, json=problem, headers={"Content-Type": "application/problem+json"})
        if self.damaged and f"/{self.damaged}/" in request.url.path:
            problem = {"type": "urn:posse:problem:damaged", "detail": "posse verify says more"}
            return httpx.Response(500, json=problem, headers={"Content-Type": "application/problem+json"})
        if word == "page":
            return httpx.Response(200, html="<p>We will be back soon.</p>")
        if word == "other":
            return httpx.Response(200, json={"status": "fine"})
        if word == "garbled":
            return httpx.Response(200, html="<p>!</p>", headers={"Posse-API": "1"})
        answer = self._blocking.handle_request(request)
        answer.read()
        if word == "lost":
            raise httpx.ReadError("cut off", request=request)
        return answer

    async def handle_async_request(self, request):
        await request.aread()
        answer = self.handle_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def close(self):
        self._blocking.close()

    async def aclose(self):
        self.close()


class Waiting:
    """An asynchronous client, used as a blocking one."""

    def __init__(self, client: AsyncClient) -> None:
        self.client, self.runner = client, asyncio.Runner()

    def __getattr__(self, name):
        found = getattr(self.client, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self.runner.run(found(*args, **kwargs))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, at):
        try:
            self.runner.run(self.client.__aexit__(kind, error, at))
        finally:
            self.runner.close()


def clients(kind, url, line, **options):
    """A client of one kind, on a line."""
    client = {"blocking": Client, "awaited": AsyncClient}[kind](url, **options)
    made = {"blocking": httpx.Client, "awaited": httpx.AsyncClient}[kind]
    client._http = made(transport=line, **client._options)
    return client if kind == "blocking" else Waiting(client)
