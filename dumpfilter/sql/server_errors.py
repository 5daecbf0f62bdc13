"""The errors and warnings of a console, by their symbols in MySQL 9.7 (``perror`` prints number, symbol and text).

A symbol of MySQL 5.7 with SLAVE or MASTER in it is here with REPLICA and SOURCE, as 9.7 has it.

>>> str(ER_REPLICA_CHANNEL_DOES_NOT_EXIST("ch1"))
"ERROR 3074 (HY000): Replica channel 'ch1' does not exist."
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dumpfilter.sql.errors import SqlError
from dumpfilter.sql.result import Note


@dataclass(frozen=True)
class Message:
    """One message of the server: called with the values for its text it makes an error."""

    number: int
    sqlstate: str
    text: str
    """With ``%``'s conversions, as the server has it."""

    def __call__(self, *values: object) -> SqlError:
        """The error, for ``raise``."""
        return SqlError(self.number, self.sqlstate, self._format(values))

    def note(self, *values: object) -> Note:
        """The same as a row of SHOW WARNINGS, of level Note."""
        return Note("Note", self.number, self._format(values))

    def warning(self, *values: object) -> Note:
        """The same as a row of SHOW WARNINGS, of level Warning."""
        return Note("Warning", self.number, self._format(values))

    def _format(self, values: tuple[object, ...]) -> str:
        # a precision counts bytes, in the server
        limits = [int(precision or 0) for precision in _CONVERSION.findall(self.text)]
        cut = [
            _first_bytes(str(value), limit) if limit else value
            for value, limit in zip(values, limits, strict=True)
        ]
        return self.text % tuple(cut)


_CONVERSION = re.compile(r"%(?:\.([0-9]+))?[sd]")


def _first_bytes(text: str, limit: int) -> str:
    """At most ``limit`` bytes of a text, and as a C string: to its first NUL.

    The server cuts a character in two, too, and sends the bytes of a half as characters of their own.
    """
    text, _, _ = text[:limit].partition("\0")  # a character has at least one byte
    data = text.encode("utf-8", "surrogatepass")[:limit]
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as half:
        return data[: half.start].decode("utf-8", "surrogatepass") + data[half.start :].decode("latin-1")


# access
ER_DBACCESS_DENIED_ERROR = Message(
    1044, "42000", "Access denied for user '%.48s'@'%.64s' to database '%.192s'"
)
ER_ACCESS_DENIED_ERROR = Message(1045, "28000", "Access denied for user '%.48s'@'%.64s' (using password: %s)")
ER_TABLEACCESS_DENIED_ERROR = Message(
    1142, "42000", "%.128s command denied to user '%.48s'@'%.64s' for table '%.64s'"
)
ER_SPECIFIC_ACCESS_DENIED_ERROR = Message(
    1227, "42000", "Access denied; you need (at least one of) the %.128s privilege(s) for this operation"
)

