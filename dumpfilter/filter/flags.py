"""A filter's answers, cached as bits per subject (WL#2387's last section: ``uint32 table->s->flags``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.subjects import Subjects
from dumpfilter.filter.filter import Filter
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

    A changed filter is a new TableFlags; nothing else notices.
    """

    def __init__(self, rule_filter: Filter, subjects: Subjects) -> None:
        self.filter = rule_filter
        self._subjects = subjects
        self._flags: npt.NDArray[np.uint32] = np.zeros(64, np.uint32)
        self._known = 0

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
                    self._flags[number] = _BITS[self.filter.verdict(self._subjects[number])]
                self._known = max(wanted, self._known)
        return self._flags
