"""The result of a tally: bytes and events, counted by the condition under which a filter sends them.

A condition is, for example, "one of these tables is sent". With this result one can compute how much traffic any filter
would cause, without reading the binlogs again. Such a computation is a sum over :class:`Tallied` and takes a few array
operations, whatever the size of the binlogs. The sums equal the bytes, events and transactions that a
:class:`~dumpfilter.dump.thread.DumpThread` would send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump.conditions import ALWAYS, EVERYTHING, EXACTLY, ONE, Conditions, ConditionTable, Mask
from dumpfilter.dump.stand_ins import StandIns, Stretches, at_most
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subject

COUNTS = ("bytes", "events", "transactions", "undecided", "stand_ins", "stand_in_bytes")
"""The names of a tally's columns that are counts, and that are added up when units become one."""

SubjectFlags = npt.NDArray[np.uint32]
"""A filter's verdicts as bits (uint32), one entry for each table or statement of a tally."""


class Origin(NamedTuple):
    """The server and domain that a transaction comes from. A slave may ignore servers and domains
    (``IGNORE_SERVER_IDS``)."""

    server_id: int
    domain_id: int | None
    writer: int
    """The server id of the server that wrote the binlog, which may have replicated the transaction from another."""


@dataclass(frozen=True)
class Tallied:
    """The counts of a tally, as columns with one entry for each unit.

    A unit is the traffic with one condition (such as "this table is sent"), from one origin, in one span of time. The
    columns from ``condition`` on belong to the units.
    """

    subjects: tuple[Subject, ...]
    """The tables and statements that filters decide about. Conditions name them by their index in this tuple."""
    conditions: Conditions
    origins: tuple[Origin | None, ...]
    """The servers and domains that transactions come from. The first entry is None, for events that every slave
    wants."""
    bucket_seconds: int
    given_only: bool
    """Whether the result is valid only for the filters that the tally was given, and not for other filters.

    This is so if those filters have cut compressed transactions, or if :meth:`folded` has merged conditions.
    """
    stretches: Stretches
    """The domains of MariaDB's GTIDs, which say how many stand-ins MariaDB needs at most."""
    condition: npt.NDArray[np.int64]
    """For each unit, the number in ``conditions`` of the condition under which a filter sends its events."""
    origin: npt.NDArray[np.int64]
    """For each unit, the index in ``origins`` of the server and domain that its events come from."""
    bucket: npt.NDArray[np.int64]
    """For each unit (a counter), the span of time in which its events lie: Unix seconds divided by ``bucket_seconds``
    and rounded down."""
    bytes: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]
    transactions: npt.NDArray[np.int64]
    undecided: npt.NDArray[np.int64]
    """For each unit, the number of events about which a filter may be unable to decide, for example statements."""
    stand_ins: npt.NDArray[np.int64]
    """For each unit, the number of its transactions that need a stand-in if the unit is dropped
    (:mod:`~dumpfilter.dump.stand_ins`). A sent unit needs none."""
    stand_in_bytes: npt.NDArray[np.int64]

    def flags(self, flags: TableFlags) -> SubjectFlags | None:
        """Ask a filter about each table and statement of the tally, and return the verdicts for :meth:`sent`.

        Return None for a filter without rules.
        """
        return flags_of(flags, self.subjects)

    def sent(
        self, flags: SubjectFlags | None, origin: OriginFilter | None = None, number: int | None = None
    ) -> Mask:
        """Tell for each unit (an entry of the columns) whether the master sends its events to a slave.

        Parameters:
            flags: the verdicts of the slave's filter (:meth:`flags`); None: no rules.
            origin: the server ids and domains that the slave wants; None: all. Unless it wants all, it must be one of
                those that the tally was given.
            number: the filter's index in the list of filters that the tally was given.

        Raises ValueError for a filter with rules and without a number if ``given_only`` is set.
        """
        if flags is None:
            of_condition = self.conditions.among(EVERYTHING)
            of_condition |= self.conditions.kind != EXACTLY
        else:
            if number is None and self.given_only:
                raise ValueError("this tally holds for the filters that it was given alone")
            of_condition = self.conditions.passing(flags & FILTER_BINLOG_SEND_F != 0)
            of_condition |= self.conditions.kind == ALWAYS
            if number is not None:
                of_condition |= self.conditions.among(number)
        sent: Mask = of_condition[self.condition]
        if origin is not None and origin.is_on:
            sent &= np.array([_wants(origin, each) for each in self.origins], np.bool_)[self.origin]
        return sent

    def stand_ins_for(self, flags: SubjectFlags | None, number: int | None = None) -> StandIns:
        """Return the stand-ins that a real replica gets for the transactions that its filter drops.

        For MariaDB this is an upper bound. Its number is exact when the filter drops all transactions or none. The
        bytes are then exact, too, unless only some binlogs have checksums. The parameters are those of :meth:`sent`. A
        real replica is sent the transactions of all servers and domains, and ignores some of them itself.
        """
        sent = self.sent(flags, None, number)
        dropped = StandIns(int(self.stand_ins[~sent].sum()), int(self.stand_in_bytes[~sent].sum()))
        if not self.stretches.domains:
            return dropped
        return at_most(dropped, int(self.transactions[sent].sum()), self.stretches)

    def unsure(self, flags: SubjectFlags | None) -> Mask:
        """Tell for each unit whether a filter sends its ``undecided`` events only because it cannot decide about them.

        The answer has a meaning only for units (counters) that :meth:`sent` marks.
        """
        if flags is None:
            return np.zeros(len(self.condition), np.bool_)
        sure = flags & (FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F) == FILTER_BINLOG_SEND_F
        return ~self.conditions.passing(sure)[self.condition]

    def table_of(self, condition: int) -> Subject | None:
        """Return the only table or statement that a condition depends on, for reports by table.

        Return None if the condition depends on several tables, or on none.
        """
        if self.conditions.required[condition] >= 0:
            return self.subjects[int(self.conditions.required[condition])]
        if self.conditions.kind[condition] == ONE:
            return self.subjects[int(self.conditions.members(condition)[0])]
        return None

    def folded(self, flags: Sequence[SubjectFlags | None]) -> Tallied:
        """Return a smaller result that is valid for the given filters only, with fewer conditions and units.

        ``flags`` has the verdicts of every filter that the tally was given. Tables about which all filters agree are
        replaced by one of them in conditions about several tables. Many conditions then become equal. Their number
        depends on the differences between the filters, and no longer on the size of the binlogs.
        """
        with_rules = [each for each in flags if each is not None]
        answers = np.array(with_rules, np.uint32).reshape(len(with_rules), len(self.subjects))
        answers &= np.uint32(FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)
        first: dict[bytes_, int] = {}
        stand_in = [first.setdefault(answer.tobytes(), n) for n, answer in enumerate(answers.T.copy())]
        table = ConditionTable()
        numbers = table.add(
            self.conditions,
            np.arange(len(self.conditions)),
            np.arange(len(self.subjects) + 1),
            np.arange(len(self.subjects), dtype=np.int32),
            np.array(stand_in, np.int32),
        )
        return _summed(
            [replace(self, condition=numbers[self.condition], given_only=True)],
            self.subjects,
            table.conditions(),
            self.origins,
        )


