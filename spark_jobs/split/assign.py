"""Assignment of events to the outputs (the binlogs that a split writes).

A Spark task reads a range (consecutive transactions of one file) in blocks of about 16 MiB. The part of a block that
one output receives is a share. The owner of an event says which outputs receive the event. The dump's own decision
(:mod:`dumpfilter.dump.decision`) chooses the events: an output is a filter, and an owner number is a subject that the
filter sends if the output is one of the owners. So up to 64 outputs are decided together.

A transaction may continue in the next block. Then what later events decide about is carried for each output that
already owns an event of the transaction. One more carry is kept for all outputs that own none so far, since such an
output may own an event in a later block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.dump import cut as K
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.decision import Asked, Carry, Decided, columns_of, decide, with_carry
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, MOST_HITS
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.split.ownership import NO_OUTPUT, Owners

FILE_EVENTS = np.isin(np.arange(256), list(OF_FILES))
"""For each of the 256 event types, whether it is an event of the file, such as Format_description or Rotate. The
split does not copy such events, since each file that it writes gets its own."""

Ints = npt.NDArray[np.int64]

RUN_OFFSET, RUN_SIZE, RUN_SOURCE_SIZE, RUN_KIND = range(4)
"""The columns of an array of runs. A run is consecutive bytes of the source that an output receives unchanged, or one
changed event. The columns are the offset in the source file, the length in the output, the length in the source file
(both in bytes), and the kind."""

COPIED, STATEMENT_END, REPLACED = range(3)
"""The kinds of runs. A run is consecutive bytes of the source that an output receives, or one changed event.

- COPIED: bytes as they are in the source file.
- STATEMENT_END: a rows event that gets the flag STMT_END_F, because the output does not receive the statement's last
  rows event.
- REPLACED: a compressed transaction of which the output receives only some events, compressed again.
"""


@dataclass
class Share:
    """The part of a block that one output receives. A task reads the source in blocks of about 16 MiB, and an output
    is a binlog that the split writes."""

    output: int
    runs: Ints
    """The pieces of the source file that the output receives, one row for each piece, in ascending order of offset.

    The columns are :data:`RUN_OFFSET`, :data:`RUN_SIZE`, :data:`RUN_SOURCE_SIZE` and :data:`RUN_KIND`. The first
    pieces may lie before the block. They are the head or the table maps of a transaction that began in an earlier
    block, and of which the output receives the first rows only now.
    """
    columns: Columns
    """The events of the block, with those that were carried for the output from earlier blocks."""
    is_open: bool
    """Whether the block ends inside its last transaction."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """The new bytes of each compressed transaction of which the output receives only some events, by the
    transaction's offset in the source file."""

    @property
    def size(self) -> int:
        """The number of bytes that the output receives from the block."""
        return int(self.runs[:, RUN_SIZE].sum())

    @property
    def events(self) -> int:
        """The number of events that the output receives from the block."""
        first, stop = self._bounds
        return int((stop - first).sum())

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints]:
        """For each run, the number of its first event, and the number after its last event."""
        # A block has many more events than an output has runs, so that the runs are looked up among the events.
        begin, size = self.runs[:, RUN_OFFSET], self.runs[:, RUN_SOURCE_SIZE]
        return np.searchsorted(self.columns.offset, begin), np.searchsorted(self.columns.offset, begin + size)

    @cached_property
    def transactions(self) -> Ints:
        """The transactions that end in the block and of which the output receives an event, as indexes into the
        block's transactions."""
        first, stop = self._bounds
        count = len(self.columns.txn_event)
        begun, ended = (
            np.searchsorted(self.columns.txn_event, event, "right") - 1 for event in (first, stop - 1)
        )
        has_any = np.cumsum(np.bincount(begun, minlength=count) - np.bincount(ended + 1, minlength=count)) > 0
        has_any[0] |= self.columns.is_kept
        return np.flatnonzero(has_any[: count - 1 - self.is_open])

    @cached_property
    def ends(self) -> Ints:
        """Running totals of shape (n, 2).

        Row i has the bytes and events that the output receives up to the end of transaction i of ``transactions``.
        """
        first, stop = self._bounds
        counts = np.stack([self.runs[:, RUN_SIZE], stop - first], axis=1)
        event = self.columns.txn_event[self.transactions + 1]
        begun = np.searchsorted(first, event)
        found: Ints = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(counts, axis=0)])[begun]
        # A run may begin before the end of a transaction and end after it.
        (within,) = np.nonzero((begun > 0) & (stop[begun - 1] > event))
        last = begun[within] - 1
        source_end = self.runs[last, RUN_OFFSET] + self.runs[last, RUN_SOURCE_SIZE]
        found[within, 0] -= source_end - self.columns.offset[event[within]]
        found[within, 1] -= stop[last] - event[within]
        return found


