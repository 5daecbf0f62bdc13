"""Shares the events of a range out to outputs, with the dump thread's own decision kernel.

For each output in a block only the transactions that have something of it are looked at, so that the cost goes
with the events, not with events times outputs. A transaction whose events all belong to the same outputs is taken as
one run of bytes; others are walked once for each output they have something of, exactly as a slave's filter would
have it. A transaction that goes on in the next block keeps one walk's state for each output, and one of an output
that has nothing in it: one that turns up later begins from that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.dump import decide as K
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.split.ownership import NOBODY, Owners
from dumpfilter.spark_jobs.split.transactions import OF_FILES

_MINE = 1
_VERDICTS = K.Verdicts(np.array([0, K.FLAG_SEND], np.uint32), np.uint32(0), False)
"""The verdicts of an output. Before the walk the subjects are numbered: 0 for other outputs, 1 for this output."""

Ints = npt.NDArray[np.int64]

RUN_OFFSET, RUN_SIZE, RUN_SOURCE_SIZE, RUN_KIND = range(4)
"""The columns of runs."""


@dataclass
class Share:
    """What one output has of a block."""

    output: int
    runs: Ints
    """(n, 4): offset in the file, bytes, bytes in the file, and 1 for a rows event that gets STMT_END_F, 2 for an event
    in ``replaced``, else 0. Offsets ascend; those before the block are of what was put aside in an earlier one."""
    events: int
    transactions: Ints
    """The transactions that end in the block and of which it has something: their numbers in the segment."""
    ends: Ints
    """(n, 2): bytes and events of the share up to the end of each of them."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """By offset, compressed transactions of which it has a part."""

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.runs[:, RUN_SIZE].sum())


@dataclass
class _Events:
    """A block's columns without what stands between transactions, and what each transaction is."""

    offset: Ints
    size: Ints
    role: npt.NDArray[np.uint8]
    owner: npt.NDArray[np.int32]
    txn_event: Ints
    txn_number: Ints
    """The transactions' numbers in the segment."""
    uniform: npt.NDArray[np.int32]
    """Of a transaction: the owner that all its events have; NOBODY when it has none or they differ."""
    missing: npt.NDArray[np.bool_]
    """Of a transaction: it is whole here, and no output has anything of it."""
    parts: dict[int, dict[int, bytes]]
    """By output and event, compressed transactions of which the output has a part."""


