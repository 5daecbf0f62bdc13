"""The bytes that a filter passes, computed from measurements without reading the binlogs again.

A pass over the binlogs makes a tally: bytes counted by the condition under which a filter sends them. The tally does
not contain the size of a compressed transaction of which a filter drops a part. The search for rules estimates this
size as a share of the compressed bytes. For the suggested rules, a second pass counts the exact bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.by_heading import Headings
from dumpfilter.analyse.traffic.facts import (
    COLUMNS,
    Conditions,
    Facts,
    SubjectFlags,
    flags_of,
    merge,
    side_by_side,
    wants,
)
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.packets.stand_ins import Stretches
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.fileset import open_file
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject, numbers_on_tables
from dumpfilter.spark_jobs.bandwidth.evaluate import nothing_passes
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.ranges import (
    IndexedSet,
    Range,
    ReadOptions,
    ReadRanges,
    amount_of,
    grouped,
    state_of_thread,
)

_BUCKET_SECONDS = 1 << 40
"""The length of a time bucket, seconds. It exceeds any binlog's span, because suggestions do not use times."""

_MOST_MIXES = 20_000
"""The maximum number of distinct sets of tables in compressed transactions whose parts are counted separately.

A transaction with a further set counts completely as soon as one of its tables is sent.
"""


@dataclass
class Mix:
    """The summed bytes of all compressed transactions that change the same set of tables and statements.

    Compression hides the bytes of a single table. They are estimated from its share of the uncompressed bytes.
    """

    stored: int = 0
    """The bytes of the transactions' Transaction_payload events."""
    uncompressed: int = 0
    """The bytes of all events inside, without compression."""
    of_subject: dict[Subject, int] = field(default_factory=dict)
    """The bytes of the events of each table and statement, without compression."""

    def add(self, other: Mix) -> None:
        """Add the bytes of ``other``, which counts transactions with the same set of tables and statements."""
        self.stored += other.stored
        self.uncompressed += other.uncompressed
        for subject, nbytes in other.of_subject.items():
            self.of_subject[subject] = self.of_subject.get(subject, 0) + nbytes


Mixes = dict[frozenset[Subject], Mix]


