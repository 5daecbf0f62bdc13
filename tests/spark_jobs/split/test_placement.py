"""The files that a split begins, and the event with the GTIDs of the files before."""

from __future__ import annotations

from collections.abc import ItemsView

import numpy as np

from dumpfilter.binlog.events import EventHeader, EventType, seal
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid
from dumpfilter.binlog.gtid_events import GtidList, decode_gtid_list, encode_gtid_list
from dumpfilter.binlog.writer import make_event
from dumpfilter.spark_jobs.ranges import FileIndex, Range
from dumpfilter.spark_jobs.split.job import _CREATED, Placing, SplitOptions, _Gtids
from dumpfilter.spark_jobs.split.tasks import RangePlan
from tests.strategies import DIALECTS


def test_the_entry_of_the_last_transaction_is_the_last_of_its_domain() -> None:
    fd = FormatDescription.parse(next(d for d in DIALECTS if d.gtids == "mariadb").format_description())
    before = GtidList((MariadbGtid(0, 11, 5), MariadbGtid(0, 12, 7), MariadbGtid(3, 11, 1)))
    prolog = make_event(EventType.GTID_LIST, encode_gtid_list(before), checksum=fd.checksum)
    gtids = _Gtids(FileIndex(0, "", "", prolog=prolog), fd)
    # A number of 2**63 or more is negative in the columns of a segment.
    gtids.add(np.array([[0, 6], [1, -1], [-1, 0]]), [(0, 11), (5, 1)])
    event = gtids.event(fd)
    assert EventHeader.unpack(event).type == EventType.GTID_LIST
    assert decode_gtid_list(bytes(fd.body(event))).gtids == (
        MariadbGtid(0, 12, 7),
        MariadbGtid(0, 11, 6),
        MariadbGtid(3, 11, 1),
        MariadbGtid(5, 1, 2**64 - 1),
    )


class _Counted(dict[int, FormatDescription]):
    """The format descriptions of the source's files, which count how often they are read."""

    reads = 0

    def __getitem__(self, number: int) -> FormatDescription:
        self.reads += 1
        return super().__getitem__(number)

    def items(self) -> ItemsView[int, FormatDescription]:
        self.reads += len(self)
        return super().items()


def test_a_file_of_an_output_continues_over_many_source_files() -> None:
    """The work for an output grows with the number of source files, and not with its square."""
    description = bytearray(next(d for d in DIALECTS if d.gtids == "mariadb").format_description())
    description[_CREATED : _CREATED + 4] = bytes(4)  # The server has not restarted.
    seal(description)
    files = 300
    indexes = [FileIndex(k, "", str(k), format_description=bytes(description)) for k in range(files)]
    placing = Placing(indexes, SplitOptions())
    counted = placing._fds = _Counted(placing._fds)
    transactions = np.array([[0, 100, 3, -1, 0, 1, 200]])
    plan = RangePlan(
        np.array([[4, 200]]), transactions, np.empty((0, 5), np.int64), ["shop"], [], {}, 0, None, 0
    )
    for number in range(files):
        placing.add(Range("", 4, 200, number, number), plan)
    (file,) = placing.outputs["shop"]
    assert file.part.transactions == files
    assert counted.reads < 5 * files
