"""A cache of a filter's verdicts (send, drop or undecided): one uint32 of flags for each table and each distinct
statement of a binlog set.

The dump thread reads these flags, so that it evaluates the filter once for each table and not for each event. (WL#2387
proposes such flags, ``uint32 table->s->flags``.)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.filter.base import AllFilters, BoundaryFilter, OnUndecided, ReplicationFilter, Verdict
from dumpfilter.filter.rules import COLUMN
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

FILTER_BINLOG_SEND_F = 1 << 0
"""The flag that is set when the master sends the events of this table or statement to the slave."""
FILTER_BINLOG_WRITE_F = 1 << 1
"""The flag that is set when the rules ``--binlog-do-db`` and ``--binlog-ignore-db`` let the events of this table or
statement into the binlog.
"""
FILTER_SLAVE_EXECUTE_F = 1 << 2
"""The flag that is set when the slave's applier executes the events of this table or statement, or may execute them
because the verdict is UNDECIDED.
"""
FILTER_UNDECIDED_F = 1 << 3
"""The flag that is set when the master cannot tell whether the slave's filter, or an imposed filter (one that the
master's operator sets), would drop the events.

Usually the master sends such events, and the slave decides. For an imposed filter, :class:`OnUndecided` says what the
master does.
"""
FILTER_HIT_F = 1 << 4
"""The flag that is set when the master must count rule hits (matches) of this table or statement, because the slave
does not count them.
"""

FILTER_STOP_F = 1 << 5
"""The flag that is set when an imposed filter (one that the master's operator sets) cannot decide about the events. The
operator wants the dump to stop before these events.
"""

MOST_HITS = 4
"""The largest number of rules that one table or statement can match: a rewrite rule, a database rule and, for GRANT,
two table rules."""

_BITS = {
    Verdict.EXECUTE: FILTER_BINLOG_SEND_F | FILTER_BINLOG_WRITE_F | FILTER_SLAVE_EXECUTE_F,
    Verdict.IGNORE: FILTER_BINLOG_WRITE_F,
    Verdict.UNDECIDED: FILTER_BINLOG_SEND_F
    | FILTER_BINLOG_WRITE_F
    | FILTER_SLAVE_EXECUTE_F
    | FILTER_UNDECIDED_F,
}


class TableFlags:
    """A cache of the verdicts of one slave's filters: an array with one uint32 of flags, such as *send* and
    *undecided*, for each subject of a binlog set. A subject is a table or a statement.

    The array is indexed by the subject's number. An entry can also belong to a set of subjects, such as those of a
    prepared XA transaction. Its flags combine the flags of the set's members. The array grows when the binlog brings
    new subjects. A slave that changes its filter gets a new TableFlags.

    Parameters:
        rule_filter: the slave's own filter.
        subjects: the register that numbers the binlog set's tables and statements.
        write_filter: the rules that keep events out of the binlog (``--binlog-*-db``). A table or statement that these
            rules drop has the flags 0. None: no such rules.
        imposed: the filters that the master's operator set for the slave. A table or statement must pass each of them,
            too.
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
        self._filters = (rule_filter, *imposed)
        self.write_filter = write_filter
        self.boundary = tuple(one for one in imposed if isinstance(one, BoundaryFilter) and one.is_on)
        """The imposed filters (filters that the master's operator set for the slave) that have rules. No row of a
        table that they forbid is sent. Empty without such filters.
        """
        self._subjects = subjects
        self._flags: npt.NDArray[np.uint32] = np.zeros(64, np.uint32)
        self._hits: npt.NDArray[np.int8] = np.empty((0, MOST_HITS), np.int8)
        self._known = 0
        self._addresses = (self._flags, 0, self._hits, 0)
        self.has_hits = False
        """Whether the master must count rule hits (matches) for any table or statement in the array."""
        self.drops_hits = False
        """Whether any table or statement that the master drops matches a rule. Only the master can count these hits,
        because the slave never sees the events.
        """

    @functools.cached_property
    def is_on(self) -> bool:
        """Whether any rule could drop an event. The rules are those of the slave, of the master's operator, and
        ``--binlog-*-db``.
        """
        return self._all.is_on or (self.write_filter is not None and self.write_filter.is_on)

    @property
    def is_plain(self) -> bool:
        """Whether the slave's own filter decides alone. False if the master's operator set filters for the slave, or if
        there are ``--binlog-*-db`` rules.
        """
        return self._all is self.filter and not (self.write_filter is not None and self.write_filter.is_on)

    @functools.cached_property
    def on_undecided(self) -> OnUndecided:
        """The treatment of an event that no filter can decide about, such as an event of an unknown type.

        If the master's operator set several filters for the slave, DROP in any of them takes precedence over STOP, and
        STOP over SEND. Without such a filter the event is sent.
        """
        return _strictest(self.boundary)

    def subject(self, number: int) -> Subject:
        """Return the table or statement that has the given number in the binlog set's register of tables and
        statements.

        Raises KeyError for a number that stands for a set of tables, such as the tables of a prepared XA transaction.
        """
        return self._subjects[number]

    def stopping(self, subject: Subject | None = None) -> str:
        """Return the name of the imposed filter (set by the master's operator) that stops the dump at the events of
        ``subject``, a table or statement.

        Such a filter has the setting STOP, and cannot decide about ``subject``. With ``subject`` None, the event is one
        that no filter can decide about, such as an event of an unknown type. The caller must know that such a filter
        exists.
        """
        return next(
            one.name
            for one in self.boundary
            if one.on_undecided is OnUndecided.STOP and (subject is None or one.is_undecided(subject))
        )

    def sends(self, number: int) -> bool:
        """Tell whether the events of a table, a statement or a set of tables are sent to the slave.

        ``number`` is the number in the register of the binlog set's tables and statements. A negative number stands for
        events that are always sent.
        """
        return not self.is_on or number < 0 or bool(self.array()[number] & FILTER_BINLOG_SEND_F)

    def _of(self, number: int) -> int:
        members = self._subjects.members(number)
        if members is None:
            return self.bits(self._subjects[number])
        # An XA COMMIT stands for all tables and statements of its prepared transaction, which are sent together or not
        # at all. So it has the flags of all of them. If the slave surely gets one of the tables, then the verdict is
        # not undecided.
        bits = [int(self._flags[member]) & ~(FILTER_HIT_F | FILTER_STOP_F) for member in members]
        some = functools.reduce(operator.or_, bits, 0)
        sure = any(b & FILTER_BINLOG_SEND_F and not b & FILTER_UNDECIDED_F for b in bits)
        return some & ~FILTER_UNDECIDED_F if sure or not some & FILTER_BINLOG_SEND_F else some

    def bits(self, subject: Subject) -> int:
        """Evaluate the filters about a table or a statement, and return the verdict as flags, such as
        FILTER_BINLOG_SEND_F (the master sends its events).

        FILTER_HIT_F (count matches of rules) is never set. The method does not use the array of flags, so the table or
        statement need not have a number yet.
        """
        if self.write_filter is not None and not self.write_filter.verdict(subject).passes:
            return 0
        bits = _BITS[self._all.verdict(subject)]
        return self._at_boundary(subject, bits) if self.boundary else bits

    def _at_boundary(self, subject: Subject, bits: int) -> int:
        undecided = [one for one in self.boundary if one.is_undecided(subject)]
        sure = [one for one in self._filters if one not in undecided]
        if not undecided or not all(one.verdict(subject).passes for one in sure):
            return bits
        fate = _strictest(undecided)
        if fate is OnUndecided.SEND:
            return bits
        return FILTER_BINLOG_WRITE_F | FILTER_UNDECIDED_F | (FILTER_STOP_F if fate is OnUndecided.STOP else 0)

    def _hit(self, number: int) -> int:
        # The slave counts the rule matches of statements that it receives. The master counts the matches of all row
        # events, and of the statements that it drops.
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
        """Return the kinds of the slave's rules that each table or statement of the binlog set matches, as an int8
        array with one row for each table or statement. Further rows may follow. The array is empty if no rule could
        drop an event.

        The row index is the number of the table or statement. A row has MOST_HITS entries: indexes into
        :data:`~dumpfilter.filter.rules.SLAVE_RULE_KINDS`, and -1 after the last index. A row is valid only if
        :meth:`array` has FILTER_HIT_F at the same index. Events that ``--binlog-*-db`` rules or the master operator's
        rules drop match no rule of the slave.
        """
        return self._hits

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        """Return the array of flags (verdicts about each table and statement) and the array of matching rules
        (:meth:`hits`), each followed by the memory address of its first entry.

        Compiled code that reads the arrays of many slaves takes addresses. An address is valid as long as its array
        exists. The array of flags has exactly one entry for each number of the register of tables and statements.
        Entries do not change later, and a later call returns entries for new numbers, too. If no rule could drop an
        event, the array of matching rules is empty.
        """
        self.array()
        found, known = self._addresses, self._known
        if len(found[0]) != known or not found[1]:
            flags, hits = self._flags[:known], self._hits
            found = self._addresses = (flags, flags.ctypes.data, hits, hits.ctypes.data)
        return found

    def array(self) -> npt.NDArray[np.uint32]:
        """Return the filters' verdicts as flags (bits such as *send*), for all tables and statements of the binlog set:
        uint32, indexed by the number of the table or statement.

        The array may have spare entries at its end.
        """
        wanted = len(self._subjects)
        if wanted > self._known:
            # Two dump threads of one slave may run at the same time, and both use this array.
            with self._subjects.lock:
                if wanted > self._flags.size:
                    larger = np.zeros(max(wanted, 2 * self._flags.size), np.uint32)
                    larger[: self._known] = self._flags[: self._known]
                    self._flags = larger
                if self.is_on and wanted > len(self._hits):
                    more = np.full((self._flags.size - len(self._hits), MOST_HITS), -1, np.int8)
                    self._hits = np.concatenate([self._hits, more])
                for number in range(self._known, wanted):
                    self._flags[number] = self._of(number)
                    if self.is_on:
                        self._flags[number] |= self._hit(number)
                self._known = max(wanted, self._known)
        return self._flags


def _strictest(filters: Iterable[BoundaryFilter]) -> OnUndecided:
    """Return the treatment of an event about which none of the ``filters`` can decide. DROP takes precedence over STOP,
    and STOP over SEND. Without filters the result is SEND.
    """
    wanted = {one.on_undecided for one in filters}
    return next((fate for fate in (OnUndecided.DROP, OnUndecided.STOP) if fate in wanted), OnUndecided.SEND)
