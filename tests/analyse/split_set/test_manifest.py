"""The manifest of a split: manifests of earlier versions, and fields that no version writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dumpfilter.analyse.split_set.manifest import MANIFEST, Manifest
from dumpfilter.base.errors import OutputError
from dumpfilter.spark_jobs.split.job import SplitOptions
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
    with pytest.raises(OutputError, match="is not a split's manifest"):
        Manifest.load(tmp_path / "parts")
