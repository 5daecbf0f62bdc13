"""The conditions of ``START REPLICA … UNTIL``, which the applier checks between two transactions.

UNTIL stops the applier where an unfiltered replica would stop. That holds even if the master dropped the transaction
that the condition names, and the slave never receives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event
from dumpfilter.slave.state.relay_log import file_number
from dumpfilter.slave.state.relay_log_info import RelayLogInfo
from dumpfilter.slave.threads.gtids import gtid_of

_FRAME_OF_A_FILE = frozenset({EventType.FORMAT_DESCRIPTION, EventType.ROTATE})


@dataclass(frozen=True)
class Ahead:
    """The event that the applier is about to apply, and the GTID sets at this point between two transactions.

    An UNTIL condition compares the event with the sets, to notice that the applier is about to pass the condition.
    """

    event: Event
    """The next event in the relay log, which the applier has not applied yet. It often begins a transaction."""
    relay_file: str
    """The base name of the relay log file that holds the event."""
    source_file: str
    """The base name of the master's binlog file that the event comes from."""
    retrieved: GtidSet
    """The GTIDs up to the next position that the I/O thread has recorded, beyond the event.

    The set includes the GTIDs of transactions that the master dropped.
    """
    executed: GtidSet
    """The GTIDs of the transactions that the applier has applied, and of transactions that the master dropped.

    The GTIDs of dropped transactions are known only up to the last recorded position before the event.
    """


class Until(Protocol):
    """A condition of START REPLICA UNTIL, at which the applier ends.

    Between two transactions the applier asks :meth:`met`, and before the next event :meth:`passed_by`. The applier
    ends when either answer is true.
    """

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        """Tell whether the condition is true at the applier's position ``info``.

        ``executed`` holds the GTIDs of the transactions that were applied or that the master dropped so far.
        """

    def passed_by(self, ahead: Ahead) -> bool:
        """Tell whether the next transaction lies beyond the condition, so that the applier must end before it.

        ``ahead.event`` is the first event of the next transaction. This happens when the master dropped the
        transaction that would have made :meth:`met` true.
        """


@dataclass(frozen=True)
class UntilMasterPosition:
    """The condition UNTIL ``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``.

    The applier ends after the first transaction that ends at or after this position of the master's binlog.
    """

    file: str
    position: int

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return self._reached(info.source_file, info.source_position)

    def passed_by(self, ahead: Ahead) -> bool:
        event = ahead.event
        if event.type in _FRAME_OF_A_FILE or not event.header.end_log_pos:
            return False
        return self._reached(ahead.source_file, event.header.end_log_pos - len(event.raw))

    def _reached(self, file: str, position: int) -> bool:
        return (_number(file), position) >= (_number(self.file), self.position)


@dataclass(frozen=True)
class UntilRelayPosition:
    """The condition UNTIL ``RELAY_LOG_FILE``, ``RELAY_LOG_POS``.

    The applier ends after the first transaction that ends at or after this position of the slave's relay log.
    """

    file: str
    position: int

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return bool(info.relay_file) and self._reached(info.relay_file, info.relay_offset)

    def passed_by(self, ahead: Ahead) -> bool:
        return self._reached(ahead.relay_file, ahead.event.offset)

    def _reached(self, file: str, offset: int) -> bool:
        return (file_number(file), offset) >= (file_number(self.file), self.position)


class UntilGtids:
    """The condition UNTIL ``SQL_BEFORE_GTIDS`` or UNTIL ``SQL_AFTER_GTIDS``.

    With ``before`` the applier ends before the first transaction whose GTID is in the set. Without ``before`` it ends
    when all transactions of the set have been applied or dropped. A MariaDB GTID such as 0-1-5 stands for this one
    transaction, as in ``MASTER_GTID_POS``, and not for all transactions up to it.
    """

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Parse the GTID set in ``gtids``. Raises GtidError when the text is no GTID set."""
        self._gtids = parse_gtid_set(gtids)
        if isinstance(self._gtids, MariadbGtidSet):
            # The parsed MariaDB set of 0-1-5 also holds the GTIDs 0-1-1 to 0-1-4, which the user did not name.
            named = MariadbGtidSet()
            for gtid in self._gtids.gtids():
                named.add(gtid)
            self._gtids = named
        self._before = before

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        if type(executed) is not type(self._gtids):
            return False
        return bool(executed & self._gtids) if self._before else executed.issuperset(self._gtids)

    def passed_by(self, ahead: Ahead) -> bool:
        gtid = gtid_of(ahead.event)
        if gtid is None or type(ahead.executed) is not type(self._gtids):
            return False
        if self._before and gtid in self._gtids:
            return True
        # Transactions of one MySQL server UUID or MariaDB domain come in the order of their numbers. Suppose that a
        # GTID with a lower number than the next event's GTID was retrieved and not executed. The master has dropped
        # such a transaction, and its place in the binlog is before the next event.
        up_to_this = type(self._gtids)()
        up_to_this.advance(gtid)
        left = self._gtids - ahead.executed
        dropped = left & ahead.retrieved & up_to_this
        return gtid not in dropped and bool(dropped) and (self._before or dropped == left)


def _number(file: str) -> int:
    """Return the number at the end of a binlog file's name, by which binlog files are ordered.

    Return 0 for a name without a number.
    """
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0