class Sharer:
    """Shares one range out. Feed it the blocks in order."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self._inside: Sharer | None = None
        self._open: dict[int, K.Walk] = {}
        self._nobody = K.new_walk()
        self._ranges: Ints = np.zeros((1024, 3), np.int64)
        self._chunks = np.zeros(1, K.CHUNK)

    def share(self, segment: Segment, read: ReadAt) -> list[Share]:
        """What each output has of a segment; outputs that have nothing are left out. ``read`` reads its file."""
        events = self._events(segment, read)
        n_txn = len(events.uniform)
        if n_txn == 0:
            return []
        continues, still_open = segment.continues, segment.open
        before, nobody = self._open, self._nobody
        self._open = {}
        txn, owner = self._pairs(events, segment, before)
        given: set[int] = set()
        goes_on = continues and still_open and n_txn == 1
        if continues and not goes_on and not _somebodys(events, before):
            # the transaction ends and nobody has had anything in it
            given = set(self.owners.otherwise)
            later = txn > 0
            txn = np.concatenate([np.zeros(len(given), np.int64), txn[later]])
            owner = np.concatenate([np.array(sorted(given), np.int32), owner[later]])
        if still_open:
            begun = nobody if continues and n_txn == 1 else K.new_walk()
            self._nobody = self._walk_nobody(events, begun, segment.end)
        order = np.argsort(owner, kind="stable")
        txn, owner = txn[order], owner[order]
        bounds = [*np.flatnonzero(np.diff(owner, prepend=-9)).tolist(), len(owner)]
        shares = []
        for begin, stop in pairwise(bounds):
            mine, txns = int(owner[begin]), txn[begin:stop]
            walk = K.new_walk()
            if continues and txns[0] == 0:
                walk = K.copy_of(nobody) if mine in given else before.get(mine) or K.copy_of(nobody)
            share = self._share_one(segment, events, mine, txns, walk, mine in given)
            if len(share.runs):
                shares.append(share)
        return shares

    def _events(self, segment: Segment, read: ReadAt) -> _Events:
        owners = self.owners
        known = owners.array()
        role, subject, roles = segment.role & 0x7F, segment.subject, segment.role
        decides = (role >= R.TABLE_MAP) & (role <= R.STATEMENT)
        owner = np.where(decides & (subject >= 0), known[subject], np.int32(NOBODY))
        # rows without a table map, incidents, events of unknown types
        undecided = (decides & (subject < 0)) | (role == R.KEEP)
        owner[undecided] = owners.undecided
        for event in segment.unknown_ends:
            owner[event] = owners.ends
        parts: dict[int, dict[int, bytes]] = {}
        for event, inner in segment.payloads.items():
            owner[event] = self._look_inside(segment, event, inner, read, parts)
        decides |= role >= R.KEEP
        stray = (role == R.KEEP) & OF_FILES[segment.type]
        if stray.any():
            # inside a transaction: rows of another's are what leaves the walk as it is
            roles = roles.copy()
            roles[stray] = R.ROWS | (roles[stray] & R.ENDS)
            owner[stray] = NOBODY
        first = segment.txn_event[:-1]
        lowest = np.minimum.reduceat(np.where(decides, owner, np.int32(1 << 30)), first)
        highest = np.maximum.reduceat(np.where(decides, owner, np.int32(-1 << 30)), first)
        # a table map alone brings nobody anything
        alone = ~np.logical_or.reduceat(decides & (role != R.TABLE_MAP), first)
        uniform = np.where((lowest == highest) & ~alone, lowest, np.int32(NOBODY))
        for of_output in parts.values():
            uniform[[segment.transaction_of(event) for event in of_output]] = NOBODY
        kept = role != R.FILE
        number = np.arange(len(uniform))
        missing = np.zeros(len(uniform), np.bool_)
        if kept.all():
            return _Events(
                segment.offset,
                segment.size,
                roles,
                owner,
                segment.txn_event,
                number,
                uniform,
                missing,
                parts,
            )
        # each of them stands between transactions, as one of its own
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
            missing[some],
            parts,
        )

    def _look_inside(
        self, segment: Segment, event: int, inner: Segment, read: ReadAt, parts: dict[int, dict[int, bytes]]
    ) -> int:
        """The owner of a compressed transaction; ``parts`` gets those that are not the whole of it."""
        if self._inside is None:
            self._inside = Sharer(self.owners)
        shares = self._inside.share(inner, read)
        source, data = b"", b""
        fd = segment.format_description
        for share in shares:
            if share.size == inner.end:
                continue
            if not source:
                source = read(int(segment.offset[event]), int(segment.size[event]))
                data = open_payload(source, fd)
            kept = render(share_plan(segment.file, share), data, 0, read, inner.format_description)
            closed = close_payload(kept, source, fd)
            if closed is not None:
                parts.setdefault(share.output, {})[event] = closed
        return self.owners.code(share.output for share in shares)

    def _pairs(
        self, events: _Events, segment: Segment, before: dict[int, K.Walk]
    ) -> tuple[Ints, npt.NDArray[np.int32]]:
        """(transaction, output) for all that have something to do with one another, by transaction."""
        n_txn = len(events.uniform)
        continues, still_open = segment.continues, segment.open
        decided = events.uniform != NOBODY
        plain = decided & (events.uniform >= 0)
        txns: list[Ints] = [np.flatnonzero(plain)]
        outputs: list[npt.NDArray[np.int32]] = [events.uniform[plain]]

        def add(txn: npt.NDArray[np.integer], code: int) -> None:
            for output in self.owners.members(code):
                txns.append(txn.astype(np.int64))
                outputs.append(np.full(len(txn), output, np.int32))

        for code in np.unique(events.uniform[events.uniform < NOBODY]).tolist():
            add(np.flatnonzero(events.uniform == code), code)
        if not decided.all():
            # events of several owners: each pair of transaction and owner once
            lengths = np.diff(events.txn_event)
            some = np.repeat(~decided, lengths) & (events.owner != NOBODY)
            txn_of = np.repeat(np.arange(n_txn), lengths)
            # what follows on a table map may be in another block
            partly = (txn_of < int(continues)) | (txn_of >= n_txn - int(still_open))
            some &= partly | ((events.role & 0x7F) != R.TABLE_MAP)
            txn_of = txn_of[some]
            codes = events.owner[some]
            txn_of, codes = _each_once(txn_of, codes)
            txns.append(txn_of[codes >= 0])
            outputs.append(codes[codes >= 0])
            for code in np.unique(codes[codes < NOBODY]).tolist():
                add(txn_of[codes == code], code)
        if continues:
            for one in before:
                add(np.zeros(1, np.int64), one)
        txn, output = np.concatenate(txns), np.concatenate(outputs)
        missing = np.ones(n_txn, np.bool_)
        missing[txn] = False
        missing[: int(continues)] = False
        missing[n_txn - int(still_open) :] = False
        events.missing = missing
        for one in self.owners.otherwise:
            txn = np.concatenate([txn, np.flatnonzero(missing)])
            output = np.concatenate([output, np.full(np.count_nonzero(missing), one, np.int32)])
        return (txn, output) if len(txns) == 1 and not missing.any() else _each_once(txn, output)

    def _walk_nobody(self, events: _Events, walk: K.Walk, end: int) -> K.Walk:
        """The walk through the open transaction of an output that has nothing in it so far."""
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
        self, segment: Segment, events: _Events, mine: int, txns: Ints, walk: K.Walk, given: bool
    ) -> Share:
        first, last = events.txn_event[txns], events.txn_event[txns + 1]
        lengths = last - first
        txn_event = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(txn_event[-1]) + np.repeat(first - txn_event[:-1], lengths)
        offset, size, role, owner = events.offset[at], events.size[at], events.role[at], events.owner[at]
        belongs = self._belongs(owner, mine)
        others = ((role & 0x7F) >= R.KEEP) & ~belongs
        replaced: dict[int, bytes] = {}
        for event, data in events.parts.get(mine, {}).items():
            k = int(np.searchsorted(at, event))
            size[k] = len(data)
            role[k] = R.REPLACED | (role[k] & R.ENDS)
            replaced[int(offset[k])] = data
        # all of a transaction is one output's where all of its events are, or where it is nobody's
        uniform = events.uniform[txns]
        whole = self._belongs(uniform, mine)
        if mine in self.owners.otherwise:
            whole |= events.missing[txns]
        role[others] = R.ROWS | (role[others] & R.ENDS)
        if given:
            # nobody had anything in the transaction that ends here: its last event takes it along
            role[txn_event[1] - 1] = R.KEEP | R.ENDS
        still_open = segment.open and int(txns[-1]) == len(events.uniform) - 1
        walk, sent, kept = self._decide(
            offset,
            size,
            role,
            belongs.astype(np.int32),
            txn_event,
            np.where(whole, _MINE, R.MIXED).astype(np.int32),
            segment.end,
            still_open,
            walk,
        )
        if still_open:
            self._open[mine] = walk
            kept[-1] = False
        runs = np.empty((int(self._chunks["ranges"][0]), 4), np.int64)
        ranges = self._ranges[: len(runs)]
        runs[:, RUN_OFFSET], runs[:, RUN_KIND] = ranges[:, K.RANGE_OFFSET], ranges[:, K.RANGE_PATCH]
        runs[:, RUN_SIZE] = runs[:, RUN_SOURCE_SIZE] = ranges[:, K.RANGE_SIZE]
        if replaced:
            cut = runs[:, RUN_KIND] == K.REPLACED
            runs[cut, RUN_SOURCE_SIZE] = events.size[np.searchsorted(events.offset, runs[cut, RUN_OFFSET])]
        finished = events.txn_event[txns + 1][kept] - 1
        nbytes = _bytes_before(runs, events.offset[finished] + events.size[finished])
        inside = np.cumsum(_inside(runs, offset))
        # what was put aside in an earlier block is the first transaction's
        nevents = sent - inside[-1] + inside[txn_event[1:][kept] - 1]
        ends = np.column_stack([nbytes, nevents])
        return Share(mine, runs, sent, events.txn_number[txns[kept]], ends, replaced)

    def _belongs(self, owners: npt.NDArray[np.int32], mine: int) -> npt.NDArray[np.bool_]:
        """Which owners are an output, or have it among them."""
        found = owners == mine
        if self.owners.several:
            for code in np.unique(owners[owners < NOBODY]).tolist():
                if mine in self.owners.members(code):
                    found |= owners == code
        return np.asarray(found)

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
        """The walk after these transactions, how many events it sends, and of which transactions any; the ranges are in
        ``_ranges``, up to what ``_chunks`` says."""
        events = K.Events(offset, size, role, subject)
        transactions = K.Transactions(txn_event, txn_subject, still_open, end)
        kept = np.zeros(len(txn_subject), np.bool_)
        while True:
            trial = K.copy_of(walk)
            out = K.Output(self._ranges, self._chunks, kept)
            code, _, _ = K.decide(events, transactions, _VERDICTS, trial, out, 0, WHOLE_SEGMENT)
            if code == K.DONE:
                return trial, int(self._chunks["events"][0]), kept
            # something was full: make room and decide again
            self._ranges = np.zeros((2 * len(self._ranges) + 2 * len(walk.head), 3), np.int64)
            walk = K.enlarged(walk)


def _somebodys(events: _Events, before: dict[int, K.Walk]) -> bool:
    """Whether an output has something of the transaction that continues in this block and ends in it."""
    if any(walk.state["is_kept"][0] for walk in before.values()):
        return True
    part = slice(0, int(events.txn_event[1]))
    bare = ((events.role[part] & 0x7F) == R.TABLE_MAP) | (events.owner[part] == NOBODY)
    return not bare.all()


def _each_once(txn: Ints, owner: npt.NDArray[np.int32]) -> tuple[Ints, npt.NDArray[np.int32]]:
    """The different pairs, by transaction."""
    if not len(txn):
        return txn, owner
    low = int(owner.min())
    width = int(owner.max()) - low + 1
    keys = np.unique(txn * width + (owner - low))
    return keys // width, (keys % width + low).astype(np.int32)


def _bytes_before(runs: Ints, places: Ints) -> Ints:
    """How many bytes of the runs come from before each of these file offsets, which end transactions."""
    size = runs[:, RUN_SIZE]
    before = np.cumsum(size) - size
    k = np.searchsorted(runs[:, RUN_OFFSET], places) - 1
    inside = np.minimum(places - runs[k, RUN_OFFSET], size[k])
    return np.asarray(before[k] + np.where(runs[k, RUN_KIND] == K.REPLACED, size[k], inside), np.int64)


def _inside(runs: Ints, places: Ints) -> npt.NDArray[np.bool_]:
    """Whether the events at these file offsets are in the runs."""
    if not len(runs):
        return np.zeros(len(places), np.bool_)
    k = np.searchsorted(runs[:, RUN_OFFSET], places, side="right") - 1
    found = places < runs[k, RUN_OFFSET] + runs[k, RUN_SOURCE_SIZE]
    return np.asarray(found & (k >= 0))


_NO_RUNS: Ints = np.empty((0, 3), np.int64)


def share_plan(file: str, share: Share) -> ChunkPlan:
    """A share as the dump thread's chunk, for :func:`~dumpfilter.dump.chunk.render`."""
    ranges = share.runs[:, [RUN_OFFSET, RUN_SIZE, RUN_KIND]]
    return ChunkPlan(file, ranges, 0, 0, 0, _NO_RUNS, _NO_RUNS, replaced=share.replaced)
