"""The exit codes of docs/exit-codes.md: what is in use or there already is 1 for every command."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dumpfilter.base import errors
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.errors import TopologyBusy
from tests.commands.in_process import run
from tests.docs.tutorial import ROOT
from tests.support import DATA

SET = DATA / "oracle" / "mysql-row"
USED = "--slave=web:--replicate-do-db=shop"


@pytest.fixture
def taken() -> Iterator[int]:
    """The port of another program."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A directory that holds somebody's files."""
    directory = tmp_path / "full"
    directory.mkdir()
    (directory / "thesis.txt").write_text("years")
    return directory


PORTS: dict[str, Callable[[int, Path], list[str]]] = {
    "master": lambda port, _: ["master", str(SET), f"--port={port}"],
    "console": lambda port, _: ["master", str(SET), f"--console-port={port}"],
    "metrics": lambda port, _: ["master", str(SET), f"--metrics-port={port}"],
    "slave console": lambda port, directory: [
        *("slave", "--master=127.0.0.1:1", f"--relay-dir={directory}", "--server-id=9"),
        f"--console-port={port}",
    ],
}


@pytest.mark.parametrize("name", PORTS)
def test_a_port_in_use(name: str, taken: int, tmp_path: Path) -> None:
    done = run(*PORTS[name](taken, tmp_path / "relay"))
    assert "another program listens on the port already" in done.stderr
    assert done.returncode == 1, done.stderr


OUTPUTS = {
    "split": ["split", str(SET), "--engine=local", "--output"],
    "bandwidth": ["bandwidth", str(SET), USED, "--output"],
    "simulate": ["simulate", "m >> web", "--binlog", str(SET), "--engine=local", "--output"],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is_there_already(name: str, full: Path) -> None:
    done = run(*OUTPUTS[name], full)
    assert str(full) in done.stderr
    assert done.returncode == 1, done.stderr
    assert [path.name for path in full.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "words",
    [
        ["slave", "--master=127.0.0.1:1", "--server-id=9", "--relay-dir="],
        ["slave", "--master=127.0.0.1:1", "--relay-dir=s", "--server-id=9", "--source-ssl-ca="],
        ["master", str(SET), "--port-file", ""],
        ["master", str(SET), "--defaults-file="],
        ["lint", str(SET), "--slaves="],
        ["binlog", str(SET), "--output="],
        ["topology", "status", "-d", ""],
        ["purge", ""],
    ],
)
def test_an_empty_path_of_an_unset_variable(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    name = next((word.rstrip("=") for word in reversed(words) if word.startswith("-")), "directory")
    assert f"'{name}'" in done.stderr, done.stderr
    assert "the value is empty" in done.stderr
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_raw_files_that_are_there_already(tmp_path: Path) -> None:
    for wanted in (0, 1):
        done = run("binlog", SET, "--raw", "--output", tmp_path)
        assert done.returncode == wanted, done.stderr
    assert "it is there already" in done.stderr


def test_each_error_has_a_code_of_the_page() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    classes = [TopologyBusy, *(one for one in vars(errors).values() if isinstance(one, type))]
    assert {one.exit_code for one in classes if issubclass(one, DumpfilterError)} <= codes
    in_the_way = (
        errors.PortTaken,
        errors.DirectoryBusy,
        errors.OutputError,
        errors.IdentityTaken,
        TopologyBusy,
    )
    assert {one.exit_code for one in in_the_way} == {1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["generate", "{}/new", "--size", "9" * 5000], "is not a size"),
        (
            ["slave", "--server-id=1", "--relay-dir={}/r", "--master=m:" + "9" * 5000],
            "write [CHANNEL=]HOST:PORT",
        ),
    ],
)
def test_a_number_that_is_much_too_large(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = run(*(each.format(tmp_path) for each in arguments))
    assert done.returncode == 2
    assert told in done.stderr


def test_a_rule_in_an_option_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_bytes(b"[mysqld]\nserver-id=1\nreplicate-do-db=caf\xe9\n")
    of_slave = f"--defaults-file={file}", f"--relay-dir={tmp_path}/r", "--master=127.0.0.1:1", "--once"
    for done in (
        run("slave", *of_slave),
        run("bandwidth", str(SET), f"--slaves={file}", f"--output={tmp_path}/b", "--engine=local"),
    ):
        assert done.returncode == 2
        assert (
            r"--replicate-do-db=caf\xe9: the value is not UTF-8; save the option file as UTF-8" in done.stderr
        )
