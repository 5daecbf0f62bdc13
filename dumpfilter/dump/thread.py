"""The dump thread, the part of the master that decides what one slave is sent, without files and sockets.

A :class:`DumpThread` has a position and a filter. It takes the segments (parts of the files) of one binlog set in
order, and plans chunks, the messages of the stream. A plan says which byte ranges of the file a slave gets, from which
boundary a broken stream can begin again, and which GTIDs the slave has then.
:func:`~dumpfilter.dump.chunk.render` turns a plan into bytes.

An :class:`Exclusion` names the transactions that a slave does not need, whatever its filter. The slave already has them
(GTID auto-position), or they come from servers or domains that the slave ignores (``IGNORE_SERVER_IDS``,
``DO_DOMAIN_IDS``).

:func:`plan_many` plans one segment for many threads at once. If nothing but the filter's decisions about tables and
statements matters, up to 64 threads are decided together. Otherwise a thread gets its own copy of the segment's
columns. This is so in these cases:

- A transaction began in an earlier segment, or is compressed.
- The master's operator has imposed a filter on the slave.
- The slave has some of the transactions, or ignores them.
- An XA transaction ends that an earlier filter sent or dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import DumpfilterError, PositionError, UndecidedEvent
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.boundary import withhold
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, ReadAt, holds, no_file
from dumpfilter.dump.cut import RANGE_OFFSET, RANGE_PATCH, REPLACED
from dumpfilter.dump.decision import Asked, Carry, Decided, columns_of, decide, with_carry
from dumpfilter.dump.payload import filter_payloads, sent_inside
from dumpfilter.dump.xa import Earlier, Ints, XaEnds
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.segment import TOLD_COLUMNS, Segment


def contained(segment: Segment, sources: SourceNumbers, gtids: GtidSet) -> npt.NDArray[np.bool_]:
    """Return for each transaction of a segment (a part of a binlog file) whether its GTID is in the GTID set ``gtids``,
    as an array of bool. A transaction without a GTID has False.

    ``sources`` is the register that gives each GTID source (server UUID, or MariaDB's domain and server id) its index
    in the segment's arrays.
    """
    source = segment.txn_source
    found = np.zeros(len(source), np.bool_)
    for number in np.unique(source[source >= 0]).tolist():
        of_source = np.flatnonzero(source == number)
        found[of_source] = gtids.contains(sources.key(number), segment.txn_number[of_source])
    return found


def _distinct(column: npt.NDArray[np.integer[Any]]) -> set[int]:
    """Return the distinct values of a column, most often only one."""
    # np.unique takes some 30 µs for the single transaction of a live commit.
    return set(column[:1].tolist() if (column == column[:1]).all() else column.tolist())


@dataclass(eq=False)
class Reach:
    """The GTID ranges and the server ids of a segment (a part of a binlog file), computed once and used for many
    slaves. A GTID range has the lowest and highest transaction number of one GTID source (server UUID, or MariaDB's
    domain and server id).

    :meth:`Exclusion.overlaps` compares a Reach with one slave. The comparison shows for most slaves that the segment
    has no transaction which the slave already has, and none with the slave's own server id, which the slave itself
    wrote. Such a slave needs no separate messages, and shares those of other slaves.
    """

    server_ids: set[int] = field(default_factory=set)
    """The server ids in the headers of the transactions' first events, and of the events between transactions."""
    gtids: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest transaction number of each GTID source (such as a server UUID), by the number that
    stands for the source.
    """

    @classmethod
    def of(cls, segment: Segment, position: int = 0) -> Reach:
        """Return the GTID ranges and server ids of the transactions of a segment (a part of a binlog file) that begin
        at or after the file offset ``position``. The GTIDs that Gap events (a relay log's notes about dropped
        transactions) name are included, wherever these events lie in the segment.
        """
        first = int(np.searchsorted(segment.txn_start, position)) if position > segment.start else 0
        found = cls(_distinct(segment.txn_server[first:]))
        source, number = segment.txn_source[first:], segment.txn_number[first:]
        sources = _distinct(source)
        for each in sources:
            if each >= 0:
                of_source = number if len(sources) == 1 else number[source == each]
                found.add_run(each, int(of_source.min()), int(of_source.max()))
        for _, each, low, high, _, _ in segment.dropped.tolist():
            found.add_run(each, low, high)
        return found

    def add_run(self, source: int, low: int, high: int) -> None:
        """Extend :attr:`gtids`, a mapping from GTID sources to ranges of transaction numbers. After the call the range
        of ``source`` includes the transaction numbers from ``low`` to ``high``.

        ``source`` is the index that stands for a GTID source (server UUID, or MariaDB's domain and server id).
        """
        known = self.gtids.get(source, (low, high))
        self.gtids[source] = min(low, known[0]), max(high, known[1])


class Exclusion:
    """The transactions of a binlog set that one slave does not need, so that the dump thread skips them. The slave has
    them already, or ignores the servers or domains that they come from.

    Parameters:
        sources: the register that maps each GTID source (server UUID, or MariaDB's domain and server id) to an index,
            and back. The arrays of a segment (a part of a binlog file) name a GTID's source by this index.
        executed: the set of GTIDs that the slave already has. None if the slave asks by file and position, without
            GTIDs.
        origin: the server ids and domains whose transactions the slave wants or ignores. None if the slave wants all.
    """

    def __init__(self, sources: SourceNumbers, executed: GtidSet | None, origin: OriginFilter | None) -> None:
        self._sources = sources
        self._executed = None if executed is None else executed.copy()
        self._origin = None if origin is None or not origin.is_on else origin
        self._highest: dict[int, int] = {}
        """The highest transaction number that the slave has of each GTID source (such as a server UUID), by the number
        that stands for the source. Filled on demand.
        """
        self.key: Hashable = (None if executed is None else self), self._origin
        """A hashable value that is equal for slaves for which the same transactions are left out. No two slaves with
        GTID sets have equal keys, because a GTID set can have many intervals and would take long to compare.
        """
        self.is_on = executed is not None or self._origin is not None
        """Whether any transactions may be left out for the slave."""

    def of_equal_slaves(self) -> Exclusion:
        """Return a copy that excludes only the transactions of servers and domains that the slave ignores. All slaves
        that ignore the same servers and domains have equal copies.

        The copy excludes neither the transactions that this slave has already, nor those that it has written itself.
        With equal copies the slaves can share plans (descriptions of messages). A slave for which :meth:`overlaps` is
        true needs its own plan.
        """
        origin = None if self._origin is None else replace(self._origin, own_server_id=0)
        return Exclusion(self._sources, None, origin)

    def apply(self, segment: Segment) -> Columns:
        """Return the columns (arrays) of a segment, which is a part of a binlog file. Each transaction that this slave
        does not need is marked as ``SKIP`` in ``txn_subject``. The dump thread drops marked transactions, whatever the
        slave's filter.

        In the result, ``txn_source`` (the index of the transaction's GTID source) is -1 for each transaction whose GTID
        the master does not report to the slave. ``dropped``, the GTIDs that Gap events (a relay log's notes about
        dropped transactions) name, lacks the GTIDs that the slave already has.
        """
        columns = columns_of(segment)
        if self._executed is not None:
            has = contained(segment, self._sources, self._executed)
            columns = columns.with_subjects(has, R.SKIP)._replace(
                txn_source=np.where(has, np.int32(-1), segment.txn_source),
                dropped=self._missing(segment.dropped, self._executed),
                has=has,
            )
        return columns if self._origin is None else self._without_unwanted(segment, self._origin, columns)

    def overlaps(self, reach: Reach) -> bool:
        """Tell whether a part of the binlog may contain a transaction that this slave has already, or has written
        itself in circular replication. Then the slave needs its own plan (description of messages) for this part, and
        cannot share that of other slaves.

        ``reach`` has the GTID ranges and server ids of the part's transactions.
        """
        executed = self._executed
        if self._origin is not None and self._origin.own_server_id in reach.server_ids:
            return True
        if executed is None:
            return False
        for source, (low, high) in reach.gtids.items():
            highest = self._highest.get(source)
            if highest is None:
                highest = self._highest[source] = executed.highest(self._sources.key(source))
            if low <= highest and executed.overlaps(self._sources.key(source), low, high):
                return True
        return False

    def _missing(self, dropped: npt.NDArray[np.int64], executed: GtidSet) -> npt.NDArray[np.int64]:
        rows = [
            (transaction, source, low, high, sequence + low - first, time)
            for transaction, source, first, last, sequence, time in dropped.tolist()
            for low, high in executed.missing(self._sources.key(source), first, last)
        ]
        return np.array(rows, np.int64).reshape(-1, TOLD_COLUMNS)

    def _without_unwanted(self, segment: Segment, origin: OriginFilter, columns: Columns) -> Columns:
        """Return a copy of ``columns`` in which the transactions that the slave ignores are marked as ``SKIP``
        (dropped). ``origin`` names the servers and domains that the slave ignores. ``segment`` is the part of the
        binlog file that ``columns`` describe.

        For MySQL the GTIDs of these transactions are removed, too, and for MariaDB they stay. The reason is what the
        servers' I/O threads do with a transaction that they ignore. MariaDB's counts the transaction as done
        (``gtid_slave_pos``, ``Gtid_IO_Pos``). MySQL's adds the GTID to neither Retrieved_Gtid_Set nor
        Executed_Gtid_Set. Both move the position. This was tried with MySQL 9.7 and MariaDB 10.11.
        """
        fd = segment.format_description
        is_unwanted = np.isin(segment.txn_server, list(origin.unwanted_server_ids(fd.header.server_id)))
        if fd.family == "mariadb":
            for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
                domain, _ = self._sources.key(number)
                assert isinstance(domain, int)
                if not origin.wants_domain(domain):
                    is_unwanted |= segment.txn_source == number
        # Rotate and similar events belong to the binlog file and to no transaction.
        is_unwanted &= segment.txn_source != R.KEPT
        columns = columns.with_subjects(is_unwanted, R.SKIP)
        if fd.family != "mariadb":
            columns = columns._replace(txn_source=np.where(is_unwanted, np.int32(-1), columns.txn_source))
        return columns


class DumpThread:
    """The dump of one binlog set to one slave: the position, the filter in force, and the state of an open transaction.
    :meth:`plan` takes the binlog's segments (parts of its files) in order, and says which bytes the slave is sent.

    A dump thread is not a thread of the operating system, although a server's dump thread is one.

    Parameters:
        flags: the decisions of the slave's filter about each table and statement of the set.
        sources: the register of the set's GTID sources (server UUIDs, or MariaDB's domain and server ids). In the
            segments' arrays, the index that the register gives a source stands for the source.
        chunk_size: the bytes of events after which a chunk (message) ends.
        exclude: the GTIDs that the slave already has. The thread sends no events of these transactions.
        origin: the server ids and domains whose transactions the slave wants; None: all.
        earlier: the filters of the slave's earlier dumps, by which the thread decides about XA COMMIT of transactions
            that were prepared in these dumps. None: only the present filter.
    """

    def __init__(
        self,
        flags: TableFlags,
        sources: SourceNumbers,
        *,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        exclude: GtidSet | None = None,
        origin: OriginFilter | None = None,
        earlier: Earlier | None = None,
    ) -> None:
        self.flags = flags
        """The decisions of the filter in force, about each table and statement."""
        self.exclusion = Exclusion(sources, exclude, origin)
        self.chunk_size = chunk_size
        """The bytes of events after which a chunk (a message to the slave) ends."""
        self._carry: Carry | None = None
        """The state of the transaction that continues in the next segment (part of the binlog file); None between two
        transactions.

        The arrays in this object are never changed, so that the copies of this thread (:meth:`fork`) share them.
        """
        self._xa_ends = XaEnds(earlier)
        self._read: ReadAt = no_file
        self.resume = 0
        """The last transaction boundary at or before :attr:`position`, a byte offset in the file."""
        self.position: int | None = None
        """The byte offset in the file of the next event to be decided; None before the first file."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last planned segment (part of the binlog file) ended inside a transaction. The filter cannot
        change inside a transaction.
        """
        return self._carry is not None

    def fork(self, **changes: Any) -> DumpThread:
        """Return an independent copy of this dump thread with ``changes``, which are new values of attributes.

        The copy and this thread share nothing that changes, so that both may plan (decide what the slave is sent) at
        the same time.

        A caller that has decided some events without this thread makes a copy that stands after these events. For that,
        ``position`` (of the next event) and ``resume`` (from which a broken stream begins again) get the transaction
        boundary after the events. The events must be plain row changes, and the filter must decide about them by their
        tables alone (:attr:`decides_by_flags`).
        """
        # copy() takes five times as long, and each step of each slave begins with a fork.
        fork = DumpThread.__new__(DumpThread)
        fork.__dict__.update(self.__dict__, **changes)
        return fork

    @property
    def key(self) -> Hashable | None:
        """A hashable value that is equal for dump threads that send the same bytes of all further events of a file.
        Inside a transaction the value is None.

        A caller can use one plan (the description of a message) for all threads with equal keys at the same file. The
        key does not name the file. If a thread leaves out the GTIDs that its slave already has, only its own copies
        have an equal key, because GTID sets would take long to compare.
        """
        if self.in_transaction:
            return None
        return (
            self.flags,
            self.exclusion.key,
            self.chunk_size,
            self._xa_ends.key,
            self.resume,
            self.position,
        )

    def change_filter(self, flags: TableFlags) -> None:
        """Use another filter for the next transactions. The thread must not be inside a transaction, because one filter
        decides each transaction whole.

        ``flags`` are the new filter's decisions about tables and statements.
        """
        assert not self.in_transaction
        if flags is not self.flags:
            self._xa_ends = self._xa_ends.left(self.flags)
        self.flags = flags

    def start_file(self, position: int, read: ReadAt) -> None:
        """Begin with another binlog file, at the byte offset ``position`` between two transactions.

        ``read`` reads bytes of this file, which is needed for compressed transactions.
        """
        self._read = read
        self.position = position
        self.resume = position

    def plan(self, segment: Segment) -> list[ChunkPlan]:
        """Decide which events of a segment (a part of the binlog file) are sent, from the file offset :attr:`position`
        on. Return the plans of the chunks (messages to the slave), and move :attr:`position` to the end of the last
        one.

        There is at least one plan, and the last one ends where the segment ends. If an imposed filter (set by the
        master's operator) stops the dump in a later transaction, the last plan ends before that transaction.

        Raises PositionError if the position is not a transaction boundary of the segment, and UndecidedEvent if an
        imposed filter stops the dump in the first transaction. Raises BinlogError for a compressed transaction that
        cannot be opened.
        """
        (planned,) = plan_many([self], segment)
        if isinstance(planned, DumpfilterError):
            raise planned
        return planned

    @property
    def decides_by_flags(self) -> bool:
        """Whether the filter's decisions about tables alone decide the next transactions, if these are plain row
        changes. Then a decision can be cached and used for other transactions with the same tables.

        The value is False inside a transaction, if transactions are left out that the slave does not need, and with an
        imposed filter, which the master's operator sets.
        """
        return not (self.in_transaction or self.flags.boundary or self.exclusion.is_on)

    def _decides_by_flags(self, segment: Segment) -> bool:
        """Tell whether the filter's decisions about tables and statements alone decide a segment (a part of the binlog
        file). Then many threads can be decided together.

        These decisions do not suffice in the following cases:

        - The thread is inside a transaction.
        - The master's operator has imposed a filter on the slave.
        - The slave does not need all transactions, for example because it already has some.
        - The segment has compressed transactions, and the filter has rules.
        - The segment has an XA COMMIT or XA ROLLBACK about which an earlier filter of the slave may decide.
        """
        return self.decides_by_flags and not (
            (segment.payloads and self.flags.is_on) or self._xa_ends.concerns(segment)
        )

    def _plan_alone(self, segment: Segment, first: int) -> list[ChunkPlan]:
        try:
            return self._plan_own(segment, first)
        except UndecidedEvent as error:
            if error.transaction <= first:
                raise
            return self._plan_own(segment.before(error.transaction), first)

    def _plan_own(self, segment: Segment, first: int) -> list[ChunkPlan]:
        """Plan a segment (a part of the binlog file) for this dump thread alone, with its own copy of the segment's
        columns (arrays). Return the plans of its chunks (messages to the slave).

        ``first`` is the number of the first transaction to decide.
        """
        flags = self.flags
        columns = self.exclusion.apply(segment)
        had = columns.txn_subject
        columns = self._xa_ends.decide(segment, columns, first, flags)
        if self._carry is not None:
            columns = with_carry(columns, self._carry)
        undecided: list[tuple[int, int]] = []
        replaced: dict[int, bytes] = {}
        if flags.boundary:
            columns, offsets = withhold(flags, segment, columns, first, self._read)
            undecided += [(offset, 1) for offset in offsets]
        if segment.payloads and flags.is_on:
            columns, replaced, inside = filter_payloads(flags, segment, columns, first, self._read)
            undecided += inside
        (decided,) = decide(segment.file, columns, [self._asked(first)])
        for offset, n in undecided:
            plan = next(plan for plan in decided.plans if offset < plan.end)
            plan.counts.events_undecided += n
        for plan in decided.plans if replaced else ():
            ranges = plan.ranges[plan.ranges[:, RANGE_PATCH] == REPLACED]
            plan.replaced = {at: replaced[at] for at in ranges[:, RANGE_OFFSET].tolist()}
        self._go_on(segment, had, first, decided)
        return decided.plans

    def _asked(self, first: int) -> Asked:
        assert self.position is not None
        return Asked(self.flags, first, self.chunk_size, self.position, self.resume)

    def _go_on(self, segment: Segment, txn_subject: Ints, first: int, decided: Decided) -> None:
        if segment.prepared or segment.all_ends:
            self._xa_ends = self._xa_ends.after(segment, txn_subject, first, self.flags)
        last = decided.plans[-1]
        self.position, self.resume, self._carry = last.end, last.resume, decided.carry

    def _first_transaction(self, segment: Segment) -> int:
        """Return the number of the transaction of a segment (a part of the binlog file) that begins at the thread's
        position. If the position is the segment's start, the number is 0, also in the middle of a transaction that the
        thread has begun.

        Raises PositionError, with the nearest boundaries, if no transaction begins at the position.
        """
        assert self.position is not None
        if self.position != segment.start:
            found = segment.transaction_at(self.position)
            if found is not None:
                return found
            boundaries = segment.boundaries
            at = int(np.searchsorted(boundaries, self.position))
            nearest = boundaries[max(at - 1, 0) : at + 1].tolist()
            raise PositionError(
                "no transaction begins here; the nearest places are " + " and ".join(map(str, nearest)),
                file=segment.file,
                position=self.position,
            )
        if segment.continues and not self.in_transaction:
            raise PositionError(
                "this place lies inside a transaction", file=segment.file, position=self.position
            )
        return 0


Planned = list[ChunkPlan] | DumpfilterError
"""The descriptions of the next chunks (messages) to one slave, or the error that ends the slave's dump."""


def plan_many(threads: Sequence[DumpThread], segment: Segment) -> list[Planned]:
    """Plan one segment (a part of a binlog file) for each dump thread. Return for each thread, in order, the list of
    its plans, or the error for which there is no plan.

    A dump thread decides what one slave is sent, and a plan describes one chunk (message to the slave). The position of
    each thread moves to the end of its last plan. A thread with an error stays where it was.

    Threads with one filter, position, resume point and chunk size get the same list object, so that a caller can encode
    each plan once. A thread gets its own list if the filter's verdicts about tables and statements do not suffice, for
    example because the slave already has some of the transactions. The module's docstring lists all cases.

    The error is PositionError if the thread's position is not a transaction boundary. It is UndecidedEvent if an
    imposed filter (set by the master's operator) stops the dump in the first transaction. Another BinlogError is about
    a compressed transaction that cannot be opened.
    """
    planned: list[Planned] = [[]] * len(threads)
    equals: dict[Asked, list[int]] = {}
    inside: dict[int | None, int] = {segment.start: 0}
    for number, thread in enumerate(threads):
        try:
            first = inside.get(thread.position)
            if first is None or segment.continues:
                first = inside[thread.position] = thread._first_transaction(segment)
            if thread._decides_by_flags(segment):
                equals.setdefault(thread._asked(first), []).append(number)
            else:
                planned[number] = thread._plan_alone(segment, first)
        except DumpfilterError as error:
            planned[number] = error
    if not equals:
        return planned
    together = decide(segment.file, columns_of(segment), list(equals))
    for (asked, numbers), decided in zip(equals.items(), together, strict=True):
        for number in numbers:
            planned[number] = decided.plans
            threads[number]._go_on(segment, segment.txn_subject, asked.first, decided)
    return planned


Bools = npt.NDArray[np.bool_]


class SentEvents:
    """A record of the events of one binlog file that each of several dump threads sends. A dump thread decides with one
    filter which events a slave is sent.

    :meth:`add` takes the file's segments (its parts, scanned into arrays) in order. After that, :meth:`of` tells for
    single events whether a thread sends them.

    Parameters:
        threads: a dump thread for each filter, at the beginning of the first segment. No thread may have an imposed
            filter (a filter that the master's operator sets for a slave).
    """

    def __init__(self, threads: Sequence[DumpThread]) -> None:
        self._threads = threads
        self._ranges: list[list[npt.NDArray[np.int64]]] = [[np.empty((0, 3), np.int64)] for _ in threads]
        self._inside: list[dict[int, Bools]] = [{} for _ in threads]
        """For each thread, the compressed transactions that the thread sends in part, by the file offset of the
        Transaction_payload event. A value has one boolean for each inner event.
        """

    def add(self, segment: Segment) -> None:
        """Take the next segment (part) of the file, and let each dump thread decide, with its filter, which of the
        events are sent. Raises BinlogError for a compressed transaction that cannot be opened.
        """
        number_of = {int(segment.offset[number]): number for number in segment.payloads}
        for thread, plans, ranges, inside in zip(
            self._threads, plan_many(self._threads, segment), self._ranges, self._inside, strict=True
        ):
            if isinstance(plans, DumpfilterError):
                raise plans
            for plan in plans:
                ranges.append(plan.ranges)
                for offset in plan.replaced:
                    inside[offset] = sent_inside(thread.flags, segment, number_of[offset])

    def of(self, k: int, events: OpenedEvents) -> Bools:
        """Return for each row of ``events`` whether the dump thread with index ``k`` sends the event, as an array of
        bool.

        ``k`` is an index in the list of threads with which this record was made. A compressed transaction that the
        thread sends in part counts as one event that is sent. All segments (parts of the file) with these events must
        have been added before.
        """
        self._ranges[k] = [np.concatenate(self._ranges[k])]
        offset = events.segment.offset
        sent = holds(self._ranges[k][0], offset)[events.outer]
        for number in events.payloads:
            if (part := self._inside[k].get(int(offset[number]))) is not None:
                sent[events.inside(number)] = part
        return sent
