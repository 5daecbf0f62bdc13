"""The range plan: the runs of bytes of a range that go to each output.

A task makes the plan. The driver reads it to place the events, and the task that writes the range reads it again. A
plan depends only on the range, so a task that is tried again, or runs twice, writes an equal plan.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceKey, SourceNumbers
from dumpfilter.binlog.writer import writing
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.ranges.ranges import Block
from dumpfilter.spark_jobs.split.assign import REPLACED, RUN_KIND, RUN_OFFSET, Ints, Share
from dumpfilter.spark_jobs.split.transactions import FILE_EVENTS

S_BLOCK, S_OUTPUT, S_RUNS, S_TRANSACTIONS, S_BYTES, S_EVENTS = range(6)
"""The columns of shares: the block's number, the output's index in ``outputs``, and the share's numbers of runs,
transactions, bytes and events."""

T_END, T_EVENTS, T_SOURCE, T_NUMBER, T_TIME, T_PLACE = range(6)
"""The columns of transactions.

- T_END, T_EVENTS: bytes and events of the share up to the transaction's end.
- T_SOURCE, T_NUMBER: the GTID source's number (-1: no GTID) and the GTID's number.
- T_TIME: the timestamp of the transaction's last event, Unix seconds.
- T_PLACE: the transaction's end in the source file.
"""


@dataclass
class RangePlan:
    """The plan of one range."""

    outputs: list[str] = field(default_factory=list)
    sources: list[SourceKey] = field(default_factory=list)
    """The GTID sources, by their numbers in ``transactions``."""
    blocks: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """The offsets in the file at which each block begins and ends; shape (n, 2)."""
    shares: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """A row for each share, in the order of the blocks. The columns are :data:`S_BLOCK` and the following names."""
    runs: Ints = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """The runs of all shares, in the order of ``shares``. :class:`~dumpfilter.spark_jobs.split.assign.Share` explains
    runs."""
    transactions: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """The transactions of all shares, in the order of ``shares``. The columns are :data:`T_END` and the following
    names."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """The events of REPLACED runs, by the number of the run."""
    cut: int = 0
    """The number of spanning transactions of which no single output receives all."""
    first_cut: tuple[int, tuple[str, ...]] | None = None
    """The file offset and the outputs of the first such transaction."""
    unassigned: int = 0
    """The number of transactions of which no output receives anything."""

    def save(self, path: Path) -> None:
        """Write the plan under a temporary name and rename it. Raises OutputError."""
        about = {
            "outputs": self.outputs,
            "sources": [[k.hex() if isinstance(k, bytes) else k for k in key] for key in self.sources],
            "cut": self.cut,
            "first_cut": self.first_cut,
            "unassigned": self.unassigned,
            "replaced": [[run, len(data)] for run, data in self.replaced.items()],
        }
        beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        with writing(path):
            with open(beside, "xb") as file:
                np.savez(
                    file,
                    about=np.frombuffer(json.dumps(about).encode(), np.uint8),
                    blocks=self.blocks,
                    shares=self.shares,
                    runs=self.runs,
                    transactions=self.transactions,
                    replaced=np.frombuffer(b"".join(self.replaced.values()), np.uint8),
                )
            os.replace(beside, path)

    @classmethod
    def load(cls, path: Path) -> RangePlan:
        """Read a plan that :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            heap = arrays["replaced"].tobytes()
            replaced, at = {}, 0
            for run, length in about["replaced"]:
                replaced[run] = heap[at : at + length]
                at += length
            first = about["first_cut"]
            return cls(
                about["outputs"],
                [(bytes.fromhex(a) if isinstance(a, str) else a, b) for a, b in about["sources"]],
                arrays["blocks"],
                arrays["shares"],
                arrays["runs"],
                arrays["transactions"],
                replaced,
                about["cut"],
                None if first is None else (first[0], tuple(first[1])),
                about["unassigned"],
            )


class PlanMaker:
    """Makes the plan of a range, block by block. ``names`` has the outputs' names by number, and may grow."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._blocks: list[tuple[int, int]] = []
        self._share_rows: list[tuple[int, ...]] = []
        self._runs: list[Ints] = []
        self._transactions: list[Ints] = []
        self._n_runs = 0
        self._replaced: dict[int, bytes] = {}
        self._cut = self._unassigned = 0
        self._first_cut: tuple[int, tuple[str, ...]] | None = None
        # The transaction that continues in the next block: its offset, its bytes so far, and each output's
        # part of them.
        self._began = self._bytes = 0
        self._had: dict[int, int] = {}

    def add(self, block: Block, shares: Sequence[Share]) -> None:
        """Add the shares of a block to the plan."""
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
        """Count the transactions that end in the block and belong to no output, or to several and not as a whole to
        each."""
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
                # An output without a share of this block may have one of an earlier block.
                self._had = {**had, **self._had}
        cut = (outputs > 1) & partly
        self._cut += int(np.count_nonzero(cut))
        if self._first_cut is None and cut.any():
            first = int(np.argmax(cut))
            names = [self._names[share.output] for share in shares if first in share.transactions]
            self._first_cut = (int(begin[first]), tuple(sorted(names)))
        # File events between transactions belong to no output by design.
        unassigned = (outputs == 0) & (segment.txn_source != R.KEPT)
        self._unassigned += int(np.count_nonzero(unassigned[: len(unassigned) - int(segment.open)]))

    def finish(self, sources: SourceNumbers, family: str) -> RangePlan:
        """Return the plan."""
        # Sort by name, since the numbers depend on the ranges that this process read before.
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
