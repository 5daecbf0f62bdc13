"""The tasks of a split, which run on Spark or threads, and the plan that they pass to each other. A split divides one
binlog set, the source, into several binlog sets, the outputs.

A :class:`PlanRange` task plans which bytes of a range (a sequence of complete transactions in a source file) each
output receives. A :class:`WriteRange` task copies these bytes to the output files.

The plan of a range says which bytes each output receives. One task makes and saves the plan. The driver reads the plan
to choose offsets in the output files, and the task that copies the range reads the plan again. A plan depends only on
its range, so a repeated task makes an equal plan.

Spark may retry a task, run it twice at once, or kill it at any time. Plans are therefore published by a rename, and a
task that writes again writes equal bytes at equal offsets.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.files import committed, writing
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import rebase_array
from dumpfilter.dump.chunk import ChunkPlan, render_into
from dumpfilter.index.addresses import file_name
from dumpfilter.index.fileset import BinlogFile, open_file, reused_buffer
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.engines import step
from dumpfilter.spark_jobs.ranges import FileIndex, Range, ReadRanges, indexes_of_task, state_of_thread
from dumpfilter.spark_jobs.split._shares import (
    P_BLOCK,
    P_OFFSET,
    P_OUTPUT,
    P_SIZE,
    SHARE_END,
    SHARE_EVENTS,
    SHARE_OUTPUT,
    SHARE_SIZE,
    SHARE_TRANSACTION,
    list_shares,
)
from dumpfilter.spark_jobs.split.ownership import (
    FILE_EVENTS,
    Assigner,
    Owners,
    Specification,
)

T_OUTPUT, T_END, T_EVENTS, T_SOURCE, T_NUMBER, T_TIME, T_PLACE = range(7)
"""The columns of :attr:`RangePlan.transactions`. A row is a transaction of which one output (binlog set of the split)
receives an event.

- T_OUTPUT: the output, an index into ``RangePlan.outputs``.
- T_END, T_EVENTS: running totals of the bytes and events that the output receives from the range (part of a source
file), up to the transaction's end.
- T_SOURCE: the GTID source, an index into ``RangePlan.sources``, or -1 without a GTID.
- T_NUMBER: the last number of the GTID.
- T_TIME: the timestamp of the transaction's last event, Unix seconds.
- T_PLACE: the offset in the source file at which the transaction ends.
"""


_Cut = tuple[int, tuple[str, ...]] | None

_Words = tuple[list[str], list[SourceKey], dict[int, dict[int, bytes]], int, _Cut, int, FileIndex | None]
_HEAD: TypeAdapter[tuple[tuple[int, int, int], _Words]] = TypeAdapter(
    tuple[tuple[int, int, int], _Words],
    config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"),
)
"""The JSON type of the first line of a saved :class:`RangePlan`: the numbers of rows of its arrays, and all its other
fields.

