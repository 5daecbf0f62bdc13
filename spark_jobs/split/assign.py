"""Assignment of events to the outputs (the binlogs that a split writes).

A Spark task reads a range (consecutive transactions of one file) in blocks of about 16 MiB. The part of a block that
one output receives is a share. The owner of an event says which outputs receive the event. Each output's share is
computed only from the transactions in which the output owns an event. Therefore the time grows with the number of
events, and not with this number times the number of outputs.

A transaction whose events all have the same owner is copied as a whole to the outputs that the owner stands for. In
any other transaction the compiled function ``decide`` chooses the events, once for each output that owns one of them.
The dump thread uses the same function to filter a transaction for a slave.

A transaction may continue in the next block. Then the state of ``decide`` (a walk) is kept for each output that
already owns an event of the transaction. One more state is kept for all the outputs that own none so far, since such
an output may own an event in a later block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.dump import decide as K
from dumpfilter.dump import share_kernels as shares
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.split.ownership import NO_OUTPUT, Owners

_VERDICTS = K.Verdicts(np.array([0, K.FLAG_SEND], np.uint32), np.uint32(0), False, True)
"""The verdicts (send or drop, for each subject number) by which ``decide`` chooses one output's events: drop the
events of subject 0, and send those of subject 1. Before ``decide`` runs, the other outputs' events get the subject 0,
and this output's events get the subject 1."""

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
    events: int
    transactions: Ints
    """The transactions that end in the block and of which the output receives an event, as indexes into the block's
    transactions."""
    ends: Ints
    """Running totals: row i has the number of bytes and of events that the output receives from the block's beginning
    to the end of transaction i of ``transactions``; shape (n, 2)."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """The new bytes of each compressed transaction of which the output receives only some events, by the
    transaction's offset in the source file."""

    @property
    def size(self) -> int:
        """The number of bytes that the output receives from the block."""
        return int(self.runs[:, RUN_SIZE].sum())


@dataclass
class _Events:
    """The events of a block's transactions, without the events that stand between transactions, such as Rotate.

    The arrays ``offset``, ``size``, ``role`` and ``owner`` have an element for each event.
    """

    offset: Ints
    size: Ints
    role: npt.NDArray[np.uint8]
    owner: npt.NDArray[np.int32]
    txn_event: Ints
    txn_number: Ints
    """The index of each transaction among the segment's transactions, which also count events between
    transactions."""
    uniform: npt.NDArray[np.int32]
    """For each transaction, the owner number that all its events with an owner have. An owner number says which
    outputs receive an event. It is NO_OUTPUT if the events have different owner numbers, or none has an owner."""
    unowned: npt.NDArray[np.bool_]
    """For each transaction, whether the whole transaction is in the block and no output owns any of its events."""
    parts: dict[int, dict[int, bytes]]
    """The new bytes of each compressed transaction of which an output receives only some events. The first key is the
    output's number, the second key is the index of the compressed event in these arrays."""


