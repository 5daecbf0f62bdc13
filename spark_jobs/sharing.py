"""Shares the events of a range out to schemas, with the dump thread's own decision kernel.

For each schema in a block only the transactions that have something of it are looked at, so that the cost goes
with the events, not with events times schemas. A transaction that is all one schema's is taken as one range of
bytes; others are walked once for each schema they have, with the schema's flags, exactly as a slave's filter
would have it. A transaction that goes on in the next block keeps one walk's state for each schema, and one of a
schema that has nothing in it: a schema that turns up later begins from that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.subjects import Subjects
from dumpfilter.dump import _kernels as K
from dumpfilter.dump.thread import ChunkPlan, render
from spark_jobs.blocks import Block
from spark_jobs.ownership import NOBODY, REST_OWNER, Owners

PIECE_SIZE = 1 << 20
"""The most bytes of events in a piece."""

_OF_FILES = np.zeros(256, np.bool_)
"""Event types that belong to a file: its parts get their own."""
_OF_FILES[
    [
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.ROTATE,
        EventType.STOP,
    ]
] = True

_MINE = 1
_FLAGS = np.array([0, K.SEND], np.uint32)
"""The flags array of a schema: subjects are numbered 0 (another's) and 1 (its own) before the walk."""

Ints = npt.NDArray[np.int64]


_NO_RUNS = np.empty((0, 3), np.int64)


@dataclass(frozen=True)
class Piece:
    """Bytes of events for one schema's part; an event may go on in the next piece of the same schema."""

    schema: str
    """Its encoded name."""
    data: bytes
    events: int
    """Events that were decided with this piece."""
    transactions: int
    """Transactions that were completed with it."""


@dataclass
class _Walk:
    """What one schema's walk remembers inside a transaction that several blocks hold."""

    state: Ints
    head: Ints
    context: Ints

    @classmethod
    def fresh(cls) -> _Walk:
        return cls(np.zeros(K.WALK_SIZE, np.int64), np.zeros((64, 2), np.int64), np.zeros((64, 2), np.int64))

    def copy(self) -> _Walk:
        return _Walk(self.state.copy(), self.head.copy(), self.context.copy())

    def grown(self) -> _Walk:
        return _Walk(
            self.state.copy(),
            np.concatenate([self.head, np.zeros_like(self.head)]),
            np.concatenate([self.context, np.zeros_like(self.context)]),
        )


@dataclass
class _Events:
    """A block's columns without what stands between transactions, and what each transaction is."""

    offset: Ints
    size: Ints
    role: npt.NDArray[np.uint8]
    owner: npt.NDArray[np.int32]
    """A schema's number, NOBODY, or -2 - k for several."""
    txn_event: Ints
    whole: npt.NDArray[np.bool_]
    """Of a transaction: its bytes are in one run, so it can be taken as a range."""


class Sharer:
    """Shares one range out. Feed it the blocks in order.

    Parameters:
        fd: the file's format description.
        subjects: those of the scan that makes the blocks.
        xa_routes: the schemas of XA transactions, by the file offset of their first event.
    """

    def __init__(
        self, fd: FormatDescription, subjects: Subjects, xa_routes: dict[int, tuple[str, ...]] | None = None
    ) -> None:
        self._fd = fd
        self.owners = Owners(subjects)
        self._xa_routes = xa_routes or {}
        self._open: dict[int, _Walk] = {}
        self._nobody = _Walk.fresh()
        self._open_origin: int | None = None
        """Where the first event of the open transaction stands in the file."""
        self._ranges: Ints = np.zeros((1024, 3), np.int64)
        self._chunks: Ints = np.zeros((64, K.CHUNK_COLUMNS), np.int64)
        self.shared_statements = 0
        """Statements that went to more than one schema."""

    def share(self, block: Block) -> Iterator[Piece]:
        """The pieces of a block, schema by schema, each schema's in the order of the file."""
        events = self._events(block)
        n_txn = len(events.whole)
        if n_txn == 0:
            return
        continues, still_open = block.segment.continues, block.segment.open
        before, nobody = self._open, self._nobody
        self._open = {}
        txn, owner = self._pairs(events, block, before)
        forced = False
        if continues and not (txn == 0).any() and not (still_open and n_txn == 1):
            # the transaction ends and nobody has had anything in it: it is kept with the rest
            forced = True
            txn = np.concatenate([[0], txn])
            owner = np.concatenate([np.array([REST_OWNER], np.int32), owner])
        several = np.bincount(txn, minlength=n_txn) > 1
        if still_open:
            begun = nobody if continues and n_txn == 1 else _Walk.fresh()
            if not (continues and n_txn == 1):
                self._open_origin = block.origin(int(events.offset[events.txn_event[-2]]))
            self._nobody = self._walk_nobody(events, begun, block.segment.end)
        order = np.argsort(owner, kind="stable")
        txn, owner = txn[order], owner[order]
        bounds = [*np.flatnonzero(np.diff(owner, prepend=-9)).tolist(), len(owner)]
        for begin, stop in pairwise(bounds):
            mine, txns = int(owner[begin]), txn[begin:stop]
            walk = _Walk.fresh()
            if continues and txns[0] == 0:
                walk = before.get(mine) or nobody.copy()
            yield from self._share_one(
                block, events, mine, txns, several, walk, forced and mine == REST_OWNER
            )

    def _events(self, block: Block) -> _Events:
        segment = block.segment
        known = self.owners.array()
        role, subject = segment.role & 0x7F, segment.subject
        roles = segment.role
        owner = np.full(len(role), NOBODY, np.int32)
        decides = (role >= R.TABLE_MAP) & (role <= R.STATEMENT)
        named = decides & (subject >= 0)
        owner[named] = known[subject[named]]
        # rows without a table map, incidents, events of unknown types
        owner[(decides & (subject < 0)) | (role == R.KEEP)] = REST_OWNER
        self.shared_statements += int(np.count_nonzero(owner < NOBODY))
        whole = np.ones(len(segment.txn_subject), np.bool_)
        stray = (role == R.KEEP) & _OF_FILES[segment.type]
        if stray.any():
            # inside a transaction: rows of another's are what leaves the walk as it is
            roles = roles.copy()
            roles[stray] = R.ROWS | (roles[stray] & R.ENDS)
            owner[stray] = NOBODY
            whole[np.searchsorted(segment.txn_event, np.flatnonzero(stray), side="right") - 1] = False
        kept = role != R.FILE
        if kept.all():
            return _Events(segment.offset, segment.size, roles, owner, segment.txn_event, whole)
        # each of them stands between transactions, as one of its own
        lengths = np.diff(segment.txn_event)
        some = kept[segment.txn_event[:-1]]
        txn_event = np.concatenate([[0], np.cumsum(lengths[some])]).astype(np.int64)
        return _Events(
            segment.offset[kept], segment.size[kept], roles[kept], owner[kept], txn_event, whole[some]
        )

    def _pairs(
        self, events: _Events, block: Block, before: dict[int, _Walk]
    ) -> tuple[Ints, npt.NDArray[np.int32]]:
        """(transaction, owner) for all that have something to do with one another, by transaction."""
        n_txn = len(events.whole)
        continues, still_open = block.segment.continues, block.segment.open
        txn_of = np.repeat(np.arange(n_txn), np.diff(events.txn_event))
        owned = events.owner >= 0
        txns, owners = [txn_of[owned]], [events.owner[owned]]

        def add(t: int, group: Collection[int]) -> None:
            txns.append(np.full(len(group), t))
            owners.append(np.array(list(group), np.int32))

        for i in np.flatnonzero(events.owner < NOBODY).tolist():
            add(int(txn_of[i]), self.owners.several[-2 - int(events.owner[i])])
        for t in np.unique(txn_of[(events.role & 0x7F) == R.XA]).tolist():
            first = int(events.offset[events.txn_event[t]])
            origin = self._open_origin if t == 0 and continues else block.origin(first)
            if origin in self._xa_routes:
                add(t, [self.owners.number(name) for name in self._xa_routes[origin]])
        if continues:
            add(0, before)
        txn, owner = np.concatenate(txns), np.concatenate(owners)
        missing = np.setdiff1d(np.arange(continues, n_txn - still_open), txn)
        txn = np.concatenate([txn, missing])
        owner = np.concatenate([owner, np.full(len(missing), REST_OWNER, np.int32)])
        width = len(self.owners.names)
        keys = np.unique(txn * width + owner)
        return keys // width, (keys % width).astype(np.int32)

    def _walk_nobody(self, events: _Events, walk: _Walk, end: int) -> _Walk:
        """The walk through the open transaction of a schema that has nothing in it so far."""
        part = slice(int(events.txn_event[-2]), int(events.txn_event[-1]))
        role = events.role[part].copy()
        role[(role == R.KEEP) | (role == R.XA)] = R.ROWS
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
        self,
        block: Block,
        events: _Events,
        mine: int,
        txns: Ints,
        several: npt.NDArray[np.bool_],
        walk: _Walk,
        forced: bool,
    ) -> Iterator[Piece]:
        first, last = events.txn_event[txns], events.txn_event[txns + 1]
        lengths = last - first
        txn_event = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(txn_event[-1]) + np.repeat(first - txn_event[:-1], lengths)
        role, owner = events.role[at], events.owner[at]
        subject = (owner == mine).astype(np.int32)
        for i in np.flatnonzero(owner < NOBODY).tolist():
            subject[i] = mine in self.owners.several[-2 - int(owner[i])]
        if mine != REST_OWNER:
            # another's undecidable event: rows of another's are what leaves the walk as it is
            keep = (role & 0x7F) == R.KEEP
            role[keep] = R.ROWS | (role[keep] & R.ENDS)
        if forced:
            # nobody had anything in the transaction that ends here: its last event takes it along
            role[txn_event[1] - 1] = R.KEEP | R.ENDS
        n_txn = len(events.whole)
        still_open = block.segment.open and int(txns[-1]) == n_txn - 1
        whole = events.whole[txns] & ~several[txns]
        txn_subject = np.where(whole, _MINE, R.MIXED).astype(np.int32)
        walk, n_chunks, kept = self._decide(
            events.offset[at],
            events.size[at],
            role,
            subject,
            txn_event,
            txn_subject,
            block.segment.end,
            still_open,
            walk,
        )
        if still_open:
            self._open[mine] = walk
        done = 0
        transactions = int(np.count_nonzero(kept))
        for chunk in self._chunks[:n_chunks].copy().tolist():
            plan = ChunkPlan(
                block.segment.file,
                self._ranges[done : chunk[K.H_RANGES]].copy(),
                chunk[K.H_END],
                0,
                0,
                _NO_RUNS,
                _NO_RUNS,
            )
            done = chunk[K.H_RANGES]
            data = render(plan, block.data, block.segment.start, block.read, self._fd)
            count, transactions_here = chunk[K.H_EVENTS], transactions
            transactions = 0
            if not data and not transactions_here:
                continue
            for cut in range(0, max(len(data), 1), PIECE_SIZE):
                yield Piece(self.owners.names[mine], data[cut : cut + PIECE_SIZE], count, transactions_here)
                count = transactions_here = 0

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
        walk: _Walk,
    ) -> tuple[_Walk, int, npt.NDArray[np.bool_]]:
        kept = np.zeros(len(txn_subject), np.bool_)
        while True:
            trial = walk.copy()
            code, _, n_chunks = K.decide(
                offset,
                size,
                role,
                subject,
                txn_event,
                txn_subject,
                0,
                end,
                still_open,
                _FLAGS,
                np.uint32(0),
                False,
                PIECE_SIZE,
                trial.state,
                trial.head,
                trial.context,
                self._ranges,
                self._chunks,
                kept,
            )
            if code == K.DONE:
                return trial, int(n_chunks), kept
            # something was full: make room and decide again
            if n_chunks >= len(self._chunks):
                self._chunks = np.zeros((2 * len(self._chunks), K.CHUNK_COLUMNS), np.int64)
            else:
                self._ranges = np.zeros((2 * len(self._ranges) + 2 * len(walk.head), 3), np.int64)
                walk = walk.grown()
