"""The tasks of the split. One kind plans a range, the other kind writes a planned range.

Both kinds can be tried again, run twice at once, or be killed at any moment. A plan appears by a rename, and writing
puts the same bytes at the same offsets. Errors of a binlog or an output travel as values, so the driver raises the
same typed error.
"""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import rebase_array, writing
from dumpfilter.dump.chunk import ChunkPlan, render_into
from dumpfilter.errors import BinlogTruncated
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Range, blocks_of, memory
from dumpfilter.spark_jobs.split.assign import (
    REPLACED,
    RUN_KIND,
    RUN_OFFSET,
    RUN_SIZE,
    RUN_SOURCE_SIZE,
    Assigner,
    Ints,
)
from dumpfilter.spark_jobs.split.ownership import Owners
from dumpfilter.spark_jobs.split.placement import Placement, Stretch
from dumpfilter.spark_jobs.split.range_plan import S_BLOCK, S_BYTES, S_OUTPUT, S_RUNS, PlanMaker, RangePlan
from dumpfilter.spark_jobs.split.specification import Specification
from dumpfilter.spark_jobs.split.transactions import TransactionsTable
from dumpfilter.split_set.manifest import RANGES_SCHEMA


@dataclass(frozen=True)
class Staging:
    """A job's working directory, which the driver and all workers share."""

    path: str

    def plan(self, number: int) -> Path:
        """Return the path of a range's plan."""
        return Path(self.path, "plan", f"{number:06}.npz")

    def placement(self, number: int) -> Path:
        """Return the path of a range's placement."""
        return Path(self.path, "placement", f"{number:06}.json")

    def written(self, number: int) -> Path:
        """Return the path of the marker that a range has been written.

        The marker contains the machine's boot identifier, since unsynchronized bytes may not survive a reboot.
        """
        return Path(self.path, "written", f"{number:06}")

    def binlog(self, output: str, number: int) -> Path:
        """Return the path of an output's file."""
        return Path(self.path, "out", binlog_name(output, number))

    def ranges(self, number: int) -> Path:
        """Return the path of the manifest's table about a range."""
        return Path(self.path, "out", "ranges", f"{number:06}.parquet")

    def transactions(self, number: int) -> Path:
        """Return the path of the table of a range's transactions."""
        return Path(self.path, "out", "transactions", f"{number:06}.parquet")

    def save(self, table: pa.Table, target: Path) -> None:
        """Write a table to a temporary file outside the published directories, and rename it. Raises OutputError."""
        beside = Path(self.path, "plan", f"{target.name}.{uuid.uuid4().hex}.tmp")
        with writing(target):
            pq.write_table(table, beside, compression="zstd")
            os.replace(beside, target)


def binlog_name(output: str, number: int) -> str:
    """Return ``<name>-bin.NNNNNN``, as in WL#2387."""
    return f"{output}-bin.{number:06}"


@dataclass(frozen=True)
class PlanRange:
    """A task that plans a range."""

    files: tuple[FileIndex, ...]
    specification: Specification
    staging: Staging
    names: NameRules
    """The comparison of names in the whole set, since a named binlog has one filter for all files."""
    unknown_xa_schemas: tuple[str, ...] = ()
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, wanted: Range) -> None:
        """Write the range's plan and its table of transactions.

        Raises BinlogError with file and position, or OutputError for the working directory.
        """
        target = self.staging.plan(wanted.number)
        if target.exists():
            return
        with open_file(self.files[wanted.file].path) as file:
            family = file.format_description.family
            state = _process_state(
                self.specification, self.names._replace(family=family), self.unknown_xa_schemas
            )
            assigner, maker = Assigner(state.owners), PlanMaker(state.owners.names)
            transactions = TransactionsTable(wanted.file, state.owners)
            for block in blocks_of(
                file, wanted, state.subjects, state.sources, verify=self.verify, block_size=self.block_size
            ):
                maker.add(block, assigner.assign(block.segment, file.read))
                transactions.add(block)
        plan = maker.finish(state.sources, family)
        self.staging.save(transactions.table(state.sources, family), self.staging.transactions(wanted.number))
        plan.save(target)