class Assigner:
    """The assignment of one range's events to the outputs. A range is consecutive transactions of one file.

    The caller passes the segments of the range in order. The object keeps the state of a transaction that continues
    in the next segment.
    """

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self._inside: Assigner | None = None
        self._open: dict[int, K.Walk] = {}
        self._unowned_walk = K.new_walk()
        self._ranges: Ints = np.zeros((1024, 3), np.int64)
        self._chunks = np.zeros(1, K.CHUNK)
        self._in_combinations: dict[int, npt.NDArray[np.bool_]] = {}

    def assign(self, segment: Segment, read: ReadAt) -> list[Share]:
        """Return for each output that receives events of a segment the part of the segment that the output receives.

        A segment is consecutive events of a file. ``read(offset, length)`` reads bytes of this file. It is used for
        compressed transactions, of which an output may receive only some events.
        """
        events = self._events(segment, read)
        n_txn = len(events.uniform)
        if n_txn == 0:
            return []
        continues, still_open = segment.continues, segment.open
        open_walks, unowned_walk = self._open, self._unowned_walk
        self._open = {}
        txn, outputs = self._pairs(events, segment, open_walks)
        by_default: set[int] = set()
        goes_on = continues and still_open and n_txn == 1
        if continues and not goes_on and not _any_owned(events, open_walks):
            # The first transaction began in an earlier block and ends in this block. No output owns an event of this
            # transaction, so only the default outputs, which get the transactions without an owner, receive the
            # transaction.
            by_default = set(self.owners.default_outputs)
            later = txn > 0
            txn = np.concatenate([np.zeros(len(by_default), np.int64), txn[later]])
            outputs = np.concatenate([np.array(sorted(by_default), np.int32), outputs[later]])
        if still_open:
            begun = unowned_walk if continues and n_txn == 1 else K.new_walk()
            self._unowned_walk = self._walk_unowned(events, begun, segment.end)
        order = np.argsort(outputs, kind="stable")
        txn, outputs = txn[order], outputs[order]
        bounds = [*np.flatnonzero(np.diff(outputs, prepend=-9)).tolist(), len(outputs)]
        shares = []
        for begin, stop in pairwise(bounds):
            output, txns = int(outputs[begin]), txn[begin:stop]
            if not continues or txns[0] > 0:
                walk = K.new_walk()
            elif output in open_walks and output not in by_default:
                walk = open_walks[output]
            else:
                walk = K.copy_of(unowned_walk)
            share = self._share_one(segment, events, output, txns, walk, output in by_default)
            if len(share.runs):
                shares.append(share)
        return shares

    def _events(self, segment: Segment, read: ReadAt) -> _Events:
        owners = self.owners
        known = owners.array()
        role, subject, roles = segment.role & 0x7F, segment.subject, segment.role
        decides = (role >= R.TABLE_MAP) & (role <= R.STATEMENT)
        owner = np.where(decides & (subject >= 0), known[subject], np.int32(NO_OUTPUT))
        # Rows events without a table map, incidents, and events of unknown types have no subject (table or statement).
        undecided = (decides & (subject < 0)) | (role == R.KEEP)
        owner[undecided] = owners.undecided
        for event in segment.unknown_ends:
            owner[event] = owners.unknown_xa_ends
        parts: dict[int, dict[int, bytes]] = {}
        for event, inner in segment.payloads.items():
            owner[event] = self._look_inside(segment, event, inner, read, parts)
        decides |= role >= R.KEEP
        # No output receives Gap events, which tell what a relay log's master dropped.
        stray = ((role == R.KEEP) & FILE_EVENTS[segment.type]) | (role == R.GAP)
        if stray.any():
            # No output receives a file event inside a transaction, such as Rotate. The file event is treated like a
            # rows event of another output, which ``decide`` skips without a change of its state.
            roles = roles.copy()
            roles[stray] = R.ROWS | (roles[stray] & R.ENDS)
            owner[stray] = NO_OUTPUT
        first = segment.txn_event[:-1]
        lowest = np.minimum.reduceat(np.where(decides, owner, np.int32(1 << 30)), first)
        highest = np.maximum.reduceat(np.where(decides, owner, np.int32(-1 << 30)), first)
        # A table map without rows events changes no table. Therefore a transaction in which outputs own only table
        # maps belongs to no output.
        alone = ~np.logical_or.reduceat(decides & (role != R.TABLE_MAP), first)
        uniform = np.where((lowest == highest) & ~alone, lowest, np.int32(NO_OUTPUT))
        for of_output in parts.values():
            uniform[[segment.transaction_of(event) for event in of_output]] = NO_OUTPUT
        kept = np.repeat(segment.txn_source != R.KEPT, np.diff(segment.txn_event))
        number = np.arange(len(uniform))
        unowned = np.zeros(len(uniform), np.bool_)
        if kept.all():
            return _Events(
                segment.offset,
                segment.size,
                roles,
                owner,
                segment.txn_event,
                number,
                uniform,
                unowned,
                parts,
            )
        # The segment counts each file event between two transactions, such as Rotate, as a transaction. Outputs do
        # not receive file events, so such transactions of one file event are left out here.
        lengths = np.diff(segment.txn_event)
        some = kept[first]
        txn_event = np.concatenate([[0], np.cumsum(lengths[some])]).astype(np.int64)
        if parts:
            places = np.cumsum(kept) - 1
            parts = {
                output: {int(places[event]): data for event, data in of_output.items()}
                for output, of_output in parts.items()
            }
        return _Events(
            segment.offset[kept],
            segment.size[kept],
            roles[kept],
            owner[kept],
            txn_event,
            number[some],
            uniform[some],
            unowned[some],
            parts,
        )

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
            kept = render(share_as_chunk(segment.file, share), data, 0, read, inner.format_description)
            closed = close_payload(kept, source, fd)
            if closed is not None:
                parts.setdefault(share.output, {})[event] = closed
        return self.owners.code(share.output for share in shares)

    def _pairs(
        self, events: _Events, segment: Segment, open_walks: dict[int, K.Walk]
    ) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Return every pair of a transaction and an output that owns an event of the transaction, as two arrays.

        The pairs are in the order of the transactions. A transaction of which no output owns an event is paired with
        each default output, and is marked in ``events.unowned``.
        """
        n_txn = len(events.uniform)
        continues, still_open = segment.continues, segment.open
        decided = events.uniform != NO_OUTPUT
        plain = decided & (events.uniform >= 0)
        txns: list[Ints] = [np.flatnonzero(plain)]
        outputs: list[npt.NDArray[np.int32]] = [events.uniform[plain]]

        def add(txn: npt.NDArray[np.integer], code: int) -> None:
            for output in self.owners.members(code):
                txns.append(txn.astype(np.int64))
                outputs.append(np.full(len(txn), output, np.int32))

        for code in np.unique(events.uniform[events.uniform < NO_OUTPUT]).tolist():
            add(np.flatnonzero(events.uniform == code), code)
        if not decided.all():
            lengths = np.diff(events.txn_event)
            some = np.repeat(~decided, lengths) & (events.owner != NO_OUTPUT)
            txn_of = np.repeat(np.arange(n_txn), lengths)
            # An output that owns only table maps of a transaction receives no part of it. But if the transaction
            # continues in another block, the rows events of the table map may be in that block.
            partly = (txn_of < int(continues)) | (txn_of >= n_txn - int(still_open))
            some &= partly | ((events.role & 0x7F) != R.TABLE_MAP)
            txn_of = txn_of[some]
            codes = events.owner[some]
            txn_of, codes = _unique_pairs(txn_of, codes)
            txns.append(txn_of[codes >= 0])
            outputs.append(codes[codes >= 0])
            for code in np.unique(codes[codes < NO_OUTPUT]).tolist():
                add(txn_of[codes == code], code)
        if continues:
            for one in open_walks:
                add(np.zeros(1, np.int64), one)
        txn, output = np.concatenate(txns), np.concatenate(outputs)
        unowned = np.ones(n_txn, np.bool_)
        unowned[txn] = False
        unowned[: int(continues)] = False
        unowned[n_txn - int(still_open) :] = False
        events.unowned = unowned
        for one in self.owners.default_outputs:
            txn = np.concatenate([txn, np.flatnonzero(unowned)])
            output = np.concatenate([output, np.full(np.count_nonzero(unowned), one, np.int32)])
        return (txn, output) if len(txns) == 1 and not unowned.any() else _unique_pairs(txn, output)

    def _walk_unowned(self, events: _Events, walk: K.Walk, end: int) -> K.Walk:
        """Run ``decide`` over the block's last transaction, for an output that owns no event of the transaction so far.

        The transaction continues in the next block. Return the state of ``decide`` at the end of this block.
        """
        part = slice(int(events.txn_event[-2]), int(events.txn_event[-1]))
        role = events.role[part].copy()
        role[(role & 0x7F) >= R.KEEP] = R.ROWS
        n = len(role)
        walk, _, _ = self._decide(
            events.offset[part],
            events.size[part],
            role,
            np.zeros(n, np.int32),
            np.array([0, n], np.int64),
            np.array([R.MIXED], np.int32),
            end,
            True,
            walk,
        )
        return walk

    def _share_one(
        self, segment: Segment, events: _Events, output: int, txns: Ints, walk: K.Walk, by_default: bool
    ) -> Share:
        n_txn = len(txns)
        n = int((events.txn_event[txns + 1] - events.txn_event[txns]).sum())
        offset, size = np.empty(n, np.int64), np.empty(n, events.size.dtype)
        role, own = np.empty(n, np.uint8), np.empty(n, np.int32)
        txn_event, txn_subject = np.empty(n_txn + 1, np.int64), np.empty(n_txn, np.int32)
        shares.gather(
            (events.offset, events.size, events.role, events.owner),
            events.txn_event,
            events.uniform,
            events.unowned,
            txns,
            output,
            self._combinations(output),
            output in self.owners.default_outputs,
            (offset, size, role, own),
            txn_event,
            txn_subject,
        )
        replaced: dict[int, bytes] = {}
        for event, data in events.parts.get(output, {}).items():
            k = int(np.searchsorted(offset, events.offset[event]))
            size[k] = len(data)
            role[k] = R.REPLACED | (role[k] & R.ENDS)
            replaced[int(offset[k])] = data
        if by_default:
            # No output owns an event of this transaction, so a default output receives the transaction. If ``decide``
            # keeps the last event of a transaction, it also keeps all events of the transaction that wait in its
            # buffer.
            role[txn_event[1] - 1] = R.KEEP | R.ENDS
        still_open = segment.open and int(txns[-1]) == len(events.uniform) - 1
        walk, sent, kept = self._decide(
            offset,
            size,
            role,
            own,
            txn_event,
            txn_subject,
            segment.end,
            still_open,
            walk,
        )
        if still_open:
            self._open[output] = walk
            kept[-1] = False
        runs = np.empty((int(self._chunks["ranges"][0]), 4), np.int64)
        ranges = self._ranges[: len(runs)]
        runs[:, RUN_OFFSET], runs[:, RUN_KIND] = ranges[:, K.RANGE_OFFSET], ranges[:, K.RANGE_PATCH]
        runs[:, RUN_SIZE] = runs[:, RUN_SOURCE_SIZE] = ranges[:, K.RANGE_SIZE]
        if replaced:
            cut = runs[:, RUN_KIND] == REPLACED
            runs[cut, RUN_SOURCE_SIZE] = events.size[np.searchsorted(events.offset, runs[cut, RUN_OFFSET])]
        ends = np.empty((int(np.count_nonzero(kept)), 2), np.int64)
        inside = shares.ends_of(runs, events.offset, events.size, events.txn_event, txns, kept, ends)
        # The output may also receive events of earlier blocks, for example table maps, that waited for their rows
        # events. These events belong to the first transaction.
        ends[:, 1] += sent - inside
        return Share(output, runs, sent, events.txn_number[txns[kept]], ends, replaced)

    def _combinations(self, output: int) -> npt.NDArray[np.bool_]:
        """Return for each combination of outputs with an owner number whether ``output`` is in the combination."""
        several = self.owners.several
        known = self._in_combinations.get(output, _NONE)
        if len(known) < len(several):
            more = [output in members for members in several[len(known) :]]
            known = self._in_combinations[output] = np.concatenate([known, np.array(more, np.bool_)])
        return known

    def _decide(
        self,
        offset: Ints,
        size: Ints,
        role: npt.NDArray[np.uint8],
        subject: npt.NDArray[np.int32],
        txn_event: Ints,
        txn_subject: npt.NDArray[np.int32],
        end: int,
        still_open: bool,
        walk: K.Walk,
    ) -> tuple[K.Walk, int, npt.NDArray[np.bool_]]:
        """Run the dump thread's ``decide`` over transactions, to choose the events that one output receives.

        Return the state of ``decide`` (the walk) after the transactions, the number of events that the output
        receives, and for each transaction whether the output receives any event. The attribute ``_ranges`` then has
        the byte ranges of the chosen events, and ``_chunks`` has the number of these ranges.
        """
        events = K.Events(offset, size, role, subject)
        transactions = K.Transactions(txn_event, txn_subject, still_open, end)
        kept = np.zeros(len(txn_subject), np.bool_)
        while True:
            trial = K.copy_of(walk)
            out = K.Output(self._ranges, self._chunks, kept)
            code, _, _ = K.decide(events, transactions, _VERDICTS, trial, out, 0, WHOLE_SEGMENT)
            if code == K.DONE:
                return trial, int(self._chunks["events"][0]), kept
            # The compiled function ``decide`` cannot enlarge its output arrays. If they were too small, it must run
            # again from the beginning with larger arrays.
            self._ranges = np.zeros((2 * len(self._ranges) + 2 * len(walk.head), 3), np.int64)
            walk = K.enlarged(walk)


def _any_owned(events: _Events, open_walks: dict[int, K.Walk]) -> bool:
    """Tell whether any output owns an event of the block's first transaction, which began in an earlier block.

    ``open_walks`` has the state of each output that owns an event of the transaction in the earlier blocks.
    """
    if any(walk.state["is_kept"][0] for walk in open_walks.values()):
        return True
    part = slice(0, int(events.txn_event[1]))
    bare = ((events.role[part] & 0x7F) == R.TABLE_MAP) | (events.owner[part] == NO_OUTPUT)
    return not bare.all()


def _unique_pairs(txn: Ints, owner: npt.NDArray[np.int32]) -> tuple[Ints, npt.NDArray[np.int32]]:
    if not len(txn):
        return txn, owner
    low = int(owner.min())
    width = int(owner.max()) - low + 1
    keys = txn * width + (owner - low)
    keys.sort()  # Faster than np.unique, which makes a hash table.
    keys = keys[np.diff(keys, prepend=-1) != 0]
    return keys // width, (keys % width + low).astype(np.int32)


_NO_RUNS: Ints = np.empty((0, 3), np.int64)
_NONE: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


def share_as_chunk(file: str, share: Share) -> ChunkPlan:
    """Return the part of a block that an output receives as a chunk plan, from which the dump thread makes bytes.

    :func:`~dumpfilter.dump.chunk.render` makes the output's bytes from the chunk plan. ``file`` is the name of the
    source file.
    """
    ranges = share.runs[:, [RUN_OFFSET, RUN_SIZE, RUN_KIND]]
    return ChunkPlan(file, ranges, 0, 0, 0, _NO_RUNS, replaced=share.replaced)
