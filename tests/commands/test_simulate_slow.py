"""The command simulate over generated binlogs, with both kinds of input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dumpfilter.binlog.workload import generate
from dumpfilter.simulation.results import Results
from tests.commands.in_process import run


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index file of a generated binlog set of 2 MiB."""
    return generate(tmp_path_factory.mktemp("binlogs"), size=2 << 20, schemas=5, tables=4).index


TOPOLOGY = (
    "m >> web[do-db=shop_01, rate=4mbit, delay=50ms] >> tail[do-table=shop_01.t0] ; m >> all[rate=8mbit]"
)


def test_a_topology(index: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    done = run(
        "simulate", TOPOLOGY, "--binlog", index, "--output", output, "--find", "rate", "--lag", "200ms"
    )
    assert done.returncode == 0, done.stderr
    assert "filter-on-master" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    results = Results.model_validate_json((output / "results.json").read_text())
    whole = next(run for run in results.runs if run.setting.variant == "no-filter")
    size = sum(path.stat().st_size for path in index.parent.glob("bin.0*"))
    # All events cross each link, but for the head of each file: its first four bytes and the format description.
    (nbytes,) = {link.bytes for link in whole.links}
    assert 0 < size - nbytes <= 200 * len(results.sources[0].files)
    assert (output / "report.html").stat().st_size > 1000
    again = run("simulate", TOPOLOGY, "--binlog", index, "--output", output)
    assert again.returncode == 1
    assert "--overwrite" in again.stderr


def test_a_slaves_file_as_json_without_a_report(index: Path, tmp_path: Path) -> None:
    slaves = tmp_path / "slaves.toml"
    slaves.write_text(
        """
        [[slave]]
        name = "eu"
        count = 20
        rules = ["--replicate-do-db=shop_02"]
        link = { rate = "1mbit" }
        """
    )
    given = (
        "--slaves",
        slaves,
        "--binlog",
        index,
        "--variant",
        "filter-on-master",
        "--sweep",
        "rate=1mbit,2mbit",
    )
    done = run("simulate", *given, "--output", tmp_path / "out", "--no-report", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["setting"]["rate"] for each in found["runs"]] == [None, 1_000_000, 2_000_000]
    assert found["runs"][0]["nodes"][0]["count"] == 20
    assert found["runs"][0]["nodes"] == found["runs"][1]["nodes"]
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "give either a topology"),
        (("m >> web",), "the binlog set of m-workload is missing; give it with --binlog SET"),
        (("m >> web ; n >> web", "--binlog", "x"), r"write NODE=x"),
        (("m >> web", "--binlog", "w=x"), "there is no origin 'w'"),
        (("m >> web", "--binlog", "x", "--variant", "filter-on-mastr"), "filter-on-master"),
        (("m >> web", "--binlog", "x", "--lag", "5"), "--lag: '5' is not a time"),
        (("m >> web", "--binlog", "/nowhere/bin.index"), "/nowhere/bin.index: cannot read the index"),
    ],
    ids=["nothing", "no set", "two origins", "origin", "variant", "lag", "no file"],
)
def test_commands_that_cannot_run(given: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = run("simulate", *given, "--output", tmp_path / "out")
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
