"""The manifest of a split: manifests of earlier versions, unknown fields, and the table that is printed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.split_set import MANIFEST, Manifest, render_split
from dumpfilter.base.errors import OutputError
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, NamedBinlog, Specification
from tests.spark_jobs.here import split_here
from tests.support import DATA

ONE_FILE = DATA / "oracle" / "mysql-row" / "bin.000001"


def test_a_manifest_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    made = split_here(ONE_FILE, tmp_path / "parts", SplitOptions()).manifest
    path = tmp_path / "parts" / MANIFEST
    written = json.loads(path.read_text())
    assert "ranges" not in written["source"][0]
    written["source"][0]["ranges"] = 3
    path.write_text(json.dumps(written))
    found = Manifest.load(tmp_path / "parts")
    assert [one.name for one in found.source] == [one.name for one in made.source]
    found.save(tmp_path / "parts")
    assert Manifest.load(tmp_path / "parts") == made
    written["source"][0]["rangs"] = 3
    path.write_text(json.dumps(written))
    with pytest.raises(OutputError, match="is not a split's manifest: source: 0: rangs: Extra"):
        Manifest.load(tmp_path / "parts")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"source": []}, "source: List should have at least 1 item"),
        (
            {"binlogs": [{"name": "../shop", "parts": []}]},
            "binlogs: 0: parts: List should have at least 1 item",
        ),
        ({"made": 1 << 60}, "made: Input should be less than"),
        ({"made": -(1 << 60)}, "made: Input should be greater than or equal to 0"),
    ],
)
def test_a_manifest_that_no_split_writes_is_refused(
    change: dict[str, object], error: str, tmp_path: Path
) -> None:
    split_here(ONE_FILE, tmp_path / "parts", SplitOptions())
    path = tmp_path / "parts" / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(OutputError, match=f"is not a split's manifest: {error}"):
        Manifest.load(tmp_path / "parts")


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
