"""The decision about which outputs receive each event. An output is a binlog set that the split writes.

A task reads a range (a sequence of complete transactions in one file) in blocks of about 16 MiB. The part of a block
that one output receives is a share. An event's owner number stands for the combination of outputs that receive it.
The dump thread's own code (:mod:`dumpfilter.dump.decision`) decides: each output acts as a filter, and each owner
number as a subject. The filter sends the subject if the output belongs to the combination. Up to 64 outputs are
decided at once.

A transaction may continue in the next block. The events on which later decisions depend are kept as a carry, for
each output that already owns an event of the transaction. One more carry is kept for all outputs that own none so
far, because such an output may own a later event.

The plan of a range says which bytes each output receives. One task makes and saves the plan. The driver reads it to
choose offsets in the output files, and the task that copies the range reads it again. A plan depends only on its
range, so a repeated task makes an equal plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter

from dumpfilter.base.files import committed
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import cut as K
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.decision import Asked, Carry, Decided, columns_of, decide, with_carry
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.flags import MOST_HITS
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.ranges import Block
from dumpfilter.spark_jobs.split.ownership import NO_OUTPUT, Owners

FILE_EVENTS = np.isin(np.arange(256), list(OF_FILES))
"""For each of the 256 event types, whether it belongs to the file, such as Format_description or Rotate. The split
does not copy such events, because it makes new ones for each file.
"""

Ints = npt.NDArray[np.int64]


class Share(NamedTuple):
    """The bytes that one output of a split receives from a block. An output is a binlog set that the split writes.

    A block is a part of the source, about 16 MiB, which a task reads at a time.
    """

    output: int
    plan: ChunkPlan
    """The pieces of the source file that the output receives, and the new bytes of cut compressed transactions.

    The first pieces may precede the block. They are the head or table maps of a transaction that began in an earlier
    block. The output owns rows of this transaction only in this block.
    """

    @property
    def size(self) -> int:
        """The number of bytes that the output (a binlog set that the split writes) receives from the block of the
        source.
        """
        return int(self.plan.ranges[:, K.RANGE_SIZE].sum())


class _OutputFlags:
    """The verdicts that make one output act as a filter for :class:`dumpfilter.dump.decision.Flags`. Its subjects
    are owner numbers.

    ``addresses`` contains the memory address of an array's row. Holding the row keeps this address valid.
    """

    is_on = True
    on_undecided = OnUndecided.SEND
    _no_hits: npt.NDArray[np.int8] = np.empty((0, MOST_HITS), np.int8)

    def __init__(self, row: npt.NDArray[np.uint32]) -> None:
        self._addresses = (row, row.ctypes.data, self._no_hits, 0)

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        return self._addresses


class _Block(NamedTuple):
    """The events of a block, with owner numbers in place of tables and statements."""

    columns: Columns
    parts: dict[int, dict[int, bytes]]
    """The new bytes of each compressed transaction of which an output receives only some events, by output number
    and then by event index.
    """

    def columns_for(self, output: int) -> Columns:
        """Return the columns with the sizes of those compressed transactions that are cut for ``output``."""
        columns, parts = self.columns, self.parts.get(output)
        if not parts:
            return columns
        size, role = columns.size.copy(), columns.role.copy()
        for event, data in parts.items():
            size[event] = len(data)
            role[event] = R.REPLACED | (role[event] & R.ENDS)
        return columns._replace(size=size, role=role)

    def replaced_for(self, output: int) -> dict[int, bytes]:
        """Return the new bytes of the compressed transactions that are cut for ``output``, by their file offset."""
        parts = self.parts.get(output, {})
        return {int(self.columns.offset[event]): data for event, data in parts.items()}


class Assigner:
    """The decision about which events each output of a split receives. An output is a binlog set that the split writes.

    An object decides about one range, a sequence of complete transactions in one file. ``owners`` finds the outputs of
    each table and statement. The caller must pass the range's segments (consecutive events) in order. The object keeps
    the state of a transaction that continues in the next segment.
    """

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self._open: dict[int, Carry] = {}
        """For each output that owns an event of the continuing transaction, the carried events on which later
        decisions depend.
        """
        self._nobody: Carry | None = None
        """The carried events for all outputs that own no event of the continuing transaction so far."""

    def assign(self, segment: Segment, read: ReadAt) -> list[Share]:
        """Return the bytes of the next segment that each output (binlog set that the split writes) receives. Outputs
        that receive nothing are left out.

        A segment is a sequence of consecutive events of a file. ``read(offset, length)`` reads bytes of this file,
        which is needed for compressed transactions of which an output receives only some events.
        """
        block = self._block(segment, read)
        nobody = len(self.owners.names)
        flags = [_OutputFlags(row) for row in self.owners.sent()]
        present = {*self._open, *block.parts}
        for code in (self.owners.default, *np.unique(block.columns.subject).tolist()):
            present.update(self.owners.combinations[code])
        begun = self._open if segment.continues else {}
        begun_nobody = self._nobody if segment.continues else None
        if begun_nobody is not None and not (segment.open or _any_owned(block, begun)):
            # The first transaction began in an earlier block and ends in this block. No output owns any of its events,
            # so the default outputs receive the transaction: they own its last event.
            last = int(block.columns.txn_event[1]) - 1
            block.columns.role[last], block.columns.subject[last] = R.STATEMENT | R.ENDS, self.owners.default
            begun = {}
        alone = [k for k in present if k in begun or k in block.parts]
        together = [*present.difference(alone), *([nobody] if segment.open else [])]
        decided: dict[int, Decided] = {}
        for outputs in ([together] if together else []) + [[k] for k in alone]:
            columns, carry = block.columns_for(outputs[0]), begun.get(outputs[0], begun_nobody)
            asked = [Asked(flags[k], 0, WHOLE_SEGMENT, segment.start, segment.start) for k in outputs]
            found = decide(segment.file, columns if carry is None else with_carry(columns, carry), asked)
            decided.update(zip(outputs, found, strict=True))
        self._open, self._nobody = {}, None
        if segment.open:
            of_nobody = decided.pop(nobody).carry
            assert of_nobody is not None
            self._nobody = of_nobody
            for output, one in decided.items():
                assert one.carry is not None
                if output in begun or one.carry.is_kept or len(one.carry.events) > len(of_nobody.events):
                    self._open[output] = one.carry
        return [
            Share(output, replace(plan, replaced=block.replaced_for(output)))
            for output, one in sorted(decided.items())
            for plan in one.plans[:1]
            if len(plan.ranges)
        ]

    def _block(self, segment: Segment, read: ReadAt) -> _Block:
        owners = self.owners
        known = owners.array()
        role, subject = segment.role & R.ROLE_MASK, segment.subject
        decides = (role >= R.TABLE_MAP) & (role <= R.STATEMENT)
        owner = np.where(decides & (subject >= 0), known[np.maximum(subject, -1)], np.int32(NO_OUTPUT))
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
        txn_subject = np.where(is_whole, lowest, np.int32(R.MIXED))
        txn_subject[~some] = owners.default
        txn_subject[segment.txn_source == R.KEPT] = R.SKIP
        txn_subject[: int(segment.continues)] = R.MIXED
        for of_output in parts.values():
            txn_subject[[segment.transaction_of(event) for event in of_output]] = R.MIXED
        columns = columns_of(segment)._replace(
            role=roles | (segment.role & R.ENDS),
            subject=owner,
            txn_subject=txn_subject,
            txn_set=np.zeros_like(segment.txn_set),
            has_gaps=False,
        )
        return _Block(columns, parts)

    def _look_inside(
        self, segment: Segment, event: int, inner: Segment, read: ReadAt, parts: dict[int, dict[int, bytes]]
    ) -> int:
        """Return the owner number of the compressed transaction with index ``event``, determined from the events
        inside.

        ``inner`` has the events inside. For each output that receives only some of them, a new compressed
        transaction is added to ``parts``.
        """
        shares = Assigner(self.owners).assign(inner, read)
        source, data = b"", b""
        fd = segment.format_description
        for share in shares:
            if share.size == inner.end:
                continue
            if not source:
                source = read(int(segment.offset[event]), int(segment.size[event]))
                data = open_payload(source, fd)
            kept = render(share.plan, data, 0, read, inner.format_description)
            closed = close_payload(kept, source, fd)
            if closed is not None:
                parts.setdefault(share.output, {})[event] = closed
        return self.owners.code(share.output for share in shares)


def _any_owned(block: _Block, begun: dict[int, Carry]) -> bool:
    """Return whether any output owns an event of the block's first transaction, which began in an earlier block.

    ``begun`` has the carry of each output that owns an event of this transaction in an earlier block.
    """
    if any(carry.is_kept for carry in begun.values()):
        return True
    columns, part = block.columns, slice(0, int(block.columns.txn_event[1]))
    bare = (columns.role[part] & R.ROLE_MASK == R.TABLE_MAP) | (columns.subject[part] == NO_OUTPUT)
    return not bare.all()


P_OUTPUT, P_BLOCK, P_OFFSET, P_SIZE, P_PATCH = range(5)
"""The columns of :attr:`RangePlan.pieces`. The last three are the columns of :attr:`ChunkPlan.ranges`.

