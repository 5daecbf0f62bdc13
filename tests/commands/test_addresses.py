"""The commands that read a binlog set read it on an object store, too; what writes says that it writes here alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.in_process import run
from tests.spark_jobs.s3_server import object_store
from tests.support import DATA

SET = DATA / "oracle" / "mariadb-mixed"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the set on an object store, with a place for what follows the directory's name."""
    with object_store() as store:
        for path in SET.glob("bin.*"):
            store.objects[f"bucket/logs/{path.name}"] = path.read_bytes()
        yield (
            f"s3a://bucket/logs{{}}?endpoint_override={store.endpoint}&scheme=http&region=us-east-1&anonymous=true"
        )


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["lint", "--replicate-do-db=shop"],
        ["explain", "--replicate-do-db=shop"],
        ["explain", "--replicate-do-db=shop", "--events"],
        ["binlog", "--do-db=shop", "-v"],
        ["suggest"],
    ],
)
def test_a_command_reads_there_what_it_reads_here(command: list[str], address: str) -> None:
    here = run(command[0], SET, *command[1:])
    assert here.stdout
    for place in ("", "/bin.index", "/bin.00*"):
        there = run(command[0], address.format(place), *command[1:])
        assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr


@pytest.mark.parametrize("command", [["binlog", "--raw"], ["split", "--engine", "local"], ["export"]])
def test_files_from_there_are_those_from_here(command: list[str], address: str, tmp_path: Path) -> None:
    for name, source in (("here", SET), ("there", address.format(""))):
        assert run(command[0], source, *command[1:], "--output", tmp_path / name).returncode == 0
    here, there = (
        {path.relative_to(tmp_path / name): path for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("here", "there")
    )
    assert here
    assert here.keys() == there.keys()
    binlogs = [name for name in here if name.suffix.lstrip(".").isdigit()]
    assert [here[name].read_bytes() for name in binlogs] == [there[name].read_bytes() for name in binlogs]


def test_simulate_takes_an_address_with_options(address: str, tmp_path: Path) -> None:
    for name, source in (("here", str(SET)), ("there", address.format(""))):
        found = run("simulate", "m >> web[rate=2mbit]", "--binlog", source, "--output", tmp_path / name)
        assert found.returncode == 0, found.stderr
    results = [(tmp_path / name / "results.json").read_text() for name in ("here", "there")]
    assert results[0] == results[1]


@pytest.mark.parametrize("command", ["binlog", "split", "bandwidth", "export"])
def test_output_at_an_address_is_refused_in_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(command, SET, "--output", "s3a://bucket/out", *(["--raw"] if command == "binlog" else []))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        "dumpfilter: --output s3a://bucket/out: dumpfilter only reads binlogs at such an address; name a path on this "
        "machine, and copy the files from or to the address\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_master_serves_files_of_this_machine(address: str) -> None:
    found = run("master", address.format(""))
    assert found.returncode == 2
    assert "dumpfilter only reads binlogs at such an address" in found.stderr
