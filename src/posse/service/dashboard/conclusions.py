"""Conclusions in full, for the API and for the one-page summary. They are made once for each moment of the log."""

import base64
import hashlib
import re
from typing import Any

from starlette.responses import Response

from posse.insight.conclusion.api import Conclusion
from posse.service.dashboard.analysis_process import LARGEST, arguments
from posse.service.dashboard.log_evidence import conclude_from
from posse.service.dashboard.snapshots import Snapshot, complete_snapshot
from posse.service.dashboard.templates import PAGE_HEADERS
from posse.service.storage.errors import Refused
from posse.text import plural

STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


async def concluded(state: Any, name: str) -> tuple[Snapshot, Conclusion]:
    """An experiment as it is now, and what follows; `state` is the app's."""
    snapshot = await complete_snapshot(state, name)
    if not snapshot.evidence:
        players, arms = snapshot.chosen.shape
        raise Refused(
            f"{players:,} players × {arms:,} arms are more than the {LARGEST:,} pairs for which a conclusion is drawn "
            "here; export the log with `posse db export`, and run `posse conclude` on it"
        )

    async def make() -> Conclusion:
        found: Conclusion = await state.read_pool.run(conclude_from, *arguments("conclusion", snapshot))
        return found

    return snapshot, await state.answers.get(("conclusion", name, snapshot.head), make)


async def summary(state: Any, name: str) -> Response:
    """The summary of an experiment, which may use its own styles and nothing else."""
    snapshot, found = await concluded(state, name)
    about = {"title": name, "asked": snapshot.description, "ended": _ended(snapshot), "at": snapshot.now}
    page = await state.read_pool.run(found.page, snapshot.watch, **about)
    digests = (base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in STYLE.findall(page))
    sources = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    policy = f"default-src 'none'; style-src {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return Response(page, 200, PAGE_HEADERS | {"Content-Security-Policy": policy}, "text/html; charset=utf-8")


def _ended(snapshot: Snapshot) -> str:
    """How the experiment ended, if it has."""
    if snapshot.status not in ("finished", "archived"):
        return ""
    own = f", with other arms for {plural(snapshot.shipped_for, 'player')}" if snapshot.shipped_for else ""
    shipped = "nothing was shipped" if snapshot.shipped is None else f"{snapshot.shipped} was shipped{own}"
    return f"The experiment is {snapshot.status}; {shipped}."
