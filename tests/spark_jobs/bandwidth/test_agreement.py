"""The reports of one binlog set agree about the bytes of each schema."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dumpfilter.analyse.by_heading import NO_TABLE, SEVERAL
from dumpfilter.analyse.inspection import inspect_set
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here
from tests.support import RECORDED_SETS, recording_id

ALL = SlaveDefinition("all", (), FilterSemantics.CLASSIC, 0)


@pytest.mark.parametrize("path", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_inspect_and_bandwidth_agree_about_each_schema(path: Path) -> None:
    binlogs = BinlogSet.open(path)
    inspected = inspect_set(binlogs)
    by_bandwidth: Counter[str] = Counter()
    for one in bandwidth([binlogs.path(name) for name in binlogs.names], [ALL], run_here).tables:
        by_bandwidth[one.database or one.name] += one.bytes
    by_inspect = Counter({name: volume.bytes for name, volume in inspected.schemas().items()})
    # Bandwidth leaves out what no slave is sent: the Gap events of a relay log.
    del by_inspect[NO_TABLE], by_bandwidth[NO_TABLE]
    if inspected.compression.transactions:
        # Inspect opens a compressed transaction of several tables. Bandwidth counts it as one event.
        assert by_inspect.total() == by_bandwidth.total()
        assert set(by_bandwidth) <= set(by_inspect) | {SEVERAL}
        assert all(by_bandwidth[name] <= by_inspect[name] for name in by_bandwidth if name != SEVERAL)
    else:
        assert by_inspect == by_bandwidth
