"""The slow tests beside :mod:`tests.analyse.traffic.test_transactions`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogFile
from tests.analyse.traffic.test_tally_slow import GENERAL
from tests.analyse.traffic.test_transactions import check
from tests.support import RECORDED, recording_id

EACH = 6
"""One of so many recorded files is read. The comparison with dumps in plain Python takes a second for a file."""


@pytest.mark.parametrize("path", RECORDED[::EACH], ids=recording_id)
def test_each_transaction_of_a_recording_has_the_bytes_that_a_dump_sends(path: Path) -> None:
    with BinlogFile(path) as file:
        names = NameRules(file.format_description.family, lower_case_table_names=0)
    filters = [(Filter.from_options(options, names=names), None) for options in GENERAL]
    check(path.read_bytes(), filters, segment_size=4096)
