"""How much the tests do: `make test` is the short form, `make test FULL=1` the long one."""

from __future__ import annotations

import os

FULL = bool(os.environ.get("POSSE_FULL"))
