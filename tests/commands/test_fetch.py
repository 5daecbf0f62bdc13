"""``dumpfilter fetch``, and the commands that read a running server."""

from __future__ import annotations

import contextlib
import io
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dumpfilter.base.byte_bar import byte_bar
from dumpfilter.base.endings import handling
from dumpfilter.commands import reception
from dumpfilter.commands.reception import move
from dumpfilter.index.fileset import BinlogSet
from tests.commands.in_process import run
from tests.receiver.fake_source import FakeSource, small_set
from tests.receiver.test_reception_slow import stored
from tests.support import DATA


@pytest.fixture
def source() -> Iterator[FakeSource]:
    """A server with two small files."""
    made = FakeSource(small_set())
    yield made
    made.close()


def test_fetch_stores_and_says_where_it_ends(source: FakeSource, tmp_path: Path) -> None:
    done = run("fetch", source.url, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"2 files in {tmp_path}, to bin.000002 at " in done.stderr
    assert stored(tmp_path) == source.files


def test_a_signal_at_the_very_beginning_ends_the_fetch(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def handling_one(*arguments: Any) -> Iterator[None]:
        with handling(*arguments):
            signal.raise_signal(signal.SIGTERM)
            yield

    monkeypatch.setattr(reception, "handling", handling_one)
    assert run("fetch", source.url, "--output", tmp_path).returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(("option", "value"), [("--to", "bin.000001"), ("--from", "bin.000002")])
def test_from_and_to(source: FakeSource, tmp_path: Path, option: str, value: str) -> None:
    done = run("fetch", source.url, "--output", tmp_path, option, value)
    assert done.returncode == 0
    assert f"1 file in {tmp_path}, " in done.stderr
    assert list(stored(tmp_path)) == [value]


@pytest.mark.parametrize(
    ("address", "code", "text"),
    [
        ("mysql://u:Xq7secret@h/", 2, "password-file"),
        ("bin.index", 2, "begins with mysql://"),
        ("mysql://u@127.0.0.1:1/", 3, "cannot be reached"),
        ("mysql://u@127.0.0.1:1/?to=x", 2, "to=x: no name of a binlog file"),
        ("mysql://u@127.0.0.1:1/?from=x", 2, "from=x: no name of a binlog file"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, address: str, code: int, text: str) -> None:
    done = run("fetch", address, "--output", tmp_path / "s")
    assert done.returncode == code
    assert text in done.stderr
    assert "Xq7secret" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if "source not verified" not in line]
    assert len(errors) == 1


def test_commands_read_a_running_server(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = BinlogSet.open(DATA / "oracle" / "mysql-row")
    source.files = {name: recorded.path(name).read_bytes() for name in recorded.names}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = run("inspect", f"{source.url}?from=newest")
    assert done.returncode == 0, done.stderr
    assert recorded.names[-1] in done.stdout
    done = run("explain", source.url, "--replicate-do-db=shop", "--json")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [], "the fetched files are temporary"
    done = run("inspect", source.url, "--store", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    assert list(stored(tmp_path / "kept")) == recorded.names


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["inspect", "x.index", "--store", "y"], "goes with the address"),
        (["inspect", "mysql://u@h/", "mysql://u@i/"], "name one server"),
        (["master", "mysql://u@h/"], "--store=DIRECTORY is missing"),
        (["master", "x.index", "--store", "y"], "goes with the address"),
        (["master", "mysql://u@h/", "x.index", "--store", "y"], "name one server"),
        (["master", "mysql://u@h/?to=b.000001", "--store", "y"], "leave out to=b.000001"),
        (
            ["fetch", "mysql://u@h/?to=b.000001", "--to", "b.000002", "--output", "o"],
            "--to stands beside the same option",
        ),
        (
            ["fetch", "mysql://u@h/?from=newest", "--from", "oldest", "--output", "o"],
            "--from stands beside the same option",
        ),
    ],
)
def test_wrong_combinations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []


MIB = 1 << 20


def shown(*, is_terminal: bool, files: tuple[tuple[str, int], ...] = ()) -> str:
    out = io.StringIO()
    reached = SimpleNamespace(files=files, file="bin.000001", position=3 * MIB, bytes=3 * MIB)
    console = Console(file=out, width=100, force_terminal=is_terminal, color_system=None)
    with byte_bar(console, remaining=False) as bar:
        move(bar, bar.add_task("", total=None), reached)  # type: ignore[arg-type]
    return out.getvalue()


def test_the_bar_is_as_long_as_all_files() -> None:
    assert "3.1/8.4 MB" in shown(is_terminal=True, files=(("bin.000001", 4 * MIB), ("bin.000002", 4 * MIB)))


def test_files_of_unknown_size_have_no_length() -> None:
    assert "bin.000001" in shown(is_terminal=True)
    assert "3.1/? MB" in shown(is_terminal=True)


def test_a_pipe_gets_nothing() -> None:
    assert not shown(is_terminal=False)