def with_longer_buckets(tallied: Tallied, bucket_seconds: int) -> Tallied:
    """Return the same counts in longer time buckets.

    Raises ValueError if ``bucket_seconds`` is no multiple of the length of the present buckets.
    """
    times, rest = divmod(bucket_seconds, tallied.bucket_seconds)
    if rest or not times:
        raise ValueError(f"{bucket_seconds} is no multiple of {tallied.bucket_seconds}")
    if times == 1:
        return tallied
    longer = replace(tallied, bucket=tallied.bucket // times, bucket_seconds=bucket_seconds)
    return _summed([longer], tallied.subjects, tallied.conditions, tallied.origins)


def flags_of(flags: TableFlags, subjects: Sequence[Subject]) -> SubjectFlags | None:
    """Ask a filter about tables and statements, and return its verdicts as bits in the same order.

    Return None for a filter without rules.
    """
    if not flags.is_on:
        return None
    return np.fromiter((flags.bits(subject) for subject in subjects), np.uint32, len(subjects))


bytes_ = bytes
"""The built-in type ``bytes``, under another name because :class:`Tallied` has a column ``bytes``."""


def _wants(origin: OriginFilter, of: Origin | None) -> bool:
    return of is None or origin.wants(of.server_id, of.domain_id, writer=of.writer)


def merge(parts: Sequence[Tallied]) -> Tallied:
    """Add up the results of several tallies, for example of different parts of a binlog set.

    All tallies must have been given the same filters. The same table or origin may have different numbers in the parts.
    Raises ValueError if ``parts`` is empty, or if the parts count in time buckets of different lengths.
    """
    alike = with_shared_numbers(parts)
    return _summed(alike, alike[0].subjects, alike[0].conditions, alike[0].origins)


def side_by_side(parts: Sequence[Tallied]) -> Tallied:
    """Return the results of several tallies as one, without adding up equal units.

    This function is much faster than :func:`merge` and serves for sums over all units, such as the traffic of a filter.
    Equal conditions of two parts stay two conditions. Their members need not ascend. Raises ValueError if ``parts`` is
    empty, or if the parts count in time buckets of different lengths.
    """
    _check_alike(parts)
    if len(parts) == 1:
        return parts[0]
    subjects: dict[Subject, int] = {}
    origins: dict[Origin | None, int] = {None: 0}
    conditions: list[Conditions] = []
    first: dict[tuple[int, int], int] = {}
    count = 0
    numbers_of_units, origins_of_units = [], []
    for part in parts:
        key = (id(part.subjects), id(part.conditions))
        if key not in first:
            numbers = [subjects.setdefault(subject, len(subjects)) for subject in part.subjects]
            conditions.append(part.conditions.with_subjects(np.array(numbers, np.int32)))
            first[key] = count
            count += len(part.conditions)
        numbers_of_units.append(part.condition + first[key])
        of_origin = np.array([origins.setdefault(origin, len(origins)) for origin in part.origins], np.int64)
        origins_of_units.append(of_origin[part.origin])
    lengths = [np.diff(one.start) for one in conditions]
    others = (np.concatenate([getattr(part, name) for part in parts]) for name in ("bucket", *COUNTS))
    return Tallied(
        tuple(subjects),
        Conditions(
            np.concatenate([one.kind for one in conditions]),
            np.concatenate([one.required for one in conditions]),
            np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
            np.concatenate([one.member for one in conditions]),
        ),
        tuple(origins),
        parts[0].bucket_seconds,
        any(part.given_only for part in parts),
        reduce(Stretches.plus, (part.stretches for part in parts)),
        np.concatenate(numbers_of_units),
        np.concatenate(origins_of_units),
        *others,
    )


def _check_alike(parts: Sequence[Tallied]) -> None:
    if len({part.bucket_seconds for part in parts}) != 1:
        raise ValueError("there must be tallies, all with buckets of one length")


def with_shared_numbers(parts: Sequence[Tallied]) -> list[Tallied]:
    """Return tallies that share one list of subjects, one of conditions and one of origins, and so their numbers.

    Raises ValueError if ``parts`` is empty, or if the parts count in time buckets of different lengths.
    """
    _check_alike(parts)
    subjects: dict[Subject, int] = {}
    origins: dict[Origin | None, int] = {None: 0}
    table = ConditionTable()
    known: dict[tuple[int, int], npt.NDArray[np.int64]] = {}
    renumbered = []
    for part in parts:
        key = (id(part.subjects), id(part.conditions))
        if key not in known:
            numbers = [subjects.setdefault(subject, len(subjects)) for subject in part.subjects]
            known[key] = table.add(
                part.conditions,
                np.arange(len(part.conditions)),
                np.arange(len(numbers) + 1),
                np.array(numbers, np.int32),
                np.arange(len(subjects), dtype=np.int32),
            )
        of_origin = np.array([origins.setdefault(origin, len(origins)) for origin in part.origins], np.int64)
        renumbered.append(replace(part, condition=known[key][part.condition], origin=of_origin[part.origin]))
    shared = tuple(subjects), table.conditions(), tuple(origins)
    return [replace(part, subjects=shared[0], conditions=shared[1], origins=shared[2]) for part in renumbered]


def summed(tallied: Tallied) -> Tallied:
    """Return a tally in which no two units have the same condition, origin and span of time."""
    return _summed([tallied], tallied.subjects, tallied.conditions, tallied.origins)


def _summed(
    parts: Sequence[Tallied],
    subjects: tuple[Subject, ...],
    conditions: Conditions,
    origins: tuple[Origin | None, ...],
) -> Tallied:
    """Add up the counts of all parts that have the same condition, origin and span of time.

    All parts must already number conditions and origins in the same way.
    """
    condition, origin, bucket = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("condition", "origin", "bucket")
    )
    order = np.lexsort((bucket, origin, condition))
    condition, origin, bucket = condition[order], origin[order], bucket[order]
    fresh = np.ones(len(order), np.bool_)
    for key in (condition, origin, bucket):
        fresh[1:] &= key[1:] == key[:-1]
    fresh[1:] = ~fresh[1:]
    first = np.flatnonzero(fresh)
    sums = []
    for name in COUNTS:
        column = np.concatenate([getattr(part, name) for part in parts])
        sums.append(np.add.reduceat(column[order], first) if len(first) else column)
    return Tallied(
        subjects,
        conditions,
        origins,
        parts[0].bucket_seconds,
        any(part.given_only for part in parts),
        reduce(Stretches.plus, (part.stretches for part in parts)),
        condition[first],
        origin[first],
        bucket[first],
        *sums,
    )
