"""The verbs of whoever runs the service, and how requests are asked. Nothing here does input or output."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from posse.service.client.retry import Steps, ask

PAGE = 1000  # entries that are asked for at once


class Administration:
    """Deleting experiments, tokens, and the audit trail."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def delete(self, experiment: str, *, key: str | None = None) -> Steps[int]:
        """Delete an archived experiment for good; return how many decisions it had. Its name is free again."""
        return (yield from self._change("DELETE", experiment_path(experiment), None, key))["decisions"]

    def create_token(
        self,
        scopes: Iterable[str],
        experiment: str | None = None,
        *,
        expires: float | None = None,
        label: str | None = None,
        key: str | None = None,
    ) -> Steps[str]:
        """Make a token for one experiment or for all, which expires in so many seconds; return its secret."""
        body = {"scopes": list(scopes), "experiment": experiment, "expires": expires, "label": label}
        return (yield from self._change("POST", "/v1/tokens", body, key))["token"]

    def tokens(self) -> Steps[list[dict[str, Any]]]:
        """All tokens, without their secrets."""
        return (yield from self._get("/v1/tokens"))["tokens"]

    def revoke_token(self, number: int, *, key: str | None = None) -> Steps[None]:
        """End a token, by its number."""
        yield from self._change("DELETE", f"/v1/tokens/{number}", None, key)

    def audit(self, experiment: str | None = None, after: int = 0) -> Steps[list[dict[str, Any]]]:
        """Who changed what, about one experiment or all, from the entries after number `after` on."""
        only = "" if experiment is None else f"&experiment={quote(experiment, safe='')}"
        return self._pages(f"/v1/audit?limit={PAGE}{only}&after=", "entries", after)

    def _change(self, method: str, path: str, body: Any, key: str | None) -> Steps[Any]:
        """Ask for something that must not happen twice: with a key, so that it may be asked again."""
        return ask(method, path, body, patience=self.patience, key=uuid.uuid4().hex if key is None else key)

    def _get(self, path: str) -> Steps[Any]:
        return ask("GET", path, patience=self.patience)

    def _pages(self, path: str, field: str, after: str | int) -> Steps[list[dict[str, Any]]]:
        """All entries of a list that comes page by page; the path ends where the last known one belongs."""
        found: list[dict[str, Any]] = []
        while True:
            answer = yield from self._get(path + quote(str(after), safe=""))
            found += answer[field]
            if answer["next"] is None:
                return found
            after = answer["next"]


def experiment_path(experiment: str) -> str:
    """Where an experiment is."""
    if not isinstance(experiment, str):
        raise TypeError(f"experiment={experiment!r}, but expected the name of an experiment")
    return f"/v1/experiments/{quote(experiment, safe='')}"