@dataclass(frozen=True)
class _ProcessState:
    """Subjects, GTID sources and owners of this process, which all its ranges share. A filter then decides each
    subject once."""

    subjects: Subjects
    sources: SourceNumbers
    owners: Owners


@functools.lru_cache(maxsize=1)
def _process_state(
    specification: Specification, names: NameRules, unknown_xa_schemas: tuple[str, ...]
) -> _ProcessState:
    """Return the state of this process, which works on one range at a time."""
    subjects = Subjects()
    return _ProcessState(subjects, SourceNumbers(), specification.owners(subjects, names, unknown_xa_schemas))


@dataclass(frozen=True)
class WriteRange:
    """A task that writes a planned range to its placement."""

    files: tuple[FileIndex, ...]
    staging: Staging
    boot: str

    def __call__(self, wanted: Range) -> None:
        """Write the range. Raises OutputError for the working directory, and BinlogError for a source that has
        changed."""
        marker = self.staging.written(wanted.number)
        if marker.exists() and marker.read_text() == self.boot:
            return
        plan = RangePlan.load(self.staging.plan(wanted.number))
        placement: Placement = json.loads(self.staging.placement(wanted.number).read_bytes())
        source = self.files[wanted.file]
        with open_file(source.path) as file, _Targets(self.staging) as targets:
            for output, data, begin in _rendered_shares(file, plan):
                for start, end, number, offset in _cut(placement[output], begin, begin + len(data)):
                    part = data[start - begin : end - begin]
                    rebase_array(part, offset + start, checksum=file.format_description.checksum)
                    targets.write(output, number, part, offset + start)
        self._save_ranges(wanted, plan, placement)
        _write_atomically(marker, self.boot.encode())

    def _save_ranges(self, wanted: Range, plan: RangePlan, placement: Placement) -> None:
        first = np.cumsum(plan.shares[:, S_RUNS]) - plan.shares[:, S_RUNS]
        columns: list[npt.NDArray[np.int64]] = []
        for number, output in enumerate(plan.outputs):
            mine = np.flatnonzero(plan.shares[:, S_OUTPUT] == number)
            if len(mine):
                runs = np.concatenate(
                    [plan.runs[first[k] : first[k] + plan.shares[k, S_RUNS]] for k in mine.tolist()]
                )
                columns.append(_mapping(number, runs, placement[output], wanted.file))
        rows = np.concatenate([np.empty((0, 7), np.int64), *columns])
        names = pa.DictionaryArray.from_arrays(
            pa.array(rows[:, 0], pa.int32()), pa.array(plan.outputs, pa.string())
        )
        others = [
            pa.array(rows[:, k], field.type)
            for k, field in enumerate(RANGES_SCHEMA)
            if field.name != "binlog"
        ]
        table = pa.Table.from_arrays([names, *others], schema=RANGES_SCHEMA)
        self.staging.save(table, self.staging.ranges(wanted.number))


