"""Warming up compiles every kernel that the commands for a first look use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core import event

from dumpfilter.warm_up import warm_up
from tests.commands.in_process import run
from tests.support import DATA

COMMANDS = (
    ("inspect",),
    ("suggest",),
    ("lint", "--replicate-do-db=shop"),
    ("explain", "--replicate-do-db=shop"),
    ("bandwidth", "--slave", "web:--replicate-do-db=shop", "--output", "OUT"),
    ("binlog", "-v", "--replicate-do-db=shop"),
    ("export", "--output", "OUT"),
)


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """Collect the functions that are compiled during the block. Code from the cache counts as none."""
    found: list[str] = []

    class Listener(event.Listener):
        def on_start(self, event: object) -> None:
            found.append(str(event.data["dispatcher"]))  # type: ignore[attr-defined]

        def on_end(self, event: object) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield found


@pytest.mark.parametrize("recording", ["oracle/mysql-row", "recordings/mariadb-write-row"])
def test_no_command_compiles_after_the_warming_up(tmp_path: Path, recording: str) -> None:
    warm_up(tmp_path / "warm")
    for number, (command, *options) in enumerate(COMMANDS):
        output = str(tmp_path / str(number))
        with compilations() as found:
            done = run(command, DATA / recording, *(output if one == "OUT" else one for one in options))
        # lint ends with 4, since it has warnings.
        assert done.returncode == (4 if command == "lint" else 0), done.stderr
        assert not found, (command, found)
