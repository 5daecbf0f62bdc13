"""Where ``START REPLICA … UNTIL`` ends: where a server would that is sent everything, though the master drops some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event
from dumpfilter.slave.state.relay_log import file_number
from dumpfilter.slave.state.relay_log_info import RelayLogInfo
from dumpfilter.slave.threads.gtids import gtid_of

_OF_A_FILE = frozenset({EventType.FORMAT_DESCRIPTION, EventType.ROTATE})


@dataclass(frozen=True)
class Ahead:
    """What the applier comes to next: an event between two transactions, which may begin one."""

    event: Event
    relay_file: str
    source_file: str
    retrieved: GtidSet
    """What has been received up to some place beyond, with what the master dropped."""
    executed: GtidSet


class Until(Protocol):
    """A place to end at. Asked between two transactions."""

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        """Whether the applier is there, or beyond."""

    def passed_by(self, ahead: Ahead) -> bool:
        """Whether it would be beyond with the transaction that begins here. Then it was dropped on the way here."""


@dataclass(frozen=True)
class UntilMasterPosition:
    """``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``: after the transaction that gets there."""

    file: str
    position: int

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return self._reached(info.source_file, info.source_position)

    def passed_by(self, ahead: Ahead) -> bool:
        event = ahead.event
        if event.type in _OF_A_FILE or not event.header.end_log_pos:
            return False
        return self._reached(ahead.source_file, event.header.end_log_pos - len(event.raw))

    def _reached(self, file: str, position: int) -> bool:
        return (_number(file), position) >= (_number(self.file), self.position)


@dataclass(frozen=True)
class UntilRelayPosition:
    """``RELAY_LOG_FILE``, ``RELAY_LOG_POS``: after the transaction that gets there."""

    file: str
    position: int

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return bool(info.relay_file) and self._reached(info.relay_file, info.relay_offset)

    def passed_by(self, ahead: Ahead) -> bool:
        return self._reached(ahead.relay_file, ahead.event.offset)

    def _reached(self, file: str, offset: int) -> bool:
        return (file_number(file), offset) >= (file_number(self.file), self.position)


class UntilGtids:
    """``SQL_BEFORE_GTIDS``: before the first transaction of the set; ``SQL_AFTER_GTIDS``: after all of it.

    Of MariaDB's GTIDs each names one transaction, as ``MASTER_GTID_POS`` does. Among what the master dropped between
    two transactions, those of the same source come in the order of their numbers.
    """

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Raises GtidError."""
        self._gtids = parse_gtid_set(gtids)
        if isinstance(self._gtids, MariadbGtidSet):
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
        earlier = type(self._gtids)()
        earlier.advance(gtid)
        left = self._gtids - ahead.executed
        dropped = left & ahead.retrieved & earlier
        return gtid not in dropped and bool(dropped) and (self._before or dropped == left)


def _number(file: str) -> int:
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0
