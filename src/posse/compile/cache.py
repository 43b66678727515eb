"""Where compiled kernels are kept between processes: one folder a digest, in the user's cache folder."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numba

MOST_BYTES = 500_000_000  # of all kernels together; those that were used least recently make room

lock = threading.RLock()  # for changes of numba's settings


class CacheUse(NamedTuple):
    """What is in the cache."""

    folder: Path
    kernels: int
    bytes: int


def cache_folder() -> Path:
    """The folder of all kernels: below `NUMBA_CACHE_DIR`, `XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "posse"


def cache_use() -> CacheUse:
    """Where the cache is, how many kernels it holds, and how large they are."""
    folder = cache_folder()
    kernels = _kernels(folder)
    return CacheUse(folder, len(kernels), sum(size for _, size, _ in kernels))


def clear_cache() -> CacheUse:
    """Remove every kernel; return what was there. A process that is using one keeps it in memory."""
    before = cache_use()
    for _, _, kernel in _kernels(before.folder):
        shutil.rmtree(kernel, ignore_errors=True)
    return before


@functools.cache
def compiler_digest() -> str:
    """A digest of this package: what other steps of the compiler made is not used."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def kernel_folder(digest: str) -> Path | None:
    """Where the kernels with this digest are cached, or None where nothing can be written."""
    try:
        folder = cache_folder() / digest
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # used now, so it is the last to be removed
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def make_room(keep: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the kernels that were used least recently until all are within `most_bytes`, but never `keep`.

    Several processes may do so at once: what another one has removed already is no error, and a process whose kernel
    is removed has it in memory and compiles it anew next time.
    """
    kernels = sorted(_kernels(keep.parent))
    total = sum(size for _, size, _ in kernels)
    for _, size, folder in kernels:
        if total <= most_bytes:
            return
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def _kernels(root: Path) -> list[tuple[float, int, Path]]:
    """When each kernel was last used, how large it is, and its folder. Only folders named by a digest are ours."""
    found = []
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            if len(folder.name) == 16 and set(folder.name) <= set("0123456789abcdef"):
                with contextlib.suppress(OSError):
                    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                    found.append((folder.stat().st_mtime, size, folder))
    return found


def cached(jit: Callable[..., Any], functions: Iterable[Callable[..., Any]], digest: str) -> list[Any]:
    """Functions compiled by `jit` at their first call, and cached in the folder of this digest if possible."""
    functions, folder = list(functions), kernel_folder(digest)
    with lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder) if folder else before
        try:
            dispatchers = [jit(function, cache=folder is not None) for function in functions]
        except RuntimeError:  # numba cannot cache it, for example because it was typed at the prompt
            return [jit(function) for function in functions]
        finally:
            numba.config.CACHE_DIR = before
    for dispatcher in dispatchers:
        _forgive(dispatcher._cache, folder)
    return dispatchers


def _forgive(cache: Any, folder: Path | None) -> None:
    """Let numba's cache of a function take what cannot be read for missing, and skip what cannot be written."""
    load, save = cache.load_overload, cache.save_overload

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception:  # whatever unpickling half a file may raise
            with contextlib.suppress(OSError):
                cache.flush()  # begin a damaged cache anew
            return None

    def save_overload(signature: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, data)
            if folder is not None:
                make_room(folder)

    cache.load_overload, cache.save_overload = load_overload, save_overload
