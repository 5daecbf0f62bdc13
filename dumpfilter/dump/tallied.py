"""What a pass over binlogs found: how much a dump would send, by the condition under which it is sent.

Of any filter the bytes, events and transactions that a :class:`~dumpfilter.dump.thread.DumpThread` with it sends are
sums over :class:`Tallied`, a few array operations whatever the binlogs' size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _tally as K
from dumpfilter.dump.conditions import ALWAYS, EVERYTHING, EXACTLY, ONE, Conditions, ConditionTable, Mask
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subject

SubjectFlags = npt.NDArray[np.uint32]
"""A filter's flags of each of a tally's subjects."""


class Origin(NamedTuple):
    """Where a transaction comes from, as far as an :class:`OriginFilter` asks."""

    server_id: int
    domain_id: int | None
    writer: int
    """The server that wrote the binlog."""


@dataclass(frozen=True)
class Tallied:
    """Units: what is sent under one condition, from one origin, in one bucket of time. No two agree in all three.

    Columns, int64, one entry a unit: ``condition`` (a number in ``conditions``), ``origin`` (a number in ``origins``,
    of which 0, None, is wanted by every slave), ``bucket`` (Unix seconds // ``bucket_seconds``), and ``bytes``,
    ``events``, ``transactions`` and ``undecided`` (events that count as undecided where they are sent only for that).

    ``subjects``: what the conditions' numbers of subjects stand for; sets of subjects
    (:meth:`~dumpfilter.index.subjects.Subjects.members`) are not among them. ``given_only``: it holds for the filters
    that the tally was given alone, since compressed transactions of several subjects are decided already, or
    conditions folded.
    """

    subjects: tuple[Subject, ...]
    conditions: Conditions
    origins: tuple[Origin | None, ...]
    bucket_seconds: int
    given_only: bool
    condition: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    bucket: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    events: npt.NDArray[np.int64]
    transactions: npt.NDArray[np.int64]
    undecided: npt.NDArray[np.int64]

    def flags(self, flags: TableFlags) -> SubjectFlags | None:
        """A filter's flags of each of ``subjects``, for :meth:`sent`; None for a filter without rules."""
        return flags_of(flags, self.subjects)

    def sent(
        self, flags: SubjectFlags | None, origin: OriginFilter | None = None, number: int | None = None
    ) -> Mask:
        """The units that a slave is sent, bool a unit.

        Parameters:
            flags: its filter's (:meth:`flags`); None: no rules.
            origin: which origins it wants; None: all. One that is on must have been among the tally's filters.
            number: the filter's, among those the tally was given.

        Raises ValueError for a filter with rules and without a number where there is ``given_only``.
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
        """The units, bool a unit, of which the ``undecided`` events are sent, where they are (:meth:`sent`), because
        the filter could not decide them."""
        if flags is None:
            return np.zeros(len(self.condition), np.bool_)
        sure = flags & (FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F) == FILTER_BINLOG_SEND_F
        return ~self.conditions.passing(sure)[self.condition]

    def table_of(self, condition: int) -> Subject | None:
        """The table or statement that a condition is about; None when that are several, or none."""
        if self.conditions.required[condition] >= 0:
            return self.subjects[int(self.conditions.required[condition])]
        if self.conditions.kind[condition] == ONE:
            return self.subjects[int(self.conditions.members(condition)[0])]
        return None

    def folded(self, flags: Sequence[SubjectFlags | None]) -> Tallied:
        """The same with fewer conditions, for these filters, all that the tally was given (:meth:`flags`).

        In conditions about several subjects those of which every filter says the same stand for one another. Such
        conditions are then as many as the filters tell apart, not as many as the binlogs have.
        """
        with_rules = [each for each in flags if each is not None]
        answers = np.array(with_rules, np.uint32).reshape(len(with_rules), len(self.subjects))
        answers &= np.uint32(FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)
        first: dict[bytes_, int] = {}
        stand_in = [first.setdefault(answer.tobytes(), n) for n, answer in enumerate(answers.T.copy())]
        table = ConditionTable(np.zeros(K.STATE_SIZE, np.int64))
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
    """A filter's flags of subjects, as :meth:`Tallied.flags` has them: for who has not got the tally."""
    if not flags.is_on:
        return None
    return np.fromiter((flags.bits(subject) for subject in subjects), np.uint32, len(subjects))


bytes_ = bytes
"""(:class:`Tallied` has a column of that name.)"""


def _wants(origin: OriginFilter, of: Origin | None) -> bool:
    return of is None or origin.wants(of.server_id, of.domain_id, writer=of.writer)


def merge(parts: Sequence[Tallied]) -> Tallied:
    """The tallies of several stretches of binlogs as one. They were given the same filters, and folded for the same;
    their subjects and origins may be numbered differently.

    Raises ValueError for none at all and where the buckets are of different lengths.
    """
    if len({part.bucket_seconds for part in parts}) != 1:
        raise ValueError("there must be tallies, all with buckets of one length")
    subjects: dict[Subject, int] = {}
    origins: dict[Origin | None, int] = {None: 0}
    table = ConditionTable(np.zeros(K.STATE_SIZE, np.int64))
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
    """The units of all parts, whose numbers are those of these conditions and origins."""
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
