"""The tasks of the split: one plans a range, one writes what was planned.

Both can be tried again, run twice at once, or be cut off anywhere: a plan appears by rename, and writing puts the same
bytes at the same offsets. What goes wrong with a binlog or an output travels as data, so that the driver raises the
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

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import rebase_array, writing
from dumpfilter.dump.chunk import ChunkPlan, render_into
from dumpfilter.errors import BinlogTruncated
from dumpfilter.filter.collation import Family, NameCollation
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Range, blocks_of, memory
from dumpfilter.spark_jobs.split.assign import RUN_KIND, RUN_OFFSET, RUN_SIZE, RUN_SOURCE_SIZE, Ints, Sharer
from dumpfilter.spark_jobs.split.ownership import Owners
from dumpfilter.spark_jobs.split.placement import Placement, Stretch
from dumpfilter.spark_jobs.split.range_plan import P_BLOCK, P_BYTES, P_OUTPUT, P_RUNS, PlanMaker, RangePlan
from dumpfilter.spark_jobs.split.specification import Specification
from dumpfilter.spark_jobs.split.transactions import TransactionsTable
from dumpfilter.split_set.manifest import RANGES_SCHEMA


@dataclass(frozen=True)
class Staging:
    """Where a job keeps what is not finished. A directory that driver and workers share."""

    path: str

    def plan(self, number: int) -> Path:
        """The plan of a range."""
        return Path(self.path, "plan", f"{number:06}.npz")

    def placement(self, number: int) -> Path:
        """Where a range's pieces go."""
        return Path(self.path, "placement", f"{number:06}.json")

    def written(self, number: int) -> Path:
        """That a range has been written: what it says is the boot of the machine, since a file's bytes may not outlive
        that."""
        return Path(self.path, "written", f"{number:06}")

    def binlog(self, output: str, number: int) -> Path:
        """A file of an output."""
        return Path(self.path, "out", binlog_name(output, number))

    def ranges(self, number: int) -> Path:
        """The manifest's part about a range."""
        return Path(self.path, "out", "ranges", f"{number:06}.parquet")

    def transactions(self, number: int) -> Path:
        """The table of a range's transactions."""
        return Path(self.path, "out", "transactions", f"{number:06}.parquet")

    def save(self, table: pa.Table, target: Path) -> None:
        """Write a table where nothing is published from, and rename it. Raises OutputError."""
        beside = Path(self.path, "plan", f"{target.name}.{uuid.uuid4().hex}.tmp")
        with writing(target):
            pq.write_table(table, beside, compression="zstd")
            os.replace(beside, target)


def binlog_name(output: str, number: int) -> str:
    """``<name>-bin.NNNNNN``, as WL#2387 has it."""
    return f"{output}-bin.{number:06}"


@dataclass(frozen=True)
class PlanRange:
    """Plans a range: who gets what of it."""

    files: tuple[FileIndex, ...]
    specification: Specification
    staging: Staging
    names: NameCollation
    """That of the whole set: a named binlog has one filter for all files."""
    everywhere: tuple[str, ...] = ()
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, wanted: Range) -> None:
        """Raises BinlogError with file and position, or OutputError for the staging directory."""
        target = self.staging.plan(wanted.number)
        if target.exists():
            return
        with open_file(self.files[wanted.file].path) as file:
            family = file.format_description.family
            known = _known(self.specification, family, self.names, self.everywhere)
            sharer, maker = Sharer(known.owners), PlanMaker(known.owners.names)
            transactions = TransactionsTable(wanted.file, known.owners)
            for block in blocks_of(
                file, wanted, known.subjects, known.sources, verify=self.verify, block_size=self.block_size
            ):
                maker.add(block, sharer.share(block.segment, file.read))
                transactions.add(block)
        plan = maker.finish(known.sources, family)
        self.staging.save(transactions.table(known.sources, family), self.staging.transactions(wanted.number))
        plan.save(target)


@dataclass(frozen=True)
class _Known:
    """What one range has told of the next: every table has to be looked at once only."""

    subjects: Subjects
    sources: SourceNumbers
    owners: Owners


@functools.lru_cache(maxsize=1)
def _known(
    specification: Specification, family: Family, names: NameCollation, everywhere: tuple[str, ...]
) -> _Known:
    """Of this process, which does one range after the other."""
    subjects = Subjects()
    return _Known(subjects, SourceNumbers(), specification.owners(subjects, family, names, everywhere))


