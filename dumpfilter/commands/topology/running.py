"""The start of a topology (servers, masters, slaves and links), to run in this process or in the background."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import typer
from rich.console import Console

from dumpfilter.base.compiler import notice
from dumpfilter.base.endings import endings_interrupt, ignore_endings
from dumpfilter.commands.topology.views import report_view, status_view, watch_status
from dumpfilter.testbed import Testbed, up
from dumpfilter.testbed.directory import (
    STATE,
    Control,
    ControlFailed,
    ControlServer,
    owner_of,
    remove_directory,
)
from dumpfilter.testbed.errors import NotUp
from dumpfilter.topology.model import Topology

_HINT = "Ctrl-C ends. Other terminals: dumpfilter topology status, link, sql, kill, check …"
_MOST_ERRORS = 1 << 20
"""The most bytes of the errors of a background process that are shown."""
_POLL_SECONDS = 0.02


def run_in_foreground(
    topology: Topology, directory: Path, *, timeout: float, keep: bool, table: bool
) -> None:
    """Start a topology, run it until Ctrl-C or ``dumpfilter topology down``, and print the report of bytes and lags.

    ``directory`` gets the topology's files, and stays after the end with ``keep``. ``timeout`` is the time limit of a
    node's start, seconds. ``table`` shows a live table of the status on a terminal.
    """
    # The directory of a topology that was killed has a state file.
    is_ours = not directory.exists() or (directory / STATE).exists()
    with endings_interrupt():
        try:
            with (
                up(topology, directory, keep=keep, timeout=timeout, is_command=True) as bed,
                ControlServer(bed),
            ):
                # Ctrl-C and `dumpfilter topology down` are how people end a topology, so they are no failure.
                with contextlib.suppress(KeyboardInterrupt):
                    _show_until_end(bed, table=table)
                ignore_endings()
                report = bed.report()
                bed.down()
        finally:
            if is_ours and not keep:
                remove_directory(directory)
    Console(highlight=False).print(report_view(report))


def _show_until_end(bed: Testbed, *, table: bool) -> None:
    console = Console(highlight=False)
    if table and console.is_terminal:
        watch_status(lambda: bed.status().as_dict(), is_transient=True, hint=_HINT)
    console.print(status_view(bed.status().as_dict()))
    typer.echo(f"{bed.topology.name} is up in {bed.directory}")
    # Ctrl-C, and the SIGTERM of `dumpfilter topology down`, interrupt the wait.
    threading.Event().wait()


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
                    raise ControlFailed(told, abs(code) or 1)
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
    owner = owner_of(directory)
    if owner is None or owner.pid != pid:
        return False
    try:
        Control(directory).ask("directory")
    except NotUp:
        return False
    return True
