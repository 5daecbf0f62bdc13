"""The run of a topology in this process, until Ctrl-C or until ``dumpfilter topology down``."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from dumpfilter.base.endings import endings_interrupt, ignore_endings
from dumpfilter.commands.topology.views import report_view, status_view, watch_status
from dumpfilter.testbed import Testbed, up
from dumpfilter.testbed.control import ControlServer
from dumpfilter.testbed.leftovers import STATE, remove_files
from dumpfilter.topology.model import Topology

_HINT = "Ctrl-C ends. Other terminals: dumpfilter topology status, link, sql, kill, check …"


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
            report = _run_until_end(topology, directory, timeout=timeout, keep=keep, table=table)
        finally:
            if is_ours and not keep:
                remove_directory(directory)
    Console(highlight=False).print(report_view(report))


def remove_directory(directory: Path) -> None:
    """Remove the directory of an ended topology, with its files. Do nothing while the directory has a state file, since
    its topology then still runs or was not cleaned.
    """
    if directory.exists() and not (directory / STATE).exists():
        remove_files(directory, keep=())
        directory.rmdir()


def _run_until_end(
    topology: Topology, directory: Path, *, timeout: float, keep: bool, table: bool
) -> dict[str, Any]:
    """Run the topology until it is told to end, and return its report (see :meth:`Testbed.report`)."""
    with (
        up(topology, directory, keep=keep, timeout=timeout, is_command=True) as bed,
        ControlServer(bed),
    ):
        # Ctrl-C and `dumpfilter topology down` are how people end a topology, so they are no failure.
        with contextlib.suppress(KeyboardInterrupt):
            _run(bed, table=table)
        ignore_endings()
        report = bed.report()
        bed.down()
    return report


def _run(bed: Testbed, *, table: bool) -> None:
    if table and Console().is_terminal:
        watch_status(lambda: bed.status().as_dict(), is_transient=True, hint=_HINT)
        return
    Console(highlight=False).print(status_view(bed.status().as_dict()))
    typer.echo(f"{bed.topology.name} is up in {bed.directory}")
    # Ctrl-C, and the SIGTERM of `dumpfilter topology down`, interrupt the wait.
    threading.Event().wait()