def _rendered_shares(file: BinlogFile, plan: RangePlan) -> Iterator[tuple[str, npt.NDArray[np.uint8], int]]:
    """Yield for each share the output, the share's bytes, and the bytes of the output's earlier shares in the range.

    The array is valid until the next share.
    """
    fd = file.format_description
    block_size = int(np.diff(plan.blocks).max(initial=0))
    share_size = int(plan.shares[:, S_BYTES].max(initial=0))
    loaded = -1
    run = 0
    before = [0] * len(plan.outputs)
    with memory(block_size) as buffer, memory(share_size) as room:
        for share in plan.shares.tolist():
            start, end = plan.blocks[share[S_BLOCK]].tolist()
            if loaded != share[S_BLOCK]:
                if file.read_into(buffer[: end - start], start) < end - start:
                    raise BinlogTruncated(
                        "the file got shorter while it was read", file=file.name, position=start
                    )
                loaded = share[S_BLOCK]
            runs = plan.runs[run : run + share[S_RUNS]]
            replaced = {
                int(plan.runs[k, RUN_OFFSET]): plan.replaced[k]
                for k in (run + np.flatnonzero(runs[:, RUN_KIND] == REPLACED)).tolist()
            }
            out = room[: share[S_BYTES]]
            chunk = ChunkPlan(
                file.name,
                runs[:, [RUN_OFFSET, RUN_SIZE, RUN_KIND]],
                0,
                0,
                0,
                _NONE,
                _NONE,
                replaced=replaced,
            )
            render_into(out, chunk, buffer[: end - start], start, file.read, fd)
            yield plan.outputs[share[S_OUTPUT]], out, before[share[S_OUTPUT]]
            before[share[S_OUTPUT]] += share[S_BYTES]
            run += share[S_RUNS]


_NONE: Ints = np.empty((0, 3), np.int64)


def _cut(stretches: list[Stretch], begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of the bytes ``begin`` to ``end`` that go to different files.

    A part is its begin and end, the file's number, and the file offset of byte 0 of the output's part of the range.
    """
    for stop, number, offset in stretches:
        if begin < stop and begin < end:
            yield begin, min(end, stop), number, offset
            begin = stop


def _mapping(number: int, runs: Ints, stretches: list[Stretch], source_file: int) -> npt.NDArray[np.int64]:
    """Return the columns of RANGES_SCHEMA for an output's runs in a range."""
    size = runs[:, RUN_SIZE]
    end = np.cumsum(size)
    # A run that continues in the next output file has a row for each file.
    cuts = np.array([stop for stop, _, _ in stretches[:-1]], np.int64)
    bounds = np.union1d(np.concatenate([[0], end]), cuts)
    start, stop = bounds[:-1], bounds[1:]
    run = np.searchsorted(end, start, side="right")
    source_start = runs[run, RUN_OFFSET] + (start - (end[run] - size[run]))
    source_end = np.where(
        runs[run, RUN_KIND] == REPLACED,
        runs[run, RUN_OFFSET] + runs[run, RUN_SOURCE_SIZE],
        source_start + (stop - start),
    )
    stretch = np.searchsorted(cuts, start, side="right")
    files = np.array([number for _, number, _ in stretches], np.int64)[stretch]
    offsets = np.array([offset for _, _, offset in stretches], np.int64)[stretch]
    rows = np.empty((len(start), 7), np.int64)
    for k, column in enumerate(
        (number, files, start + offsets, stop + offsets, source_file, source_start, source_end)
    ):
        rows[:, k] = column
    return rows


class _Targets:
    """The output files that a task writes to, kept open."""

    _MOST = 200
    """The largest number of files that are open at once. A process may usually open 1024."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._open: dict[tuple[str, int], int] = {}

    def write(self, output: str, number: int, data: npt.NDArray[np.uint8], offset: int) -> None:
        """Write bytes at an offset of an output's file."""
        key = (output, number)
        handle = self._open.get(key)
        if handle is None:
            if len(self._open) >= self._MOST:
                self.__exit__()
            path = self._staging.binlog(output, number)
            with writing(path):
                handle = self._open[key] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with writing(self._staging.binlog(output, number)):
            write_all(handle, data.data, offset)

    def __enter__(self) -> _Targets:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def write_all(handle: int, data: memoryview | bytes, offset: int) -> None:
    """Call ``pwrite`` until all bytes are written. Raises OSError."""
    view = memoryview(data)
    while len(view):
        done = os.pwrite(handle, view, offset)
        view = view[done:]
        offset += done


def _write_atomically(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        beside.write_bytes(data)
        os.replace(beside, path)
