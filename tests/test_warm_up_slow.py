"""Warming up compiles every kernel that the commands for a first look use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from numba.core import event
from numba.core.dispatcher import Dispatcher

import dumpfilter
from dumpfilter.warm_up import warm_up, warm_up_row_images
from tests.commands.in_process import run
from tests.support import DATA

COMMANDS = (
    ("binlog", "--raw", "--replicate-do-db=shop", "--output", "OUT"),
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


@pytest.mark.parametrize(
    "recording", ["oracle/mysql-row", "oracle/mysql-mixed", "recordings/mariadb-write-row"]
)
def test_no_command_compiles_after_the_warming_up(tmp_path: Path, recording: str) -> None:
    warm_up(tmp_path / "warm")
    warm_up_row_images(tmp_path / "rows")
    for number, (command, *options) in enumerate(COMMANDS):
        output = str(tmp_path / str(number))
        with compilations() as found:
            done = run(command, DATA / recording, *(output if one == "OUT" else one for one in options))
        # lint ends with 4, since it has warnings.
        assert done.returncode == (4 if command == "lint" else 0), done.stderr
        assert not found, (command, found)


def test_no_kernel_is_left_out(tmp_path: Path) -> None:
    warm_up(tmp_path / "all")
    warm_up_row_images(tmp_path / "rows")
    kernels = list(all_kernels())
    assert len(kernels) > 30
    # Kernels that only other kernels call are compiled with their callers, and have no code of their own.
    inner = {id(called) for kernel in kernels for called in called_by(kernel)}
    assert [str(kernel) for kernel in kernels if id(kernel) not in inner and not kernel.signatures] == []


def all_kernels() -> Iterator[Dispatcher]:
    """Yield each compiled function of the product once, from the modules whose text has the decorator."""
    root = Path(dumpfilter.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "@njit" in path.read_text() or "@_kernel" in path.read_text():
            module = import_module(".".join(["dumpfilter", *path.relative_to(root).with_suffix("").parts]))
            for kernel in vars(module).values():
                if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.__name__:
                    yield kernel


def called_by(kernel: Dispatcher) -> Iterator[object]:
    """Yield what the names in a kernel's code stand for."""
    known = kernel.py_func.__globals__
    return (known[name] for name in kernel.py_func.__code__.co_names if name in known)
