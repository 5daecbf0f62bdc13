"""The file into which a server writes its port, for the options ``--port-file``, ``--console-port-file`` and others."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base import files


def write_port(path: Path, port: int) -> None:
    """Write a port number to a file, for scripts that wait for the server.

    The file appears in one step, so that a waiting script never reads half a number. Raises OutputError.
    """
    files.replace(path, f"{port}\n".encode(), synced=False, mode=0o666)
