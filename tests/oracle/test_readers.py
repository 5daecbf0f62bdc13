"""Every filtered stream, written as files, is read without complaint by the servers' own tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import Filter
from tests.binlog_tools import complaints
from tests.oracle.dumping import dump
from tests.oracle.recordings import Recording, all_cases

CASES = [pytest.param(recording, case, id=f"{recording.name}-{case}") for recording, case in all_cases()]


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_a_filtered_stream_is_read_without_complaint(recording: Recording, case: str, tmp_path: Path) -> None:
    replica = recording.replica(case)
    rules = Filter.from_options(
        replica.options,
        names=NameRules(recording.family, lower_case_table_names=replica.lower_case_table_names),
    )
    stream = dump(recording.files, rules)
    reader = "mariadb" if recording.rows_v1 else recording.family
    assert complaints(stream.write(tmp_path), reader) == ""
