"""What the tests of feature flags share: a subject, an answer's schema, the log of a flag."""

from __future__ import annotations

from typing import Any

import httpx
from serving import problem_of

LYON = {"targetingKey": "Lyon"}


SUCCESS = {
    "type": "object",
    "required": ["key", "reason", "variant"],
    "properties": {
        "key": {"type": "string"},
        "reason": {"enum": ["STATIC", "TARGETING_MATCH", "SPLIT", "DISABLED", "UNKNOWN"]},
        "variant": {"type": "string"},
        "value": {"type": ["boolean", "string", "number", "object"]},
        "metadata": {"type": "object", "additionalProperties": {"type": ["boolean", "string", "number"]}},
    },
}


def rows_of(client: httpx.Client, flag: str) -> list[dict[str, Any]]:
    rows = client.get(f"/v1/experiments/{flag}/log").json()["rows"]
    return [row for row in rows if row["kind"] == "decision"]


def code_of(answer: httpx.Response, status: int) -> str:
    """The protocol's code of a failure, which is also a problem of the service."""
    problem_of(answer, status)
    said = answer.json()
    assert said["errorDetails"] == said["detail"]
    return str(said["errorCode"])