- P_OUTPUT: the output, an index into ``RangePlan.outputs``.
- P_BLOCK: the block, an index into ``RangePlan.blocks``.
"""

T_OUTPUT, T_END, T_EVENTS, T_SOURCE, T_NUMBER, T_TIME, T_PLACE = range(7)
"""The columns of :attr:`RangePlan.transactions`. A row is a transaction of which one output receives an event.

- T_OUTPUT: the output, an index into ``RangePlan.outputs``.
- T_END, T_EVENTS: running totals of the bytes and events that the output receives from the range, up to the
transaction's end.
- T_SOURCE: the GTID source, an index into ``RangePlan.sources``, or -1 without a GTID.
- T_NUMBER: the last number of the GTID.
- T_TIME: the timestamp of the transaction's last event, Unix seconds.
- T_PLACE: the offset in the source file at which the transaction ends.
"""


_Cut = tuple[int, tuple[str, ...]] | None

_Words = tuple[list[str], list[SourceKey], dict[int, dict[int, bytes]], int, _Cut, int]
_HEAD: TypeAdapter[tuple[tuple[int, int, int], _Words]] = TypeAdapter(
    tuple[tuple[int, int, int], _Words],
    config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"),
)
"""The JSON type of the first line of a saved plan: the numbers of rows of the plan's arrays, and all other fields of
the plan.