@dataclass
class Measured:
    """The traffic counted in a binlog set, or in a part of the set.

    ``tallied`` has the bytes by the condition under which a filter sends them, such as "this table is sent". ``mixes``
    has the bytes of compressed transactions by the set of tables that they change.
    """

    tallied: Facts
    mixes: Mixes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A task, for threads of this process, that counts the traffic of some ranges (parts of binlog files) for
    ``filters``.

    Each thread has separate counts and cached filter results, so that each filter is evaluated only once per table and
    thread.
    """

    job: str
    filters: Sequence[ReplicationFilter]

    def __call__(self, ranges: Iterable[Range]) -> Measured:
        """Read the ranges and return their measurements. Raises BinlogError with file and position."""
        subjects, sources, tally = state_of_thread(self.job, self._state)
        mixes: Mixes = {}
        tally.take()
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    tally.add(block.segment, file.read)
                    _add_mixes(block.segment, subjects, mixes)
        return Measured(tally.take(), mixes)

    def _state(self) -> tuple[Subjects, SourceNumbers, Tally]:
        subjects, sources = Subjects(), SourceNumbers()
        given = [(TableFlags(one, subjects), None) for one in self.filters]
        tally = Tally(subjects, sources, filters=given, bucket_seconds=_BUCKET_SECONDS, any_origin=True)
        return subjects, sources, tally


def _add_mixes(segment: Segment, subjects: Subjects, mixes: Mixes) -> None:
    """Add the bytes of each table and statement in a segment's compressed transactions to ``mixes``. Only
    transactions that change several tables count.
    """
    for event, inner in segment.payloads.items():
        owned = inner.subject >= 0
        numbers = np.unique(inner.subject[owned])
        if len(numbers) < 2:
            continue
        sizes = np.bincount(
            np.searchsorted(numbers, inner.subject[owned]), weights=inner.size[owned], minlength=len(numbers)
        )
        of_subject: dict[Subject, int] = {}
        for number, nbytes in zip(numbers.tolist(), sizes.tolist(), strict=True):
            # The bytes of an XA COMMIT belong to a set of tables, and stay with the whole transaction.
            if subjects.members(number) is None:
                subject = subjects[number]
                of_subject[subject] = of_subject.get(subject, 0) + int(nbytes)
        key = frozenset(of_subject)
        if len(key) > 1 and (key in mixes or len(mixes) < _MOST_MIXES):
            mix = Mix(int(segment.size[event]), int(inner.size.sum()), of_subject)
            mixes.setdefault(key, Mix()).add(mix)


def measure(
    indexed: IndexedSet, filters: Sequence[ReplicationFilter], run: Runner, options: ReadOptions, label: str
) -> Measured:
    """Count the traffic of a binlog set, so that the bytes that a filter passes can be computed without reading the
    binlogs again.

    The result is valid for ``filters``. It is valid for all filters if no filter drops a part of a compressed
    transaction. ``run`` executes the tasks, and ``label`` describes the work to the user. Raises BinlogError with file
    and position.
    """
    task = MeasureRanges(options=options, job=uuid.uuid4().hex, filters=filters)
    groups = grouped(indexed.ranges, options.range_size)
    parts = run(task, groups, label, amount=amount_of(indexed.ranges)) or [task([])]
    found = Measured(merge([part.tallied for part in parts]))
    for part in parts:
        for key, mix in part.mixes.items():
            found.mixes.setdefault(key, Mix()).add(mix)
    return found


def with_shares(tallied: Facts, mixes: Mixes) -> Facts:
    """Return the counted traffic with the bytes of compressed transactions divided among their tables, which is an
    estimate.

    Each table of a transaction in ``mixes`` gets the bytes that correspond to its part of the uncompressed bytes. The
    rest of such a transaction counts as soon as a filter sends one of its tables.
    """
    subjects: dict[Subject, int] = {}
    members: list[list[int]] = []
    sizes: list[int] = []
    for mix in mixes.values():
        numbers = [subjects.setdefault(subject, len(subjects)) for subject in mix.of_subject]
        shares = [mix.stored * size // max(mix.uncompressed, 1) for size in mix.of_subject.values()]
        members += [numbers, *([number] for number in numbers)]
        sizes += [-sum(shares), *shares]
    columns: dict[str, Any] = dict.fromkeys(COLUMNS, np.zeros(len(sizes), np.int64))
    columns |= {"condition": np.arange(len(sizes)), "bytes": np.array(sizes, np.int64)}
    about = tuple(subjects), Conditions.any_of(members), (None,), tallied.bucket_seconds, False, Stretches()
    return side_by_side([tallied, Facts(*about, **columns)])


Ints = npt.NDArray[np.int64]


class Traffic:
    """Computes how many bytes a filter passes, and to which tables they belong, from the measurements of a binlog set.

    The attribute ``subjects`` has the tables and statements of the measurements. Tables that only statements name are
    appended, so that filters are also evaluated for their rows.
    """

    def __init__(self, measured: Measured) -> None:
        # The tally was given filters without rules only. So that it serves any filter, a compressed transaction counts
        # whole as soon as a filter sends one of its tables.
        self._tallied = replace(measured.tallied, given_only=False)
        self._shared = with_shares(self._tallied, measured.mixes)
        self.needs_exact_pass = bool(measured.mixes)
        """Whether a compressed transaction has several tables, so that the bytes of its parts are estimates."""
        known = {subject for subject in self._shared.subjects if isinstance(subject, TableSubject)}
        named = dict.fromkeys(
            table for subject in self._shared.subjects for table in tables_of(subject) if table not in known
        )
        self.subjects: tuple[Subject, ...] = (*self._shared.subjects, *named)
        self.numbers: dict[Subject, int] = {subject: k for k, subject in enumerate(self.subjects)}
        self.is_table: npt.NDArray[np.bool_] = np.array(
            [isinstance(subject, TableSubject) for subject in self.subjects], np.bool_
        )
        self._headings, self._shared_headings = Headings(self._tallied), Headings(self._shared)
        self._on_tables = np.array(numbers_on_tables(self._tallied.subjects), np.int64)

    @property
    def tables(self) -> list[TableSubject]:
        """All tables that rows events or statements of the binlog set change."""
        return [subject for subject in self.subjects if isinstance(subject, TableSubject)]

    def wanted_origins(self, origin: OriginFilter | None) -> tuple[bool, ...]:
        """Return for each server and domain of the set whether a slave wants its transactions.

        ``origin`` is the slave's filter of server ids and domain ids, such as ``IGNORE_SERVER_IDS``. None: the slave
        wants all.
        """
        return tuple(wants(origin, each) for each in self._tallied.origins)

    def ask(self, one: ReplicationFilter) -> SubjectFlags | None:
        """Return a filter's decisions (send, drop, undecided) about all tables and statements, as bits of one uint32
        each. None: a filter without rules.
        """
        return flags_of(one, self.subjects)

    def ask_about(
        self, one: ReplicationFilter, before: SubjectFlags | None, changed: Sequence[int]
    ) -> SubjectFlags:
        """Evaluate a filter for some tables and statements, and return its decisions about all of them as bits.

        ``before`` has the decisions of a filter with one rule less (None: it had no rules). ``changed`` has the indexes
        of tables and statements about which the new rule may decide otherwise. All other decisions are copied.
        """
        flags = TableFlags(one, Subjects())
        if before is None:
            found = np.full(len(self.subjects), FILTER_BINLOG_SEND_F, np.uint32)
        else:
            found = before.copy()
        for number in changed:
            found[number] = flags.bits(self.subjects[number])
        return found

    def bytes(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> int:
        """Return the bytes that a slave receives. The sizes of parts of compressed transactions are estimates.

        ``flags`` has the decisions of the slave's filter about all tables and statements (None: no rules). ``origin``
        is the slave's filter of server ids and domain ids (None: none).
        """
        sent = self._shared.sent(flags, origin)
        return int(self._shared.bytes[sent].sum())

    def count_tables(self, flags: SubjectFlags | None) -> int:
        """Return the number of tables whose rows a filter sends. ``flags`` has the filter's decisions about all tables
        and statements (None: no rules).
        """
        return int(np.count_nonzero(self._sent(flags) & self.is_table))

    def nothing_passes(self, flags: SubjectFlags | None) -> bool:
        """Tell whether a filter drops all rows and all statements on tables. ``flags`` has the filter's decisions about
        all tables and statements (None: no rules).
        """
        return nothing_passes(flags, self._on_tables)

    def weights(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> Ints:
        """Return for each table and statement an upper bound of the bytes that a slave would save by dropping its
        events.

        Events that the slave's filter drops already count as 0. The bytes of a transaction with several tables count
        for each of them. ``flags`` has the filter's decisions (None: no rules), and ``origin`` is the filter of server
        ids and domain ids (None: none).
        """
        tallied = self._tallied
        sent = tallied.sent(flags, origin)
        of_condition = np.bincount(
            tallied.condition[sent], weights=tallied.bytes[sent], minlength=len(tallied.conditions)
        )
        found: npt.NDArray[np.float64] = np.zeros(len(self.subjects))
        conditions = tallied.conditions
        lengths = np.diff(conditions.start)
        if len(conditions.member):
            among = conditions.member >= 0
            np.add.at(found, conditions.member[among], np.repeat(of_condition, lengths)[among])
        required = conditions.required >= 0
        np.add.at(found, conditions.required[required], of_condition[required])
        found[~self._sent(flags)] = 0
        return np.ceil(found).astype(np.int64)

    def by_name(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> dict[str, int]:
        """Return the bytes that a slave receives by the name of the table (``schema.table``), as the command
        ``bandwidth`` counts them.

        A compressed transaction with several tables counts completely under :data:`SEVERAL`. ``flags`` has the
        decisions of the slave's filter (None: no rules), and ``origin`` is its filter of server ids and domain ids
        (None: none).
        """
        return self._headings.by_name(self._tallied.bytes, self._tallied.sent(flags, origin))

    def by_name_with_parts(self, flags: SubjectFlags | None, origin: OriginFilter | None) -> dict[str, int]:
        """Return the bytes that a slave receives by the name of the table. Compressed transactions count with an
        estimated share for each of their tables.

        ``flags`` has the decisions of the slave's filter (None: no rules), and ``origin`` is its filter of server ids
        and domain ids (None: none).
        """
        found = self._shared_headings.by_name(self._shared.bytes, self._shared.sent(flags, origin))
        # Shares have no origin. They would leave fewer than 0 bytes of a transaction whose server the slave ignores.
        return {name: nbytes for name, nbytes in found.items() if nbytes > 0}

    def _sent(self, flags: SubjectFlags | None) -> npt.NDArray[np.bool_]:
        if flags is None:
            return np.ones(len(self.subjects), np.bool_)
        sent: npt.NDArray[np.bool_] = flags & FILTER_BINLOG_SEND_F != 0
        return sent


def tables_of(subject: Subject) -> list[TableSubject]:
    """Return the tables that the events of a table, or a statement, change. For a statement they are the tables that
    its text shows.
    """
    return [TableSubject(table.database, table.table) for table in subject.tables() if table.database]