The rows of blocks, transactions and pieces follow this line as 64-bit integers. NumPy's own file format is not used.
Its reader parses Python text, and two threads that do so at once fail in Python 3.11 with a SystemError.
"""


class RangePlan(NamedTuple):
    """The plan of one range (part of a source file). The plan says which bytes of the range each output receives. An
    output is a binlog set that the split writes.

    One task makes and saves the plan. The driver reads the plan to choose offsets in the output files, and another task
    copies the bytes.
    """

    blocks: Ints
    """The start and end of each block in the source file, bytes, as an array of shape (n, 2).

    A block is the part of the range that a task reads at a time, about 16 MiB.
    """
    transactions: Ints
    """A row for each pair of an output (binlog set of the split) and a transaction of which the output receives an
    event, as an array of shape (n, 7). :data:`T_OUTPUT` describes the columns.

    The rows of an output are in source order.
    """
    pieces: Ints
    """The pieces (consecutive bytes) of the source file that outputs (binlog sets of the split) receive, as an array of
    shape (n, 5). :data:`~dumpfilter.spark_jobs.split._shares.P_OUTPUT` describes the columns. The output and the block
    are indexes into ``outputs`` and ``blocks``.

    Rows are in the order of ``blocks``. Rows of one block and output are adjacent.
    """
    outputs: list[str]
    """The names of the outputs (binlog sets of the split) that receive events of the range (part of a source file)."""
    sources: list[SourceKey]
    """The GTID sources to which the column T_SOURCE of ``transactions`` refers. A GTID source is a server UUID with
    its tag in MySQL, and a pair of domain id and server id in MariaDB.
    """
    replaced: dict[int, dict[int, bytes]]
    """For each output (binlog set of the split), by its index in ``outputs``, the compressed transactions of which the
    output receives only some events.

    The value maps the byte offset of a transaction's Transaction_payload event in the source file to the new bytes of
    this event.
    """
    cut: int
    """The number of transactions with events for several outputs (binlog sets of the split), of which at least one
    output receives only a part.
    """
    first_cut: _Cut
    """The first transaction that several outputs (binlog sets of the split) receive and one of them only in part. The
    value is its byte offset in the source file, and the names of these outputs. None without such a transaction.
    """
    unassigned: int
    """The number of transactions of which no output (binlog set of the split) receives an event."""
    found: FileIndex | None = None
    """The data that the planning task found about the range (part of a source file), such as the offset at which its
    last transaction ends. The file's path and name are empty.
    """

    def save(self, path: Path) -> None:
        """Save the plan in the file ``path``, for the driver and for the task that copies the bytes. The plan says
        which bytes of a range (part of a source file) each output (binlog set of the split) receives. Raises
        OutputError if the file cannot be written.

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
        """Return the plan of a range (part of a source file) from the file that the planning task saved. The plan says
        which bytes of the range each output (binlog set of the split) receives.

        ``with_pieces`` False leaves the field ``pieces`` (the byte ranges to copy) empty. The pieces are most of the
        file, and the driver does not need them.
        """
        with path.open("rb") as file:
            (n_blocks, n_transactions, n_pieces), words = _HEAD.validate_json(file.readline())
            shapes = (n_blocks, 2), (n_transactions, 7), (n_pieces if with_pieces else 0, 5)
            blocks, transactions, pieces = (
                np.fromfile(file, np.int64, rows * columns).reshape(rows, columns) for rows, columns in shapes
            )
        return cls(blocks, transactions, pieces, *words)


