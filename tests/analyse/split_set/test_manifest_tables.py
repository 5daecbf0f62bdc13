"""The table that ``dumpfilter split`` prints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.split_set.manifest_tables import render_split
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, NamedBinlog, Specification
from tests.spark_jobs.here import split_here
from tests.support import DATA

ONE_FILE = DATA / "oracle" / "mysql-row" / "bin.000001"


@pytest.mark.parametrize(
    ("specification", "head"),
    [
        (BY_SCHEMA, ["schema", "binlog set"]),
        (Specification((NamedBinlog(name="all"),), rest="others"), ["binlog set", "files"]),
    ],
)
def test_only_a_split_by_schema_has_schemas(
    specification: Specification, head: list[str], tmp_path: Path
) -> None:
    made = split_here(ONE_FILE, tmp_path / "parts", SplitOptions(specification=specification))
    written = io.StringIO()
    render_split(made.manifest, Path("parts"), Console(file=written, width=200))
    title, _, heads, *_ = written.getvalue().splitlines()
    assert title.strip() == f"1 file, {ONE_FILE.stat().st_size:,} bytes, split into parts"
    assert [cell.strip() for cell in heads.split("┃")[1:3]] == head