The rows of blocks, transactions and pieces follow this line as 64-bit integers. NumPy's own file format is not used.
Its reader parses Python text, and two threads that do so at once fail in Python 3.11 with a SystemError.
"""


class RangePlan(NamedTuple):
    """The plan of one range (part of a source file). It says which bytes of the range each output receives; an output
    is a binlog set that the split writes.

    One task makes and saves the plan. The driver reads it to choose offsets in the output files, and another task
    copies the bytes.
    """

    blocks: Ints
    """The start and end of each block in the source file, bytes, as an array of shape (n, 2).

    A block is the part of the range that a task reads at a time, about 16 MiB.
    """
    transactions: Ints
    """A row for each pair of output and transaction of which the output receives an event, as an array of shape (n,
    7). :data:`T_OUTPUT` describes the columns.

    The rows of an output are in source order.
    """
    pieces: Ints
    """The pieces of the source file that outputs receive, as an array of shape (n, 5). :data:`P_OUTPUT` describes
    the columns.

    Rows are in the order of the blocks. Rows of one block and output are adjacent.
    """
    outputs: list[str]
    """The names of the outputs that receive events of the range."""
    sources: list[SourceKey]
    """The GTID sources to which the column T_SOURCE of ``transactions`` refers. A GTID source is a server UUID with
    its tag in MySQL, and a pair of domain id and server id in MariaDB.
    """
    replaced: dict[int, dict[int, bytes]]
    """For each output, the new bytes of the compressed transactions of which it receives only some events, by their
    offset in the source file.
    """
    cut: int
    """The number of transactions that have events for several outputs, and that at least one of these receives only
    in part.
    """
    first_cut: _Cut
    """The first transaction counted in ``cut``, as its offset in the source file and the names of its outputs. None
    if there is none.
    """
    unassigned: int
    """The number of transactions of which no output receives an event."""

    def save(self, path: Path) -> None:
        """Save the plan of a range in the file ``path``, for the driver and for the task that copies the bytes. Raises
        OutputError.

        The file is written under a temporary name and then renamed, so that no reader sees an incomplete plan.
        """
        # Spark may run a task twice at once.
        beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        with committed(path, beside=beside, synced=False) as file:
            lengths = len(self.blocks), len(self.transactions), len(self.pieces)
            file.write(_HEAD.dump_json((lengths, self[3:])) + b"\n")
            file.writelines(array.tobytes() for array in self[:3])

    @classmethod
    def load(cls, path: Path, *, with_pieces: bool = True) -> RangePlan:
        """Return the plan of a range from the file that the planning task saved.

        ``with_pieces`` False leaves the field ``pieces`` (the byte ranges to copy) empty. They are most of the file,
        and the driver does not need them.
        """
        with path.open("rb") as file:
            (n_blocks, n_transactions, n_pieces), words = _HEAD.validate_json(file.readline())
            shapes = (n_blocks, 2), (n_transactions, 7), (n_pieces if with_pieces else 0, 5)
            blocks, transactions, pieces = (
                np.fromfile(file, np.int64, rows * columns).reshape(rows, columns) for rows, columns in shapes
            )
        return cls(blocks, transactions, pieces, *words)

    def by_output(self) -> Iterator[tuple[int, Ints]]:
        """Yield for each output (binlog set that the split writes) its index in ``outputs``, and the transactions that
        it receives.

        The transactions are rows of ``transactions``.
        """
        bounds = np.searchsorted(self.transactions[:, T_OUTPUT], np.arange(len(self.outputs) + 1)).tolist()
        for output, (begin, end) in enumerate(pairwise(bounds)):
            yield output, self.transactions[begin:end]


class PlanMaker:
    """The builder of the plan of one range (part of a source file): which bytes each output of the split receives.

    :meth:`add` takes the blocks (consecutive events, about 16 MiB) of the range in order, and :meth:`finish` returns
    the plan. ``names`` has the names of the outputs by their number. The caller may append names later.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._blocks: list[tuple[int, int]] = []
        self._shares: list[tuple[int, int, int]] = []
        """The output, the block and the number of pieces of each share."""
        self._pieces: list[Ints] = [np.empty((0, 3), np.int64)]
        self._replaced: dict[int, dict[int, bytes]] = {}
        self._events: list[npt.NDArray[np.uint32]] = []
        """For each block, the offsets of its events. Four bytes an event, since a transaction can have millions."""
        self._strays: list[Ints] = [np.empty((0, 2), np.int64)]
        """The offset and size of each event that belongs to the file, such as Rotate. No output receives it."""
        self._transactions: list[Ints] = [np.empty((0, 4), np.int64)]
        """The columns T_SOURCE to T_PLACE of each transaction."""

    def add(self, block: Block, shares: Sequence[Share]) -> None:
        """Record which bytes of the next block (consecutive events, about 16 MiB) each output binlog set receives.

        ``shares`` has these bytes for each output that receives a part of the block. The blocks must come in the order
        of the file.
        """
        segment = block.segment
        number = len(self._blocks)
        self._blocks.append((segment.start, segment.end))
        for share in shares:
            if share.plan.replaced:
                self._replaced.setdefault(share.output, {}).update(share.plan.replaced)
            self._shares.append((share.output, number, len(share.plan.ranges)))
            self._pieces.append(share.plan.ranges)
        self._events.append((segment.offset - segment.start).astype(np.uint32))
        is_stray = FILE_EVENTS[segment.type]
        self._strays.append(np.column_stack([segment.offset[is_stray], segment.size[is_stray]]))
        last = segment.txn_event[1:] - 1
        place = segment.offset[last] + segment.size[last]
        rows = np.column_stack([segment.txn_source, segment.txn_number, segment.time[last], place])
        # The next block has the transaction that continues there.
        self._transactions.append(rows[: len(rows) - int(segment.open)])

    def finish(self, sources: SourceNumbers, family: str) -> RangePlan:
        """Return the plan of the range, after all of its blocks were added.

        ``sources`` has the server UUID, or domain id and server id, to which each number of a GTID source refers.
        ``family`` is the kind of server that wrote the range, MySQL or MariaDB.
        """
        about = np.concatenate(self._transactions)
        shares = np.array(self._shares, np.int64).reshape(-1, 3)
        pieces = np.column_stack(
            [np.repeat(shares[:, :2], shares[:, 2], axis=0), np.concatenate(self._pieces)]
        )
        # The outputs' numbers depend on the ranges that this process read before. The plan orders the outputs by name
        # instead, so that every process makes an equal plan of the range.
        outputs = sorted(np.unique(pieces[:, P_OUTPUT]).tolist(), key=self._names.__getitem__)
        number = np.zeros(max(outputs, default=0) + 1, np.int64)
        number[outputs] = np.arange(len(outputs))
        pieces[:, P_OUTPUT] = number[pieces[:, P_OUTPUT]]
        names = [self._names[k] for k in outputs]
        output, transaction, received = self._received(pieces, about)
        nbytes = self._sizes(about)
        n_outputs = np.bincount(transaction, minlength=len(about))
        is_cut = np.zeros(len(about), np.bool_)
        is_cut[transaction[received[:, 0] < nbytes[transaction]]] = True
        is_cut &= n_outputs > 1
        first_cut: _Cut = None
        if is_cut.any():
            first = int(np.argmax(is_cut))
            begin = about[first - 1, -1] if first else self._blocks[0][0]
            first_cut = int(begin), tuple(names[k] for k in output[transaction == first])
        # Outputs do not receive the source's file events between transactions, such as Rotate. These events do not
        # count as transactions that belong to no output.
        unassigned = (n_outputs == 0) & (about[:, 0] != R.KEPT)
        totals = np.cumsum(received, axis=0)
        begins = np.searchsorted(output, output)
        totals -= totals[begins] - received[begins]
        return RangePlan(
            np.array(self._blocks, np.int64).reshape(-1, 2),
            np.column_stack([output, totals, about[transaction]]),
            pieces,
            names,
            [sources.key(k, family) for k in range(sources.count)],
            {int(number[one]): found for one, found in self._replaced.items()},
            int(np.count_nonzero(is_cut)),
            first_cut,
            int(np.count_nonzero(unassigned)),
        )

    def _sizes(self, about: Ints) -> Ints:
        """Return the bytes of each transaction, without those of events that no output receives."""
        ends = about[:, -1]
        found: Ints = np.diff(ends, prepend=self._blocks[0][0] if self._blocks else 0)
        offset, size = np.concatenate(self._strays).T
        np.subtract.at(found, np.searchsorted(ends, offset, "right"), size)
        return found

    def _events_before(self, offset: Ints) -> Ints:
        """Return the number of the range's events that begin before each offset."""
        found = np.zeros(len(offset), np.int64)
        for (begin, _), events in zip(self._blocks, self._events, strict=True):
            found += np.searchsorted(events, np.maximum(offset - begin, 0))
        return found

    def _received(self, pieces: Ints, about: Ints) -> tuple[Ints, Ints, Ints]:
        """Return a row for each output and transaction of which the output receives an event, in this order.

        The arrays have the output, the index of the transaction in ``about``, and the received bytes and events.
        """
        ends = about[:, -1]
        pieces = pieces[np.argsort(pieces[:, P_OUTPUT], kind="stable")]
        begin, stop = pieces[:, P_OFFSET], pieces[:, P_OFFSET] + pieces[:, P_SIZE]
        first = np.searchsorted(ends, begin, "right")
        # A compressed transaction of which the output receives a part has another size in the source.
        is_replaced = pieces[:, P_PATCH] == K.REPLACED
        last = np.where(is_replaced, first, np.searchsorted(ends, stop - 1, "right"))
        # A piece may have events of several transactions, and a transaction several pieces.
        count = last - first + 1
        piece = np.repeat(np.arange(len(pieces)), count)
        transaction = np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count) + first[piece]
        begin = np.maximum(begin[piece], np.append(0, ends)[transaction])
        stop = np.minimum(stop[piece], ends[transaction])
        n_events = self._events_before(stop) - self._events_before(begin)
        received = np.column_stack([stop - begin, n_events])
        received[is_replaced[piece]] = 1
        received[is_replaced[piece], 0] = pieces[piece[is_replaced[piece]], P_SIZE]
        output = pieces[piece, P_OUTPUT]
        (kept,) = np.nonzero((np.diff(output, prepend=-1) != 0) | (np.diff(transaction, prepend=-1) != 0))
        return (
            output[kept],
            transaction[kept],
            np.add.reduceat(received, kept, axis=0) if len(kept) else received,
        )
