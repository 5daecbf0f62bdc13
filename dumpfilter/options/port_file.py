"""The file into which a server writes its port, for the options ``--port-file``, ``--console-port-file`` and others."""

from __future__ import annotations

import os
from pathlib import Path

from dumpfilter.errors import OutputError


def write_port(path: Path, port: int) -> None:
    """Write a port number to a file, for scripts that wait for the server.

    The file appears in one step, so that a waiting script never reads half a number. Raises OutputError.
    """
    beside = path.with_name(path.name + ".tmp")
    try:
        beside.write_text(f"{port}\n")
        os.replace(beside, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
