"""Policies from a user's own Python file, for `--import my_policies.py`."""

import importlib
import importlib.util
import linecache
import sys
import traceback
from pathlib import Path

from posse.policies.base import Policy, all_policies

_imported: dict[Path, None] = {}


def imported_files() -> list[Path]:
    """The files that this process has imported, for `import_file` in another process."""
    return list(_imported)


def import_file(path: str | Path) -> list[type[Policy]]:
    """Import a Python file that defines policies; return them, by name.

    The module gets the name of the file, `my_policies` for my_policies.py, in every process. Its folder joins the
    search path, so that worker processes find it too. To import the same file again does nothing.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"there is no file {path}; expected a Python file that defines policies")
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ValueError(f"{path} cannot be imported; expected a Python file with a name such as my_policies.py")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
        importlib.invalidate_caches()
    spec = importlib.util.find_spec(file.stem)
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != file:
        other = "Python itself" if spec is None or spec.origin is None else spec.origin
        raise ValueError(f"{path} needs another name: the module {file.stem!r} is taken by {other}")
    try:
        importlib.import_module(file.stem)
    except Exception as error:
        raise ValueError(_in_short(file, error)) from None
    known = all_policies()
    found = [cls for cls in known if cls.__module__ == file.stem and not cls.__name__.startswith("_")]
    if not found:
        raise ValueError(f"{path} defines no policy; expected at least one subclass of posse.Policy")
    for cls in known:
        if cls.__module__ != file.stem and cls.__name__ in {own.__name__ for own in found}:
            raise ValueError(f"{path} defines {cls.__name__}, but {cls.__module__} has a policy of that name already")
    _imported[file] = None
    return found


def _in_short(file: Path, error: Exception) -> str:
    """What went wrong while a file was imported, with the last of its lines that was reached."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == str(file):
        line = error.lineno
    what = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    if line is None:
        return f"{file} cannot be imported: {what}"
    return f"{file}, line {line}: {what}\n    {linecache.getline(str(file), line).strip()}"
