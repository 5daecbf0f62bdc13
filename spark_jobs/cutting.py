"""The driver's cheap pass over a set: ranges that end at transaction boundaries, what each file starts with,
and which schemas the XA transactions touch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, EventType
from dumpfilter.binlog.fileset import BinlogFile, SegmentReader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.sources import SourceNumbers
from dumpfilter.binlog.statements import read_statement
from dumpfilter.binlog.subjects import Subjects
from dumpfilter.errors import BinlogUnsupported
from spark_jobs.blocks import BLOCK_SIZE, Block, BlockOptions, open_source, opened_blocks
from spark_jobs.names import REST
from spark_jobs.ownership import Owners

RANGE_SIZE = 32 << 20
"""Bytes of a range (one is larger when a transaction is)."""

_XA = re.compile(
    rb"\s*XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.*?)(?:\s+ONE\s+PHASE)?\s*",
    re.IGNORECASE | re.DOTALL,
)


Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SourceFile:
    """What the parts need to know of a source file."""

    number: int
    path: str
    name: str
    format_description: bytes
    prolog: bytes
    """Its Previous_gtids or Gtid_list event, whole; empty without one."""
    rotated: int | None
    """When its Rotate event was written, Unix seconds; None when it does not end in one."""


@dataclass(frozen=True)
class Range:
    """Bytes ``start`` to ``end`` of a file, whole transactions. ``number`` counts through the set."""

    number: int
    file: int
    start: int
    end: int
    compressed: bool
    """Whether a Transaction_payload stands in the file."""


@dataclass(frozen=True)
class XaNote:
    """An XA transaction's part in the binlog: its XA START to XA PREPARE, or its end (``ends``).

    ``offset``: of its first event. ``schemas``: encoded names, empty for an end.
    """

    xid: bytes
    ends: bool
    offset: int
    schemas: tuple[str, ...]


@dataclass
class FileCut:
    """What the pass finds in one file."""

    source: SourceFile
    bounds: list[int] = field(default_factory=list)
    """Where ranges begin and end, bytes; empty when the file holds no transaction."""
    compressed: bool = False
    xa: list[XaNote] = field(default_factory=list)


def cut_file(
    number: int, path: str, *, last: bool, range_size: int = RANGE_SIZE, block_size: int = BLOCK_SIZE
) -> FileCut:
    """Cut one file. ``last``: it may still be written to; what is incomplete at its end is left out.

    Checksums are left to those who read the ranges. Raises BinlogError with file and position.
    """
    with open_source(path) as file:
        subjects = Subjects()
        reader = SegmentReader(
            file, subjects, SourceNumbers(), verify=False, statements=False, segment_size=block_size
        )
        fd = file.format_description
        watch = _XaWatch(fd, subjects)
        start = boundary = reader.position
        bounds = [start]
        prolog = b""
        rotated: int | None = None
        compressed = begun = False
        while (segment := reader.next()) is not None:
            if segment.type[0] == EventType.FORMAT_DESCRIPTION:
                _same_format(reader.scanner.format_description, fd, file.name, segment.start)
            if not begun:
                prolog += _prolog(file, segment.role, segment.type, segment.offset, segment.size)
                begun = bool(((segment.role & 0x7F) != R.FILE).any())
            compressed = compressed or bool((segment.type == EventType.TRANSACTION_PAYLOAD).any())
            watch.feed(Block(segment, reader.data.data, file.read, lambda offset: offset))
            ends = segment.offset[segment.txn_event[1:-1]]
            if not segment.open:
                ends = np.append(ends, segment.end)
            while (k := int(np.searchsorted(ends, start + range_size))) < len(ends):
                start = int(ends[k])
                bounds.append(start)
            if len(ends):
                boundary = int(ends[-1])
            rotated = int(segment.time[-1]) if segment.type[-1] == EventType.ROTATE else None
        reader.check_end(last=last)
        if boundary > bounds[-1]:
            bounds.append(boundary)
        return FileCut(
            SourceFile(number, path, file.name, fd.raw, prolog, rotated),
            bounds if len(bounds) > 1 else [],
            compressed,
            watch.notes,
        )


def look_closely(cut: FileCut, *, block_size: int = BLOCK_SIZE) -> tuple[list[XaNote], set[str]]:
    """Once more, with statements looked up and compressed transactions opened: all XA notes of a file, and all
    schemas in it (encoded). Only needed when a set ends XA transactions that the cheap pass did not see begin."""
    subjects = Subjects()
    with open_source(cut.source.path) as file:
        watch = _XaWatch(file.format_description, subjects)
        if cut.bounds:
            options = BlockOptions(verify=False, size=block_size)
            for block in opened_blocks(
                file, cut.bounds[0], cut.bounds[-1], subjects, SourceNumbers(), options
            ):
                watch.feed(block)
    schemas = {name for subject in subjects.since(0) for name in Owners.names_of(subject)}
    return watch.notes, schemas - {REST}


def route_xa(
    cuts: list[FileCut], *, block_size: int = BLOCK_SIZE
) -> tuple[list[dict[int, tuple[str, ...]]], int]:
    """For each file, the schemas of its XA transactions by the offset of their first event; and how many
    ends there are whose beginning is not in the set (they go to every schema)."""
    routes, unknown = _route([cut.xa for cut in cuts], None)
    if unknown:
        looks = [look_closely(cut, block_size=block_size) for cut in cuts]
        present = tuple(sorted(set().union(*(schemas for _, schemas in looks)))) or (REST,)
        routes, unknown = _route([notes for notes, _ in looks], present)
    return routes, unknown


def _route(
    files: list[list[XaNote]], otherwise: tuple[str, ...] | None
) -> tuple[list[dict[int, tuple[str, ...]]], int]:
    prepared: dict[bytes, tuple[str, ...]] = {}
    routes: list[dict[int, tuple[str, ...]]] = []
    unknown = 0
    for notes in files:
        route: dict[int, tuple[str, ...]] = {}
        for note in notes:
            if not note.ends:
                prepared[note.xid] = route[note.offset] = note.schemas or (REST,)
                continue
            schemas = prepared.pop(note.xid, None)
            unknown += schemas is None
            route[note.offset] = schemas or otherwise or (REST,)
        routes.append(route)
    return routes, unknown


def number_ranges(cuts: list[FileCut]) -> list[Range]:
    """All ranges of a set, in its order."""
    found: list[Range] = []
    for cut in cuts:
        for start, end in zip(cut.bounds, cut.bounds[1:], strict=False):
            found.append(Range(len(found), cut.source.number, start, end, cut.compressed))
    return found


def _prolog(file: BinlogFile, role: Bytes, kind: Bytes, offset: Ints, size: Ints) -> bytes:
    out = b""
    for i in range(len(role)):
        if role[i] & 0x7F != R.FILE:
            break
        if kind[i] in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            out += file.read(int(offset[i]), int(size[i]))
    return out


def _same_format(found: FormatDescription, first: FormatDescription, file: str, position: int) -> None:
    if (found.checksum, found.post_header_lengths) != (first.checksum, first.post_header_lengths):
        raise BinlogUnsupported(
            "the format of events changes inside the file, as in a relay log; split the binlogs it came from",
            file=file,
            position=position,
        )


class _XaWatch:
    """Collects the XA transactions of a file, fed in order."""

    def __init__(self, fd: FormatDescription, subjects: Subjects) -> None:
        self._fd = fd
        self._subjects = subjects
        self.notes: list[XaNote] = []
        self._begun: int | None = None
        """Where the open transaction's first event stands in the file."""
        self._in_xa = False
        self._offset: int | None = None
        self._xid = b""
        self._ends = False
        self._schemas: set[str] = set()

    def feed(self, block: Block) -> None:
        segment = block.segment
        role = segment.role & np.uint8(0x7F)
        in_xa = role == R.XA
        n_txn = len(segment.txn_subject)
        if self._in_xa or in_xa.any():
            txn_of = np.repeat(np.arange(n_txn), np.diff(segment.txn_event))
            txns = set(txn_of[in_xa].tolist()) | ({0} if self._in_xa else set())
            for t in sorted(txns):
                self._transaction(block, role, t)
        if segment.open and not (segment.continues and n_txn == 1):
            self._begun = block.origin(int(segment.offset[segment.txn_event[-2]]))

    def _transaction(self, block: Block, role: Bytes, t: int) -> None:
        segment = block.segment
        a, b = int(segment.txn_event[t]), int(segment.txn_event[t + 1])
        if not self._in_xa:
            continued = t == 0 and segment.continues
            self._offset = self._begun if continued else block.origin(int(segment.offset[a]))
            self._xid, self._ends, self._schemas, self._in_xa = b"", False, set(), True
        if bool(((segment.subject[a:b] == R.UNMAPPED) | (role[a:b] == R.KEEP)).any()):
            self._schemas.add(REST)
        for i in self._telling(segment.subject, role, a, b):
            self._event(block, i, int(role[i]))
        if segment.open and t == len(segment.txn_subject) - 1:
            return
        self._in_xa = False
        if self._xid and self._offset is not None:
            self.notes.append(XaNote(self._xid, self._ends, self._offset, tuple(sorted(self._schemas))))

    @staticmethod
    def _telling(subject: npt.NDArray[np.int32], role: Bytes, a: int, b: int) -> Iterator[int]:
        seen: set[int] = set()
        for i in range(a, b):
            number = int(subject[i])
            if role[i] == R.XA or number == R.PENDING:
                yield i
            elif number >= 0 and number not in seen:
                seen.add(number)
                yield i

    def _event(self, block: Block, i: int, role: int) -> None:
        segment = block.segment
        number = int(segment.subject[i])
        if number >= 0:
            self._schemas.update(Owners.names_of(self._subjects[number]))
            return
        start = int(segment.offset[i]) - segment.start
        event = bytes(block.data[start : start + int(segment.size[i])])
        if role != R.XA:
            statement, frame = read_statement(event, self._fd)
            if frame is None:
                self._schemas.update(Owners.names_of(statement))
                return
        if event[4] not in (EventType.QUERY, EventType.QUERY_COMPRESSED):
            return
        query = decode_query(
            memoryview(event)[HEADER_LENGTH : len(event) - self._fd.checksum_length],
            post_header_length=self._fd.post_header_length(EventType.QUERY),
            compressed=event[4] == EventType.QUERY_COMPRESSED,
        )
        found = _XA.fullmatch(query.raw)
        if found:
            self._xid = found[2]
            self._ends = found[1].upper() in (b"COMMIT", b"ROLLBACK")
