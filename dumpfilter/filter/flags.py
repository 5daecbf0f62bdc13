"""A filter's verdicts, cached as bits for each subject (WL#2387's last section: ``uint32 table->s->flags``)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.filter.hits import COLUMN
from dumpfilter.filter.kinds import AllFilters
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

FILTER_BINLOG_SEND_F = 1 << 0
"""The dump thread sends the subject's events to this slave."""
FILTER_BINLOG_WRITE_F = 1 << 1
"""The write side's filter lets the subject's events into the binlog."""
FILTER_SLAVE_EXECUTE_F = 1 << 2
"""The applier executes the subject's events."""
FILTER_UNDECIDED_F = 1 << 3
"""The verdict is UNDECIDED. The master sends the events and the slave decides."""
FILTER_HIT_F = 1 << 4
"""The subject's table maps or statements hit rules of the slave's own filter."""

_MOST_HITS = 4
"""The most rules that one subject hits: a rewrite, a database rule and, for GRANT, two table rules."""

_BITS = {
    Verdict.EXECUTE: FILTER_BINLOG_SEND_F | FILTER_BINLOG_WRITE_F | FILTER_SLAVE_EXECUTE_F,
    Verdict.IGNORE: FILTER_BINLOG_WRITE_F,
    Verdict.UNDECIDED: FILTER_BINLOG_SEND_F
    | FILTER_BINLOG_WRITE_F
    | FILTER_SLAVE_EXECUTE_F
    | FILTER_UNDECIDED_F,
}


class TableFlags:
    """The flags of one filter over a set's subjects, in an array that grows as subjects are met.

    A subject that ``write_filter`` keeps out of the binlog has no flag at all. A subject must also pass each filter
    that the master has ``imposed``. ``filter`` is the slave's own filter. A changed filter is a new TableFlags.
    """

    def __init__(
        self,
        rule_filter: ReplicationFilter,
        subjects: Subjects,
        *,
        write_filter: ReplicationFilter | None = None,
        imposed: Sequence[ReplicationFilter] = (),
    ) -> None:
        self.filter = rule_filter
        self._all = AllFilters([rule_filter, *imposed]) if imposed else rule_filter
        self.write_filter = write_filter
        self._subjects = subjects
        self._flags: npt.NDArray[np.uint32] = np.zeros(64, np.uint32)
        self._hits: npt.NDArray[np.int8] = np.empty((0, _MOST_HITS), np.int8)
        self._known = 0
        self.has_hits = False
        """Whether any subject known so far hits rules."""
        self.drops_hits = False
        """Whether any subject that is not sent hits rules."""

    @property
    def is_on(self) -> bool:
        """Whether any rule could drop an event, among the slave's, the imposed and the write side's rules."""
        return self._all.is_on or (self.write_filter is not None and self.write_filter.is_on)

    @property
    def is_plain(self) -> bool:
        """Whether the flags depend on the slave's own filter alone."""
        return self._all is self.filter and not (self.write_filter is not None and self.write_filter.is_on)

    def _of(self, number: int) -> int:
        members = self._subjects.members(number)
        if members is None:
            return self.bits(self._subjects[number])
        # The subject has every bit of its members. One member that is surely sent makes the whole surely sent.
        bits = [int(self._flags[member]) & ~FILTER_HIT_F for member in members]
        some = functools.reduce(operator.or_, bits, 0)
        sure = any(b & FILTER_BINLOG_SEND_F and not b & FILTER_UNDECIDED_F for b in bits)
        return some & ~FILTER_UNDECIDED_F if sure else some

    def bits(self, subject: Subject) -> int:
        """Return the flags of any table or statement, without FILTER_HIT_F. The subject needs no number."""
        if self.write_filter is not None and not self.write_filter.verdict(subject).passes:
            return 0
        return _BITS[self._all.verdict(subject)]

    def _hit(self, number: int) -> int:
        """Note the rules that a subject hits, unless the slave counts them, and return FILTER_HIT_F or 0.

        The slave counts the hits of all statements that the master sends.
        """
        flags = int(self._flags[number])
        if not flags & FILTER_BINLOG_WRITE_F or self._subjects.members(number) is not None:
            return 0
        subject = self._subjects[number]
        if flags & FILTER_BINLOG_SEND_F and not isinstance(subject, TableSubject):
            return 0
        kinds = self._all.hits(subject)
        if not kinds:
            return 0
        self._hits[number, : len(kinds)] = [COLUMN[kind] for kind in kinds]
        self.has_hits = True
        self.drops_hits |= not flags & FILTER_BINLOG_SEND_F
        return FILTER_HIT_F

    def hits(self) -> npt.NDArray[np.int8]:
        """Return the rules that each subject hits: int8, one row a subject, filled up with -1.

        A row holds indexes into :data:`~dumpfilter.filter.hits.KINDS`. Only the rows of subjects with FILTER_HIT_F in
        :meth:`array` count. Rules of the write side and imposed rules are never hit. Events that they drop hit nothing.
        """
        return self._hits

    def array(self) -> npt.NDArray[np.uint32]:
        """Return the flags: uint32, one entry a subject, with spare entries after the last subject."""
        wanted = len(self._subjects)
        if wanted > self._known:
            with self._subjects.lock:  # two dumps of one slave may run at once
                if wanted > self._flags.size:
                    larger = np.zeros(max(wanted, 2 * self._flags.size), np.uint32)
                    larger[: self._known] = self._flags[: self._known]
                    self._flags = larger
                if self.is_on and wanted > len(self._hits):
                    more = np.full((self._flags.size - len(self._hits), _MOST_HITS), -1, np.int8)
                    self._hits = np.concatenate([self._hits, more])
                for number in range(self._known, wanted):
                    self._flags[number] = self._of(number)
                    if self.is_on:
                        self._flags[number] |= self._hit(number)
                self._known = max(wanted, self._known)
        return self._flags
