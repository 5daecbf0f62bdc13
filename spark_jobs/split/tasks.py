"""The Spark tasks of the split.

A :class:`PlanRange` task plans which bytes of a range (consecutive transactions of a source file) go to which output. A
:class:`WriteRange` task copies the bytes of a planned range to the output files.

Spark may run a task again, run a task twice at the same time, or kill a task at any moment. Therefore a plan appears by
a rename, and a task that writes again puts the same bytes at the same offsets. A task returns an error of a binlog or
of an output as a value, so that the driver can raise an error of the same type.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dumpfilter.analyse.split_set.manifest import RANGES_SCHEMA
from dumpfilter.base.files import writing
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import rebase_array
from dumpfilter.dump import cut as K
from dumpfilter.dump.chunk import ChunkPlan, render_into
from dumpfilter.index.fileset import BinlogFile, open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.engines.runner import step
from dumpfilter.spark_jobs.ranges.range_index import ReadRanges, state_of_thread
from dumpfilter.spark_jobs.ranges.ranges import Range, memory
from dumpfilter.spark_jobs.split import assign as P
from dumpfilter.spark_jobs.split.assign import Assigner, Ints, PlanMaker, RangePlan, committed_by_task
from dumpfilter.spark_jobs.split.ownership import Owners, Specification
from dumpfilter.spark_jobs.split.placement import Placement, Stretch, binlog_name

_RISING = frozenset({"start", "end", "source_start", "source_end"})
"""The columns of the Parquet tables whose values rise from row to row. They are stored as differences, which are short.
A dictionary would cost time and space, since hardly two values are equal."""


@dataclass(frozen=True)
class Staging:
    """The paths in the working directory of a split. The driver and all Spark workers must see the same directory.

    Ranges, the parts of the source that Spark tasks work on, have numbers from 0. An output is a binlog that the split
    writes.
    """

    path: str

    def plan(self, number: int) -> Path:
        """Return the path of the file that says which bytes of range ``number`` go to which output."""
        return Path(self.path, "plan", f"{number:06}.plan")

    def placement(self, number: int) -> Path:
        """Return the path of the file that says at which offsets of the output files range ``number`` is written."""
        return Path(self.path, "placement", f"{number:06}.json")

    def written(self, number: int) -> Path:
        """Return the path of a marker file, which exists if a task has written range ``number`` to the output files."""
        return Path(self.path, "written", f"{number:06}")

    def binlog(self, output: str, number: int) -> Path:
        """Return the path of file ``number`` (from 1) of an output."""
        return Path(self.path, "out", binlog_name(output, number))

    def ranges(self, number: int) -> Path:
        """Return the path of the table that says where in the output files the bytes of range ``number`` are."""
        return Path(self.path, "out", "ranges", f"{number:06}.parquet")

    def save(self, table: pa.Table, target: Path) -> None:
        """Write a table as a Parquet file. A rename puts the finished file at ``target``.

        The temporary file is in a directory that is not published, so a killed task leaves nothing in the output.
        Raises OutputError.
        """
        with committed_by_task(target, directory=Path(self.path, "plan")) as file:
            pq.write_table(
                table,
                file,
                compression="zstd",
                use_dictionary=[name for name in table.column_names if name not in _RISING],
                column_encoding={
                    name: "DELTA_BINARY_PACKED" for name in table.column_names if name in _RISING
                },
            )


@dataclass(frozen=True, kw_only=True)
class PlanRange(ReadRanges):
    """A task that plans which bytes of a range go to which output of the split. A range is consecutive transactions
    of one source file."""

    specification: Specification
    staging: Staging
    names: NameRules
    """How filters compare names of schemas and tables. It follows the server that wrote the newest file, since a filter
    must treat all files of the set alike.
    """
    unknown_xa_schemas: tuple[str, ...] = ()
    """The schemas, in a split by schema, that receive XA COMMIT and XA ROLLBACK of transactions prepared before the
    set."""

    def __call__(self, wanted: Range) -> None:
        """Read a range, and save its plan in the working directory.

        A range that has a plan already is not read again. Raises BinlogError with file and position. Raises OutputError
        when the working directory cannot be written.
        """
        target = self.staging.plan(wanted.number)
        if target.exists():
            return
        with open_file(wanted.path) as file:
            family = file.format_description.family
            job = self.specification, self.names._replace(family=family), self.unknown_xa_schemas
            subjects, sources, owners = state_of_thread(job, lambda: _state(*job))
            assigner, maker = Assigner(owners), PlanMaker(owners.names)
            for block in self.blocks(file, wanted, subjects, sources):
                maker.add(block, assigner.assign(block.segment, file.read))
        maker.finish(sources, family).save(target)


def _state(
    specification: Specification, names: NameRules, unknown_xa_schemas: tuple[str, ...]
) -> tuple[Subjects, SourceNumbers, Owners]:
    subjects = Subjects()
    return subjects, SourceNumbers(), specification.owners(subjects, names, unknown_xa_schemas)


@dataclass(frozen=True)
class WriteRange:
    """A task that copies the bytes of a planned range to the files and offsets that the driver has chosen."""

    staging: Staging

    def __call__(self, wanted: Range) -> None:
        """Copy the bytes of a range to the output files, and save the table of their positions.

        A range that has been written is not written again. Raises OutputError when an output cannot be written, and
        BinlogError when the source has changed since the plan.
        """
        marker = self.staging.written(wanted.number)
        if marker.exists():
            return
        plan = RangePlan.load(self.staging.plan(wanted.number))
        placement: Placement = json.loads(self.staging.placement(wanted.number).read_bytes())
        with open_file(wanted.path) as file:
            for output, data, begin in _rendered_shares(file, plan):
                for start, end, number, offset in _cut(placement[output], begin, begin + len(data)):
                    part = data[start - begin : end - begin]
                    rebase_array(part, offset + start, checksum=file.format_description.checksum)
                    path = self.staging.binlog(output, number)
                    with writing(path), opened(path) as handle:
                        write_all(handle, part.data, offset + start)
            pieces = _with_source_ends(file, plan)
        rows = np.concatenate(
            [
                np.empty((0, 7), np.int64),
                *(
                    _mapping(found, placement[plan.outputs[output]], wanted.file)
                    for output, found in plan.by_output(pieces)
                ),
            ]
        )
        self._save_ranges(wanted.number, rows, plan.outputs)
        with writing(marker):
            marker.touch()

    def _save_ranges(self, number: int, rows: Ints, outputs: list[str]) -> None:
        names = pa.DictionaryArray.from_arrays(
            pa.array(rows[:, 0], pa.int32()), pa.array(outputs, pa.string())
        )
        others = [
            pa.array(rows[:, k], field.type)
            for k, field in enumerate(RANGES_SCHEMA)
            if field.name != "binlog"
        ]
        table = pa.Table.from_arrays([names, *others], schema=RANGES_SCHEMA)
        self.staging.save(table, self.staging.ranges(number))


def _rendered_shares(file: BinlogFile, plan: RangePlan) -> Iterator[tuple[str, npt.NDArray[np.uint8], int]]:
    """Yield the bytes that each output receives from each block of a range.

    Each item is the output's name, the bytes, and the number of bytes that the output received from earlier blocks of
    the range. The array of bytes is valid until the next item.
    """
    pieces, blocks = plan.pieces, plan.blocks.tolist()
    if not len(pieces):
        return
    is_first = (np.diff(pieces[:, [P.P_OUTPUT, P.P_BLOCK]], axis=0, prepend=-1) != 0).any(axis=1)
    first = np.flatnonzero(is_first)
    sizes = np.add.reduceat(pieces[:, P.P_SIZE], first).tolist()
    bounds = [*first.tolist(), len(pieces)]
    loaded = -1
    before = [0] * len(plan.outputs)
    with memory(int(np.diff(plan.blocks).max())) as buffer, memory(max(sizes)) as room:
        for (begin, until), size in zip(pairwise(bounds), sizes, strict=True):
            output, block = pieces[begin, [P.P_OUTPUT, P.P_BLOCK]].tolist()
            start, end = blocks[block]
            if loaded != block:
                step(end - start)
                file.read_whole(buffer[: end - start], start)
                loaded = block
            ranges = pieces[begin:until, P.P_OFFSET :]
            chunk = ChunkPlan(file.name, ranges, 0, 0, 0, _NONE, replaced=plan.replaced.get(output, {}))
            render_into(room[:size], chunk, buffer[: end - start], start, file.read, file.format_description)
            yield plan.outputs[output], room[:size], before[output]
            before[output] += size


_NONE: Ints = np.empty((0, 3), np.int64)


def _cut(stretches: list[Stretch], begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Divide bytes that an output receives from a range where the output begins a new file.

    ``begin``, ``end`` and the results count the bytes that the output receives from the range. Each result is a part's
    begin and end, the number of the output file that gets the part, and a number. Begin and end plus this number are
    the part's offsets in the file.
    """
    for stop, number, offset in stretches:
        if begin < stop and begin < end:
            yield begin, min(end, stop), number, offset
            begin = stop


