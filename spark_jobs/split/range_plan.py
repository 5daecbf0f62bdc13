"""The range plan: which bytes of a range go to each output of a split.

A range is consecutive transactions of one source file, and an output is a binlog that the split writes. One Spark task
makes the plan of a range and saves it. The driver reads the plan to choose the offsets in the output files. The task
that copies the range reads the plan again. A plan depends only on its range, so a task that runs twice writes equal
plans.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceKey, SourceNumbers
from dumpfilter.files import committed
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.ranges.ranges import Block
from dumpfilter.spark_jobs.split.assign import FILE_EVENTS, REPLACED, RUN_KIND, RUN_OFFSET, Ints, Share

S_BLOCK, S_OUTPUT, S_RUNS, S_TRANSACTIONS, S_BYTES, S_EVENTS = range(6)
"""The columns of :attr:`RangePlan.shares`. A row says what one output receives from one block of the range.

- S_BLOCK: the block, an index into ``RangePlan.blocks``.
- S_OUTPUT: the output, an index into ``RangePlan.outputs``.
- S_RUNS, S_TRANSACTIONS: the number of rows in ``RangePlan.runs`` and ``RangePlan.transactions`` that describe the
  output's part of the block.
- S_BYTES, S_EVENTS: the number of bytes and events that the output receives from the block.
"""

T_END, T_EVENTS, T_SOURCE, T_NUMBER, T_TIME, T_PLACE = range(6)
"""The columns of :attr:`RangePlan.transactions`. A row is a transaction of which one output receives an event.

- T_END, T_EVENTS: running totals, the number of bytes and of events that the output receives from the block's
  beginning to the transaction's end.
- T_SOURCE, T_NUMBER: the GTID. T_SOURCE is an index into ``RangePlan.sources``, or -1 without a GTID. T_NUMBER is the
  number at the end of the GTID.
- T_TIME: the timestamp of the transaction's last event, Unix seconds.
- T_PLACE: the offset in the source file at which the transaction ends.
"""


def committed_by_task(path: Path, directory: Path | None = None) -> AbstractContextManager[BinaryIO]:
    """Return a context manager as :func:`~dumpfilter.binlog.writer.committed` for a file in a working directory.

    Spark may run a task twice at the same time, so each writer has a name of its own, in ``directory`` if given.
    """
    name = f"{path.name}.{uuid.uuid4().hex}.tmp"
    return committed(path, beside=(directory or path.parent) / name, synced=False)


_Cut = tuple[int, tuple[str, ...]] | None

_WORDS: TypeAdapter[tuple[list[str], list[SourceKey], dict[int, bytes], int, _Cut, int]] = TypeAdapter(
    tuple[list[str], list[SourceKey], dict[int, bytes], int, _Cut, int],
    config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"),
)
"""The form of a saved plan without the plan's arrays."""


@dataclass
class RangePlan:
    """The plan of one range, which says which bytes of the range go to each output of the split."""

    outputs: list[str] = field(default_factory=list)
    """The names of the outputs that receive events of the range."""
    sources: list[SourceKey] = field(default_factory=list)
    """The GTID sources that the column T_SOURCE of ``transactions`` refers to. A GTID source is a server UUID (with
    its tag) in MySQL, and a domain id and server id in MariaDB."""
    blocks: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """The offsets in the source file at which each block begins and ends; shape (n, 2).

    A block is the part of the range that a task reads at a time, about 16 MiB.
    """
    shares: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """A row for each block and output that receives events of the block, in the order of the blocks; shape (n, 6).

    :data:`S_BLOCK` explains the columns.
    """
    runs: Ints = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """The pieces of the source file that the outputs receive, a row for each piece; shape (n, 4).

    The pieces that belong to the first row of ``shares`` come first, then those of its second row, and so on. The
    columns are :data:`~dumpfilter.spark_jobs.split.assign.RUN_OFFSET` and the names after it.
    """
    transactions: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """A row for each output and transaction of which the output receives an event; shape (n, 6).

    The transactions that belong to the first row of ``shares`` come first, then those of its second row, and so on.
    :data:`T_END` explains the columns.
    """
    replaced: dict[int, bytes] = field(default_factory=dict)
    """The new bytes of each compressed transaction of which an output receives only some events. The key is the row
    in ``runs``."""
    cut: int = 0
    """The number of transactions that have events for several outputs, and that some of these outputs receive only in
    part."""
    first_cut: _Cut = None
    """The first transaction that ``cut`` counts, as its offset in the source file and the names of its outputs. None if
    there is no such transaction."""
    unassigned: int = 0
    """The number of transactions of which no output receives any event."""

    def save(self, path: Path) -> None:
        """Write the plan to a temporary file and rename the file to ``path``. A reader never sees half a plan. Raises
        OutputError."""
        words = _WORDS.dump_json(
            (self.outputs, self.sources, self.replaced, self.cut, self.first_cut, self.unassigned)
        )
        with committed_by_task(path) as file:
            np.savez(
                file,
                words=np.frombuffer(words, np.uint8),
                blocks=self.blocks,
                shares=self.shares,
                runs=self.runs,
                transactions=self.transactions,
            )

    @classmethod
    def load(cls, path: Path, *, with_runs: bool = True) -> RangePlan:
        """Return the plan of a range, read from the file that the planning task saved.

        Without ``with_runs`` the plan has no runs, which most of the file is.
        """
        with np.load(path, allow_pickle=False) as arrays:
            words = _WORDS.validate_json(arrays["words"].tobytes())
            outputs, sources, replaced, cut, first_cut, unassigned = words
            return cls(
                outputs,
                sources,
                arrays["blocks"],
                arrays["shares"],
                arrays["runs"] if with_runs else np.empty((0, 4), np.int64),
                arrays["transactions"],
                replaced,
                cut,
                first_cut,
                unassigned,
            )