@dataclass(frozen=True)
class WriteRange:
    """Writes what was planned of a range to where it was placed."""

    files: tuple[FileIndex, ...]
    staging: Staging
    boot: str

    def __call__(self, wanted: Range) -> None:
        """Raises OutputError for the staging directory, BinlogError for a source that has changed."""
        marker = self.staging.written(wanted.number)
        if marker.exists() and marker.read_text() == self.boot:
            return
        plan = RangePlan.load(self.staging.plan(wanted.number))
        placement: Placement = json.loads(self.staging.placement(wanted.number).read_bytes())
        source = self.files[wanted.file]
        with open_file(source.path) as file, _Targets(self.staging) as targets:
            for output, data, begin in _pieces(file, plan):
                for start, end, number, offset in _cut(placement[output], begin, begin + len(data)):
                    part = data[start - begin : end - begin]
                    rebase_array(part, offset + start, checksum=file.format_description.checksum)
                    targets.write(output, number, part, offset + start)
        self._save_ranges(wanted, plan, placement)
        _appear(marker, self.boot.encode())

    def _save_ranges(self, wanted: Range, plan: RangePlan, placement: Placement) -> None:
        first = np.cumsum(plan.pieces[:, P_RUNS]) - plan.pieces[:, P_RUNS]
        columns: list[npt.NDArray[np.int64]] = []
        for number, output in enumerate(plan.outputs):
            mine = np.flatnonzero(plan.pieces[:, P_OUTPUT] == number)
            if len(mine):
                runs = np.concatenate(
                    [plan.runs[first[k] : first[k] + plan.pieces[k, P_RUNS]] for k in mine.tolist()]
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


def _pieces(file: BinlogFile, plan: RangePlan) -> Iterator[tuple[str, npt.NDArray[np.uint8], int]]:
    """Output, bytes and how many bytes of that output came before in the range; an array is the caller's until the
    next."""
    fd = file.format_description
    block_size = int(np.diff(plan.blocks).max(initial=0))
    piece_size = int(plan.pieces[:, P_BYTES].max(initial=0))
    loaded = -1
    run = 0
    before = [0] * len(plan.outputs)
    with memory(block_size) as buffer, memory(piece_size) as room:
        for piece in plan.pieces.tolist():
            start, end = plan.blocks[piece[P_BLOCK]].tolist()
            if loaded != piece[P_BLOCK]:
                if file.read_into(buffer[: end - start], start) < end - start:
                    raise BinlogTruncated(
                        "the file got shorter while it was read", file=file.name, position=start
                    )
                loaded = piece[P_BLOCK]
            runs = plan.runs[run : run + piece[P_RUNS]]
            replaced = {
                int(plan.runs[k, RUN_OFFSET]): plan.replaced[k]
                for k in (run + np.flatnonzero(runs[:, RUN_KIND] == 2)).tolist()
            }
            out = room[: piece[P_BYTES]]
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
            yield plan.outputs[piece[P_OUTPUT]], out, before[piece[P_OUTPUT]]
            before[piece[P_OUTPUT]] += piece[P_BYTES]
            run += piece[P_RUNS]


_NONE: Ints = np.empty((0, 3), np.int64)


def _cut(stretches: list[Stretch], begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The parts of bytes ``begin`` to ``end`` that go to different files: begin and end, the file's number, and where
    its byte 0 would stand there."""
    for stop, number, offset in stretches:
        if begin < stop and begin < end:
            yield begin, min(end, stop), number, offset
            begin = stop


def _mapping(number: int, runs: Ints, stretches: list[Stretch], source_file: int) -> npt.NDArray[np.int64]:
    """The columns of RANGES_SCHEMA for an output's runs of a range."""
    size = runs[:, RUN_SIZE]
    end = np.cumsum(size)
    # where files end runs are cut
    cuts = np.array([stop for stop, _, _ in stretches[:-1]], np.int64)
    bounds = np.union1d(np.concatenate([[0], end]), cuts)
    start, stop = bounds[:-1], bounds[1:]
    run = np.searchsorted(end, start, side="right")
    source_start = runs[run, RUN_OFFSET] + (start - (end[run] - size[run]))
    source_end = np.where(
        runs[run, RUN_KIND] == 2,
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
    """The output files a task writes to, open."""

    _MOST = 200
    """Open at once; a process may have 1024 files open."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._open: dict[tuple[str, int], int] = {}

    def write(self, output: str, number: int, data: npt.NDArray[np.uint8], offset: int) -> None:
        """Put bytes at an offset."""
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
    """``pwrite`` until everything is written. Raises OSError."""
    view = memoryview(data)
    while len(view):
        done = os.pwrite(handle, view, offset)
        view = view[done:]
        offset += done


def _appear(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        beside.write_bytes(data)
        os.replace(beside, path)