_NOBODY = 0
"""The subject of events that no output owns."""
_DEFAULT = 1
"""The subject of whole transactions of which no output owns an event. The default outputs receive them."""


def _subjects(owner: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the subject that stands for each owner number: even for one output, odd for a combination of outputs."""
    alone = owner >= 0
    found = np.where(alone, 2 * owner + 2, 2 * (-2 - owner) + 3)
    return np.where(owner == NO_OUTPUT, _NOBODY, found).astype(np.int32)


class _OutputFlags:
    """The owner numbers of one output, as a filter's verdicts about subjects (:class:`dumpfilter.dump.decision.Flags`).

    The address is that of a row of an array, which the row keeps.
    """

    is_on = True
    on_undecided = OnUndecided.SEND
    _no_hits: npt.NDArray[np.int8] = np.empty((0, MOST_HITS), np.int8)

    def __init__(self, row: npt.NDArray[np.uint32]) -> None:
        self._addresses = (row, row.ctypes.data, self._no_hits, 0)

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        return self._addresses


@dataclass
class _Block:
    """The events of a block with their owners."""

    columns: Columns
    owner: npt.NDArray[np.int32]
    parts: dict[int, dict[int, bytes]]
    """The new bytes of each compressed transaction of which an output receives only some events. The first key is the
    output's number, the second key is the event's number."""


class Assigner:
    """The assignment of one range's events to the outputs. A range is consecutive transactions of one file.

    The caller passes the segments of the range in order. The object keeps what is known of a transaction that continues
    in the next segment.
    """

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self._inside: Assigner | None = None
        self._open: dict[int, Carry] = {}
        """For each output that owns an event of the transaction that continues, what later events decide about."""
        self._nobody: Carry | None = None
        """For an output that owns none of the transaction's events, what later events decide about."""
        self._flags: npt.NDArray[np.uint32] = np.zeros((0, 0), np.uint32)
        self._known = (0, 0)

    def assign(self, segment: Segment, read: ReadAt) -> list[Share]:
        """Return for each output that receives events of a segment the part of the segment that the output receives.

        A segment is consecutive events of a file. ``read(offset, length)`` reads bytes of this file. It is used for
        compressed transactions, of which an output may receive only some events.
        """
        block = self._block(segment, read)
        nobody = len(self.owners.names)
        rows = self._rows()
        present = {*self._open, *block.parts, *self.owners.default_outputs}
        for code in np.unique(block.owner).tolist():
            present.update(self.owners.members(code))
        begun = self._open if segment.continues else {}
        begun_nobody = self._nobody if segment.continues else None
        if begun_nobody is not None and not (segment.open or _any_owned(block, begun)):
            # The first transaction began in an earlier block and ends in this block. No output owns any of its events,
            # so the default outputs receive the transaction: they own its last event.
            last = int(block.columns.txn_event[1]) - 1
            block.columns.role[last], block.columns.subject[last] = R.STATEMENT | R.ENDS, _DEFAULT
            begun = {}
        together = [k for k in present if k not in begun and k not in block.parts]
        if segment.open:
            together.append(nobody)
        shared = block.columns if begun_nobody is None else with_carry(block.columns, begun_nobody)
        decided = dict(zip(together, self._decide(segment, shared, rows, together), strict=True))
        asked = dict.fromkeys(together, shared)
        for output in present - decided.keys():
            columns = _with_parts(block, output)
            carry = begun.get(output, begun_nobody)
            if carry is not None:
                columns = with_carry(columns, carry)
            (decided[output],) = self._decide(segment, columns, rows, [output])
            asked[output] = columns
        self._open, self._nobody = {}, None
        if segment.open:
            of_nobody = decided.pop(nobody).carry
            assert of_nobody is not None
            self._nobody = of_nobody
            for output, one in decided.items():
                assert one.carry is not None
                if output in begun or one.carry.is_kept or len(one.carry.events) > len(of_nobody.events):
                    self._open[output] = one.carry
        ranges = {output: decided[output].plans[0].ranges for output in sorted(decided)}
        return [
            _share(output, found, asked[output], block, segment)
            for output, found in ranges.items()
            if len(found)
        ]

    def _decide(
        self, segment: Segment, columns: Columns, rows: list[_OutputFlags], outputs: list[int]
    ) -> list[Decided]:
        return decide(
            segment.file,
            columns,
            [Asked(rows[k], 0, WHOLE_SEGMENT, segment.start, segment.start) for k in outputs],
        )

    def _rows(self) -> list[_OutputFlags]:
        """Return the flags of each output, and of one more output that owns nothing."""
        outputs, several = self.owners.names, self.owners.several
        known_outputs, known_several = self._known
        n = 2 * max(len(outputs), len(several)) + 3
        if (
            n > self._flags.shape[1]
            or len(outputs) + 1 > self._flags.shape[0]
            or known_outputs < len(outputs)
        ):
            self._flags = np.zeros((2 * len(outputs) + 1, 2 * n), np.uint32)
            numbers = np.arange(len(outputs))
            self._flags[numbers, 2 * numbers + 2] = FILTER_BINLOG_SEND_F
            self._flags[list(self.owners.default_outputs), _DEFAULT] = FILTER_BINLOG_SEND_F
            known_several = 0
        for k in range(known_several, len(several)):
            self._flags[list(several[k]), 2 * k + 3] = FILTER_BINLOG_SEND_F
        self._known = len(outputs), len(several)
        return [_OutputFlags(row) for row in self._flags[: len(outputs) + 1]]

    def _block(self, segment: Segment, read: ReadAt) -> _Block:
        owners = self.owners
        known = owners.array()
        role, subject = segment.role & R.ROLE_MASK, segment.subject
        decides = (role >= R.TABLE_MAP) & (role <= R.STATEMENT)
        owner = np.where(decides & (subject >= 0), known[subject], np.int32(NO_OUTPUT))
        # Rows events without a table map, incidents, and events of unknown types have no subject (table or statement).
        owner[(decides & (subject < 0)) | (role == R.KEEP)] = owners.undecided
        for event in segment.unknown_ends:
            owner[event] = owners.unknown_xa_ends
        parts: dict[int, dict[int, bytes]] = {}
        for event, inner in segment.payloads.items():
            owner[event] = self._look_inside(segment, event, inner, read, parts)
        decides |= role >= R.KEEP
        # The owner decides about these events, too.
        roles = np.where(role >= R.KEEP, np.uint8(R.STATEMENT), role)
        # No output receives a file event inside a transaction, such as Rotate, nor a Gap event, which tells what the
        # master of a relay log dropped.
        stray = ((role == R.KEEP) & FILE_EVENTS[segment.type]) | (role == R.GAP)
        roles[stray] = R.HIDDEN
        owner[stray] = NO_OUTPUT
        first = segment.txn_event[:-1]
        lowest = np.minimum.reduceat(np.where(decides, owner, np.int32(1 << 30)), first)
        highest = np.maximum.reduceat(np.where(decides, owner, np.int32(-1 << 30)), first)
        # A table map without rows events changes no table. Therefore a transaction in which outputs own only table
        # maps belongs to no output.
        changes = decides & (role != R.TABLE_MAP)
        some = np.logical_or.reduceat(changes & (owner != NO_OUTPUT), first)
        is_whole = (lowest == highest) & some & ~np.logical_or.reduceat(stray, first)
        txn_subject = np.where(is_whole, _subjects(lowest), np.int32(R.MIXED))
        txn_subject[~some] = _DEFAULT
        txn_subject[segment.txn_source == R.KEPT] = R.SKIP
        txn_subject[: int(segment.continues)] = R.MIXED
        for of_output in parts.values():
            txn_subject[[segment.transaction_of(event) for event in of_output]] = R.MIXED
        columns = columns_of(segment)._replace(
            role=roles | (segment.role & R.ENDS),
            subject=_subjects(owner),
            txn_subject=txn_subject.astype(np.int32),
            txn_set=np.zeros_like(segment.txn_set),
            has_gaps=False,
        )
        return _Block(columns, owner, parts)

    def _look_inside(
        self, segment: Segment, event: int, inner: Segment, read: ReadAt, parts: dict[int, dict[int, bytes]]
    ) -> int:
        """Return the owner number of a compressed transaction, after a look at the events inside.

        ``inner`` has the events inside. For each output that receives only some of these events, add the new
        compressed transaction to ``parts``.
        """
        if self._inside is None:
            self._inside = Assigner(self.owners)
        shares = self._inside.assign(inner, read)
        source, data = b"", b""
        fd = segment.format_description
        for share in shares:
            if share.size == inner.end:
                continue
            if not source:
                source = read(int(segment.offset[event]), int(segment.size[event]))
                data = open_payload(source, fd)
            kept = render(
                share_as_chunk(segment.file, share.runs, share.replaced),
                data,
                0,
                read,
                inner.format_description,
            )
            closed = close_payload(kept, source, fd)
            if closed is not None:
                parts.setdefault(share.output, {})[event] = closed
        return self.owners.code(share.output for share in shares)


def _with_parts(block: _Block, output: int) -> Columns:
    """Return a block's columns with the compressed transactions of which an output receives a part."""
    columns, parts = block.columns, block.parts.get(output, {})
    if not parts:
        return columns
    size, role = columns.size.copy(), columns.role.copy()
    for event, data in parts.items():
        size[event] = len(data)
        role[event] = R.REPLACED | (role[event] & R.ENDS)
    return columns._replace(size=size, role=role)


def _share(output: int, ranges: Ints, columns: Columns, block: _Block, segment: Segment) -> Share:
    runs = ranges[:, [K.RANGE_OFFSET, K.RANGE_SIZE, K.RANGE_SIZE, K.RANGE_PATCH]]
    cut = runs[:, RUN_KIND] == REPLACED
    runs[cut, RUN_SOURCE_SIZE] = segment.size[np.searchsorted(segment.offset, runs[cut, RUN_OFFSET])]
    replaced = {int(segment.offset[event]): data for event, data in block.parts.get(output, {}).items()}
    return Share(output, runs, columns, segment.open, replaced)


def _any_owned(block: _Block, begun: dict[int, Carry]) -> bool:
    """Tell whether any output owns an event of the block's first transaction, which began in an earlier block.

    ``begun`` has what is carried for each output that owns an event of the transaction in the earlier blocks.
    """
    if any(carry.is_kept for carry in begun.values()):
        return True
    part = slice(0, int(block.columns.txn_event[1]))
    bare = (block.columns.role[part] & R.ROLE_MASK == R.TABLE_MAP) | (block.owner[part] == NO_OUTPUT)
    return not bare.all()


_NO_RUNS: Ints = np.empty((0, 3), np.int64)


def share_as_chunk(file: str, runs: Ints, replaced: dict[int, bytes]) -> ChunkPlan:
    """Return runs that an output receives as a chunk plan, from which the dump thread makes bytes.

    :func:`~dumpfilter.dump.chunk.render` makes the output's bytes from the chunk plan. ``file`` is the name of the
    source file. The other parameters are those of a :class:`Share`.
    """
    ranges = runs[:, [RUN_OFFSET, RUN_SIZE, RUN_KIND]]
    return ChunkPlan(file, ranges, 0, 0, 0, _NO_RUNS, replaced=replaced)