def plan_of(
    parts: Iterable[tuple[Segment, Mapping[int, ChunkPlan]]], names: Sequence[str], sources: SourceNumbers
) -> RangePlan:
    """Return the plan of one range (part of a source file). The plan says which bytes each output (binlog set that the
    split writes) receives.

    Parameters:
        parts: the blocks (consecutive events, about 16 MiB) of the range in the order of the file, each with the plans
            of the outputs. A plan describes the bytes of the block that one output receives.
        names: the names of the outputs by their number. A block may append names.
        sources: the register that gives for each number in the blocks its GTID source (server UUID, or MariaDB's domain
            and server id).
    """
    blocks: list[tuple[int, int]] = []
    replaced: dict[int, dict[int, bytes]] = {}
    # The offset of each event, and whether the event belongs to the file, such as Rotate. No output receives such an
    # event.
    events: list[Ints] = [np.empty(0, np.int64)]
    is_stray: list[npt.NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    pieces_of_blocks: list[Ints] = [np.empty((0, 5), np.int64)]
    # The columns T_SOURCE to T_PLACE of each transaction.
    transactions: list[Ints] = [np.empty((0, 4), np.int64)]
    for segment, received_by in parts:
        for output_number, plan in received_by.items():
            if plan.replaced:
                replaced.setdefault(output_number, {}).update(plan.replaced)
            place = np.broadcast_to((output_number, len(blocks)), (len(plan.ranges), 2))
            pieces_of_blocks.append(np.column_stack([place, plan.ranges]))
        blocks.append((segment.start, segment.end))
        events.append(segment.offset)
        is_stray.append(FILE_EVENTS[segment.type])
        last = segment.txn_event[1:] - 1
        end = segment.offset[last] + segment.size[last]
        rows = np.column_stack([segment.txn_source, segment.txn_number, segment.time[last], end])
        # The next block has the transaction that continues there.
        transactions.append(rows[: segment.ended])
    about, pieces = np.concatenate(transactions), np.concatenate(pieces_of_blocks)
    # The outputs' numbers depend on the ranges that this process read before. The plan orders the outputs by name
    # instead, so that every process makes an equal plan of the range.
    outputs = sorted(np.flatnonzero(np.bincount(pieces[:, P_OUTPUT])).tolist(), key=names.__getitem__)
    number = np.zeros(max(outputs, default=0) + 1, np.int64)
    number[outputs] = np.arange(len(outputs))
    pieces[:, P_OUTPUT] = number[pieces[:, P_OUTPUT]]
    # The offset of each event, and of the end of the last one.
    bounds = np.append(np.concatenate(events), blocks[-1][1] if blocks else 0)
    # The index of each transaction's first event, and the number of all events.
    first_event = np.append(0, np.searchsorted(bounds, about[:, -1]))
    shares = _shares(pieces, bounds, first_event)
    output, transaction = shares[:, SHARE_OUTPUT], shares[:, SHARE_TRANSACTION]
    # The bytes of each transaction, without those of events that no output receives.
    sizes = np.where(np.concatenate(is_stray), 0, np.diff(bounds))
    nbytes = np.add.reduceat(sizes, first_event[:-1])
    n_outputs = np.bincount(transaction, minlength=len(about))
    is_cut = np.zeros(len(about), np.bool_)
    is_cut[transaction[shares[:, SHARE_SIZE] < nbytes[transaction]]] = True
    is_cut &= n_outputs > 1
    first_cut: _Cut = None
    if is_cut.any():
        first = int(np.argmax(is_cut))
        among = tuple(names[outputs[k]] for k in output[transaction == first])
        first_cut = int(bounds[first_event[first]]), among
    # Outputs do not receive the source's file events between transactions, such as Rotate. These events do not
    # count as transactions that belong to no output.
    unassigned = (n_outputs == 0) & (about[:, 0] != R.KEPT)
    return RangePlan(
        np.array(blocks, np.int64).reshape(-1, 2),
        np.column_stack([output, shares[:, [SHARE_END, SHARE_EVENTS]], about[transaction]]),
        pieces,
        [names[k] for k in outputs],
        [sources.key(k) for k in range(sources.count)],
        {int(number[one]): found for one, found in replaced.items()},
        int(np.count_nonzero(is_cut)),
        first_cut,
        int(np.count_nonzero(unassigned)),
    )


def _shares(pieces: Ints, bounds: Ints, first_event: Ints) -> Ints:
    """Return a row for each pair of an output (binlog set that the split writes) and a transaction of which the output
    receives an event. :data:`~dumpfilter.spark_jobs.split._shares.SHARE_OUTPUT` describes the columns. The rows are
    sorted by output, and then by transaction.

    ``pieces`` are the pieces (consecutive bytes) of the source file that outputs receive (:attr:`RangePlan.pieces`).
    ``bounds`` has the offset of each event and of the last one's end. ``first_event`` has the index of each
    transaction's first event, and the number of all events.
    """
    pieces = pieces[np.argsort(pieces[:, P_OUTPUT], kind="stable")]
    room = len(pieces)
    # A piece may have events of several transactions.
    while (n := list_shares(pieces, bounds, first_event, shares := np.empty((room, 5), np.int64))) > room:
        room = n
    return shares[:n]


RangeFile = Literal["plan", "written"]
"""The kinds of files about a range (part of the source).

- ``plan`` says which bytes of the range each output binlog receives.
- ``written`` exists when all bytes of the range have been written to the output files.
"""


@dataclass(frozen=True)
class Staging:
    """The working directory of a split, with the paths of all files in it. Tasks pass their results to each other in
    these files, so the driver and all workers must share the directory.

    Ranges, the parts of the source that tasks read, are numbered from 0. An output is a binlog set that the split
    writes.
    """

    path: str
    is_guessed: bool = False
    """Whether the beginnings of ranges (parts of source files) were guessed, and not found by a scan of the files.

    Guessed ranges have other file names, since a range of the same number may have other bytes after a scan.
    """

    def plan(self, number: int) -> Path:
        """Return the path of the saved plan for the range ``number`` (a part of the source that one task reads). The
        plan says which bytes of the range each output receives.
        """
        return self._of_range("plan", number)

    def written(self, number: int) -> Path:
        """Return the path of the marker file for the range ``number`` (a part of the source that one task reads). The
        file exists if all bytes of the range have been written to the outputs' files.
        """
        return self._of_range("written", number)

    def _of_range(self, kind: RangeFile, number: int) -> Path:
        return Path(self.path, kind, f"{number:06}{'-guessed' if self.is_guessed else ''}")

    def binlog(self, output: str, number: int) -> Path:
        """Return the path of file ``number`` (from 1) of the binlog set ``output`` that the split writes."""
        return Path(self.path, "out", binlog_name(output, number))


class Stretch(NamedTuple):
    """A stretch: consecutive bytes that an output receives from a range, all written to one file. A range is a part of
    a source file, and an output is a binlog set that the split writes.

    The bytes that the output receives from the range are numbered from 0, in source order. Usually they are one
    stretch. If the output's file becomes full within the range, the next stretch goes to the next file. A stretch
    begins where the previous one ends.
    """

    stop: int
    """The number of the first byte after this stretch. All bytes that the output (binlog set of the split) receives
    from one part of the source are numbered from 0.
    """
    file: int
    """The number, from 1, of the file of the output (binlog set of the split) to which the bytes are written."""
    offset: int
    """The offset in the output's file at which byte number 0 would be, if the file held all bytes that the output
    receives from one range (part of the source).

    Byte number n of the stretch is written at this offset plus n. The offset is negative if more of the range's bytes
    are in earlier files than precede the stretch in this file.
    """


Placement = dict[str, list[Stretch]]
"""For each output (binlog set of the split) by name, the files and offsets at which the bytes from one range (part of
the source) are written.
"""


def binlog_name(output: str, number: int) -> str:
    """Return the name of file ``number`` (from 1) of the binlog ``output``, such as ``shop-bin.000001``. MySQL's
    worklog 2387 proposes this form.
    """
    return f"{output}-bin.{number:06}"


@dataclass(frozen=True, kw_only=True)
class PlanRange(ReadRanges):
    """A picklable task that plans which bytes of a range each output of a split receives, and saves this plan in a
    file. A range is a sequence of complete transactions in one source file, and an output is a binlog set that the
    split writes.
    """

    specification: Specification
    staging: Staging
    names: NameRules
    """The settings by which filters compare names of schemas and tables. The settings are those of the newest file's
    server, because a filter must treat all files of the set alike.
    """
    unknown_xa_schemas: tuple[str, ...] = ()
    """In a split by schema, the schemas that receive XA COMMIT and XA ROLLBACK of transactions prepared before the
    set.
    """

    def __call__(self, wanted: Range) -> None:
        """Read a range (part of a source file), and save the plan of which bytes each output receives in the working
        directory.

        A range that already has a plan is not read again. Raises BinlogError with file and position. Raises OutputError
        if the working directory cannot be written.
        """
        target = self.staging.plan(wanted.number)
        if target.exists():
            found = RangePlan.load(target, with_pieces=False).found
            assert found is not None
            indexes_of_task().append(replace(found, path=wanted.path, name=file_name(wanted.path)))
            return
        with open_file(wanted.path) as file:
            names = self.names._replace(family=file.format_description.family)

            def state() -> tuple[Subjects, SourceNumbers, Owners]:
                subjects = Subjects()
                owners = self.specification.owners(subjects, names, self.unknown_xa_schemas)
                return subjects, SourceNumbers(), owners

            # The family of a file is part of the names.
            subjects, sources, owners = state_of_thread((self.job, names), state)
            assigner = Assigner(owners)
            parts = (
                (block.segment, assigner.assign(block.segment, file.read))
                for block in self.blocks(file, wanted, subjects, sources)
            )
            plan = plan_of(parts, owners.names, sources)
        # JSON has no paths that are not UTF-8.
        plan._replace(found=replace(indexes_of_task()[-1], path="", name="")).save(target)


@dataclass(frozen=True)
class WriteRange:
    """A picklable task that copies the bytes of one range (part of a source file) to the output files. An earlier task
    has planned the bytes, and the driver has chosen their files and offsets.
    """

    staging: Staging

    def __call__(self, placed: tuple[Range, Placement]) -> None:
        """Copy the bytes of a range (part of a source file) to the output files. ``placed`` is the range, and the files
        and offsets that the driver has chosen for each output.

        A range that was already written is skipped. Raises OutputError if an output cannot be written, and BinlogError
        if the source file cannot be read or has become shorter since it was planned.
        """
        wanted, placement = placed
        marker = self.staging.written(wanted.number)
        if marker.exists():
            return
        plan = RangePlan.load(self.staging.plan(wanted.number))
        with open_file(wanted.path) as file:
            for output, data, begin in _rendered_shares(file, plan):
                for start, end, number, offset in _cut(placement[output], begin, begin + len(data)):
                    part = data[start - begin : end - begin]
                    rebase_array(part, offset + start, checksum=file.format_description.checksum)
                    with opened(self.staging.binlog(output, number)) as target:
                        target.seek(offset + start)
                        target.write(part.data)
        with writing(marker):
            marker.touch()


def _rendered_shares(file: BinlogFile, plan: RangePlan) -> Iterator[tuple[str, npt.NDArray[np.uint8], int]]:
    """Yield the bytes that each output (binlog set of the split) receives from each block of a range. ``plan`` says
    which pieces of the range these are. The range is a part of the source file ``file``. A block is the part of the
    range that a task reads at a time.

    Each item has the output's name, the bytes, and the number of bytes that the output received from earlier blocks of
    the range. The array of bytes is valid only until the next item.
    """
    pieces, blocks = plan.pieces, plan.blocks.tolist()
    if not len(pieces):
        return
    share = pieces[:, P_BLOCK] * len(plan.outputs) + pieces[:, P_OUTPUT]
    first = np.flatnonzero(np.diff(share, prepend=-1))
    sizes = np.add.reduceat(pieces[:, P_SIZE], first).tolist()
    bounds = [*first.tolist(), len(pieces)]
    loaded = -1
    before = [0] * len(plan.outputs)
    buffer, room = reused_buffer(int(np.diff(plan.blocks).max())), reused_buffer(max(sizes))
    for (begin, until), size in zip(pairwise(bounds), sizes, strict=True):
        output, block = pieces[begin, [P_OUTPUT, P_BLOCK]].tolist()
        start, end = blocks[block]
        if loaded != block:
            step(end - start)
            file.read_whole(buffer[: end - start], start)
            loaded = block
        ranges = pieces[begin:until, P_OFFSET:]
        chunk = ChunkPlan(file.name, ranges, 0, 0, 0, _NONE, replaced=plan.replaced.get(output, {}))
        render_into(room[:size], chunk, buffer[: end - start], start, file.read, file.format_description)
        yield plan.outputs[output], room[:size], before[output]
        before[output] += size


_NONE: Ints = np.empty((0, 3), np.int64)


def _cut(stretches: list[Stretch], begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Divide bytes that an output receives from a range into parts, each for one file of the output. An output is a
    binlog set that the split writes, and a range is a part of the source.

    The bytes that the output receives from the range are numbered from 0; ``begin`` and ``end`` are such numbers.
    ``stretches`` tells to which file they are written. Each result has a part's begin and end in this numbering, the
    number of the output file, and an offset. The part's position in the file is its begin plus this offset.
    """
    for stop, number, offset in stretches:
        if begin < stop and begin < end:
            yield begin, min(end, stop), number, offset
            begin = stop


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open an output file for writing at any offset, and create the file if it is missing. Existing content stays.
    Raises OutputError if the file cannot be written.
    """

    def opener(path: str, flags: int) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    with writing(path), open(path, "wb", opener=opener) as file:
        yield file
