"""A folder of results: one Parquet file for each unit of work, written whole or not at all, and checked when read.

Every file carries a digest of all its bytes, so that damage is noticed. Any Parquet reader opens the files.
"""

import contextlib
import fcntl
import hashlib
import io
import itertools
import json
import os
import re
import uuid
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from arro3.core import Array, RecordBatch, RecordBatchReader, Table
from arro3.io import read_parquet, write_parquet

from posse.experiments.records import FIELDS, READABLE, SCHEMA, SCHEMA_VERSION, Records, with_later_columns
from posse.experiments.settings import family_text
from posse.experiments.spec.study import Spec, Unit, unit_id
from posse.version import __version__

RESULTS = "results"  # where a command puts results, beside figures and tables
EARLIER = "earlier"  # the folder of files that are not of the present spec
MANIFEST = "manifest.json"
LOCK = ".lock"
FILES_JOINED = 100  # files that are joined at a time: a small batch takes several times the memory of its rows
_MAGIC = b"PAR1"  # what a Parquet file begins and ends with
_DIGEST = re.compile(rb"blake2b:[0-9a-f]{64}")
_BLANK = b"blake2b:" + b"0" * 64  # stands in the file while the digest is computed


Sources = dict[Path | bytes, dict[tuple[str, int], list[str]]]
"""Files, or contents of files, with the runs to take from them: policy and problem there, and the policies here."""


class StoreError(ValueError):
    """A file in the folder is damaged or does not belong there; the message names it."""


class ResultStore:
    """The results of a spec in a folder, which is made when something is written.

    Files of other specs, of earlier forms of the spec, or by other code may be there too; they stay as they are. A run
    moves those that are not of its spec into the folder `earlier`, so that the files beside each other are of one spec.

    >>> import tempfile
    >>> ResultStore(tempfile.mkdtemp()).manifest()
    {}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise StoreError(f"{self.folder} is a file, but results go into a folder")

    def path(self, unit: Unit) -> Path:
        """The file of a unit."""
        return self.folder / f"unit-{unit.id}.parquet"

    def write(self, unit: Unit, content: bytes) -> None:
        """Store a unit's results. A file that is there already stays; an error if it has other rows."""
        path = self.path(unit)
        if path.exists():
            if path.read_bytes() != content and Records(read_batch(path)) != Records(read_batch(content)):
                raise StoreError(f"{path} is there already and holds something else; remove it to compute it again")
            return
        self._put(path, content)

    def read(self, spec: Spec | None = None) -> Records:
        """The results of all units that the manifest lists, or of a spec; without both, everything in the folder."""
        if not self.folder.is_dir():
            raise StoreError(f"there is no folder {self.folder}")
        if spec is not None:
            units = spec.units()
            paths = [self.path(unit) for unit in units]
            missing = [unit for unit, path in zip(units, paths, strict=True) if not path.exists()]
            if missing:
                raise StoreError(f"{self.folder} misses {len(missing)} of {len(units)} units, such as {missing[0]}")
        else:
            listed = [self.folder / f"unit-{name}.parquet" for name in self.manifest().get("units", [])]
            paths = [path for path in listed if path.exists()] if listed else self.files()
        if not paths:
            raise StoreError(f"{self.folder} holds no results")
        some = (paths[start : start + FILES_JOINED] for start in range(0, len(paths), FILES_JOINED))
        return Records(_joined(_joined(map(read_batch, part)) for part in some))

    def files(self, folder: str = "") -> list[Path]:
        """The files that are named like those of units, of this spec or another; in EARLIER, those moved there."""
        return sorted((self.folder / folder).glob("unit-*.parquet"))

    def set_aside(self, path: Path) -> str:
        """Rename a file that is damaged or somebody else's, so that its place is free; its new name."""
        names = (f"{path.name}.damaged{number or ''}" for number in itertools.count())
        name = next(name for name in names if not path.with_name(name).exists())
        path.rename(path.with_name(name))
        return name

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for one writing process, until it ends. Temporary files of killed processes are removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / LOCK, "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"another run is at work in {self.folder}; wait for it, or use another folder"
                ) from None
            for leftover in self.folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            yield

    def manifest(self) -> dict[str, Any]:
        """What the folder says about itself: spec, seed, versions, times; empty if there is no manifest."""
        path = self.folder / MANIFEST
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise StoreError(f"{path} is damaged: {error}") from None
        if not isinstance(found, dict) or "posse_schema" not in found:
            raise StoreError(f"{path} is not a manifest of posse's; use another folder")
        return found

    def unfinished(self) -> str:
        """How much of what the manifest lists is there, in words; nothing if all of it is."""
        wanted = self.manifest().get("units", [])
        there = sum((self.folder / f"unit-{name}.parquet").exists() for name in wanted)
        found = f"{self.folder} has {there} of {len(wanted)} units; run it again to complete it"
        return found if there < len(wanted) else ""

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest, whole or not at all."""
        text = json.dumps({"posse_schema": SCHEMA_VERSION, **manifest}, indent=2, ensure_ascii=False)
        self._put(self.folder / MANIFEST, f"{text}\n".encode())
        folder = os.open(self.folder, os.O_RDONLY)  # with the names of all files that were written before
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _put(self, path: Path, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{path.name}.{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def file_content(unit: Unit, records: Records) -> bytes:
    """The bytes of a unit's file. With one version of posse and arro3-io, the same rows always give the same bytes."""
    told = {"schema": SCHEMA_VERSION, "version": __version__, "unit": unit.describe(), "digest": _BLANK.decode()}
    # One entry, since arro3 writes several in a random order.
    metadata = {"posse": json.dumps(told, sort_keys=True)}
    file = io.BytesIO()
    write_parquet(records, file, compression="zstd(1)", skip_arrow_metadata=True, key_value_metadata=metadata)
    blank = file.getvalue()
    return blank.replace(_BLANK, _digest(blank))


