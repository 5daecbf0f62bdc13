"""The tasks of a split, which run on Spark or threads.

A :class:`PlanRange` task plans which bytes of a range (a sequence of complete transactions in a source file) each
output receives. A :class:`WriteRange` task copies these bytes to the output files.

Spark may retry a task, run it twice at once, or kill it at any time. Plans are therefore published by a rename, and
a task that writes again writes equal bytes at equal offsets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dumpfilter.base.files import writing
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import rebase_array
from dumpfilter.dump.chunk import ChunkPlan, render_into
from dumpfilter.index.fileset import BinlogFile, open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.engines import step
from dumpfilter.spark_jobs.ranges import Range, ReadRanges, memory, state_of_thread
from dumpfilter.spark_jobs.split import assign as P
from dumpfilter.spark_jobs.split.assign import Assigner, Ints, PlanMaker, RangePlan
from dumpfilter.spark_jobs.split.output import Staging
from dumpfilter.spark_jobs.split.ownership import Owners, Specification
from dumpfilter.spark_jobs.split.placement import Placement, Stretch


@dataclass(frozen=True, kw_only=True)
class PlanRange(ReadRanges):
    """A picklable task that plans which bytes of a range each output of the split receives, and saves this plan in a
    file. A range is a sequence of complete transactions in one source file.
    """

    specification: Specification
    staging: Staging
    names: NameRules
    """The settings by which filters compare names of schemas and tables. They are those of the newest file's server,
    because a filter must treat all files of the set alike.
    """
    unknown_xa_schemas: tuple[str, ...] = ()
    """In a split by schema, the schemas that receive XA COMMIT and XA ROLLBACK of transactions prepared before the
    set.
    """

    def __call__(self, wanted: Range) -> None:
        """Read a range, and save its plan in the working directory.

        A range that already has a plan is not read again. Raises BinlogError with file and position. Raises
        OutputError if the working directory cannot be written.
        """
        target = self.staging.of_range("plan", wanted.number)
        if target.exists():
            return
        with open_file(wanted.path) as file:
            family = file.format_description.family
            names = self.names._replace(family=family)

            def state() -> tuple[Subjects, SourceNumbers, Owners]:
                subjects = Subjects()
                owners = self.specification.owners(subjects, names, self.unknown_xa_schemas)
                return subjects, SourceNumbers(), owners

            job = self.specification, names, self.unknown_xa_schemas
            subjects, sources, owners = state_of_thread(job, state)
            assigner, maker = Assigner(owners), PlanMaker(owners.names)
            for block in self.blocks(file, wanted, subjects, sources):
                maker.add(block, assigner.assign(block.segment, file.read))
        maker.finish(sources, family).save(target)


@dataclass(frozen=True)
class WriteRange:
    """A picklable task that copies the bytes of one range (part of a source file) to the output files. Earlier steps
    have chosen the bytes and their files and offsets.
    """

    staging: Staging

    def __call__(self, wanted: Range) -> None:
        """Copy the bytes of a range to the output files.

        A range that was already written is skipped. Raises OutputError if an output cannot be written, and
        BinlogError if the source has changed since it was planned.
        """
        marker = self.staging.of_range("written", wanted.number)
        if marker.exists():
            return
        plan = RangePlan.load(self.staging.of_range("plan", wanted.number))
        placement: Placement = json.loads(self.staging.of_range("placement", wanted.number).read_bytes())
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
    """Yield the bytes that each output receives from each block of a range.

    Each item has the output's name, the bytes, and the number of bytes that the output received from earlier blocks
    of the range. The array of bytes is valid only until the next item.
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
    """Divide bytes that an output receives from a range at the limits of its files.

    ``begin`` and ``end`` number the bytes that the output receives from the range. Each result has a part's begin
    and end in this numbering, the number of its output file, and an offset. The part's position in the file is its
    byte number plus this offset.
    """
    for stop, number, offset in stretches:
        if begin < stop and begin < end:
            yield begin, min(end, stop), number, offset
            begin = stop


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open an output file for writing at any offset, creating it if needed. Raises OutputError if the file cannot be
    written.
    """

    def opener(path: str, flags: int) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    with writing(path), open(path, "wb", opener=opener) as file:
        yield file