class PlanMaker:
    """The maker of one range's plan. :meth:`add` takes one block of the range after the other.

    ``names`` are the names of the outputs, by the outputs' numbers. The caller may append names later.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._blocks: list[tuple[int, int]] = []
        self._share_rows: list[tuple[int, ...]] = []
        self._runs: list[Ints] = []
        self._transactions: list[Ints] = []
        self._n_runs = 0
        self._replaced: dict[int, bytes] = {}
        self._cut = self._unassigned = 0
        self._first_cut: _Cut = None
        # The next three attributes describe a transaction that continues in the next block. They are its offset in
        # the source file, its bytes so far, and the bytes that each output receives of these.
        self._began = self._bytes = 0
        self._had: dict[int, int] = {}

    def add(self, block: Block, shares: Sequence[Share]) -> None:
        """Add to the plan a block of the range and the parts of the block that the outputs receive."""
        segment = block.segment
        self._count(segment, shares)
        number = len(self._blocks)
        self._blocks.append((segment.start, segment.end))
        last_event = segment.txn_event[1:] - 1
        place = segment.offset[last_event] + segment.size[last_event]
        last_event_time = segment.time[last_event].astype(np.int64)
        for share in shares:
            for k in np.flatnonzero(share.runs[:, RUN_KIND] == REPLACED).tolist():
                self._replaced[self._n_runs + k] = share.replaced[int(share.runs[k, RUN_OFFSET])]
            self._runs.append(share.runs)
            self._n_runs += len(share.runs)
            self._transactions.append(
                np.column_stack(
                    [
                        share.ends,
                        segment.txn_source[share.transactions],
                        segment.txn_number[share.transactions],
                        last_event_time[share.transactions],
                        place[share.transactions],
                    ]
                ).astype(np.int64)
            )
            self._share_rows.append(
                (number, share.output, len(share.runs), len(share.ends), share.size, share.events)
            )

    def _count(self, segment: Segment, shares: Sequence[Share]) -> None:
        nbytes = np.add.reduceat(
            np.where(FILE_EVENTS[segment.type], 0, segment.size), segment.txn_event[:-1]
        ).astype(np.int64)
        begin = segment.offset[segment.txn_event[:-1]].astype(np.int64)
        if segment.continues:
            nbytes[0] += self._bytes
            begin[0] = self._began
        outputs = np.zeros(len(nbytes), np.int64)
        partly = np.zeros(len(nbytes), np.bool_)
        had, self._had = self._had, {}
        for share in shares:
            before = had.pop(share.output, 0)
            ends = np.concatenate([[-before], share.ends[:, 0]])
            outputs[share.transactions] += 1
            partly[share.transactions] |= np.diff(ends) < nbytes[share.transactions]
            self._had[share.output] = share.size - int(ends[-1])
        if segment.open:
            self._began, self._bytes = int(begin[-1]), int(nbytes[-1])
            if len(nbytes) == 1:
                # An output that receives no event from this block may have received events of the transaction from an
                # earlier block.
                self._had = {**had, **self._had}
        cut = (outputs > 1) & partly
        self._cut += int(np.count_nonzero(cut))
        if self._first_cut is None and cut.any():
            first = int(np.argmax(cut))
            names = [self._names[share.output] for share in shares if first in share.transactions]
            self._first_cut = (int(begin[first]), tuple(sorted(names)))
        # Outputs do not receive the source's file events between transactions, such as Rotate. These events do not
        # count as transactions that belong to no output.
        unassigned = (outputs == 0) & (segment.txn_source != R.KEPT)
        self._unassigned += int(np.count_nonzero(unassigned[: len(unassigned) - int(segment.open)]))

    def finish(self, sources: SourceNumbers, family: str) -> RangePlan:
        """Return the plan of the range.

        ``sources`` tells for each number of a GTID source which server UUID, or domain and server id, it stands for.
        ``family`` is the family of the server (MySQL or MariaDB) that wrote the range.
        """
        # The outputs' numbers depend on the ranges that this process read before. The plan orders the outputs by name
        # instead, so that every process makes an equal plan of the range.
        outputs = sorted({share[S_OUTPUT] for share in self._share_rows}, key=self._names.__getitem__)
        shares = np.array(self._share_rows, np.int64).reshape(-1, 6)
        number = np.zeros(max(outputs, default=0) + 1, np.int64)
        number[outputs] = np.arange(len(outputs))
        shares[:, S_OUTPUT] = number[shares[:, S_OUTPUT]]
        return RangePlan(
            [self._names[k] for k in outputs],
            [sources.key(k, family) for k in range(sources.count)],
            np.array(self._blocks, np.int64).reshape(-1, 2),
            shares,
            np.concatenate([np.empty((0, 4), np.int64), *self._runs]),
            np.concatenate([np.empty((0, 6), np.int64), *self._transactions]),
            self._replaced,
            self._cut,
            self._first_cut,
            self._unassigned,
        )
