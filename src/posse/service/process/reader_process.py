"""The reader as a process: a worker at low priority that listens on a Unix socket, where only workers ask it."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

from posse.service import metrics
from posse.service.settings import Settings

READER = -1  # its number among the workers
NICE = 10  # decisions come first


def listen(folder: str) -> socket.socket:
    """The socket of the reader, in a folder that nobody else may enter.

    The supervisor holds it, so that requests wait while a reader that died is replaced.
    """
    path, listener = str(Path(folder) / "reader"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {path}: {error}; the variable TMPDIR may name a folder with a shorter path"
        ) from None
    listener.listen(1024)
    return listener


def settings_of(settings: Settings) -> Settings:
    """The settings of the reader: it asks nobody else, takes no default rewards, and workers write the access log."""
    one = settings.connections  # all of its connections come from one address
    return replace(settings, reader=None, defaults_seconds=None, access_log=False, connections_per_address=one)


def become_reader(folder: str) -> None:
    """Let decisions come first, and read the counts of all workers without a count of its own."""
    os.nice(NICE)
    os.environ[metrics.FOLDER] = folder
