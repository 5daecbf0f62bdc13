"""``dumpfilter bandwidth`` with slaves on the command line, and its second run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS
from tests.commands.in_process import Finished, run
from tests.spark_jobs.walking import RECORDINGS

PLAIN, COMPRESSED = RECORDINGS["recordings/mysql56-row"], RECORDINGS["recordings/mysql-payloads"]
WEB = "web:--replicate-do-db=shop"
UNCHANGED = "the binlogs have not changed"


def bandwidth(binlogs: Path, output: Path, *arguments: str | Path) -> Finished:
    found = run("bandwidth", binlogs, "--output", output, *arguments)
    assert found.returncode == 0, found.stderr
    return found


def results(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "results.json").read_text())
    del found["measured_at"]
    return found


def test_a_second_run_answers_from_the_first(tmp_path: Path) -> None:
    output, fresh = tmp_path / "out", tmp_path / "fresh"
    first = bandwidth(PLAIN, output, "--slave", WEB)
    assert UNCHANGED not in first.stderr
    assert "\nweb " in first.stdout
    before = results(output)
    again = bandwidth(PLAIN, output, "--slave", WEB)
    assert "from the measurements of 2" in again.stderr
    assert UNCHANGED in again.stderr
    assert again.stdout == first.stdout
    assert results(output) == before
    other = ("--slave", "hr:--replicate-do-db=hr --server-id=1", "--slave", WEB, "--price", "0.09")
    changed = bandwidth(PLAIN, output, *other)
    assert UNCHANGED in changed.stderr
    bandwidth(PLAIN, fresh, *other)
    assert results(output) == results(fresh)


def test_a_price_is_a_finite_number(tmp_path: Path) -> None:
    for price in ("inf", "nan", "-1"):
        refused = run("bandwidth", PLAIN, "--slave", WEB, "--output", tmp_path / "out", "--price", price)
        assert refused.returncode == 2
        assert "--price" in refused.stderr
        assert not (tmp_path / "out").exists()


def test_results_of_other_binlogs_are_not_replaced(tmp_path: Path) -> None:
    bandwidth(PLAIN, tmp_path, "--slave", WEB)
    refused = run("bandwidth", COMPRESSED, "--slave", WEB, "--output", tmp_path)
    assert refused.returncode != 0
    assert "holds other results" in refused.stderr
    bandwidth(COMPRESSED, tmp_path, "--slave", WEB, "--overwrite")


def test_files_of_somebody_else_are_not_removed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    bandwidth(PLAIN, output, "--slave", WEB)
    (output / "notes").write_text("mine")
    refused = run("bandwidth", PLAIN, "--slave", WEB, "--output", output)
    assert refused.returncode == 1
    assert "new results would remove notes" in refused.stderr
    assert (output / "notes").read_text() == "mine"
    bandwidth(PLAIN, output, "--slave", WEB, "--overwrite")
    assert not (output / "notes").exists()


def test_results_of_a_copy_of_the_binlogs_are_replaced(tmp_path: Path) -> None:
    """A running server's binlogs are in another directory at each run."""
    bandwidth(PLAIN, tmp_path / "out", "--slave", WEB)
    shutil.copytree(PLAIN.parent, tmp_path / "copy")
    again = bandwidth(tmp_path / "copy" / PLAIN.name, tmp_path / "out", "--slave", WEB)
    assert UNCHANGED not in again.stderr


def test_what_an_earlier_run_cannot_tell_is_read(tmp_path: Path) -> None:
    bandwidth(COMPRESSED, tmp_path, "--slave", WEB)
    again = bandwidth(COMPRESSED, tmp_path, "--slave", "hr:--replicate-do-db=hr")
    assert "the binlogs were read again" in again.stderr
    assert UNCHANGED in bandwidth(COMPRESSED, tmp_path, "--slave", "hr:--replicate-do-db=hr").stderr


def test_a_set_that_grows(tmp_path: Path) -> None:
    folder, output = tmp_path / "set", tmp_path / "out"
    shutil.copytree(PLAIN.parent, folder)
    index = folder / PLAIN.name
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:2]))
    bandwidth(index, output, "--slave", WEB)
    index.write_text("".join(lines))
    grown = bandwidth(index, output, "--slave", WEB)
    assert "the binlogs were read again" in grown.stderr
    assert len(results(output)["source"]["files"]) == 3


def test_a_damaged_file_of_measurements_is_measured_again(tmp_path: Path) -> None:
    bandwidth(PLAIN, tmp_path, "--slave", WEB)
    (tmp_path / MEASUREMENTS).write_bytes(b"no archive")
    assert UNCHANGED not in bandwidth(PLAIN, tmp_path, "--slave", WEB, "--overwrite").stderr
    assert UNCHANGED in bandwidth(PLAIN, tmp_path, "--slave", WEB).stderr


def test_slaves_from_files_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "hr.cnf").write_text("[mysqld]\nserver-id=9\nreplicate-do-db=hr\n")
    (tmp_path / "slaves.toml").write_text('[[slave]]\nname = "a"\ncount = 2\n')
    output = tmp_path / "out"
    found = bandwidth(
        PLAIN,
        output,
        "--slaves",
        tmp_path / "hr.cnf",
        "--slaves",
        tmp_path / "slaves.toml",
        "--slave",
        WEB,
        "--json",
    )
    printed = json.loads(found.stdout)
    assert [one["name"] for one in printed["slaves"]] == ["hr", "a-1", "a-2", "web"]
    totals = printed["totals"]
    assert totals["slaves"] == 4
    assert totals["bytes"]["filter"] == sum(one["real_replica"]["bytes"] for one in printed["slaves"])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "--slaves"),
        (("--slave", "--replicate-do-db=shop"), "name is missing"),
        (("--slave", WEB, "--slave", WEB), "two"),
    ],
)
def test_errors(arguments: tuple[str, ...], part: str, tmp_path: Path) -> None:
    found = run("bandwidth", PLAIN, "--output", tmp_path / "out", *arguments)
    assert found.returncode != 0
    assert part in found.stderr
    assert "Traceback" not in found.stderr
