"""The pages that manage experiments: forms that change something, the questions before it, and logs to download."""

import asyncio
import io
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from posse.service.admin.deletion import Delete
from posse.service.auth import CHANGE, CREATE, READ
from posse.service.commands import Change, Erase
from posse.service.dashboard import forms
from posse.service.dashboard.page_router import PageRouter, shown, trouble
from posse.service.dashboard.snapshots import latest_snapshot
from posse.service.dashboard.templates import PAGE_HEADERS, experiment_address
from posse.service.storage import errors, queries
from posse.service.storage.lifecycle import MOVES, Status

PLAYERS = 25  # on one page
MOST_ROWS = 400_000  # decisions and rewards of a log that is made into a file while somebody waits for it
LOOKS, BETWEEN_LOOKS = 20, 0.1  # for a conclusion, and the seconds between two
FORMULA = re.compile(r"[=@]|[-+](?![\d.]+$)")  # how a text begins that spreadsheets compute; −5 is a number
MEDIA = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv; charset=utf-8"}
FIELDS = {
    "add-arms": "arms",
    "return-arm": "arms",
    "add-players": "players",
    "return-player": "players",
    "describe": "description",
    "shares": "shares",
}
"""Which field of the page is wrong if something cannot be done; all else is asked about before it is done."""
ASKED = ("pause", "finish", "archive", "delete", "retire-arm", "retire-player", "erase")
STATUSES: dict[str, Status] = {"pause": "paused", "resume": "running", "archive": "archived", "restore": "finished"}
"""What an experiment becomes."""

router = PageRouter()


# ---------------------------------------------------------------- one experiment


@router.page("/experiments/{name}/manage", CHANGE)
async def _manage(request: Request) -> Response:
    return await _manage_page(request, {}, {})


async def _manage_page(request: Request, typed: dict[str, str], wrong: dict[str, str], status: int = 200) -> Response:
    found = await _found(request)
    experiment = found["experiment"]
    limits = {arm: experiment.shares[arm] for arm, _ in experiment.arms if arm in experiment.shares}
    saved = {"description": experiment.description, "shares": forms.written_shares(limits)}
    form = {"typed": saved | typed, "wrong": wrong}
    done = request.query_params.get("done", "") if not wrong else ""
    return shown(request, "manage/experiment.html", status, **found, form=form, done=done)


async def _found(request: Request) -> dict[str, Any]:
    """The experiment with some of its players."""
    name, query = request.path_params["name"], request.query_params
    search, after = query.get("q", "")[:200], query.get("after", "0")
    first = int(after) if after.isdecimal() and len(after) < 9 else 0
    experiment, players = await request.app.state.read_pool.query(_read, name, search, first)
    return {
        "experiment": experiment,
        "players": players[:PLAYERS],
        "next": first + PLAYERS if len(players) > PLAYERS else None,
        "search": search,
        "after": first,
        "address": experiment_address(name),
    }


def _read(
    connection: Connection, name: str, search: str, after: int
) -> tuple[queries.Experiment, list[tuple[str, bool, dict[str, str]]]]:
    found = queries.experiment(connection, name)
    return found, queries.players(connection, name, after, PLAYERS + 1, search)


@router.page("/experiments/{name}/ask", CHANGE)
async def _ask(request: Request) -> Response:
    query = request.query_params
    return await _ask_page(request, {"do": query.get("do", ""), "who": query.get("who", "")[:200]})


async def _ask_page(request: Request, typed: Mapping[str, str], wrong: str = "") -> Response:
    """The question before something is done."""
    if typed.get("do") not in ASKED:
        return trouble(404, "Nothing here", "There is no such question.")
    found, verdict = await _found(request), ""
    if typed["do"] == "finish" and not wrong:
        conclusion = await _conclusion(request)
        verdict = conclusion.get("verdict", "")
        typed = {**typed, **_to_ship(found["experiment"], conclusion)}
    return shown(request, "manage/ask.html", 422 if wrong else 200, **found, typed=typed, wrong=wrong, verdict=verdict)


async def _conclusion(request: Request) -> dict[str, Any]:
    """What follows from the experiment so far, if it is known in a moment."""
    state = request.app.state
    snapshot = await latest_snapshot(state, request.path_params["name"])
    for _ in range(LOOKS):
        found: dict[str, Any] = state.analyses.latest("conclusion", snapshot)
        if found["state"] != "waiting":
            break
        await asyncio.sleep(BETWEEN_LOOKS)
    return found


def _to_ship(experiment: queries.Experiment, conclusion: Mapping[str, Any]) -> dict[str, str]:
    """What the question before the end is filled with: what is shipped already, or what the conclusion says.

    Where no arm is shown to be the best for everybody, that is the control, or else the arm that most likely is.
    """
    here = [arm for arm, is_here in experiment.arms if is_here]
    wanted = conclusion.get("winner"), experiment.setup.control, conclusion.get("leader")
    ship, own = next((arm for arm in wanted if arm in here), ""), conclusion.get("winners", {})
    if experiment.status == "finished":
        ship, own = experiment.ship or "", experiment.ship_for
    others = [f"{player}: {arm}" for player, arm in own.items() if arm != ship and arm in here]
    return {"ship": ship, "ship_for": "\n".join(others)}


