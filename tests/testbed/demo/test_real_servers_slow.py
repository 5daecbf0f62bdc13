"""The part of the demonstration with real servers, as a process: its end, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.testbed.servers.template import CACHE_VARIABLE

PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from dumpfilter.testbed.demo.real_servers import demonstrate
from dumpfilter.base.endings import ending_at_signals
from dumpfilter.testbed.servers import find_program
with ending_at_signals():
    demonstrate(Console(highlight=False, width=100), find_program('mariadb'), Path(sys.argv[1]))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a directory for logs, temporary files and the cache."""
    with tempfile.TemporaryDirectory(prefix="d-") as found:
        (Path(found) / "tmp").mkdir()
        yield Path(found)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for runs that shall not make the data of a new server. The first of them makes the data."""
    return tmp_path_factory.mktemp("cache")


def start(folder: Path, cache: Path | None = None) -> subprocess.Popen[str]:
    """Start the program. Without a cache of other runs the program makes the data of a new server."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**os.environ, "TMPDIR": str(folder / "tmp"), CACHE_VARIABLE: str(cache or folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Return the command lines of processes that name the directory, and the names of temporary files in it."""
    found = [path.name for path in (folder / "tmp").iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_two_replicas_are_equal_and_nothing_is_left(folder: Path, cache: Path) -> None:
    with start(folder, cache) as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "law: tables, checksums and GTID position are equal" in said
    assert "of shop, logs and hr only shop" in said
    assert left_behind(folder) == []
    # The password is in no file any more.
    assert sorted(path.name for path in (folder / "servers").rglob("*.*")) == [
        "at-dumpfilter.log",
        "at-source.log",
        "dumpfilter.log",
        "source.log",
    ]


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "cache/servers/*.new/data"),
        (signal.SIGTERM, "servers/at-dumpfilter/data/relay-bin.000002"),
    ],
    ids=["data is made", "replicas attach"],
)
def test_a_signal_at_any_moment_leaves_nothing(
    folder: Path, cache: Path, number: signal.Signals, moment: str
) -> None:
    with start(folder, None if moment.startswith("cache/") else cache) as process:
        deadline = time.monotonic() + 200
        while not list(folder.glob(moment)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # A terminal sends Ctrl-C to the whole process group.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        process.communicate(timeout=200)
    assert process.returncode in (-number, 128 + number, 1)
    assert left_behind(folder) == []
