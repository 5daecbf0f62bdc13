"""A filter's answers, cached as bits per subject (WL#2387's last section: ``uint32 table->s->flags``)."""

from __future__ import annotations

import functools
import operator

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.subjects import Subject, Subjects
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.verdict import Verdict

FILTER_BINLOG_SEND_F = 1 << 0
"""The dump thread sends it to this slave."""
FILTER_BINLOG_WRITE_F = 1 << 1
"""The binlog has it (the write side's filter)."""
FILTER_SLAVE_EXECUTE_F = 1 << 2
"""The applier executes it."""
FILTER_UNDECIDED_F = 1 << 3
"""Sent and left to the slave because this filter could not decide it."""

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
    all, whatever the slave's filter says. A changed filter is a new TableFlags; nothing else notices.
    """

    def __init__(
        self,
        rule_filter: ReplicationFilter,
        subjects: Subjects,
        *,
        write_filter: ReplicationFilter | None = None,
    ) -> None:
        self.filter = rule_filter
        self.write_filter = write_filter
        self._subjects = subjects
        self._flags: npt.NDArray[np.uint32] = np.zeros(64, np.uint32)
        self._known = 0

    @property
    def is_on(self) -> bool:
        """Whether any rule, of the slave or of the write side, could make a difference."""
        return self.filter.is_on or (self.write_filter is not None and self.write_filter.is_on)

    def _of(self, number: int) -> int:
        members = self._subjects.members(number)
        if members is None:
            return self._bits(self._subjects[number])
        # All bits that one of the members has; but where one of them is sure, so is the whole.
        bits = [int(self._flags[member]) for member in members]
        some = functools.reduce(operator.or_, bits, 0)
        sure = any(b & FILTER_BINLOG_SEND_F and not b & FILTER_UNDECIDED_F for b in bits)
        return some & ~FILTER_UNDECIDED_F if sure else some

    def _bits(self, subject: Subject) -> int:
        if self.write_filter is not None and not self.write_filter.verdict(subject).passes:
            return 0
        return _BITS[self.filter.verdict(subject)]

    def array(self) -> npt.NDArray[np.uint32]:
        """The flags, uint32, one entry a subject (and spare ones after the last)."""
        wanted = len(self._subjects)
        if wanted > self._known:
            with self._subjects.lock:  # two dumps of one slave may both be here
                if wanted > self._flags.size:
                    larger = np.zeros(max(wanted, 2 * self._flags.size), np.uint32)
                    larger[: self._known] = self._flags[: self._known]
                    self._flags = larger
                for number in range(self._known, wanted):
                    self._flags[number] = self._of(number)
                self._known = max(wanted, self._known)
        return self._flags
