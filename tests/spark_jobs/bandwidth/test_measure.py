"""The samples from which the bytes of compressed streams are estimated."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasureRanges
from dumpfilter.spark_jobs.bandwidth.samples import ALONE, CHUNK, LEVEL
from dumpfilter.spark_jobs.options import BandwidthOptions, ReadOptions
from dumpfilter.spark_jobs.ranges import FilePart, index_file, ranges_of


def test_transactions_alone_compress_worse_than_blocks(tmp_path: Path) -> None:
    made = generate(tmp_path, 1 << 19)
    index = index_file(FilePart(0, str(made.files[0]), last=True), ReadOptions(range_size=1 << 30))
    measured = MeasureRanges(job="job", options=BandwidthOptions(), filters=(), bucket_seconds=1)(
        ranges_of([index])
    )[0]
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
