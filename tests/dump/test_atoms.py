"""The compiled decision, beside a plain one that walks a transaction forward, event by event."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType as T
from dumpfilter.dump import atoms as A
from dumpfilter.dump import cut as K
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.rules import Rule, RuleKind
from dumpfilter.index.segment import Segment
from tests.dump.plans import scanned
from tests.strategies import (
    DIALECTS,
    MadeBinlog,
    _Builder,
    binlogs,
    query_body,
    rows_body,
    rules,
    table_map_body,
)

Sent = dict[int, bool]
"""The offsets of the events that are sent, and whether each gets STMT_END_F."""


class _Event(NamedTuple):
    offset: int
    role: int
    subject: int
    ends: bool


class _Walk:
    """A decision of events one by one, which holds an event until later events decide about it."""

    def __init__(self) -> None:
        self.sent: Sent = {}
        self._begin()

    def _begin(self) -> None:
        self._head: list[int] = []
        self._context: list[int] = []
        self._rows: int | None = None
        self._is_kept = self._rows_kept = False

    def _flush(self, *, context: bool) -> None:
        self._is_kept = True
        self.sent |= dict.fromkeys(self._head, False)
        self._head = []
        if self._rows is not None:
            self.sent[self._rows] = False
            self._rows = None
        if context:
            self.sent |= dict.fromkeys(self._context, False)
            self._context = []

    def _end_rows(self) -> None:
        if self._rows is not None:
            self.sent[self._rows] = True
            self._rows = None

    def add(self, event: _Event, passes: bool) -> None:
        """Decide the next event. ``passes`` is the filter's verdict about the event's subject."""
        role = event.role
        is_sent = False
        if role in (R.GTID, R.FRAME):
            if self._is_kept:
                self._flush(context=False)
                is_sent = True
            elif not event.ends:
                self._head.append(event.offset)
        elif role == R.CONTEXT or (role == R.TABLE_MAP and passes):
            self._context.append(event.offset)
        elif role == R.STATEMENT:
            if passes:
                self._flush(context=True)
            is_sent = passes
            self._context = []
        elif role in (R.ROWS, R.ROWS_END):
            if passes:
                self._flush(context=True)
                self._rows_kept = role == R.ROWS
                if role == R.ROWS:
                    self._rows = event.offset
                else:
                    is_sent = True
            elif role == R.ROWS_END:
                self._end_rows()
                self._context = []
                self._rows_kept = False
        elif role == R.DUMMY_ROWS:
            if self._rows_kept:
                self._flush(context=False)
                is_sent = True
            self._context = []
            self._rows_kept = False
        elif role not in (R.TABLE_MAP, R.GAP):
            self._flush(context=role != R.FILE)
            is_sent = True
        if is_sent:
            self.sent[event.offset] = False
        if event.ends:
            self._end_rows()
            self._begin()


def _expected(segments: list[Segment], flags: TableFlags) -> Sent:
    walk = _Walk()
    array = flags.array()
    for segment in segments:
        for offset, role, subject in zip(
            segment.offset.tolist(), segment.role.tolist(), segment.subject.tolist(), strict=True
        ):
            passes = subject < 0 or bool(array[subject] & FILTER_BINLOG_SEND_F)
            event = _Event(offset, role & R.ROLE_MASK, subject, bool(role & R.ENDS))
            walk.add(event, passes)
    return walk.sent


def _found(segments: list[Segment], ranges: list[list[int]]) -> Sent:
    offsets = sorted(offset for segment in segments for offset in segment.offset.tolist())
    found: Sent = {}
    for begin, size, patch in ranges:
        inside = [offset for offset in offsets if begin <= offset < begin + size]
        assert patch == K.AS_IT_IS or len(inside) == 1
        assert not found.keys() & set(inside)
        found |= dict.fromkeys(inside, patch == K.ADD_STATEMENT_END)
    return found


def _rows_of_no_table() -> MadeBinlog:
    """Return rows without table map and without BEGIN, and the event that ends their statement."""
    (dialect,) = (one for one in DIALECTS if one.name == "mysql 5.5")
    made = _Builder(dialect)
    made.add(T.WRITE_ROWS_V1, rows_body(dialect, T.WRITE_ROWS_V1, 99, ends=False))
    made.add(T.WRITE_ROWS_V1, rows_body(dialect, T.WRITE_ROWS_V1, 0xFFFFFF, ends=True))
    made.add(T.QUERY, query_body(b"BEGIN"))
    made.add(T.QUERY, query_body(b"COMMIT"))
    return MadeBinlog(dialect, bytes(made.data), made.boundaries, made.gtids)


def _dummy_rows_after_a_cut_statement() -> MadeBinlog:
    """Return two transactions. A segment of 400 bytes ends inside the statement of the first one. The second one has
    rows of another table, whose statement dummy rows end.
    """
    dialect = DIALECTS[0]
    made = _Builder(dialect)
    for number, (database, rows) in enumerate([("shop", bytes(200)), ("logs", b"")], start=1):
        made.add(T.GTID, b"\1" + bytes(16) + struct.pack("<q", number) + b"\2" + bytes(16))
        made.add(T.QUERY, query_body(b"BEGIN"))
        made.add(T.TABLE_MAP, table_map_body(number, database, "t"))
        made.add(T.WRITE_ROWS, rows_body(dialect, T.WRITE_ROWS, number, ends=False, rows=rows))
        made.add(T.WRITE_ROWS, b"\xff" * 6 + b"\1\0\2\0")
        made.add(T.XID, bytes(8))
    return MadeBinlog(dialect, bytes(made.data), made.boundaries, made.gtids)


@example(
    made=_dummy_rows_after_a_cut_statement(),
    given_rules=[Rule(RuleKind.DO_DB, "shop")],
    segment_size=400,
    chunk_size=1 << 40,
)
@example(made=_rows_of_no_table(), given_rules=[Rule(RuleKind.DO_DB, "logs")], segment_size=1, chunk_size=1)
@given(
    made=binlogs(odd=True),
    given_rules=rules(),
    segment_size=st.sampled_from([1, 200, 900, 1 << 20]),
    chunk_size=st.sampled_from([1, 300, 1 << 40]),
)
def test_the_same_events_as_one_by_one(
    made: MadeBinlog, given_rules: list[Rule], segment_size: int, chunk_size: int
) -> None:
    file = scanned(made.data, segment_size)
    flags = TableFlags(Filter(given_rules), file.subjects)
    if not flags.is_on or any(segment.payloads for segment in file.segments):
        return
    thread = file.thread(flags, chunk_size=chunk_size)
    ranges = [
        one for segment in file.segments for plan in thread.plan(segment) for one in plan.ranges.tolist()
    ]
    assert _found(file.segments, ranges) == _expected(file.segments, flags)
    assert ranges == sorted(ranges)


@given(made=binlogs(odd=True))
def test_each_event_is_in_one_atom(made: MadeBinlog) -> None:
    file = scanned(made.data, 1 << 20)
    for segment in file.segments:
        n = len(segment.offset)
        atoms = np.zeros((n, A.ATOM_COLUMNS), np.int64)
        lists = np.zeros((A.ROOTS + A.MOST_LISTS * n, A.LIST_COLUMNS), np.int64)
        lists[: A.ROOTS, A.L_ONLY] = A.NO_SUBJECT
        for first, stop in zip(segment.txn_event[:-1].tolist(), segment.txn_event[1:].tolist(), strict=True):
            # In Python code, a flag of a role does not fit into the role's own type.
            columns = (segment.offset, segment.size, segment.role.astype(np.int64), segment.subject)
            end, _ = A.atoms_of(*columns, first, stop, False, atoms, 0, lists, A.ROOTS)
            parts = atoms[:end][::-1]
            assert parts[0, A.A_FIRST] == first
            assert parts[-1, A.A_STOP] == stop
            assert (parts[1:, A.A_FIRST] == parts[:-1, A.A_STOP]).all()
            assert parts[:, A.A_SIZE].sum() == segment.size[first:stop].sum()
