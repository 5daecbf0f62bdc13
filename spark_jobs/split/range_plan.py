"""The plan of a range: which of its bytes go to which output. Made by one task, read by the driver and by the task
that writes.

A plan says the same whoever makes it, however often, so a task that is tried again, or runs twice, does no harm.
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
from dumpfilter.spark_jobs.split.assign import Ints, Share
from dumpfilter.spark_jobs.split.transactions import OF_FILES

P_BLOCK, P_OUTPUT, P_RUNS, P_TRANSACTIONS, P_BYTES, P_EVENTS = range(6)
"""The columns of pieces: the number of the block, of the output (in ``outputs``), how many runs and transactions of
the plan are its own, bytes, and events."""

T_END, T_EVENTS, T_SOURCE, T_NUMBER, T_TIME, T_PLACE = range(6)
"""The columns of transactions: bytes and events of the piece up to its end, its GTID (source -1: it has none), when its
last event was written (Unix seconds), and where it ends in the file."""


@dataclass
class RangePlan:
    """What a range holds for whom."""

    outputs: list[str] = field(default_factory=list)
    sources: list[SourceKey] = field(default_factory=list)
    """GTID sources, by the numbers in ``transactions``."""
    blocks: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """(n, 2): where each begins and ends in the file."""
    pieces: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """By block, what each output has of it."""
    runs: Ints = field(default_factory=lambda: np.empty((0, 4), np.int64))
    """The pieces' runs, one piece's after the other's (see :class:`~dumpfilter.spark_jobs.split.assign.Share`)."""
    transactions: Ints = field(default_factory=lambda: np.empty((0, 6), np.int64))
    """The pieces' transactions, likewise."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """By the number of the run, events that go out in another form."""
    cut: int = 0
    """Transactions of which an output has a part only, while another has something of them, too."""
    first_cut: tuple[int, tuple[str, ...]] | None = None
    """The first of them: where it begins in the file, and the outputs."""
    unassigned: int = 0
    """Transactions that no output has anything of."""

    def save(self, path: Path) -> None:
        """Write it beside its name and rename it. Raises OutputError."""
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
                    pieces=self.pieces,
                    runs=self.runs,
                    transactions=self.transactions,
                    replaced=np.frombuffer(b"".join(self.replaced.values()), np.uint8),
                )
            os.replace(beside, path)

    @classmethod
    def load(cls, path: Path) -> RangePlan:
        """Read what :meth:`save` wrote."""
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
                arrays["pieces"],
                arrays["runs"],
                arrays["transactions"],
                replaced,
                about["cut"],
                None if first is None else (first[0], tuple(first[1])),
                about["unassigned"],
            )


class PlanMaker:
    """Collects a plan, block by block. ``names`` are the outputs', by the number in shares, and may grow."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._blocks: list[tuple[int, int]] = []
        self._pieces: list[tuple[int, ...]] = []
        self._runs: list[Ints] = []
        self._transactions: list[Ints] = []
        self._n_runs = 0
        self._replaced: dict[int, bytes] = {}
        self._cut = self._unassigned = 0
        self._first_cut: tuple[int, tuple[str, ...]] | None = None
        # of the transaction that goes on in the next block: where it begins, its bytes, and of these each output's
        self._began = self._bytes = 0
        self._had: dict[int, int] = {}

    def add(self, block: Block, shares: Sequence[Share]) -> None:
        """A block's shares."""
        segment = block.segment
        self._count(segment, shares)
        number = len(self._blocks)
        self._blocks.append((segment.start, segment.end))
        last_event = segment.txn_event[1:] - 1
        place = segment.offset[last_event] + segment.size[last_event]
        last_event_time = segment.time[last_event].astype(np.int64)
        for share in shares:
            for k in np.flatnonzero(share.runs[:, 3] == 2).tolist():
                self._replaced[self._n_runs + k] = share.replaced[int(share.runs[k, 0])]
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
            self._pieces.append(
                (number, share.output, len(share.runs), len(share.ends), share.size, share.events)
            )

    def _count(self, segment: Segment, shares: Sequence[Share]) -> None:
        """Count the transactions that end here and are nobody's, or several outputs' and not whole in each."""
        nbytes = np.add.reduceat(
            np.where(OF_FILES[segment.type], 0, segment.size), segment.txn_event[:-1]
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
                # who has nothing of this block may have had something of earlier ones
                self._had = {**had, **self._had}
        cut = (outputs > 1) & partly
        self._cut += int(np.count_nonzero(cut))
        if self._first_cut is None and cut.any():
            first = int(np.argmax(cut))
            names = [self._names[share.output] for share in shares if first in share.transactions]
            self._first_cut = (int(begin[first]), tuple(sorted(names)))
        # what stands between transactions is nobody's
        nobodys = (outputs == 0) & (segment.txn_source != R.KEPT)
        self._unassigned += int(np.count_nonzero(nobodys[: len(nobodys) - int(segment.open)]))

    def finish(self, sources: SourceNumbers, family: str) -> RangePlan:
        """The plan."""
        # by name: their numbers depend on what was read before
        outputs = sorted({piece[P_OUTPUT] for piece in self._pieces}, key=self._names.__getitem__)
        pieces = np.array(self._pieces, np.int64).reshape(-1, 6)
        number = np.zeros(max(outputs, default=0) + 1, np.int64)
        number[outputs] = np.arange(len(outputs))
        pieces[:, P_OUTPUT] = number[pieces[:, P_OUTPUT]]
        return RangePlan(
            [self._names[k] for k in outputs],
            [sources.key(k, family) for k in range(sources.count)],
            np.array(self._blocks, np.int64).reshape(-1, 2),
            pieces,
            np.concatenate([np.empty((0, 4), np.int64), *self._runs]),
            np.concatenate([np.empty((0, 6), np.int64), *self._transactions]),
            self._replaced,
            self._cut,
            self._first_cut,
            self._unassigned,
        )
