"""Filtered streams of every recording, written as files and read by the servers' own programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.format import Family
from tests.binlog_tools import MYSQLBINLOG, complaints
from tests.oracle.dumping import dump
from tests.oracle.recordings import Recording, covering_cases, filter_of


def reader_of(recording: Recording) -> Family:
    return "mariadb" if recording.rows_v1 else recording.family


CASES = [
    pytest.param(recording, case, id=f"{recording.name}-{case}")
    for recording, case in covering_cases()
    if MYSQLBINLOG or reader_of(recording) == "mariadb"
]
"""The cases whose reader is installed."""


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_a_filtered_stream_is_read_without_complaint(recording: Recording, case: str, tmp_path: Path) -> None:
    stream = dump(recording.files, filter_of(recording, case))
    assert complaints(stream.write(tmp_path), reader_of(recording)) == ""
