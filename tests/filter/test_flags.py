"""Table flags: a filter's verdicts as bits."""

from __future__ import annotations

import threading

import numpy as np

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import (
    FILTER_BINLOG_SEND_F,
    FILTER_BINLOG_WRITE_F,
    FILTER_HIT_F,
    FILTER_SLAVE_EXECUTE_F,
    FILTER_UNDECIDED_F,
    TableFlags,
)
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects, TableSubject
from tests.strategies import DIALECTS, _Builder, query_body, rows_body, table_map_body
from tests.support import MemoryFile

ALL = FILTER_BINLOG_SEND_F | FILTER_BINLOG_WRITE_F | FILTER_SLAVE_EXECUTE_F


def _subjects(tables: int) -> Subjects:
    """Return subjects as a scan of many tables leaves them."""
    builder = _Builder(DIALECTS[0])
    builder.add(EventType.QUERY, query_body(b"BEGIN"))
    for n in range(tables):
        builder.add(EventType.TABLE_MAP, table_map_body(n + 1, "keep" if n % 3 else "drop", f"t{n}"))
        builder.add(EventType.WRITE_ROWS, rows_body(DIALECTS[0], EventType.WRITE_ROWS, n + 1, ends=True))
    builder.add(EventType.XID, bytes(8))
    subjects = Subjects()
    reader = SegmentReader(MemoryFile(bytes(builder.data)), subjects, SourceNumbers())
    while reader.next() is not None:
        pass
    assert len(subjects) == tables
    return subjects


def test_bits() -> None:
    assert (FILTER_BINLOG_SEND_F, FILTER_BINLOG_WRITE_F, FILTER_SLAVE_EXECUTE_F) == (1, 2, 4)
    subjects = Subjects()
    for database in ("a", "b"):
        subjects.statement(Statement(StatementKind.OTHER, database))
    flags = TableFlags(Filter.from_options(["--replicate-do-db=a"]), subjects).array()
    assert flags.dtype == np.uint32
    assert flags[:2].tolist() == [ALL, FILTER_BINLOG_WRITE_F]
    flags = TableFlags(Filter.from_options(["--replicate-do-table=a.t"]), subjects).array()
    assert flags[:2].tolist() == [ALL | FILTER_UNDECIDED_F] * 2


def test_growth() -> None:
    """Each subject gets its flags when it is met, and the filter is never asked about the subject again."""
    subjects = _subjects(200)
    asked = []

    class Counting(Filter):
        def verdict(self, subject):  # type: ignore[no-untyped-def]
            asked.append(subject)
            return super().verdict(subject)

    flags = TableFlags(Counting(Filter.from_options(["--replicate-do-db=keep"]).rules), subjects)
    assert asked == []
    first = (flags.array()[:200] & ~np.uint32(FILTER_HIT_F)).tolist()
    assert first == [ALL if n % 3 else FILTER_BINLOG_WRITE_F for n in range(200)]
    assert flags.array() is flags.array()
    assert len(asked) == 200
    numbers = [subjects.statement(Statement(StatementKind.OTHER, f"db{n}")) for n in range(500)]
    assert numbers == list(range(200, 700))
    assert (flags.array()[:200] & ~np.uint32(FILTER_HIT_F)).tolist() == first
    assert set(flags.array()[200:700].tolist()) == {FILTER_BINLOG_WRITE_F}
    assert len(asked) == 700
    assert subjects[1] == TableSubject("keep", "t1")
    assert list(subjects.since(699)) == [Statement(StatementKind.OTHER, "db499")]


def test_a_changed_filter_is_new_flags() -> None:
    subjects = _subjects(10)
    keep = TableFlags(Filter.from_options(["--replicate-do-db=keep"]), subjects)
    drop = TableFlags(Filter.from_options(["--replicate-do-db=drop"]), subjects)
    assert ((keep.array()[:10] ^ drop.array()[:10]) & FILTER_BINLOG_SEND_F).tolist() == [1] * 10


def test_two_dumps_of_one_slave() -> None:
    """Threads that meet the same new subjects at once must not lose each other's flags."""
    for _ in range(20):
        subjects = _subjects(5)
        flags = TableFlags(Filter.from_options(["--replicate-do-db=keep"]), subjects)
        flags.array()
        for n in range(300):
            subjects.statement(Statement(StatementKind.OTHER, "keep", str(n)))
        barrier = threading.Barrier(4)
        bad: list[int] = []

        def ask(
            flags: TableFlags = flags, barrier: threading.Barrier = barrier, bad: list[int] = bad
        ) -> None:
            barrier.wait()
            bad.extend(np.flatnonzero((flags.array()[5:305] & FILTER_BINLOG_SEND_F) == 0).tolist())

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bad == []
