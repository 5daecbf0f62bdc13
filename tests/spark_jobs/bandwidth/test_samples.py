"""The estimated sizes of compressed events, compared with the sizes after compression."""

from __future__ import annotations

import pytest
import zstandard

from dumpfilter.binlog.workload import GeneratedSet, generate
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.bandwidth.samples import CHUNK, LEVEL
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here

RULE = "--replicate-do-db=shop_01"
SLAVE = SlaveDefinition("web", (RULE,), FilterSemantics.CLASSIC, 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> GeneratedSet:
    """Return a set in which most transactions change several tables, and one in seven several schemas."""
    return generate(tmp_path_factory.mktemp("set"), 8 << 20)


@pytest.fixture(scope="module")
def compressed(made: GeneratedSet, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the size of the filtered set after compression in blocks."""
    kept = tmp_path_factory.mktemp("kept") / "kept"
    filter_set(BinlogSet.open(made.index), Filter.from_options([RULE]), kept, "kept")
    data = b"".join(path.read_bytes() for path in sorted(kept.glob("kept.0*")))
    zstd = zstandard.ZstdCompressor(level=LEVEL)
    return sum(len(zstd.compress(data[at : at + CHUNK])) for at in range(0, len(data), CHUNK))


def test_bandwidth_estimates_what_zstd_takes(made: GeneratedSet, compressed: int) -> None:
    (slave,) = bandwidth(made.index, [SLAVE], run_here).slaves
    assert slave.compressed == pytest.approx(compressed, rel=0.1)
