"""The conditions of ``START REPLICA … UNTIL``.

UNTIL stops the applier where an unfiltered replica would stop, even if the master dropped the transaction
that a condition names. The applier asks between two transactions.
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
    """The state between two transactions: the next event, and the GTID sets before that event."""

    event: Event
    """The next event in the relay log. The event may begin a transaction."""
    relay_file: str
    """The base name of the relay log that holds the event."""
    source_file: str
    """The base name of the master's binlog file that the event comes from."""
    retrieved: GtidSet
    """The GTIDs up to the next recorded state, including those of transactions that the master dropped."""
    executed: GtidSet
    """The GTIDs of applied transactions, and of those that the master dropped before the last recorded state
    reached."""


class Until(Protocol):
    """A condition that ends the applier. The applier asks both methods between two transactions."""

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        """Tell whether the applier has reached the condition. ``executed`` is the set of GTIDs applied or
        dropped so far."""

    def passed_by(self, ahead: Ahead) -> bool:
        """Tell whether the transaction that begins with ``ahead.event`` lies beyond the condition.

        If the answer is yes before :meth:`met` was true, the master dropped the transaction that would have
        met the condition.
        """


@dataclass(frozen=True)
class UntilMasterPosition:
    """``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``: stop after the transaction that ends at this position or beyond."""

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
    """``RELAY_LOG_FILE``, ``RELAY_LOG_POS``: stop after the transaction that ends at this position or beyond."""

    file: str
    position: int

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return bool(info.relay_file) and self._reached(info.relay_file, info.relay_offset)

    def passed_by(self, ahead: Ahead) -> bool:
        return self._reached(ahead.relay_file, ahead.event.offset)

    def _reached(self, file: str, offset: int) -> bool:
        return (file_number(file), offset) >= (file_number(self.file), self.position)


class UntilGtids:
    """``SQL_BEFORE_GTIDS`` and ``SQL_AFTER_GTIDS``: stop before the first transaction of a set, or after all
    of the set.

    A MariaDB GTID in the set names that one transaction only, as in ``MASTER_GTID_POS``.
    """

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Parse the set. Raises GtidError."""
        self._gtids = parse_gtid_set(gtids)
        if isinstance(self._gtids, MariadbGtidSet):
            # The parsed set of 0-1-5 also holds the sequence numbers from 1 to 4.
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
        # Transactions of one MySQL server UUID or MariaDB domain come in the order of their numbers. A lower number
        # that was retrieved and not executed belongs to a transaction that the master dropped before this event.
        up_to_this = type(self._gtids)()
        up_to_this.advance(gtid)
        left = self._gtids - ahead.executed
        dropped = left & ahead.retrieved & up_to_this
        return gtid not in dropped and bool(dropped) and (self._before or dropped == left)


def _number(file: str) -> int:
    """Return the number at the end of a binlog file's name, 0 when the name has none."""
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0
