"""The result of a tally: bytes and events by the condition under which a filter sends them.

The bytes, events and transactions that a :class:`~dumpfilter.dump.thread.DumpThread` would send with any filter are
sums over :class:`Tallied`. A sum takes a few array operations, whatever the size of the binlogs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump.conditions import ALWAYS, EVERYTHING, EXACTLY, ONE, Conditions, ConditionTable, Mask
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subject

SubjectFlags = npt.NDArray[np.uint32]
"""A filter's table flags, one entry for each subject of a tally."""


class Origin(NamedTuple):
    """The origin of a transaction, as far as an :class:`OriginFilter` asks for it."""

    server_id: int
    domain_id: int | None
    writer: int
    """The server id of the server that wrote the binlog."""


@dataclass(frozen=True)
class Tallied:
    """The units of a tally. A unit counts the events of one condition, from one origin, in one bucket of time.

    The columns from ``condition`` on have one entry for each unit.
    """

    subjects: tuple[Subject, ...]
    """The subjects, by their numbers in the conditions. They are tables and statements, no sets of subjects."""
    conditions: Conditions
    origins: tuple[Origin | None, ...]
    """The origins, by number. Number 0 is None and stands for events that every slave wants."""
    bucket_seconds: int
    given_only: bool
    """Whether the result holds for the filters alone that the tally was given.

    Compressed transactions of several subjects have been decided by these filters, or conditions have been folded.
    """
    condition: npt.NDArray[np.int64]
    """A number in ``conditions``."""
    origin: npt.NDArray[np.int64]
    """A number in ``origins``."""
    bucket: npt.NDArray[np.int64]
    """Unix seconds, divided by ``bucket_seconds`` and rounded down."""
    bytes: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]
    transactions: npt.NDArray[np.int64]
    undecided: npt.NDArray[np.int64]
    """Events that count as undecided if a filter sends them because it cannot decide them."""

    def flags(self, flags: TableFlags) -> SubjectFlags | None:
        """Return a filter's flags of each of ``subjects``, for :meth:`sent`; None for a filter without rules."""
        return flags_of(flags, self.subjects)

    def sent(
        self, flags: SubjectFlags | None, origin: OriginFilter | None = None, number: int | None = None
    ) -> Mask:
        """Tell for each unit whether a slave is sent it.

        Parameters:
            flags: the flags of the slave's filter (:meth:`flags`); None: no rules.
            origin: the origins that the slave wants; None: all. An origin filter that is on must be one that the
                tally was given.
            number: the filter's number among those that the tally was given.

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

    def unsure(self, flags: SubjectFlags | None) -> Mask:
        """Tell for each unit whether a filter sends its ``undecided`` events because the filter cannot decide them.

        The answer is meant for units that are sent (:meth:`sent`).
        """
        if flags is None:
            return np.zeros(len(self.condition), np.bool_)
        sure = flags & (FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F) == FILTER_BINLOG_SEND_F
        return ~self.conditions.passing(sure)[self.condition]

    def table_of(self, condition: int) -> Subject | None:
        """Return the table or statement that a condition is about; None if there are several, or none."""
        if self.conditions.required[condition] >= 0:
            return self.subjects[int(self.conditions.required[condition])]
        if self.conditions.kind[condition] == ONE:
            return self.subjects[int(self.conditions.members(condition)[0])]
        return None

    def folded(self, flags: Sequence[SubjectFlags | None]) -> Tallied:
        """Return the units with fewer conditions. ``flags`` are those of all filters that the tally was given.

        In a condition about several subjects, one subject stands for all subjects about which every filter answers
        alike. The number of conditions then grows with the differences between filters, and not with the binlogs.
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


def flags_of(flags: TableFlags, subjects: Sequence[Subject]) -> SubjectFlags | None:
    """Return a filter's flags of subjects as :meth:`Tallied.flags` does, for callers without a tally."""
    if not flags.is_on:
        return None
    return np.fromiter((flags.bits(subject) for subject in subjects), np.uint32, len(subjects))


bytes_ = bytes
"""The built-in type, in a module whose :class:`Tallied` has a column ``bytes``."""


def _wants(origin: OriginFilter, of: Origin | None) -> bool:
    return of is None or origin.wants(of.server_id, of.domain_id, writer=of.writer)


def merge(parts: Sequence[Tallied]) -> Tallied:
    """Return the results of several tallies as one.

    The tallies were given the same filters, and folded for the same filters. Their subjects and origins may have
    different numbers. Raises ValueError without any tally, and for buckets of different lengths.
    """
    if len({part.bucket_seconds for part in parts}) != 1:
        raise ValueError("there must be tallies, all with buckets of one length")
    subjects: dict[Subject, int] = {}
    origins: dict[Origin | None, int] = {None: 0}
    table = ConditionTable()
    renumbered = []
    for part in parts:
        numbers = [subjects.setdefault(subject, len(subjects)) for subject in part.subjects]
        of_origin = np.array([origins.setdefault(origin, len(origins)) for origin in part.origins], np.int64)
        of_condition = table.add(
            part.conditions,
            np.arange(len(part.conditions)),
            np.arange(len(numbers) + 1),
            np.array(numbers, np.int32),
            np.arange(len(subjects), dtype=np.int32),
        )
        renumbered.append(
            replace(part, condition=of_condition[part.condition], origin=of_origin[part.origin])
        )
    return _summed(renumbered, tuple(subjects), table.conditions(), tuple(origins))


def _summed(
    parts: Sequence[Tallied],
    subjects: tuple[Subject, ...],
    conditions: Conditions,
    origins: tuple[Origin | None, ...],
) -> Tallied:
    """Return the units of all parts. Units of the same condition, origin and bucket become one.

    The parts use the numbers of ``conditions`` and ``origins``.
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
    for name in ("bytes", "events", "transactions", "undecided"):
        column = np.concatenate([getattr(part, name) for part in parts])
        sums.append(np.add.reduceat(column[order], first) if len(first) else column)
    return Tallied(
        subjects,
        conditions,
        origins,
        parts[0].bucket_seconds,
        any(part.given_only for part in parts),
        condition[first],
        origin[first],
        bucket[first],
        *sums,
    )
