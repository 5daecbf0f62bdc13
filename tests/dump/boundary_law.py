"""The law of the boundary, as a check of one binlog with markers: no forbidden byte, and no loss of an allowed one."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogError, UndecidedEvent
from dumpfilter.binlog.compression import decode_transaction_payload, rows_data
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import FormatDescription, NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.rows_events import decode_rows_header
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.dump.chunk import ChunkPlan, render
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import BoundaryFilter, OnUndecided
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from tests.dump import reference
from tests.dump.marked import Mark, MarkedBinlog
from tests.filter.plain import Names, PlainFilter
from tests.strategies import rules
from tests.support import MemoryFile


@dataclass
class Imposed:
    """Rules that a master's operator imposes, and the fate of undecided events."""

    rules: list[Rule]
    on_undecided: OnUndecided


FILTERS = rules().map(lambda given: [rule for rule in given if not rule.kind.is_rewrite]).filter(bool)
IMPOSED = st.lists(st.builds(Imposed, FILTERS, st.sampled_from(OnUndecided)), min_size=1, max_size=2)
"""One or two imposed filters, each of which could drop something."""


@dataclass
class Received:
    """The events that a slave has received."""

    stream: bytes
    end: int
    """The last boundary that the dump has reached."""
    whole: bytes = b""
    """The events before this boundary."""
    error: UndecidedEvent | None = None
    undecided: int = 0

    def add(self, plan: ChunkPlan, events: bytes) -> None:
        if plan.resume > self.end:
            self.end = plan.resume
            self.whole = self.stream + events[: plan.resume_bytes]
        self.stream += events
        self.undecided += plan.counts.events_undecided


def receive(
    binlog: MarkedBinlog, own: list[Rule], imposed: list[Imposed], *, segment_size: int, chunk_size: int
) -> Received:
    """Return the events that a slave gets from a dump with these filters."""
    file = MemoryFile(binlog.made.data)
    fd = file.format_description
    names = NameRules(fd.family)
    subjects, sources = Subjects(), SourceNumbers()
    boundaries = [
        BoundaryFilter(Filter(one.rules, names=names), one.on_undecided, name="x") for one in imposed
    ]
    flags = TableFlags(Filter(own, names=names), subjects, imposed=boundaries)
    thread = DumpThread(flags, sources, chunk_size=chunk_size)
    thread.start_file(file.first_event, file.read)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    got = Received(b"", file.first_event)
    while (segment := reader.next()) is not None:
        try:
            while True:
                for plan in thread.plan(segment):
                    events = render(plan, memoryview(reader.data), reader.data_offset, file.read, fd)
                    got.add(plan, events)
                if thread.position == segment.end:
                    break
        except UndecidedEvent as error:
            got.error = error
            return got
    assert thread.position == got.end == len(binlog.made.data)
    return got


def all_bytes(fd: FormatDescription, stream: bytes) -> bytes:
    """Return a stream and the uncompressed content of each of its compressed events."""
    found = [stream]
    events = [(event.type, event.body, event.fd) for event in _events(fd, stream)]
    for kind, body, of in events:
        if kind == EventType.TRANSACTION_PAYLOAD:
            try:
                payload = decode_transaction_payload(body)
                found.append(payload.open())
                for header, inner in payload.events():
                    events.append((header.type, inner[19:], of))
            except BinlogError:
                pass
        try:
            if kind == EventType.QUERY_COMPRESSED:
                found.append(decode_query(body, compressed=True).raw)
            elif kind in ROWS:
                header = decode_rows_header(kind, body)
                found.append(bytes(rows_data(header, body)))
        except BinlogError:
            pass
    return b"|".join(bytes(one) for one in found)


def _events(fd: FormatDescription, stream: bytes) -> list[reference.Event]:
    from io import BytesIO

    from dumpfilter.binlog.reader import iter_events

    found = []
    events = iter_events(BytesIO(b"\xfebin" + fd.raw + stream), file="stream")
    try:
        for event in events:
            found.append(event)
    except BinlogError:
        pass
    return found[1:]


