"""The decision of one segment (a part of a binlog file) by up to 64 filters at a time.

This module calls the compiled code of :mod:`dumpfilter.dump.atoms` and :mod:`dumpfilter.dump.cut`, and holds the
arrays that the compiled code fills.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dumpfilter.base.memory import lazy_zeros
from dumpfilter.binlog import roles as R
from dumpfilter.dump import atoms as A
from dumpfilter.dump import cut as K
from dumpfilter.dump.chunk import NO_GAPS, ChunkPlan, Counts, Gaps, Reported
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.flags import MOST_HITS
from dumpfilter.filter.rules import SLAVE_RULE_KINDS
from dumpfilter.index.segment import Segment

Integers = npt.NDArray[np.int64]

NO_HITS: Integers = np.empty((0, K.HIT_COLUMNS), np.int64)
_HAS_NONE: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


class Carry(NamedTuple):
    """The state of one filter's decision about a transaction that continues in the next segment (the next part of the
    binlog file). The state holds the events that wait for later events, and tells whether the slave was sent a part of
    the transaction.
    """

    events: Integers
    """The events about which events of the next segment (a part of a binlog file) decide, with the columns ``C_...`` of
    :mod:`dumpfilter.dump.cut`.

    These events are the GTID and BEGIN of a transaction of which nothing is sent yet. The context events (such as
    Intvar) and table maps of the open statement, and the last rows event, are among them, too.
    """
    is_kept: bool
    """Whether an event of the transaction that continues has been sent to the slave."""
    rows_kept: bool
    """Whether rows of the statement that continues in the next segment (part of the binlog file) have been sent to the
    slave.
    """
    hits: Integers
    """The rule hits (matches of filter rules) of the transaction's dropped events, with the columns ``HIT_...`` of
    :mod:`dumpfilter.dump.cut`.
    """


class Flags(Protocol):
    """A filter's decisions about the tables and statements of a binlog set: a uint32 of flags (bits such as "send") for
    each table or statement.

    :class:`~dumpfilter.filter.flags.TableFlags` implements this protocol. So does a class of the Spark job that splits
    a binlog set into several sets, and decides which events each new set gets.
    """

    @property
    def is_on(self) -> bool:
        """Whether any rule could drop an event."""

    @property
    def on_undecided(self) -> OnUndecided:
        """The treatment of an event that no filter can decide about: stop the dump, drop the event, or send it. The
        imposed filters (filters that the master's operator sets for a slave) determine the treatment.
        """

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        """Return four things: an array of flags, the memory address of its first entry, an array of the rules that
        match, and its address. The compiled code reads the arrays by their addresses, so the caller must keep the
        arrays alive.

        The number of a table or statement is the index in both arrays. An entry of the first array is a uint32 of
        flags, such as FILTER_BINLOG_SEND_F. A row of the second array has the kinds of up to MOST_HITS matching rules,
        and -1 in its unused entries.
        """


class Asked(NamedTuple):
    """The input of :func:`decide` for one filter and one segment (a part of a binlog file).

    The input has the filter's verdicts (send, drop or undecided) about each table and statement, and the position from
    which the slave needs events.
    """

    flags: Flags
    first: int
    """The number, within the segment (a part of a binlog file), of the first transaction to decide."""
    chunk_size: int
    position: int
    """The byte offset in the file where the slave's last chunk (message) ended."""
    resume: int
    """The last transaction boundary at or before ``position``, a byte offset in the file."""


class Decided(NamedTuple):
    """The result of one filter's decision about a segment (a part of a binlog file): the plans of the chunks (messages)
    to send. A plan has the byte ranges of the file that a message holds.

    ``carry`` is the state of a transaction that continues in the next segment, or None if the segment ends between two
    transactions.
    """

    plans: list[ChunkPlan]
    carry: Carry | None


_shared = attrgetter(*A.Columns._fields[: A.Columns._fields.index("is_open")], "open", "has_inner_gaps")
"""Return the arrays of a segment (scanned part of a binlog file) as a tuple, in the order of the fields of
:class:`~dumpfilter.dump.atoms.Columns`.
"""


def columns_of(segment: Segment) -> A.Columns:
    """Return a segment (a part of a binlog file) as the columns that :func:`decide` needs.

    The columns do not depend on a filter. They suit each filter whose slave needs all transactions of the segment, and
    for which no event of an earlier segment waits for a decision.
    """
    hit_role = segment.role
    if segment.xa_ends:
        hit_role = hit_role.copy()
        hit_role[list(segment.xa_ends)] = R.FRAME
    return A.Columns._make((*_shared(segment), hit_role, _HAS_NONE, 0, False, False, NO_HITS))


def with_carry(columns: A.Columns, carry: Carry) -> A.Columns:
    """Return the ``columns`` of a segment (a part of a binlog file) with the events of ``carry`` in front. The carried
    events lie before the segment in the binlog file. Whether the slave is sent these events is not decided yet, because
    their transaction continues in the segment.
    """
    events = carry.events
    n = len(events)
    if n:
        role = events[:, K.C_ROLE].astype(np.uint8)
        txn_event = columns.txn_event + n
        txn_event[0] = 0
        columns = columns._replace(
            offset=np.concatenate([events[:, K.C_OFFSET], columns.offset]),
            size=np.concatenate([events[:, K.C_SIZE], columns.size]),
            role=np.concatenate([role, columns.role]),
            hit_role=np.concatenate([role, columns.hit_role]),
            subject=np.concatenate([events[:, K.C_SUBJECT].astype(np.int32), columns.subject]),
            txn_event=txn_event,
        )
    return columns._replace(
        carried=n,
        is_kept=carry.is_kept,
        rows_kept=carry.rows_kept,
        hits=np.concatenate([carry.hits, columns.hits]),
    )


class _Scratch(threading.local):
    """The work arrays of the compiled code that decides which events slaves are sent. Each thread of the operating
    system has its own arrays, and reuses them for all segments (parts of binlog files). The arrays only grow.
    """

    def __init__(self) -> None:
        self.flags: list[Flags] = []
        """The filters whose verdicts (send, drop or undecided) :attr:`weighed` has. A verdict is one bit of a 64-bit
        word, and filter j has bit j.
        """
        self.known = 0
        """The number of tables and statements for which :attr:`weighed` has the filters' verdicts (send, drop or
        undecided).
        """
        self._sizes: tuple[int, ...] = (0, 0, 0)
        self.weighed: A.Weighed
        self.transactions: K.Transactions
        self.done: K.Done

    def make_room(self, *wanted: int) -> None:
        """Enlarge the arrays to hold at least the sizes ``wanted`` for one segment (a part of a binlog file).

        The sizes are the number of events plus runs of GTIDs, the number of tables and statements, and the number of
        rows of results that one filter may need.
        """
        if all(size <= has for size, has in zip(wanted, self._sizes, strict=True)):
            return
        self._sizes = tuple(max(has, 2 * size, 1024) for size, has in zip(wanted, self._sizes, strict=True))
        events, subjects, room = self._sizes
        self.flags = []
        lists = A.ROOTS + A.MOST_LISTS * events
        self.weighed = A.Weighed(
            subject=lazy_zeros((A.SUBJECT_WORDS, subjects), np.uint64),
            transaction=lazy_zeros((A.TRANSACTION_WORDS, events), np.uint64),
            candidate=lazy_zeros(events, np.int64),
            busy=lazy_zeros(events, np.int64),
            atom_first=lazy_zeros(events, np.int64),
            atom_until=lazy_zeros(events, np.int64),
            atoms=lazy_zeros((events, A.ATOM_COLUMNS), np.int64),
            atom=lazy_zeros((events, A.ATOM_WORDS), np.uint64),
            lists=lazy_zeros((lists, A.LIST_COLUMNS), np.int64),
            list_word=lazy_zeros(lists, np.uint64),
            call=lazy_zeros(A.CALL_WORDS, np.uint64),
        )
        self.transactions = K.Transactions(
            row=lazy_zeros((events + 1, K.TRANSACTION_COLUMNS), np.int64),
            run=lazy_zeros((events + 1, K.RUN_COLUMNS), np.int64),
            run_gtid=lazy_zeros(events + 1, np.int64),
        )
        # Filters share the rows that the first one leaves.
        rows = room + room // 4
        self.done = K.Done(
            lazy_zeros((A.FILTERS, K.HITS + len(SLAVE_RULE_KINDS)), np.int64),
            chunk=lazy_zeros((room // 2, K.CHUNK_COLUMNS), np.int64),
            range=lazy_zeros((rows, K.RANGE_COLUMNS), np.int64),
            gap=lazy_zeros((rows, K.GAP_COLUMNS), np.int64),
            run=lazy_zeros((rows, K.RUN_COLUMNS), np.int64),
            hit=lazy_zeros((rows, 2), np.int64),
            carry=lazy_zeros((rows, K.CARRY_COLUMNS), np.int64),
        )


_scratch = _Scratch()


def decide(file: str, columns: A.Columns, asked: Sequence[Asked]) -> list[Decided]:
    """Decide for each filter of ``asked`` which events of a segment (a part of a binlog file) are sent. Return the
    decisions in the same order.

    ``file`` is the name of the segment's binlog file, and ``columns`` are the arrays of its events and transactions. If
    ``columns`` begin with carried events (undecided events from before the segment) or were changed for one filter,
    ``asked`` may have only this filter.
    """
    found: list[Decided] = []
    for begin in range(0, len(asked), A.FILTERS):
        found += _decide_word(file, columns, asked[begin : begin + A.FILTERS])
    return found


def _decide_word(file: str, columns: A.Columns, asked: Sequence[Asked]) -> list[Decided]:
    """Decide for each of up to 64 filters (``asked``) which events of a segment (a part of a binlog file) are sent, and
    return the decisions in the same order. ``columns`` has the segment's events. The compiled code uses one bit of a
    64-bit word for each filter.
    """
    flags = [one.flags for one in asked]
    # The compiled code has only the addresses of the flags, so these references keep the arrays.
    pinned = [each.addresses() for each in flags]
    filters = np.array(
        [
            (
                address,
                rules,
                not one.flags.is_on,
                one.flags.on_undecided is OnUndecided.SEND,
                one.first,
                one.chunk_size,
                one.position,
                one.resume,
            )
            for one, (_, address, _, rules) in zip(asked, pinned, strict=True)
        ],
        np.int64,
    )
    events, dropped = len(columns.offset), len(columns.dropped)
    # Each chunk and each gap can cut a run of GTIDs in two. Each event can end a chunk, and a gap.
    room = (MOST_HITS + 2) * events + 2 * dropped + len(columns.hits) + 8
    scratch = _scratch
    subjects = min(len(verdicts) for verdicts, _, _, _ in pinned)
    scratch.make_room(events + dropped, subjects, room)
    known = scratch.known if scratch.flags == flags else 0
    # Words are known only after the compiled code has filled them, whatever interrupts this function.
    scratch.flags = []
    done = scratch.done
    low = min(one.first for one in asked)
    reported = Reported(columns.txn_source, columns.dropped)
    found: list[Decided] = []
    while len(found) < len(asked):
        begin = len(found)
        end = K.plan(
            columns,
            filters,
            len(filters),
            begin,
            low,
            known,
            subjects,
            room,
            scratch.weighed,
            scratch.transactions,
            done,
        )
        scratch.flags, scratch.known = flags, subjects
        results = done.filters[begin:end].tolist()
        chunks = done.chunk[: results[-1][K.D_CHUNKS]].tolist()
        last = chunks[-1]
        arrays = done.range, done.gap, done.run, done.hit
        stops = last[K.H_RANGES], last[K.H_GAPS], last[K.H_RUNS], last[K.H_HITS]
        written = [array[:stop].copy() for array, stop in zip(arrays, stops, strict=True)]
        chunk, carry = 1, 0
        for result in results:
            until, carry_until, is_kept, rows_kept = result[: K.D_POSITION]
            found.append(
                Decided(
                    [_plan(file, reported, written, chunks[k - 1], chunks[k]) for k in range(chunk, until)],
                    Carry(
                        done.carry[carry:carry_until].copy(),
                        bool(is_kept),
                        bool(rows_kept),
                        # The open transaction is number 0 in the next segment.
                        hit_rows([(0, kind, n) for kind, n in enumerate(result[K.HITS :]) if n]),
                    )
                    if columns.is_open
                    else None,
                )
            )
            chunk, carry = until, carry_until
    return found


def _plan(
    file: str, reported: Reported, written: Sequence[Integers], before: Sequence[int], chunk: Sequence[int]
) -> ChunkPlan:
    """Return the plan (description) of one chunk, a message to a slave, of the binlog file ``file``.

    ``written`` has four arrays for all chunks of one call: the byte ranges, gaps (runs of dropped transactions), runs
    of GTIDs, and rule hits (matches of filter rules). The plan's arrays are views of these.

    ``before`` and ``chunk`` are the rows of the chunk before and of this chunk in :attr:`Done.chunk
    <dumpfilter.dump.cut.Done.chunk>`. The two rows tell where the chunk's part of each array begins and ends.
    ``reported`` has the GTIDs of the segment's transactions that the slave lacks.
    """
    ranges, gaps, hits, _, runs = before[K.H_RANGES :]
    ranges_until, gaps_until, hits_until, gap_runs, runs_until = chunk[K.H_RANGES :]
    end, resume, resume_bytes = chunk[: K.H_EVENTS_READ]
    all_ranges, all_gaps, all_runs, all_hits = written
    of_gaps = NO_GAPS
    if gaps < gaps_until:
        of_gaps = Gaps(all_gaps[gaps:gaps_until], all_runs[runs:gap_runs], all_hits[hits:hits_until])
    return ChunkPlan(
        file,
        all_ranges[ranges:ranges_until],
        end,
        resume,
        resume_bytes,
        all_runs[gap_runs:runs_until],
        of_gaps,
        Counts(*chunk[K.H_EVENTS_READ : K.H_RANGES]),
        reported,
    )


def hit_rows(rows: Sequence[tuple[int, int, int]]) -> Integers:
    """Return ``rows`` of hits (matches of filter rules) as an array, int64 of shape (n, 3). The columns are the
    transaction's number, the index of the rule's kind in :data:`~dumpfilter.filter.rules.SLAVE_RULE_KINDS`, and the
    count.
    """
    return np.array(rows, np.int64) if rows else NO_HITS
