"""The start of a topology in the background, and the end of a topology that runs elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

import typer

from dumpfilter.commands.topology.foreground import COMPILES, READY, remove_directory
from dumpfilter.compiler import notice
from dumpfilter.errors import DumpfilterError
from dumpfilter.testbed.control import Control
from dumpfilter.testbed.errors import NotUp
from dumpfilter.testbed.leftovers import clean, owner_of


class _Failed(DumpfilterError):
    """The error of a background process that did not bring the topology up."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def start_detached(topology: str, directory: Path, *, timeout: str, keep: bool) -> None:
    """Start a topology in a background process, and return when everything runs. Raises DumpfilterError."""
    command = [sys.executable, "-m", "dumpfilter", "topology", "up", topology]
    command += ["--directory", str(directory), "--timeout", timeout, *(["--keep"] if keep else [])]
    with tempfile.TemporaryFile() as errors:
        reader, writer = os.pipe()
        with open(reader, "rb") as ready:
            process = subprocess.Popen(
                [*command, f"--ready-fd={writer}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(writer,),
                start_new_session=True,
            )
            os.close(writer)
            try:
                is_ready = _told(ready)
            except KeyboardInterrupt:
                process.terminate()
                process.wait()
                raise
        if not is_ready:
            code = process.wait()
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip()
            raise _Failed(
                text.removeprefix("dumpfilter: ") or f"the start ended with code {code}", abs(code) or 1
            )
    typer.echo(f"up in {directory}; dumpfilter topology down ends it")


def _told(ready: BinaryIO) -> bool:
    """Read what the background process tells, and return whether everything runs."""
    for line in ready:
        if line == COMPILES:
            notice.told_once()
        elif line == READY:
            return True
    return False


def end_topology(directory: Path) -> None:
    """End the topology of a directory. Raises NotUp if there is none."""
    try:
        Control(directory).down()
    except NotUp:
        # The process may have been killed. Then its topology is cleaned here.
        if owner_of(directory) is not None or not clean(directory):
            raise
        remove_directory(directory)