class Plain:
    """The slave's own filter and the imposed filters as one reference filter."""

    def __init__(self, own: list[Rule], imposed: list[Imposed], family: str) -> None:
        self._own = PlainFilter(own, Names(family=family))
        self._imposed = [(PlainFilter(one.rules, Names(family=family)), one.on_undecided) for one in imposed]

    def rows(self, database: str, table: str) -> bool:
        return self._own.rows(database, table) and self.allows(database, table)

    def allows(self, database: str, table: str) -> bool:
        """Tell whether each imposed filter sends the rows of a table."""
        return all(one.rows(database, table) for one, _ in self._imposed)

    def statement(self, statement: Statement) -> bool | None:
        answers = [self._own.statement(statement)]
        for one, on_undecided in self._imposed:
            answer = one.statement(statement)
            if answer is not False and statement.kind not in _NAMES_ONLY:
                answer = _strict(one, statement, answer)
                if answer is None and on_undecided is OnUndecided.DROP:
                    answer = False
            answers.append(answer)
        return False if False in answers else None if None in answers else True

    def may_cross(self, mark: Mark) -> bool:
        """Tell whether the imposed filters let a marker through."""
        if mark.kind == "text":
            return False
        if mark.kind == "row":
            return all(self.allows(*table) for table in mark.tables)
        unsure_passes = all(fate is OnUndecided.SEND for _, fate in self._imposed)
        if mark.kind == "unknown":
            return unsure_passes
        for one, on_undecided in self._imposed:
            passes = {one.rows(*table) for table in mark.tables}
            if not mark.parses or passes == {True, False}:
                if on_undecided is not OnUndecided.SEND:
                    return False
            elif passes == {False}:
                return False
            if not one.db_ok(mark.database):
                return False
        return True


_NAMES_ONLY = {
    StatementKind.DROP_TABLE,
    StatementKind.TRUNCATE_TABLE,
    StatementKind.RENAME_TABLE,
    StatementKind.MAINTENANCE,
    StatementKind.FLUSH,
    StatementKind.DROP_INDEX,
    StatementKind.DROP_TRIGGER,
    StatementKind.CREATE_DATABASE,
    StatementKind.ALTER_DATABASE,
    StatementKind.DROP_DATABASE,
}


def _strict(rules: PlainFilter, statement: Statement, answer: bool | None) -> bool | None:
    if not any(rules.of.values()):
        return answer
    lists = statement.updated or ()
    if statement.kind is StatementKind.ACCOUNT:
        lists = lists[-1:]
    tables = [name for names in lists for name in names]
    current = statement.current_database or ""
    if not tables:
        # Only the tables of a statement that does not parse are unknown here. Its databases are unknown, too.
        return None if statement.updated is None else answer
    passes = {rules.rows(current if db is None else db, table) for db, table in tables}
    return answer if passes == {True} else False if passes == {False} else None


def check_boundary(
    binlog: MarkedBinlog, own: list[Rule], imposed: list[Imposed], *, segment_size: int, chunk_size: int
) -> Received:
    """Assert that no marker crosses the boundary that may not."""
    got = receive(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)
    plain = Plain(own, imposed, binlog.made.dialect.family)
    seen = all_bytes(binlog.made.fd, got.stream)
    for mark in binlog.marks:
        if mark.marker in seen:
            assert plain.may_cross(mark), mark
    return got


def check_law(
    binlog: MarkedBinlog, own: list[Rule], imposed: list[Imposed], *, segment_size: int, chunk_size: int
) -> None:
    """Assert that a slave with all filters ends the same with the filtered stream and with the full binlog.

    The binlog holds no unknown events. If the dump stops, the two are compared up to the place of the stop.
    """
    got = check_boundary(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)
    made = binlog.made
    source = made.data[made.first_event : got.end]
    assert got.end in made.boundaries
    plain = Plain(own, imposed, made.dialect.family)
    reference.validate(made.fd, got.whole, source)
    full = reference.execute(made.fd, source, plain)  # type: ignore[arg-type]
    filtered = reference.execute(made.fd, got.whole, plain)  # type: ignore[arg-type]
    assert [(e.gtid, e.items) for e in filtered if e.items] == [(e.gtid, e.items) for e in full if e.items]
    assert all(e.items for e in filtered)
    stops = any(one.on_undecided is OnUndecided.STOP for one in imposed)
    assert got.error is None or stops