def _with_source_ends(file: BinlogFile, plan: RangePlan) -> Ints:
    """Return the pieces of a plan, with one more column for the offset at which each piece ends in the source."""
    ends = plan.pieces[:, P.P_OFFSET] + plan.pieces[:, P.P_SIZE]
    for row in np.flatnonzero(plan.pieces[:, P.P_PATCH] == K.REPLACED).tolist():
        # A compressed transaction of which the output receives a part has another size in the source.
        offset = int(plan.pieces[row, P.P_OFFSET])
        ends[row] = offset + EventHeader.unpack(file.read(offset, HEADER_LENGTH)).size
    return np.column_stack([plan.pieces, ends])


def _mapping(pieces: Ints, stretches: list[Stretch], source_file: int) -> Ints:
    """Return rows for the table that says which bytes of the output files come from which bytes of the source.

    The columns are those of ``RANGES_SCHEMA``, with the output's index in the range's plan instead of its name.
    ``pieces`` are the pieces that one output receives, from :func:`_with_source_ends`.
    """
    output, size, source_ends = pieces[0, P.P_OUTPUT], pieces[:, P.P_SIZE], pieces[:, -1]
    end = np.cumsum(size)
    stops, numbers, offsets = np.array(stretches, np.int64).T
    # A piece of the source that ends in the next file of the output gets one row for each of the two files.
    bounds = np.unique(np.concatenate([[0], end, stops]))
    start, stop = bounds[:-1], bounds[1:]
    piece = np.searchsorted(end, start, side="right")
    source_start = pieces[piece, P.P_OFFSET] + (start - (end[piece] - size[piece]))
    is_changed = pieces[piece, P.P_PATCH] == K.REPLACED
    source_end = np.where(is_changed, source_ends[piece], source_start + (stop - start))
    stretch = np.searchsorted(stops, start, side="right")
    offset = offsets[stretch]
    columns = (output, numbers[stretch], start + offset, stop + offset, source_file, source_start, source_end)
    return np.stack(np.broadcast_arrays(*columns), axis=1)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open an output file for writing at any offset, or create it. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield handle
    finally:
        os.close(handle)


def write_all(handle: int, data: memoryview | bytes, offset: int) -> None:
    """Write all bytes to the open file ``handle`` at the byte ``offset``, with several calls of ``pwrite`` if needed.
    Raises OSError.
    """
    view = memoryview(data)
    while len(view):
        done = os.pwrite(handle, view, offset)
        view = view[done:]
        offset += done
