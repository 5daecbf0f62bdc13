"""Counts of the bytes and events of binlogs by condition, from which the traffic of any filter is computed.

A condition is, for example, "one of these tables is sent". :class:`Facts` has a row of counts for each condition,
origin (server and domain) and time bucket. The traffic of a filter is the sum of the rows whose condition the filter
meets, so that the binlogs are not read again. The sums equal the bytes, events and transactions that a
:class:`~dumpfilter.dump.thread.DumpThread` sends.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic._group import ALWAYS, NO_SUBJECT
from dumpfilter.dump.packets.stand_ins import StandIns, Stretches, at_most
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.subjects import Subject, Subjects

COUNTS = ("bytes", "events", "transactions", "undecided", "stand_ins", "stand_in_bytes")
"""The names of the columns of :class:`Facts` that hold counts. When rows are merged, these columns are added up."""

COLUMNS = ("condition", "origin", "bucket", *COUNTS)
"""The names of the columns of :class:`Facts`: each row's condition (such as "this table is sent"), origin (server and
domain), time bucket and counts.
"""

SubjectFlags = npt.NDArray[np.uint32]
"""A filter's verdicts about the tables and statements in ``Facts.subjects``, one uint32 for each. The number is a
combination of flags such as FILTER_BINLOG_SEND_F (the master sends the events).
"""

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

DECIDING = np.uint32(FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)
"""The flags of a filter's verdict about a table or statement that affect the sums of its traffic: "the master sends the
events" and "the filter cannot decide".
"""


class _Narrow:
    """A base class of dataclasses with large integer arrays. Pickling converts each of these arrays to the smallest
    unsigned type, to shrink what Spark's tasks send to the driver.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: _narrowed(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, tuple[Any, Any]]) -> None:
        vars(self).update(
            {name: value if dtype is None else value.astype(dtype) for name, (value, dtype) in state.items()}
        )


