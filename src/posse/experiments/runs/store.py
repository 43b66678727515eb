"""A folder of results: one Parquet file for each unit of work, written whole or not at all, and checked when read.

Every file carries a digest of all its bytes, so that damage is noticed. Any Parquet reader opens the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from posse.experiments.records import READABLE, SCHEMA, SCHEMA_VERSION, Records
from posse.experiments.spec.study import Spec, Unit, unit_id, without_code
from posse.version import __version__

MANIFEST = "manifest.json"
LOCK = ".lock"
_DIGEST = re.compile(rb"blake2b:[0-9a-f]{64}")
_BLANK = b"blake2b:" + b"0" * 64  # stands in the file while the digest is computed


class StoreError(ValueError):
    """A file in the folder is damaged or does not belong there; the message names it."""


class ResultStore:
    """The results of one spec in a folder, which is made if it is not there.

    A file that other code computed, before an edit of a policy or of posse, stays in the folder but is not used.

    >>> import tempfile
    >>> ResultStore(tempfile.mkdtemp()).manifest()
    {}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise StoreError(f"{self.folder} is a file, but results go into a folder")
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, unit: Unit) -> Path:
        """The file of a unit."""
        return self.folder / f"unit-{unit.id}.parquet"

    def write(self, unit: Unit, content: bytes) -> None:
        """Store a unit's results. A file that is there already is never replaced by another."""
        path = self.path(unit)
        if path.exists():
            if path.read_bytes() != content:
                raise StoreError(f"{path} is there already and holds something else; remove it to compute it again")
            return
        self._put(path, content)

    def read(self, spec: Spec | None = None) -> Records:
        """The results of all units that the manifest lists, or of a spec; without both, everything in the folder."""
        if spec is not None:
            units = spec.units()
            wanted = {self.path(unit): place for place, unit in enumerate(units)}
            found = {wanted[path]: _table(file) for path, _, file in self._contents(units) if path in wanted}
            missing = [unit for place, unit in enumerate(units) if place not in found]
            if missing:
                raise StoreError(f"{self.folder} misses {len(missing)} of {len(units)} units, such as {missing[0]}")
            tables = [found[place] for place in range(len(units))]
        else:
            listed = [self.folder / f"unit-{name}.parquet" for name in self.manifest().get("units", [])]
            paths = [path for path in listed if path.exists()] if listed else self._files()
            tables = [_table(_checked(path)[1]) for path in paths]
        if not tables:
            raise StoreError(f"{self.folder} holds no results")
        return Records(pa.concat_tables(tables))

    def check(self, units: Iterable[Unit]) -> int:
        """How many of the units have results by other code only. What killed writers left is removed.

        An error names the first file that is damaged, or that belongs to none of the units.
        """
        units = list(units)
        found = {path: work for path, work, _ in self._contents(units)}
        with contextlib.suppress(StoreError), self.lock():
            pass
        known = set(found.values())
        missing = [unit for unit in units if self.path(unit) not in found] if known else []
        return sum(without_code(unit.describe()) in known for unit in missing)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for one writing process, until it ends. Temporary files of killed processes are removed."""
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

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest, whole or not at all."""
        text = json.dumps({"posse_schema": SCHEMA_VERSION, **manifest}, indent=2, ensure_ascii=False)
        self._put(self.folder / MANIFEST, f"{text}\n".encode())
        folder = os.open(self.folder, os.O_RDONLY)  # with the names of all files that were written before
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _contents(self, units: Iterable[Unit]) -> Iterator[tuple[Path, str, pq.ParquetFile]]:
        """Each file, and what it was to compute. All files are intact and of these units."""
        paths = self._files()
        works = {without_code(unit.describe()) for unit in units} if paths else set()
        for path in paths:
            work, file = _checked(path)
            if work not in works:
                raise StoreError(
                    f"{path} is from another experiment than this one; use another folder for this one, or remove it"
                )
            yield path, work, file

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def _put(self, path: Path, content: bytes) -> None:
        temporary = self.folder / f".{path.name}.{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def file_content(unit: Unit, table: pa.Table) -> bytes:
    """The bytes of a unit's file: the same rows always give the same bytes."""
    metadata = {
        "posse_schema": str(SCHEMA_VERSION),
        "posse_version": __version__,
        "posse_unit": unit.described(),
        "posse_digest": _BLANK.decode(),
    }
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd", store_schema=False) as writer:
        writer.write_table(table.select(SCHEMA.names).cast(SCHEMA))
        writer.add_key_value_metadata(metadata)
    blank: bytes = sink.getvalue().to_pybytes()
    return blank.replace(_BLANK, _digest(blank))


def copied(unit: Unit, content: bytes) -> bytes:
    """The bytes of a unit's file, from the file of a unit of another study that simulates the same."""
    table = pq.read_table(pa.BufferReader(content))
    return file_content(unit, table.set_column(0, "study", pa.array([unit.study] * len(table))))


def _digest(blank: bytes) -> bytes:
    return b"blake2b:" + hashlib.blake2b(blank, digest_size=32).hexdigest().encode()


def _checked(path: Path) -> tuple[str, pq.ParquetFile]:
    """What a file was to compute, and the file; an error that names the file if it is not what it says it is."""
    content = path.read_bytes()
    found = _DIGEST.findall(content)
    if len(found) != 1:
        try:
            pq.read_metadata(pa.BufferReader(content))
        except (pa.ArrowException, OSError):
            raise StoreError(
                f"{path} is damaged (it cannot be read as Parquet); remove it to compute it again"
            ) from None
        raise StoreError(f"{path} is not a file of posse's; remove it, or use another folder")
    if found[0] != _digest(content.replace(found[0], _BLANK)):
        raise StoreError(f"{path} is damaged (its digest does not fit its content); remove it to compute it again")
    file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    metadata = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
    if metadata.get("posse_schema") not in [str(version) for version in READABLE]:
        raise StoreError(
            f"{path} has schema version {metadata.get('posse_schema')}, but this posse ({__version__}) reads "
            f"{' and '.join(map(str, READABLE))}; use another folder, or remove it"
        )
    if path.name != f"unit-{unit_id(metadata['posse_unit'])}.parquet":
        raise StoreError(f"{path} does not contain the unit that its name says; remove it to compute it again")
    return without_code(json.loads(metadata["posse_unit"])), file


def _table(file: pq.ParquetFile) -> pa.Table:
    """The rows of a file."""
    # Read on this thread only. A pyarrow thread that releases the content while Python exits would abort the process.
    table = file.read(use_threads=False)
    for column in set(SCHEMA.names) - set(table.column_names):  # of an older version
        table = table.append_column(column, pa.nulls(len(table), SCHEMA.field(column).type))
    return table.select(SCHEMA.names).cast(SCHEMA)
