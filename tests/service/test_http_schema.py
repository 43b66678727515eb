"""Whether the API does what its description says, for whatever can be sent to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from serving import service

import posse
from posse.service.admin.verify import verify
from posse.service.auth import CreateToken
from posse.service.commands import Create
from posse.service.storage.store import ServiceStore
from posse.service.storage.transaction import commit, commit_group

HERE = Path(__file__).parent
EXAMPLES = 400 if os.environ.get("POSSE_FULL") else 10  # for each operation, beside those that cover the schema


def test_schemathesis_finds_nothing_with_every_check(tmp_path):
    store = ServiceStore(f"sqlite:///{tmp_path}/posse.db", create=True)
    commit(store, Create("ours", posse.PosseTS(), ["coupon", "nothing"], ["Lyon", "Nice"]))
    *_, secret = commit_group(store, [CreateToken("admin")] * 300)  # tokens with small numbers will be revoked
    with service(tmp_path, open=False) as client:
        done = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml")),
                *("run", f"{client.base_url}/openapi.json", "--checks", "all", "--seed", "1"),
                *("--max-examples", str(EXAMPLES), "--header", f"Authorization: Bearer {secret}"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schema_formats"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    (cases,) = re.findall(r"(\d+) generated", done.stdout)
    assert int(cases) >= (5000 if EXAMPLES > 100 else 500)
    assert verify(store) == []
    store.close()