def _narrowed(value: Any) -> tuple[Any, Any]:
    """Return the value to pickle in place of ``value``, and the original dtype. An integer array without negative
    values is converted to a smaller type. Any other value is returned unchanged, and its dtype is None.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or not value.size or value.min() < 0:
        return value, None
    return value.astype(np.min_scalar_type(int(value.max())), copy=False), value.dtype


class Origin(NamedTuple):
    """The server and domain that a transaction comes from. A slave can leave out transactions by origin
    (``IGNORE_SERVER_IDS``).
    """

    server_id: int
    domain_id: int | None
    writer: int
    """The id of the server that wrote the binlog. This server may have replicated the transaction from the server
    ``server_id``.
    """


@dataclass(frozen=True)
class Conditions(_Narrow):
    """The conditions under which filters send events, such as "one of these tables is sent", as columns.

    A condition's number is its index in ``required``. A condition's members are tables and statements, by number, or
    single filters. The negative number ``NO_SUBJECT - 1 - k`` is the filter with the number ``k``. A condition holds
    for a filter if the filter sends one of the members, and also the ``required`` table or statement, if there is one.
    """

    required: Int32
    """For each condition (such as "table 5 is sent"), the number of a subject (table or statement) that the filter must
    send in any case; -1 if there is none.
    """
    start: Ints
    """For each condition (such as "table 5 is sent"), the index in ``member`` of its first member (table, statement or
    single filter). One more entry at the end is the length of ``member``.
    """
    member: Int32
    """The members of all conditions (such as "table 5 is sent"), concatenated. Each condition has one at least.

    A member is the number of a table or statement, or negative. ALWAYS is met by every filter, and NO_SUBJECT only by a
    slave without a filter. Any other negative member is met by a single filter.
    """

    def __len__(self) -> int:
        return len(self.required)

    @property
    def lengths(self) -> Ints:
        """For each condition (such as "table 5 is sent"), the number of its members: the tables, statements or single
        filters that the condition lists.
        """
        return np.diff(self.start)

    @property
    def first(self) -> Int32:
        """For each condition (such as "table 5 is sent"), the first of its members: the tables, statements or single
        filters that the condition lists.

        An entry from 0 on is the number of a table or statement. ALWAYS is met by every filter, and NO_SUBJECT only by
        a slave without a filter. Any other negative entry is met by a single filter.
        """
        return self.member[self.start[:-1]]

    @property
    def has_subjects(self) -> Mask:
        """A Boolean array that tells for each condition whether it names tables, statements or single filters. A
        condition, such as "table 5 is sent", says for which filters the master sends certain events.

        The entry is False if the condition's only member is ALWAYS (every filter meets it) or NO_SUBJECT (only a slave
        without a filter meets it).
        """
        found: Mask = (self.lengths > 1) | ~np.isin(self.first, (ALWAYS, NO_SUBJECT))
        return found

    def chosen(self, numbers: Ints) -> Conditions:
        """Return a copy with only some of the conditions (such as "this table is sent"). ``numbers`` has their numbers,
        and condition ``numbers[k]`` gets the new number ``k``.
        """
        lengths = self.lengths[numbers]
        start = _starts(lengths)
        member = self.member[_places(self.start[numbers], lengths)]
        return Conditions(self.required[numbers], start, member)

    def met(self) -> Ints:
        """Return the numbers of all tables and statements that occur in any of the conditions (such as "table 5 is
        sent"), in ascending order.
        """
        return np.unique(np.concatenate([one[one >= 0] for one in (self.required, self.member)])).astype(
            np.int64
        )

    def passing(self, sent: Mask, *others: int) -> Mask:
        """Return for each condition (such as "one of these tables is sent") whether it holds for a given filter.

        ``sent`` marks the tables and statements that the filter sends. A condition can also list negative numbers in
        place of tables and statements, and ``others`` are those that the filter meets. They are ALWAYS (met by every
        filter), NO_SUBJECT (met only by a slave without a filter), or the number that stands for this filter alone.
        """
        # The index -1, for a member that is no subject, selects the added False.
        holds = np.append(sent, False)
        is_met = holds[np.maximum(self.member, -1)] | np.isin(self.member, others)
        found: Mask = np.logical_or.reduceat(is_met, self.start[:-1]) & (
            (self.required < 0) | holds[self.required]
        )
        return found

    def expanded(self, start: Ints, subject: Int32) -> Conditions:
        """Return a copy of these conditions in which the tables and statements have other numbers. One old number may
        stand for several tables and statements, each of which gets a new number.

        The old number ``s`` is replaced by the numbers ``subject[start[s] : start[s + 1]]``, of which there is at least
        one.
        """
        required = self.required.copy()
        required[required >= 0] = subject[start[required[required >= 0]]]
        named = self.member >= 0
        times = np.ones(len(self.member), np.int64)
        times[named] = np.diff(start)[self.member[named]]
        member = np.repeat(self.member, times)
        member[np.repeat(named, times)] = subject[_places(start[self.member[named]], times[named])]
        return Conditions(required, _starts(times)[self.start], member)

    def folded(self, alike: Ints | None = None) -> tuple[Conditions, Ints]:
        """Merge equal conditions. Return the distinct conditions, and an array with the new number of each old
        condition.

        The members of a condition are the tables and statements of which a filter must send one. Before the comparison,
        table or statement ``k`` is replaced by ``alike[k]``, so that more conditions become equal (None: no change).
        Only conditions with several members are changed. Each of these also gets the member NO_SUBJECT, which only a
        slave without a filter meets. The condition thus keeps at least two members, and still counts as one on several
        tables.
        """
        row, member = np.repeat(np.arange(len(self)), self.lengths), self.member.copy()
        if alike is not None:
            has_several = (self.lengths > 1) & (np.maximum.reduceat(self.member, self.start[:-1]) >= 0)
            replaced = has_several[row] & (member >= 0)
            member[replaced] = alike[member[replaced]]
            row = np.append(row, np.flatnonzero(has_several))
            member = np.append(member, np.full(len(row) - len(member), NO_SUBJECT))
        # Members are shifted, so that none is negative.
        shift = -int(member.min(initial=0))
        keys = np.sort(row << 32 | (member + shift))
        keys = keys[np.diff(keys, prepend=-1) != 0]
        start = _starts(np.bincount(keys >> 32, minlength=len(self)))
        found = Conditions(self.required, start, ((keys & 0xFFFFFFFF) - shift).astype(np.int32))
        data = found.member.tobytes()
        ends = (start * found.member.itemsize).tolist()
        heads: dict[tuple[int, bytes_], int] = {}
        numbers = [
            heads.setdefault((required, data[begin:end]), len(heads))
            for required, begin, end in zip(self.required.tolist(), ends, ends[1:], strict=False)
        ]
        return found.chosen(np.unique(numbers, return_index=True)[1]), np.array(numbers, np.int64)


def _starts(lengths: npt.NDArray[Any]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _places(first: Ints, lengths: Ints) -> Ints:
    """Return the numbers of several integer ranges as one array, for selecting parts of another array. Range ``k``
    begins at ``first[k]`` and has ``lengths[k]`` numbers.

    >>> _places(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    start = _starts(lengths)
    return np.repeat(first - start[:-1], lengths) + np.arange(start[-1])


@dataclass(frozen=True)
class Facts(_Narrow):
    """The counted traffic of binlogs. The traffic that a filter sends is a sum over the units for which :meth:`sent` is
    true.

    A *unit* is one row of counts: the traffic under one condition (such as "this table is sent"), from one origin
    (server and domain), in one time bucket. The fields from ``condition`` on are arrays with one entry per unit. The
    earlier fields give these entries their meaning, for example the list of origins and the length of a bucket.
    """

    subjects: tuple[Subject, ...]
    """The tables and statements about which filters decide. Conditions (such as "this table is sent") refer to them by
    their index in this tuple.
    """
    conditions: Conditions
    origins: tuple[Origin | None, ...]
    """The servers and domains that transactions come from. The first entry is None, for events that are sent
    whatever origins a slave ignores.
    """
    bucket_seconds: int
    given_only: bool
    """Whether the counts are valid only for the filters for which the events were counted.

    They are if a compressed transaction changes several tables, because the part that a filter sends is counted for
    each of these filters. They are also after :meth:`folded` and :meth:`relabeled`.
    """
    stretches: Stretches
    """For a MariaDB binlog, the counts of replication domains from which an upper bound for the number of stand-ins is
    computed. A stand-in is an empty transaction that a replica gets in place of a dropped one.
    """
    condition: Ints
    """For each unit (row of counts), the index in ``conditions`` of its condition, such as "this table is sent"."""
    origin: Ints
    """For each unit (row of counts), the index of its server and domain in ``origins``."""
    bucket: Ints
    """For each unit (row of counts), its time bucket: Unix seconds divided by ``bucket_seconds``, rounded down."""
    bytes: Ints
    events: Ints
    transactions: Ints
    undecided: Ints
    """For each unit (row of counts), the number of events about which a filter may be unable to decide, for example
    statements.
    """
    stand_ins: Ints
    """For each unit (row of counts), the number of its transactions that need a stand-in if they are dropped.

    A stand-in is an empty transaction in place of a dropped one, which keeps its GTID
    (:mod:`~dumpfilter.dump.packets.stand_ins`). A sent unit needs none.
    """
    stand_in_bytes: Ints

    def sent(
        self, flags: SubjectFlags | None, origin: OriginFilter | None = None, number: int | None = None
    ) -> Mask:
        """Return for each row of counts whether the master sends its events to a slave, as a Boolean array.

        One row counts the traffic under one condition (such as "this table is sent"), from one server and domain, in
        one time bucket.

        Parameters:
            flags: the verdicts of the slave's filter about all tables and statements (:func:`flags_of`). None: no
                rules.
            origin: the server ids and domains that the slave wants (None: all). ``origin`` must be None or one of those
                for which the events were counted.
            number: the filter's index in the list of filters for which the events were counted.

        Raises ValueError for a filter with rules but no ``number`` if the counts are valid only for the filters for
        which the events were counted (:attr:`given_only`).
        """
        sent: Mask = self.holding(flags, number)[self.condition]
        if origin is not None and origin.is_on:
            sent &= np.array([wants(origin, each) for each in self.origins], np.bool_)[self.origin]
        return sent

    def holding(self, flags: SubjectFlags | None, number: int | None = None) -> Mask:
        """Return a Boolean array that tells for each of ``conditions`` (such as "this table is sent") whether the
        condition holds for a filter. ``flags`` are the filter's verdicts about all tables and statements (None: no
        rules). ``number`` is the filter's index in the list of filters for which the events were counted. Raises
        ValueError for a filter with rules but no ``number`` if :attr:`given_only` is True.
        """
        if flags is None:
            passing = np.ones(len(self.subjects), np.bool_)
            others = [ALWAYS, NO_SUBJECT]
        elif number is None and self.given_only:
            raise ValueError("these facts hold for the filters that the tally was given alone")
        else:
            passing = flags & FILTER_BINLOG_SEND_F != 0
            others = [ALWAYS, *([] if number is None else [NO_SUBJECT - 1 - number])]
        return self.conditions.passing(passing, *others)

    def stand_ins_for(self, flags: SubjectFlags | None, number: int | None = None) -> StandIns:
        """Return the number and bytes of the stand-ins that a MySQL or MariaDB replica gets if it has the given filter.

        A stand-in is an empty transaction, sent in place of a dropped one so that the replica has the GTID of the
        dropped one. For MariaDB the result is an upper bound. The number of stand-ins is exact if the filter drops all
        transactions or none. Then their bytes are exact, too, unless only some binlogs have checksums.

        ``flags`` has the filter's verdicts about all tables and statements (None: no rules). ``number`` is the filter's
        index in the list of filters for which the events were counted. Rules about servers and domains are ignored,
        since such a replica gets the transactions of all origins.

        Raises ValueError for a filter with rules but no ``number`` if the counts are valid only for the filters for
        which the events were counted (:attr:`given_only`).
        """
        sent = self.sent(flags, None, number)
        dropped = StandIns(int(self.stand_ins[~sent].sum()), int(self.stand_in_bytes[~sent].sum()))
        if not self.stretches.domains:
            return dropped
        return at_most(dropped, int(self.transactions[sent].sum()), self.stretches)

    def unsure(self, flags: SubjectFlags | None) -> Mask:
        """Return for each row of counts whether a filter sends the row's events only because the filter cannot decide
        about them. The slave then decides.

        A row counts the traffic under one condition (such as "this table is sent"). ``flags`` has the filter's verdicts
        about all tables and statements (None: no rules, so nothing is unsure). The answer is meaningful only for rows
        that the filter sends (:meth:`sent`).
        """
        if flags is None:
            return np.zeros(len(self.condition), np.bool_)
        sure = self.conditions.passing(flags & DECIDING == FILTER_BINLOG_SEND_F)
        unsure: Mask = ~sure[self.condition]
        return unsure

    @property
    def subject_of_condition(self) -> Ints:
        """For each condition (such as "this table is sent"), the number of the only table or statement that it depends
        on; -1 if there are several or none.

        If a condition requires a certain table in any case, this table counts as the only one. Reports by table use
        this number.
        """
        conditions = self.conditions
        only = np.where(conditions.lengths == 1, np.maximum(conditions.first, -1), -1)
        return np.where(conditions.required < 0, only, conditions.required).astype(np.int64)

    def folded(self, flags: Sequence[SubjectFlags | None]) -> Facts:
        """Return the counts with fewer conditions and rows. The result is smaller, but valid only for the given
        filters.

        A condition is, for example, "one of these tables is sent". If all filters treat two tables alike, conditions
        about several tables name only one of the two. Many conditions become equal and are merged, so that their number
        does not depend on the size of the binlogs.

        ``flags`` has the verdicts of every filter for which the events were counted, in the same order.
        """
        with_rules = [each & DECIDING for each in flags if each is not None]
        answers = np.array(with_rules, np.uint32).reshape(len(with_rules), len(self.subjects))
        first: dict[bytes_, int] = {}
        alike = [first.setdefault(answer.tobytes(), n) for n, answer in enumerate(answers.T.copy())]
        return replace(self.unified(np.array(alike, np.int64)), given_only=True)

    def relabeled(self, labels: Iterable[Hashable]) -> Facts:
        """Return a copy of the counts in which tables and statements of equal ``labels`` are merged into one. Several
        rows may then have the same condition, origin (server and domain) and time bucket, until :meth:`unified` merges
        them.

        ``labels`` has one value for each table and statement. Each value must include the verdicts (send, drop or
        undecided) of all filters for which the events were counted. The result is valid for these filters only.
        """
        classes: dict[Hashable, int] = {}
        classes_of = np.array([classes.setdefault(label, len(classes)) for label in labels], np.int32)
        first = np.unique(classes_of, return_index=True)[1].tolist()
        subjects = tuple(self.subjects[number] for number in first)
        conditions, numbers = self.conditions.expanded(np.arange(len(classes_of) + 1), classes_of).folded()
        condition = numbers[self.condition]
        return replace(self, subjects=subjects, conditions=conditions, condition=condition, given_only=True)

    def unified(self, alike: Ints | None = None) -> Facts:
        """Return the counted traffic with equal conditions (such as "this table is sent") merged, and then rows of
        counts with equal condition, origin (server and domain) and time bucket merged.

        In conditions about several tables or statements, table or statement ``k`` is first replaced by ``alike[k]``
        (None: no change).
        """
        conditions, numbers = self.conditions.folded(alike)
        return replace(self, conditions=conditions, condition=numbers[self.condition]).summed()

    def in_buckets(self, seconds: int) -> Facts:
        """Return the counts of bytes and events summed up in longer time buckets, of ``seconds`` seconds. This length
        must be a multiple of ``bucket_seconds``, the length of the present buckets.
        """
        if seconds == self.bucket_seconds:
            return self
        bucket = self.bucket * self.bucket_seconds // seconds
        return replace(self, bucket=bucket, bucket_seconds=seconds).summed()

    def summed(self) -> Facts:
        """Return the counts with rows merged that have equal condition (such as "this table is sent"), origin (server
        and domain) and time bucket. The counts of merged rows are added up.
        """
        units = added_up(np.stack([getattr(self, name) for name in COLUMNS], axis=1))
        return replace(self, **dict(zip(COLUMNS, np.ascontiguousarray(units.T), strict=True)))


bytes_ = bytes
"""The built-in type ``bytes``, under another name because :class:`Facts` has a column ``bytes``."""


def added_up(rows: Ints, keys: int = 3) -> Ints:
    """Merge the rows of a two-dimensional array whose first ``keys`` columns are equal. The other columns are added up,
    and the result is sorted by the keys.

    By default the rows are traffic counts with the columns :data:`COLUMNS`. The keys are then condition (such as "this
    table is sent"), origin (server and domain) and time bucket.
    """
    if not len(rows):
        return rows
    lowest = rows[:, :keys].min(axis=0)
    spans = (rows[:, :keys].max(axis=0) - lowest + 1).tolist()
    if math.prod(spans) < 1 << 62:
        # One number is sorted several times as fast as three.
        packed = np.zeros(len(rows), np.int64)
        for k, span in enumerate(spans):
            packed = packed * span + (rows[:, k] - lowest[k])
        order = np.argsort(packed)
        packed = packed[order]
        first = np.flatnonzero(np.diff(packed, prepend=-1))
    else:
        order = np.lexsort(rows[:, :keys].T[::-1])
        ordered = rows[order, :keys]
        first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    heads = rows[order[first]]
    heads[:, keys:] = np.add.reduceat(rows[order, keys:], first, axis=0)
    return heads


def sums(numbers: Ints, values: npt.NDArray[Any], length: int) -> Ints:
    """Return an int64 array of ``length`` sums. Entry ``n`` is the sum of the ``values`` at the indexes where
    ``numbers`` is ``n``.
    """
    # The function bincount adds floats, which represent every byte count up to 2**53 exactly.
    return np.bincount(numbers, weights=values, minlength=length).astype(np.int64)


def flags_of(one: ReplicationFilter, subjects: Sequence[Subject]) -> SubjectFlags | None:
    """Evaluate a filter about each of ``subjects`` (tables and statements), and return the verdicts as a uint32 array,
    from which :meth:`Facts.sent` computes the filter's traffic.

    Entry ``k`` is the verdict about ``subjects[k]``: a combination of flags such as FILTER_BINLOG_SEND_F (the master
    sends the events) and FILTER_UNDECIDED_F (the filter cannot decide). Return None for a filter without rules, because
    it sends everything.
    """
    flags = TableFlags(one, Subjects())
    if not flags.is_on:
        return None
    return np.fromiter((flags.bits(subject) for subject in subjects), np.uint32, len(subjects))


def wants(origin: OriginFilter | None, of: Origin | None) -> bool:
    """Return whether a slave receives transactions of the server and domain ``of``.

    ``origin`` has the slave's settings about servers and domains, such as ``IGNORE_SERVER_IDS`` (None: no settings).
    ``of`` None stands for events that every slave receives.
    """
    return origin is None or of is None or origin.wants(of.server_id, of.domain_id, writer=of.writer)


def merge(parts: Sequence[Facts]) -> Facts:
    """Merge the traffic counts of several passes over binlogs, for example over different parts of a binlog set.

    All passes must have counted for the same filters. The parts may number tables and origins (servers and domains)
    differently. Raises ValueError if ``parts`` is empty, or has time buckets of different lengths.
    """
    return side_by_side(parts).unified()


def side_by_side(parts: Sequence[Facts]) -> Facts:
    """Concatenate the traffic counts of several passes over binlogs. Equal conditions (such as "this table is sent")
    and rows of counts are not merged.

    This is much faster than :func:`merge`, and sufficient for sums over all rows, such as the traffic of a filter.
    Raises ValueError if ``parts`` is empty, or has time buckets of different lengths.
    """
    if len({part.bucket_seconds for part in parts}) != 1:
        raise ValueError("there must be facts, all with buckets of one length")
    subjects: dict[Subject, int] = {}
    origins: dict[Origin | None, int] = {None: 0}
    conditions: list[Conditions] = []
    columns: dict[str, list[Ints]] = {name: [getattr(part, name) for part in parts] for name in COLUMNS}
    count = 0
    for k, part in enumerate(parts):
        numbers = [subjects.setdefault(subject, len(subjects)) for subject in part.subjects]
        of_origin = [origins.setdefault(origin, len(origins)) for origin in part.origins]
        conditions.append(part.conditions.expanded(np.arange(len(numbers) + 1), np.array(numbers, np.int32)))
        columns["condition"][k] = part.condition + count
        columns["origin"][k] = np.array(of_origin, np.int64)[part.origin]
        count += len(part.conditions)
    joined: dict[str, Any] = {name: np.concatenate(column) for name, column in columns.items()}
    return replace(
        parts[0],
        subjects=tuple(subjects),
        conditions=Conditions(
            np.concatenate([one.required for one in conditions]),
            _starts(np.concatenate([one.lengths for one in conditions])),
            np.concatenate([one.member for one in conditions]),
        ),
        origins=tuple(origins),
        given_only=any(part.given_only for part in parts),
        stretches=reduce(Stretches.plus, (part.stretches for part in parts)),
        **joined,
    )
