"""Measurements of a task: the samples from which the bytes of compressed streams are estimated, and the bytes of a
split by schema.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import zstandard

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasureRanges
from dumpfilter.spark_jobs.bandwidth.samples import ALONE, CHUNK, LEVEL
from dumpfilter.spark_jobs.options import BLOCK_SIZE, BandwidthOptions, ReadOptions
from dumpfilter.spark_jobs.ranges import FilePart, index_file, ranges_of
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, Assigner
from tests.support import DATA

ORACLE = DATA / "oracle"


def test_transactions_alone_compress_worse_than_blocks(tmp_path: Path) -> None:
    made = generate(tmp_path, 1 << 19)
    index = index_file(FilePart(0, str(made.files[0]), last=True), ReadOptions(range_size=1 << 30))
    measured = MeasureRanges(job="job", options=BandwidthOptions(), filters=(), bucket_seconds=1)(
        ranges_of(index)
    )
    raw, compressed = measured.samples.sizes[ALONE]
    assert 0.9 * CHUNK < raw <= CHUNK
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    data = made.files[0].read_bytes()
    expected = 0
    for _, segment in BinlogSet.open(made.index).segments(Subjects(), SourceNumbers()):
        ends = [*segment.offset[segment.txn_event[1:-1]].tolist(), segment.end]
        begin = segment.start
        for end in ends:
            if end - segment.start <= CHUNK:
                expected += len(compressor.compress(data[begin:end]))
            begin = end
        break
    # A compressed transaction has a Gtid event and the head of its Transaction_payload event, too.
    assert expected < compressed < raw
    assert measured.transaction_factor == pytest.approx(compressed / raw / measured.ratio())
    assert measured.transaction_factor > 1.1


@pytest.mark.parametrize("block_size", [700, BLOCK_SIZE])
@pytest.mark.parametrize("name", sorted(path.parent.name for path in ORACLE.glob("*/bin.index")))
def test_the_bytes_of_a_split_are_those_that_it_writes(name: str, block_size: int) -> None:
    options = BandwidthOptions(block_size=block_size)
    for number, path in enumerate(BinlogSet.open(ORACLE / name / "bin.index").addresses):
        ranges = ranges_of(index_file(FilePart(number, path, last=True), ReadOptions()))
        task = MeasureRanges(options=options, filters=(), bucket_seconds=1)
        subjects, sources = Subjects(), SourceNumbers()
        owners = BY_SCHEMA.owners(subjects, NameRules())
        assigner, written = Assigner(owners), Counter[str]()
        with open_file(path) as file:
            for wanted in ranges:
                for block in task.blocks(file, wanted, subjects, sources):
                    for output, plan in assigner.assign(block.segment, file.read).items():
                        written[owners.names[output]] += plan.size
        if ranges:
            assert task(ranges).schema_bytes == written
