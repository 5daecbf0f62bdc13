"""Assignment of events to outputs: all recordings and generated binlogs, split in this process and walked."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.spark_jobs.split.job import SplitOptions
from tests.gaps import with_gap_events
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import ORACLE, RECORDINGS, check_parts, walk
from tests.strategies import MadeBinlog, binlogs

SIZES = [(2000, 1500), (8000, 4000), (32 << 20, 8 << 20)]
"""The sizes of ranges and blocks. The largest range holds a whole recorded file."""


@pytest.mark.parametrize(
    ("name", "range_size", "block_size"),
    [(name, *SIZES[number % len(SIZES)]) for number, name in enumerate(RECORDINGS)],
)
@pytest.mark.every_recording
def test_recordings(name: str, range_size: int, block_size: int, tmp_path: Path) -> None:
    result = split_here(
        RECORDINGS[name], tmp_path / "out", SplitOptions(range_size=range_size, block_size=block_size)
    )
    check_parts(RECORDINGS[name], result)


@settings(max_examples=40, deadline=None)
@given(made=binlogs(), range_size=st.integers(100, 5000), block_size=st.integers(64, 5000))
def test_made(made: MadeBinlog, range_size: int, block_size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "made.000001"
        source.write_bytes(made.data)
        result = split_here(
            source, Path(folder) / "out", SplitOptions(range_size=range_size, block_size=block_size)
        )
        check_parts(source, result)


@settings(max_examples=15, deadline=None)
@given(
    made=binlogs(odd=False),
    data=st.data(),
    range_size=st.integers(100, 5000),
    block_size=st.integers(64, 5000),
)
def test_no_output_has_gap_events(
    made: MadeBinlog, data: st.DataObject, range_size: int, block_size: int
) -> None:
    """The outputs of a relay log with Gap events have the same events as without."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, binlog in (("plain", made.data), ("gaps", with_gap_events(made, data.draw))):
            source = Path(folder) / name / "made.000001"
            source.parent.mkdir()
            source.write_bytes(binlog)
            options = SplitOptions(range_size=range_size, block_size=block_size)
            result = split_here(source, Path(folder) / f"{name}-out", options)
            found.append({part.name: [path.read_bytes() for path in part.files] for part in result.sets})
        assert found[0] == found[1]


def test_an_xa_transaction_goes_where_it_has_something(tmp_path: Path) -> None:
    for folder in ("mysql-row", "mysql-mixed", "mariadb-row"):
        result = split_here(ORACLE / folder / "bin.index", tmp_path / folder)
        has = {
            found.name
            for found in result.sets
            if any(b"XA COMMIT" in path.read_bytes() for path in found.files)
        }
        assert has == {"shop", "hr"}, folder


def test_the_end_of_an_unknown_xa_transaction_goes_to_every_schema(tmp_path: Path) -> None:
    data = (ORACLE / "mariadb-row" / "bin.000002").read_bytes()
    whole = walk(ORACLE / "mariadb-row" / "bin.000002")
    # XA COMMIT names another transaction than XA PREPARE.
    at = data.rfind(b"X'786131'")
    changed = data[:at] + b"X'786132'" + data[at + 9 :]
    source = tmp_path / "bin.000002"
    source.write_bytes(changed)
    result = split_here(source, tmp_path / "out", SplitOptions(verify=False))
    has = {found.name for found in result.sets if b"XA COMMIT" in found.files[0].read_bytes()}
    assert has == set(whole.changes)
    assert any("XA" in warning for warning in result.warnings)
