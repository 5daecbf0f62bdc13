"""The start of a topology in the background, and the end of a topology that runs elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import typer

from dumpfilter.base.compiler import notice
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.commands.topology.foreground import remove_directory
from dumpfilter.testbed.control import Control
from dumpfilter.testbed.errors import NotUp
from dumpfilter.testbed.leftovers import clean, owner_of

_MOST_ERRORS = 1 << 20
"""The most bytes of the errors of a background process that are shown."""

_POLL_SECONDS = 0.02


class _Failed(DumpfilterError):
    """The error of a background process that did not bring the topology up."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def start_detached(topology: str, directory: Path, *, timeout: str, keep: bool) -> None:
    """Start a topology in a background process, and return when all nodes run.

    ``topology`` is a short string such as ``m >> web``, or the path of a TOML file. ``directory`` gets the topology's
    files, and stays after the end with ``keep``. ``timeout`` is the time limit of a node's start, such as ``60s``.
    Raises DumpfilterError with the text and exit code of a background process that fails.
    """
    command = [sys.executable, "-m", "dumpfilter", "topology", "up", topology]
    command += ["--directory", str(directory), "--timeout", timeout, *(["--keep"] if keep else [])]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            while not _is_up(directory, process.pid):
                code = process.poll()
                text = os.pread(errors.fileno(), _MOST_ERRORS, 0).decode(errors="replace").strip()
                if code is not None:
                    told = text.removeprefix("dumpfilter: ") or f"the start ended with code {code}"
                    raise _Failed(told, abs(code) or 1)
                if notice.TEXT in text:
                    notice.told_once()
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    typer.echo(f"up in {directory}; dumpfilter topology down ends it")


def _is_up(directory: Path, pid: int) -> bool:
    """Tell whether the process ``pid`` runs the topology of ``directory``, and accepts commands."""
    try:
        return bool(Control(directory).ask("pid") == pid)
    except NotUp:
        return False


def end_topology(directory: Path) -> None:
    """End the topology that runs in ``directory``, or remove the files of a killed topology. Raises NotUp if the
    directory has neither.
    """
    try:
        Control(directory).down()
    except NotUp:
        # The process may have been killed. Then its topology is cleaned here.
        if owner_of(directory) is not None or not clean(directory):
            raise
        remove_directory(directory)