def assembled(unit: Unit, sources: Sources) -> bytes:
    """The bytes of a unit's file, from files that hold all of its runs."""
    places: dict[tuple[int, str, int], int] = {}
    batches: list[RecordBatch] = []
    for source, named in sources.items():
        batch = read_batch(source)
        rows = Records(batch).rows("policy", "problem", "replication")
        for place, (label, problem, replication) in enumerate(rows, sum(each.num_rows for each in batches)):
            places |= {(problem, name, replication): place for name in named.get((label, problem), ())}
        batches.append(batch)
    labels, problems = [policy.label for policy in unit.policies], unit.problems.numbers
    wanted = list(itertools.product(problems, labels, range(*unit.replications)))
    table = Table.from_arrow(Records(_joined(batches)).take([places[key] for key in wanted]))
    for number, values in enumerate(([unit.study] * len(wanted), [label for _, label, _ in wanted])):
        table = table.set_column(number, FIELDS[number], Array(values, FIELDS[number].type))
    return file_content(unit, Records(table))


def _digest(blank: bytes) -> bytes:
    return b"blake2b:" + hashlib.blake2b(blank, digest_size=32).hexdigest().encode()


def read_batch(source: Path | bytes) -> RecordBatch:
    """The rows of a file, which is checked, or of a content that was just made."""
    if not isinstance(source, Path):
        return RecordBatch.from_arrow(read_parquet(source))
    described, file = open_unit(source)
    batch = with_later_columns(RecordBatch.from_arrow(file), family_text(described["problems"]))
    return batch if batch.column_names == SCHEMA.names else batch.select(SCHEMA.names)


def _joined(batches: Iterable[RecordBatch]) -> RecordBatch:
    return RecordBatch.from_arrow(Table.from_batches(list(batches)))


def open_unit(path: Path) -> tuple[dict[str, Any], RecordBatchReader]:
    """The description of a file's unit, and the file; an error that names it if it is not what it says it is.

    arro3 gets only whole files to read. On others it panics, which `except Exception` does not catch.
    """
    content = path.read_bytes()
    found = _DIGEST.findall(content)
    if len(found) != 1:
        if not (content.startswith(_MAGIC) and content.endswith(_MAGIC)):
            raise StoreError(f"{path} is damaged (it cannot be read as Parquet)")
        raise StoreError(f"{path} is not a file of posse's")
    if found[0] != _digest(content.replace(found[0], _BLANK)):
        raise StoreError(f"{path} is damaged (its digest does not fit its content)")
    file = read_parquet(content)
    metadata = file.schema.metadata_str
    if "posse" in metadata:
        told = json.loads(metadata["posse"])
    else:  # before schema version 3
        told = {"schema": int(metadata.get("posse_schema", 0)), "unit": json.loads(metadata.get("posse_unit", "{}"))}
    if told["schema"] not in READABLE:
        raise StoreError(
            f"{path} has schema version {told['schema']}, but this posse ({__version__}) reads "
            f"{', '.join(map(str, READABLE))}"
        )
    if path.name != f"unit-{unit_id(told['unit'])}.parquet":
        raise StoreError(f"{path} does not contain the unit that its name says")
    return told["unit"], file


def open_store(folder: str | Path) -> ResultStore:
    """The store in a folder that `posse run` or `posse paper` wrote, or of `run`."""
    given = Path(folder)
    return ResultStore(given / RESULTS if (given / RESULTS).is_dir() else given)


def read(folder: str | Path) -> Records:
    """The results in a folder that `posse run`, `posse paper` or `posse.experiments.run` wrote.

    A warning says how much is there if the run is not finished.
    """
    store = open_store(folder)
    if unfinished := store.unfinished():
        warnings.warn(unfinished, stacklevel=2)
    return store.read()
