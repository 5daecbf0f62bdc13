"""A filter's answers, cached as bits per subject (WL#2387's last section: ``uint32 table->s->flags``)."""

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
"""The dump thread sends it to this slave."""
FILTER_BINLOG_WRITE_F = 1 << 1
"""The binlog has it (the write side's filter)."""
FILTER_SLAVE_EXECUTE_F = 1 << 2
"""The applier executes it."""
FILTER_UNDECIDED_F = 1 << 3
"""Sent and left to the slave because this filter could not decide it."""
FILTER_HIT_F = 1 << 4
"""A table map or statement of it, where it comes to the slave's own filter, hits rules."""

_MOST_HITS = 4
"""A rewrite, a database rule and, of GRANT, two table rules."""

_BITS = {
    Verdict.EXECUTE: FILTER_BINLOG_SEND_F | FILTER_BINLOG_WRITE_F | FILTER_SLAVE_EXECUTE_F,
    Verdict.IGNORE: FILTER_BINLOG_WRITE_F,
    Verdict.UNDECIDED: FILTER_BINLOG_SEND_F
    | FILTER_BINLOG_WRITE_F
    | FILTER_SLAVE_EXECUTE_F
    | FILTER_UNDECIDED_F,
}


class TableFlags:
    """The flags of one filter over a set's subjects: an array that grows as subjects are met.

    With a ``write_filter`` they are those of a binlog that was written with it: what it keeps out has no flag at
    all, whatever the slave's filter says. What the master has ``imposed`` must pass too: the flags are those of the
    intersection, while ``filter`` is the slave's own. A changed filter is a new TableFlags; nothing else notices.
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
        """Whether any subject known so far has hits."""
        self.drops_hits = False
        """Whether any that is not sent has."""

    @property
    def is_on(self) -> bool:
        """Whether any rule, of the slave, imposed on it, or of the write side, could make a difference."""
        return self._all.is_on or (self.write_filter is not None and self.write_filter.is_on)

    @property
    def is_plain(self) -> bool:
        """Whether they are those of the slave's own filter alone."""
        return self._all is self.filter and not (self.write_filter is not None and self.write_filter.is_on)

    def _of(self, number: int) -> int:
        members = self._subjects.members(number)
        if members is None:
            return self.bits(self._subjects[number])
        # All bits that one of the members has; but where one of them is sure, so is the whole.
        bits = [int(self._flags[member]) & ~FILTER_HIT_F for member in members]
        some = functools.reduce(operator.or_, bits, 0)
        sure = any(b & FILTER_BINLOG_SEND_F and not b & FILTER_UNDECIDED_F for b in bits)
        return some & ~FILTER_UNDECIDED_F if sure else some

    def bits(self, subject: Subject) -> int:
        """The flags of a table or statement, whether it has a number or not; without FILTER_HIT_F."""
        if self.write_filter is not None and not self.write_filter.verdict(subject).passes:
            return 0
        return _BITS[self._all.verdict(subject)]

    def _hit(self, number: int) -> int:
        """Note the hits of a subject of which events may be dropped: of statements that are sent all are."""
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
        """The kinds of the rules that are hit by a table map or statement of each subject with FILTER_HIT_F in
        :meth:`array`: numbers of :data:`~dumpfilter.filter.hits.KINDS`, then -1. Write side and imposed filters hit
        nothing, nor does what they keep out."""
        return self._hits

    def array(self) -> npt.NDArray[np.uint32]:
        """The flags, uint32, one entry a subject (and spare ones after the last)."""
        wanted = len(self._subjects)
        if wanted > self._known:
            with self._subjects.lock:  # two dumps of one slave may both be here
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
