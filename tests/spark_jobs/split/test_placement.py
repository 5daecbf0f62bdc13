"""The event with the GTIDs of the files before, which a file of a split begins with."""

from __future__ import annotations

import numpy as np

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid
from dumpfilter.binlog.gtid_events import GtidList, decode_gtid_list, encode_gtid_list
from dumpfilter.binlog.writer import make_event
from dumpfilter.spark_jobs.ranges import FileIndex
from dumpfilter.spark_jobs.split.job import _Gtids
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
