"""The answers in which our consoles may differ from the recorded real server.

The titles are the headings of docs/console-differences.md, which gives the reasons. ``test_recordings_slow`` compares
every other answer with the recordings, and fails for an entry that no answer needs any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.console.replay import Deviation

_STATUS = r"SHOW REPLICA STATUS.*"


@dataclass(frozen=True)
class Difference:
    """A difference that is allowed."""

    title: str
    """The heading in the documentation; several entries can share one."""
    sql: str
    """The statements, as a regular expression for the whole text."""
    aspects: str
    """The aspects (:class:`~tests.console.replay.Deviation`), as a regular expression."""
    scenarios: str = ".*"
    """The recordings, as a regular expression."""
    undo: str = ""
    """The statement that restores the state of the real server, for the statements that follow."""

    def explains(self, deviation: Deviation) -> bool:
        """Tell whether this difference allows the deviation."""
        return (
            re.fullmatch(self.scenarios, deviation.scenario) is not None
            and re.fullmatch(self.sql, deviation.sql, re.DOTALL) is not None
            and re.fullmatch(self.aspects, deviation.aspect) is not None
        )


_ACCEPTED = "error|affected|warnings"
"""The aspects of a statement that only one of both servers accepts."""

RELAY_LOGS = "Relay logs"
TLS = "TLS"
FILES = "State is kept in files"
ERRORS_OF_CONNECTIONS = "Errors of connections"
NO_GTID_MODE = "There is no gtid_mode"
MORE_WORDS = "Older words and MariaDB's are understood too"
NAMES = "Names"
NOT_THERE = "What is not there"
IGNORED = "Options without use"
NO_USER = "A channel needs no user"
STOPPED = "The SQL thread must be stopped for CHANGE REPLICATION SOURCE"
RETRIEVED = "Retrieved_Gtid_Set after RESET REPLICA"
MALFORMED = "One error for one statement"
NUMBERS = "Values out of range"
TYPES = "Types of columns"
PURGE = "PURGE BINARY LOGS"
EVENTS = "SHOW BINLOG EVENTS"
CHANGE_BINLOG = "CHANGE BINLOG"
SELECTS = "SELECT"
WRITES = "Statements that write"

DIFFERENCES = (
    Difference(RELAY_LOGS, _STATUS, "Relay_Log_File|Relay_Log_Pos|Relay_Log_Space"),
    Difference(RELAY_LOGS, "SHOW RELAYLOG EVENTS FOR CHANNEL 'ch1'", "rows", "relaylog-events"),
    Difference(TLS, _STATUS, "Source_SSL_Allowed|Get_Source_public_key"),
    Difference(TLS, ".* performance_schema.replication_connection_configuration", "SSL_ALLOWED"),
    Difference(TLS, "CHANGE .* GET_SOURCE_PUBLIC_KEY=1 .*", "warnings"),
    Difference(FILES, _STATUS, "Source_Info_File"),
    Difference(ERRORS_OF_CONNECTIONS, _STATUS, "Last_IO_Error|Replica_IO_State", "running"),
    Difference(
        ERRORS_OF_CONNECTIONS,
        ".* performance_schema.replication_connection_status",
        "LAST_ERROR_MESSAGE",
        "running",
    ),
    Difference(NO_GTID_MODE, "CHANGE .* IGNORE_SERVER_IDS=.*", _ACCEPTED, "ignore-server-ids-gtid"),
    Difference(NO_GTID_MODE, "CHANGE .* SOURCE_AUTO_POSITION=1 .*", _ACCEPTED, "ignore-server-ids"),
    Difference(MORE_WORDS, ".*", ".*", "old-words"),
    Difference(
        MORE_WORDS,
        "CHANGE .* DO_DOMAIN_IDS=.*",
        _ACCEPTED,
        undo="CHANGE REPLICATION SOURCE TO DO_DOMAIN_IDS=() FOR CHANNEL 'q'",
    ),
    Difference(NAMES, r"CHANGE REPLICATION FILTER REPLICATE_DO_DB = \(``\)", _ACCEPTED),
    Difference(
        NAMES,
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1' FOR CHANNEL 'uni code'",
        _ACCEPTED,
        undo="RESET REPLICA ALL FOR CHANNEL 'uni code'",
    ),
    Difference(NAMES, _STATUS, "rows", "channel-names"),
    Difference(
        NOT_THERE,
        r".* performance_schema\.replication_applier_status_by_(coordinator|worker).*",
        "error|affected",
    ),
    Difference(
        NOT_THERE,
        ".* performance_schema.replication_connection_status",
        "LAST_QUEUED_TRANSACTION.*",
        "running",
    ),
    Difference(NOT_THERE, "CHANGE .* SOURCE_DELAY=.*", _ACCEPTED),
    Difference(IGNORED, "CHANGE .* RELAY_LOG_FILE=.*", _ACCEPTED),
    Difference(NO_USER, "START REPLICA IO_THREAD|START REPLICA USER='u'", "warnings", "misuse-threads"),
    Difference(
        STOPPED,
        "CHANGE .* SOURCE_HOST='127.0.0.2' FOR CHANNEL 'ch1'",
        _ACCEPTED,
        "misuse-threads",
    ),
    Difference(RETRIEVED, _STATUS, "Retrieved_Gtid_Set", "running"),
    Difference(
        RETRIEVED,
        ".* performance_schema.replication_connection_status",
        "RECEIVED_TRANSACTION_SET",
        "running",
    ),
    Difference(MALFORMED, "START REPLICA UNTIL SQL_BEFORE_GTIDS='nonsense'", "warnings"),
    Difference(NUMBERS, r"CHANGE .* IGNORE_SERVER_IDS=\(4294967296\) .*", _ACCEPTED),
    Difference(NUMBERS, _STATUS, "Source_User", "misuse-source"),
    Difference(TYPES, "(SHOW COLUMNS|DESC|DESCRIBE) .*", "Type|Null|Key|Default"),
    Difference(TYPES, "SHOW CREATE TABLE .*", "Create Table"),
    Difference(TYPES, r"SELECT 1 \+ 1, 'a', NULL, 1\.5", r"1\.5"),
    Difference(TYPES, r"SELECT .*(SUM\(counter\)|configured_by \+ 0).*", "columns"),
    Difference(TYPES, "SELECT DISTINCT configured_by .*", "configured_by"),
    Difference(NAMES, "SELECT channel_name.* ORDER BY (1|channel_name)", "rows", "channel-names"),
    Difference(PURGE, "PURGE BINARY LOGS BEFORE '2099-01-01'", "warnings"),
    Difference(EVENTS, "SHOW BINLOG EVENTS IN 'bin.000001' FROM (150|240|1000)", "error"),
    Difference(CHANGE_BINLOG, "CHANGE BINLOG .*", "error"),
    Difference(SELECTS, r"SELECT count\( \* \) .*", "columns", "select"),
    Difference(SELECTS, "SELECT .* (nosuch.*|ORDER BY 9|LIMIT -1)", "error", "select"),
    Difference(SELECTS, "SELECT FROM .*", "error", "select"),
    Difference(SELECTS, r"SELECT channel_name, COUNT\(\*\) .*", _ACCEPTED, "select"),
    Difference(WRITES, "(UPDATE|DELETE|INSERT|TRUNCATE|DROP) .*", "error", "select"),
)
