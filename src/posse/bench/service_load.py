"""Load for the benchmark: clients that send a request as soon as the last one is answered, each on its own connection.

They speak just enough HTTP, in one thread, because a full client would take more time than the service.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np


def measure(
    url: str, experiment: str, players: list[str], clients: int, batch: int, seconds: float
) -> dict[str, float]:
    """What clients get done in so many seconds with so many decisions, and then rewards, in a request.

    A pair is a decision and its reward, both on the disk. The times are those of single requests.
    """
    return asyncio.run(_measure(url, experiment, players, clients, batch, seconds))


async def _measure(
    url: str, experiment: str, players: list[str], clients: int, batch: int, seconds: float
) -> dict[str, float]:
    took: list[float] = []
    began = time.perf_counter()
    work = [_client(url, experiment, players, batch, seed, began + seconds, took) for seed in range(clients)]
    pairs = sum(await asyncio.gather(*work))
    elapsed = time.perf_counter() - began
    p50, p99, slowest = (1000 * np.quantile(took, [0.5, 0.99, 1.0])).tolist()
    return {"pairs": pairs, "pairs/s": pairs / elapsed, "p50 ms": p50, "p99 ms": p99, "slowest": slowest}


async def _client(
    url: str, experiment: str, players: list[str], batch: int, seed: int, until: float, took: list[float]
) -> int:
    """How many pairs one client got done. It adds the seconds that each request took to `took`."""
    parts, random, pairs = urlsplit(url), np.random.default_rng(seed), 0
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)

    async def post(part: str, body: Any, key: str = "") -> Any:
        began = time.perf_counter()
        content = json.dumps(body).encode()
        head = f"POST /v1/experiments/{quote(experiment, safe='')}/{part} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        head += f"Idempotency-Key: {key}\r\n" if key else ""
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        answer = json.loads(await reader.readexactly(length))
        if " 200 " not in lines[0] and " 201 " not in lines[0]:
            raise RuntimeError(f"the service answered {lines[0]}: {answer}")
        took.append(time.perf_counter() - began)
        return answer

    while time.perf_counter() < until:
        chosen = [players[place] for place in random.choice(len(players), batch, replace=False)]
        made = await post("decisions", {"players": chosen}, uuid.uuid4().hex)
        rewards = [{"decision": each["id"], "reward": float(random.random() < 0.4)} for each in made["decisions"]]
        answer = await post("rewards", {"rewards": rewards})
        pairs += answer["taken"]
    writer.close()
    return pairs
