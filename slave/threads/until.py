"""The conditions of ``START REPLICA … UNTIL``, which the applier checks between two transactions.

UNTIL stops the applier where an unfiltered replica would stop, even if the master dropped the transaction that the
condition names. A Gap event of the relay log names the GTIDs and the end position of consecutive dropped transactions.
The applier stops before or after all of them, never between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.slave.state.infos import RelayLogInfo
from dumpfilter.slave.state.relay_log import RelayPosition, file_number


@dataclass(frozen=True)
class UntilPosition:
    """The condition UNTIL ``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``, or ``RELAY_LOG_FILE``, ``RELAY_LOG_POS``.

    The applier stops after the first transaction that ends at or after this position in the master's binlog, or in the
    slave's relay log.
    """

    log: Literal["Source", "Relay"]
    file: str
    position: int

    @property
    def shown(self) -> tuple[str, str, int]:
        """The condition in the columns ``Until_Condition``, ``Until_Log_File`` and ``Until_Log_Pos`` of SHOW REPLICA
        STATUS.
        """
        return self.log, self.file, self.position

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        """Tell whether the condition is met at the applier's position ``info``, a transaction boundary.

        ``executed`` holds the GTIDs of the transactions that were applied or that the master dropped so far.
        """
        if self.log == "Relay":
            return bool(info.relay_file) and self._is_reached(info.relay_file, info.relay_offset)
        return self._is_reached(info.source_file, info.source_position)

    def passed_by(self, at: RelayPosition, source_file: str, source_begin: int, gtids: GtidSet) -> bool:
        """Tell whether the applier must stop before the next transaction, because the transaction begins at or after
        this position. A run of dropped transactions counts as one transaction.

        The transaction begins at the position ``at`` in the relay log, and at ``source_begin`` in the master's binlog
        file ``source_file``; 0 stands for an unknown position. ``gtids`` are the transaction's GTIDs, which this
        condition does not use.
        """
        if self.log == "Relay":
            return self._is_reached(*at)
        return bool(source_begin) and self._is_reached(source_file, source_begin)

    def _is_reached(self, file: str, position: int) -> bool:
        return (file_number(file), position) >= (file_number(self.file), self.position)


class UntilGtids:
    """The condition UNTIL ``SQL_BEFORE_GTIDS`` or UNTIL ``SQL_AFTER_GTIDS``.

    With ``before`` the applier stops before the first transaction whose GTID is in the set. Without ``before`` it
    stops when all transactions of the set have been applied or dropped. A MariaDB GTID such as 0-1-5 stands for this
    one transaction, as in ``MASTER_GTID_POS``, and not for all transactions up to it.
    """

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Parse the GTID set ``gtids``. ``before`` means SQL_BEFORE_GTIDS, otherwise SQL_AFTER_GTIDS. Raises GtidError
        for a text that is no GTID set.
        """
        self._gtids = parse_gtid_set(gtids)
        if isinstance(self._gtids, MariadbGtidSet):
            # The parsed MariaDB set of 0-1-5 also holds the GTIDs 0-1-1 to 0-1-4, which the user did not name.
            named = MariadbGtidSet()
            for gtid in self._gtids.gtids():
                named.add(gtid)
            self._gtids = named
        self._before = before

    @property
    def shown(self) -> tuple[str, str, int]:
        return ("SQL_BEFORE_GTIDS" if self._before else "SQL_AFTER_GTIDS"), "", 0

    def met(self, info: RelayLogInfo, executed: GtidSet) -> bool:
        if type(executed) is not type(self._gtids):
            return False
        return bool(executed & self._gtids) if self._before else executed.issuperset(self._gtids)

    def passed_by(self, at: RelayPosition, source_file: str, source_begin: int, gtids: GtidSet) -> bool:
        if not self._before or type(gtids) is not type(self._gtids):
            return False
        return bool(gtids & self._gtids)


Until = UntilPosition | UntilGtids
"""A condition of START REPLICA UNTIL, at which the applier stops."""
