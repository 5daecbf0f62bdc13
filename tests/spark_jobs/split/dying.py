"""Splits in processes that are killed, and checks of the files that they leave."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver, process, util
from pathlib import Path
from typing import Any

from dumpfilter.analyse.split_set import MANIFEST, Manifest
from dumpfilter.binlog.workload import generate
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from tests.spark_jobs.here import run_here

_SYSTEM_CALLS = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"})
"""Audit events (sys.audit) of calls that change a directory. "open" counts only if it opens a file for writing."""

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)  # Forked processes need the path to find this module.

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.spark_jobs.split.preloaded"])


def make_source(folder: Path) -> Path:
    """Write a set of two files, 600 kB, five schemas, with transactions over several schemas."""
    made = generate(folder, 600_000, file_size=300_000, schemas=5, tables=3, seed=5)
    return made.index


def options(overwrite: bool = False) -> SplitOptions:
    """Return options for ten ranges and several files in each output."""
    return SplitOptions(range_size=60_000, max_binlog_size=50_000, overwrite=overwrite)


def start(source: Path, output: Path, options: SplitOptions, dies_at: int = 0) -> Any:
    """Start a process that splits.

    With ``dies_at`` the process kills itself with SIGKILL before that one of its system calls that change the output
    directory or its parent. The process's exit code is then -SIGKILL.
    """
    process = _processes.Process(target=_run, args=(source, output, options, dies_at))
    process.start()
    return process


def count_calls(source: Path, output: Path, options: SplitOptions) -> int:
    """Split in a process, and count its system calls that change the output directory or its parent."""
    receive, send = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_run, args=(source, output, options, 0, send))
    process.start()
    send.close()  # Otherwise recv would wait even after the process died.
    try:
        calls: int = receive.recv()
    except EOFError:
        calls = 0
    process.join()
    assert process.exitcode == 0
    return calls


def stop_processes() -> None:
    """Stop the process that the others are forked from, and remove the directory of multiprocessing.

    multiprocessing itself does both when Python ends. By then the temporary directory of the tests is gone.
    """
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    util._run_finalizers()  # type: ignore[attr-defined]
    process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]


def _run(source: Path, output: Path, options: SplitOptions, dies_at: int, tell: Any = None) -> None:
    counter = _Counter(output.parent, dies_at)
    sys.addaudithook(counter)
    split(source, output, run_here, options)
    if tell is not None:
        tell.send(counter.calls)


class _Counter:
    def __init__(self, folder: Path, dies_at: int) -> None:
        self.calls = 0
        self._folder = str(folder)
        self._dies_at = dies_at

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _SYSTEM_CALLS or not str(arguments[0]).startswith(self._folder):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        self.calls += 1
        if self.calls == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def contents(output: Path) -> dict[str, bytes]:
    """Return all files of a split, by relative path. The manifest is without the time of the split."""
    found = {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}
    manifest = Manifest.model_validate_json(found[MANIFEST])
    found[MANIFEST] = manifest.model_copy(update={"made": 0}).model_dump_json().encode()
    return found


def check_left(output: Path, *whole: dict[str, bytes]) -> None:
    """Check after a kill that the output is missing, or equal to one of ``whole``."""
    if output.exists():
        found = contents(output)
        assert any(not different(found, one) for one in whole)


def check_alone(output: Path, whole: dict[str, bytes]) -> None:
    """Check that the output has exactly these files, and that nothing stands beside it."""
    wrong = different(contents(output), whole)
    assert not wrong, wrong
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def different(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Return the names of files that differ."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
