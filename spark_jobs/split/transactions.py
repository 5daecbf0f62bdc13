"""The table of transactions that a split writes beside its binlogs, one Parquet file for each range of the source.

A reader of a split may put the original binlog together again. The table holds the facts about the source that the
split binlogs do not tell. Among these are each transaction's end, GTID, server id and number of events. A range
consists of consecutive transactions of one file, and one Spark task works on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import OF_FILES as TYPES_OF_FILES
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.share_kernels import is_regular, regular_transactions
from dumpfilter.index.segment import Segment
from dumpfilter.spark_jobs.ranges.ranges import Block
from dumpfilter.spark_jobs.split.ownership import Owners
from dumpfilter.split_set.manifest import TRANSACTIONS_SCHEMA, gtid_source_text

FILE_EVENTS = np.isin(np.arange(256), list(TYPES_OF_FILES))
"""For each of the 256 event types, whether it is an event of the file, such as Format_description or Rotate. The
split does not copy such events, since each file that it writes gets its own."""

_END, _SOURCE, _NUMBER, _SERVER, _EVENTS, _OF_FILE, _EXACT = range(7)


class TransactionsTable:
    """The maker of the table of one range's transactions.

    A range is read in blocks of about 16 MiB, and :meth:`add` takes one block after the other. ``file`` is the number
    of the source's file in the binlog set, from 0.
    """

    def __init__(self, file: int, owners: Owners) -> None:
        self._file = file
        self._owners = owners
        self._undecided: dict[int, list[str]] = {}
        """The events that a filter can neither send nor drop for certain. The key is the transaction's number in the
        range. The value is a list of outputs, which has an output once for each such event of the transaction."""
        self._complete = 0
        self._rows: list[npt.NDArray[np.int64]] = []
        self._open: npt.NDArray[np.int64] | None = None
        """The unfinished table row of a transaction that continues in the next block of the range. None if the last
        block ended with a complete transaction."""
        self._last_role = R.ENDS
        """The role (how the event travels in a filtered stream) of the last event of the block before.

        ``R.ENDS`` stands for the end of a transaction.
        """

    def add(self, block: Block) -> None:
        """Add a row for each transaction that ends in this block, and for each event between two transactions."""
        segment = block.segment
        events = np.diff(segment.txn_event)
        of_file = segment.txn_source == R.KEPT
        last = segment.txn_event[1:] - 1
        exact = np.empty(len(events), np.bool_)
        regular_transactions(
            block.data,
            segment.start,
            segment.offset,
            segment.size,
            segment.type,
            segment.role,
            segment.txn_event,
            of_file,
            FILE_EVENTS,
            self._last_role,
            exact,
        )
        for event, payload in segment.payloads.items():
            exact[segment.transaction_of(event)] &= is_regular(payload.role)
        self._last_role = int(segment.role[-1]) if segment.open else R.ENDS
        rows = np.column_stack(
            [
                segment.offset[last] + segment.size[last],
                segment.txn_source,
                segment.txn_number,
                segment.txn_server,
                events,
                of_file,
                exact,
            ]
        ).astype(np.int64)
        if self._open is not None:
            rows[0, _EVENTS] += self._open[_EVENTS]
            rows[0, _EXACT] &= self._open[_EXACT]
            self._open = None
        self._note_undecided(segment, segment)
        if segment.open:
            rows, self._open = rows[:-1], rows[-1]
        self._rows.append(rows)
        self._complete += len(rows)

    def _note_undecided(self, segment: Segment, outer: Segment, event: int | None = None) -> None:
        """Record the segment's events that some output's filter can neither send nor drop for certain.

        ``segment`` is ``outer``, or the content of the compressed transaction that is event ``event`` of ``outer``.
        """
        role = segment.role & 0x7F
        subject = np.where(role == R.STATEMENT, segment.subject, np.int32(-1))
        # A filter needs a table or a statement. Incidents, events of unknown types, and rows events without a table
        # map have neither.
        undecided = (role == R.KEEP) | (((role == R.ROWS) | (role == R.ROWS_END)) & (segment.subject < 0))
        found = [(int(k), self._owners.members(self._owners.undecided)) for k in np.flatnonzero(undecided)]
        for number in np.unique(subject[subject >= 0]).tolist():
            outputs = self._owners.undecided_outputs(number)
            if outputs:
                found += [(int(k), outputs) for k in np.flatnonzero(subject == number)]
        for inside, outputs in found:
            transaction = self._complete + outer.transaction_of(inside if event is None else event)
            self._undecided.setdefault(transaction, []).extend(self._owners.names[k] for k in outputs)
        for number, payload in segment.payloads.items():
            self._note_undecided(payload, outer, number)

    def table(self, sources: SourceNumbers, family: str) -> pa.Table:
        """Return the table of the range's transactions, with the columns of ``TRANSACTIONS_SCHEMA``.

        ``sources`` has the server UUIDs, or domains and server ids, of the numbers in the scanned events. Other ranges
        may have added entries to ``sources``, but these do not change the table.
        """
        rows = np.concatenate([np.empty((0, 7), np.int64), *self._rows])
        source = rows[:, _SOURCE]
        none = source < 0
        used, place = np.unique(source[~none], return_inverse=True)
        texts = [gtid_source_text(sources.key(k, family)) for k in used.tolist()]
        names = sorted(texts)
        code = np.zeros(len(rows), np.int64)
        code[~none] = np.array([names.index(text) for text in texts], np.int64)[place]
        columns = [
            pa.array(np.full(len(rows), self._file), pa.int32()),
            pa.array(rows[:, _END]),
            pa.DictionaryArray.from_arrays(
                pa.array(code, pa.int32(), mask=none), pa.array(names, pa.string())
            ),
            pa.array(rows[:, _NUMBER], mask=none),
            pa.array(rows[:, _SERVER]),
            pa.array(rows[:, _EVENTS]),
            pa.array(rows[:, _OF_FILE] != 0),
            pa.array(rows[:, _EXACT] != 0),
            pa.array([self._undecided.get(k) for k in range(len(rows))], pa.list_(pa.string()))
            if self._undecided
            else pa.nulls(len(rows), pa.list_(pa.string())),
        ]
        return pa.Table.from_arrays(columns, schema=TRANSACTIONS_SCHEMA)