# statements
ER_PARSE_ERROR = Message(1064, "42000", "%s near '%.80s' at line %d")
ER_EMPTY_QUERY = Message(1065, "42000", "Query was empty")
ER_NO_DB_ERROR = Message(1046, "3D000", "No database selected")
ER_BAD_DB_ERROR = Message(1049, "42000", "Unknown database '%.192s'")
ER_NON_UNIQ_ERROR = Message(1052, "23000", "Column '%.192s' in %.192s is ambiguous")
ER_BAD_FIELD_ERROR = Message(1054, "42S22", "Unknown column '%.192s' in '%.192s'")
ER_TOO_LONG_IDENT = Message(1059, "42000", "Identifier name '%.100s' is too long")
ER_WRONG_DB_NAME = Message(1102, "42000", "Incorrect database name '%.100s'")
ER_WRONG_TABLE_NAME = Message(1103, "42000", "Incorrect table name '%.100s'")
ER_UNKNOWN_TABLE = Message(1109, "42S02", "Unknown table '%.192s' in %.32s")
ER_NO_SUCH_TABLE = Message(1146, "42S02", "Table '%.192s.%.192s' doesn't exist")
ER_UNKNOWN_SYSTEM_VARIABLE = Message(1193, "HY000", "Unknown system variable '%.64s'")
ER_WRONG_ARGUMENTS = Message(1210, "HY000", "Incorrect arguments to %s")
ER_ERROR_WHEN_EXECUTING_COMMAND = Message(1220, "HY000", "Error when executing command %s: %.128s")
ER_WRONG_VALUE_FOR_VAR = Message(1231, "42000", "Variable '%.64s' can't be set to the value of '%.200s'")
ER_WRONG_TYPE_FOR_VAR = Message(1232, "42000", "Incorrect argument type to variable '%.64s'")
ER_NOT_SUPPORTED_YET = Message(1235, "42000", "This version of MySQL doesn't yet support '%s'")
ER_INCORRECT_GLOBAL_LOCAL_VAR = Message(1238, "HY000", "Variable '%.192s' is a %s variable")
ER_TRUNCATED_WRONG_VALUE = Message(1292, "22007", "Truncated incorrect %.64s value: '%.128s'")
ER_WRONG_DATETIME_VALUE = Message(1292, "22007", "Incorrect datetime value: '%.128s'")
"""ER_TRUNCATED_WRONG_VALUE with the text that the server gives it for datetimes."""
ER_SP_UNDECLARED_VAR = Message(1327, "42000", "Undeclared variable: %s")
ER_TOO_BIG_PRECISION = Message(1426, "42000", "Too-big precision %d specified for '%.192s'. Maximum is %d.")
ER_DATETIME_FUNCTION_OVERFLOW = Message(1441, "22008", "Datetime function: %.32s field overflow")
ER_WRONG_VALUE = Message(1525, "HY000", "Incorrect %.32s value: '%.128s'")
ER_WRONG_ARGUMENT_LF = Message(1525, "HY000", "Incorrect argument contains not-allowed LF value: '%.128s'")
"""ER_WRONG_VALUE as it is for a line feed in a string that becomes an option."""

# binary logs
ER_UNKNOWN_TARGET_BINLOG = Message(1373, "HY000", "Target log not found in binlog index")
ER_NO_BINARY_LOGGING = Message(1381, "HY000", "You are not using binary logging")
ER_WARN_PURGE_LOG_IS_ACTIVE = Message(
    1868, "HY000", "file %s was not purged because it is the active log file."
)

# configuring a replica
ER_BAD_REPLICA = Message(
    1200,
    "HY000",
    "The server is not configured as replica; fix in config file or with CHANGE REPLICATION SOURCE TO",
)
ER_CONNECTION_METADATA = Message(
    1201,
    "HY000",
    "Could not initialize connection metadata structure; more error messages can be found in the MySQL error log",
)
WARN_NO_CONNECTION_METADATA = Message(1617, "HY000", "The connection metadata structure does not exist")
ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE = Message(
    1624,
    "HY000",
    "The requested value for the heartbeat period is either negative or exceeds the maximum allowed (%s seconds).",
)
ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE_MIN = Message(
    1703,
    "HY000",
    "The requested value for the heartbeat period is less than 1 millisecond. The value is reset to 0, meaning "
    "that heartbeating will effectively be disabled.",
)
ER_SOURCE_DELAY_VALUE_OUT_OF_RANGE = Message(
    1729, "HY000", "The requested value %s for the source delay exceeds the maximum %d"
)
ER_RPL_INFO_DATA_TOO_LONG = Message(1742, "HY000", "Data for column '%s' too long")
ER_INSECURE_PLAIN_TEXT = Message(
    1759, "HY000", "Sending passwords in plain text without SSL/TLS is extremely insecure."
)
ER_INSECURE_CHANGE_SOURCE = Message(
    1760,
    "HY000",
    "Storing MySQL user name or password information in the connection metadata repository is not secure and is "
    "therefore not recommended. Please consider using the USER and PASSWORD connection options for START REPLICA; "
    "see the 'START REPLICA Syntax' in the MySQL Manual for more information.",
)
ER_BAD_REPLICA_AUTO_POSITION = Message(
    1776,
    "HY000",
    "Parameters SOURCE_LOG_FILE, SOURCE_LOG_POS, RELAY_LOG_FILE and RELAY_LOG_POS cannot be set when "
    "SOURCE_AUTO_POSITION is active.",
)
ER_AUTO_POSITION_REQUIRES_GTID_MODE_NOT_OFF = Message(
    1777,
    "HY000",
    "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1 cannot be executed because @@GLOBAL.GTID_MODE = OFF.",
)
ER_REPLICA_CONFIGURATION = Message(
    1794,
    "HY000",
    "Replica is not configured or failed to initialize properly. You must at least set --server-id to enable "
    "either a source or a replica. Additional error messages can be found in the MySQL error log.",
)
ER_WARN_ONLY_SOURCE_LOG_FILE_NO_POS = Message(
    3023,
    "HY000",
    "CHANGE REPLICATION SOURCE TO with a SOURCE_LOG_FILE clause but no SOURCE_LOG_POS clause may not be safe. "
    "The old position value may not be valid for the new binary log file.",
)
ER_CHANGE_SOURCE_PASSWORD_LENGTH = Message(
    3056,
    "HY000",
    "The password provided for the replication user exceeds the maximum length of 32 characters",
)
ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN = Message(
    3067,
    "HY000",
    "Supplied filter list contains a value which is not in the required format 'db_pattern.table_pattern'",
)