@router.page("/experiments/{name}/manage", CHANGE, "POST")
async def _change(request: Request) -> Response:
    typed, name = forms.read(await request.body()), request.path_params["name"]
    do, state = typed.get("do", ""), request.app.state
    experiment = await state.read_pool.query(queries.experiment, name)
    try:
        await state.writer.apply(_command(name, typed, experiment)._replace(by=request.state.grant.who))
    except (errors.UnknownExperiment, forms.UnreadableForm):
        raise
    except (ValueError, TypeError) as error:
        said = f"{error}{error.others if isinstance(error, errors.Refused) else ''}."
        if do in FIELDS:
            return await _manage_page(request, typed, {FIELDS[do]: said}, 422)
        return await _ask_page(request, typed, said) if do in ASKED else trouble(409, "Nothing was changed", said)
    back = "" if do in ("pause", "resume") else f"/manage?{urlencode({'done': do})}"
    return RedirectResponse(experiment_address(name) + back, 303, PAGE_HEADERS)


@router.page("/experiments/{name}/delete", CREATE, "POST")
async def _delete(request: Request) -> Response:
    typed, name = forms.read(await request.body()), request.path_params["name"]
    if typed.get("confirm", "").strip() != name:
        return await _ask_page(request, {"do": "delete", **typed}, "Type the name of the experiment as it stands here.")
    try:
        await request.app.state.writer.apply(Delete(name, by=request.state.grant.who))
    except errors.UnknownExperiment:
        raise
    except errors.Refused as error:
        return await _ask_page(request, {"do": "delete"}, f"{error}.")
    return RedirectResponse("/?done=delete", 303, PAGE_HEADERS)


def _command(name: str, typed: Mapping[str, str], experiment: queries.Experiment) -> Change | Erase:
    """What is to be done."""
    who, declared = typed.get("who", ""), experiment.setup.attributes
    match typed.get("do"):
        case "restore" | "finish" as do if MOVES.get((experiment.status, "finished"), do) != do:  # from an old page
            raise ValueError(f"Experiment {name!r} is {experiment.status}, so there is nothing to {do}")
        case "finish":
            own = forms.own_arms_of(typed.get("ship_for", ""), [arm for arm, _ in experiment.arms])
            ship = typed.get("ship") or None
            if ship is None and experiment.ship is not None:
                raise ValueError(f"It ships {experiment.ship!r}; to ship nothing, resume it and finish it again")
            return Change(name, status="finished", ship=ship, ship_for=own)
        case str(do) if do in STATUSES:
            return Change(name, status=STATUSES[do])
        case "shares":
            return Change(name, shares=forms.shares_of(typed.get("shares", "")))
        case "describe":
            return Change(name, description=typed.get("description", ""))
        case "add-arms":
            return Change(name, add_arms=_some("arm", forms.arms_of(typed.get("arms", ""))))
        case "add-players":
            return Change(name, join=_some("player", forms.players_of(typed.get("players", ""), declared)))
        case "return-arm":
            return Change(name, add_arms=[who])
        case "return-player":
            return Change(name, join=[who])
        case "retire-arm":
            return Change(name, retire_arms=[who])
        case "retire-player":
            return Change(name, retire=[who])
        case "erase":
            return Erase(name, who)
        case do:
            raise forms.UnreadableForm(f"do={do!r:.40} is nothing that can be done here")


def _some(kind: str, named: Any) -> Any:
    if not named:
        raise ValueError(f"Name at least one {kind}, each on a line of its own")
    return named


# ---------------------------------------------------------------- its log


@router.page("/experiments/{name}/log.{kind}", READ)
async def _log(request: Request) -> Response:
    name, kind = request.path_params["name"], request.path_params["kind"]
    if kind not in MEDIA:
        return trouble(404, "Nothing here", "A log is there as log.parquet and log.csv.")
    content = await request.app.state.read_pool.query(_written, name, kind)
    if content is None:
        text = f"It has more than {MOST_ROWS:,} decisions and rewards; `posse db export` writes it to a file."
        return trouble(409, "The log is too long to download", text)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}.{kind}"
    return Response(content, 200, {**PAGE_HEADERS, "Content-Disposition": disposition}, MEDIA[kind])


def _written(connection: Connection, name: str, kind: str) -> bytes | None:
    """A log as a file; None if it is too long. A CSV file has no column for the probabilities of all arms."""
    import pyarrow.csv
    import pyarrow.parquet

    row = queries.find(connection, name)
    if row["decisions"] + row["rewards"] > MOST_ROWS:
        return None
    file, table = io.BytesIO(), queries.log_table(connection, name)
    if kind == "csv":
        pyarrow.csv.write_csv(_harmless(table.drop_columns(["probabilities"])), file)
    else:
        pyarrow.parquet.write_table(table, file)
    return file.getvalue()


def _harmless(table: Any) -> Any:
    """The table, with an apostrophe before every text that a spreadsheet would take for a formula.

    Values of attributes come from whoever decides, so they may be anything.
    """
    import pyarrow

    for place, field in enumerate(table.schema):
        if pyarrow.types.is_string(field.type):
            coded = table[field.name].combine_chunks().dictionary_encode()
            texts = [f"'{text}" if FORMULA.match(text) else text for text in coded.dictionary.to_pylist()]
            found = pyarrow.DictionaryArray.from_arrays(coded.indices, pyarrow.array(texts, pyarrow.string()))
            table = table.set_column(place, field.name, found.cast(pyarrow.string()))
    return table
