"""Where ``START REPLICA … UNTIL`` ends."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.gtid import Gtid, GtidSet, parse_gtid_set
from slave.relay_log import file_number
from slave.relay_log_info import RelayLogInfo


@dataclass(frozen=True)
class UntilSource:
    """``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``: after the transaction that gets there."""

    file: str
    position: int

    def before(self, gtid: Gtid | None) -> bool:
        return False

    def after(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return (_number(info.source_file), info.source_position) >= (_number(self.file), self.position)


@dataclass(frozen=True)
class UntilRelay:
    """``RELAY_LOG_FILE``, ``RELAY_LOG_POS``: after the transaction that gets there."""

    file: str
    position: int

    def before(self, gtid: Gtid | None) -> bool:
        return False

    def after(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return (file_number(info.relay_file), info.relay_offset) >= (file_number(self.file), self.position)


class UntilGtids:
    """``SQL_BEFORE_GTIDS``: before the first transaction of the set; ``SQL_AFTER_GTIDS``: after all of it."""

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Raises GtidError."""
        self._gtids = parse_gtid_set(gtids)
        self._before = before

    def before(self, gtid: Gtid | None) -> bool:
        return self._before and gtid is not None and gtid in self._gtids

    def after(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        return not self._before and type(executed) is type(self._gtids) and executed.issuperset(self._gtids)


def _number(file: str) -> int:
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isdigit() else 0