# threads
ER_REPLICA_MUST_STOP = Message(
    1198, "HY000", "This operation cannot be performed with a running replica; run STOP REPLICA first"
)
ER_REPLICA_NOT_RUNNING = Message(
    1199, "HY000", "This operation requires a running replica; configure replica and do START REPLICA"
)
ER_REPLICA_THREAD = Message(1202, "HY000", "Could not create replica thread; check system resources")
ER_CONNECT_TO_SOURCE = Message(1218, "08S01", "Error connecting to source: %.128s")
ER_BAD_REPLICA_UNTIL_COND = Message(
    1277, "HY000", "Incorrect parameter or combination of parameters for START REPLICA UNTIL"
)
ER_SQLTHREAD_WITH_SECURE_REPLICA = Message(
    1763,
    "HY000",
    "Setting authentication options is not possible when only the Replica SQL Thread is being started.",
)
ER_REPLICA_SQL_THREAD_MUST_STOP = Message(
    3017,
    "HY000",
    "This operation cannot be performed with a running replica sql thread; run STOP REPLICA SQL_THREAD first",
)

# channels
ER_REPLICA_CHANNEL_IO_THREAD_MUST_STOP = Message(
    3021,
    "HY000",
    "This operation cannot be performed with a running replica io thread; run STOP REPLICA IO_THREAD FOR CHANNEL "
    "'%s' first.",
)
ER_REPLICA_CHANNEL_DOES_NOT_EXIST = Message(3074, "HY000", "Replica channel '%s' does not exist.")
ER_REPLICA_CHANNEL_NAME_INVALID_OR_TOO_LONG = Message(
    3076, "HY000", "Couldn't create channel: Channel name is either invalid or too long."
)
ER_REPLICA_MULTIPLE_CHANNELS_CMD = Message(
    3079, "HY000", "Multiple channels exist on the replica. Please provide channel name as an argument."
)
ER_REPLICA_MAX_CHANNELS_EXCEEDED = Message(
    3080, "HY000", "Maximum number of replication channels allowed exceeded."
)
ER_REPLICA_CHANNEL_MUST_STOP = Message(
    3081,
    "HY000",
    "This operation cannot be performed with running replication threads; run STOP REPLICA FOR CHANNEL '%s' first",
)
ER_REPLICA_CHANNEL_NOT_RUNNING = Message(
    3082,
    "HY000",
    "This operation requires running replication threads; configure replica and run START REPLICA FOR CHANNEL "
    "'%s'",
)
ER_REPLICA_CHANNEL_WAS_RUNNING = Message(
    3083, "HY000", "Replication thread(s) for channel '%s' are already runnning."
)
"""The spelling is the server's."""
ER_REPLICA_CHANNEL_WAS_NOT_RUNNING = Message(
    3084, "HY000", "Replication thread(s) for channel '%s' are already stopped."
)
ER_REPLICA_CHANNEL_SQL_THREAD_MUST_STOP = Message(
    3085,
    "HY000",
    "This operation cannot be performed with a running replica sql thread; run STOP REPLICA SQL_THREAD FOR CHANNEL "
    "'%s' first.",
)
ER_REPLICA_CHANNEL_OPERATION_NOT_ALLOWED = Message(
    3139, "HY000", "%.192s cannot be performed on channel '%.192s'."
)

_CHECK_THE_MANUAL = (
    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the "
    "right syntax to use"
)


def syntax_error(text: str, position: int) -> SqlError:
    """ER_PARSE_ERROR at a position of a statement: what begins there is near, and its line is told, from 1."""
    return ER_PARSE_ERROR(_CHECK_THE_MANUAL, text[position:], text.count("\n", 0, position) + 1)
