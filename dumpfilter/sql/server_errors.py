"""The errors and warnings that a console sends to its clients.

Each has the name, number and text of MySQL 9.7, whose command ``perror NUMBER`` prints them. A name that contained
SLAVE or MASTER in MySQL 5.7 contains REPLICA or SOURCE here, as in 9.7.

>>> str(ER_REPLICA_CHANNEL_DOES_NOT_EXIST("ch1"))
"ERROR 3074 (HY000): Replica channel 'ch1' does not exist."
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dumpfilter.errors import DumpfilterError
from dumpfilter.sql.result import Note


class SqlError(DumpfilterError):
    """The error that ends a statement. A client shows it as ``ERROR number (sqlstate): message``."""

    def __init__(self, number: int, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.sqlstate = sqlstate
        self.message = message

    def __str__(self) -> str:
        return f"ERROR {self.number} ({self.sqlstate}): {self.message}"


@dataclass(frozen=True)
class Message:
    """A server's error message with placeholders. A call of the object fills them in and returns an exception."""

    number: int
    sqlstate: str
    text: str
    """The server's text with C's placeholders, such as ``%d`` and ``%.64s`` (at most 64 bytes)."""

    def __call__(self, *values: object) -> SqlError:
        """Return the exception to raise, with ``values`` in place of the text's placeholders."""
        return SqlError(self.number, self.sqlstate, self._format(values))

    def note(self, *values: object) -> Note:
        """Return the message, filled with ``values``, as a row of SHOW WARNINGS with the level Note."""
        return Note("Note", self.number, self._format(values))

    def warning(self, *values: object) -> Note:
        """Return the message, filled with ``values``, as a row of SHOW WARNINGS with the level Warning."""
        return Note("Warning", self.number, self._format(values))

    def _format(self, values: tuple[object, ...]) -> str:
        # The precision in "%.64s" counts bytes in the server's texts, but characters in Python's.
        limits = [int(precision or 0) for precision in _CONVERSION.findall(self.text)]
        cut = [
            _first_bytes(str(value), limit) if limit else value
            for value, limit in zip(values, limits, strict=True)
        ]
        return self.text % tuple(cut)


_CONVERSION = re.compile(r"%(?:\.([0-9]+))?[sd]")


def _first_bytes(text: str, limit: int) -> str:
    # The server handles the text as a C string, which ends at its first NUL. Where the server cuts a character of
    # several bytes in two, it sends each byte of the first half as a character.
    text, _, _ = text[:limit].partition("\0")
    data = text.encode("utf-8", "surrogatepass")[:limit]
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as half:
        return data[: half.start].decode("utf-8", "surrogatepass") + data[half.start :].decode("latin-1")


# The following errors concern connections and packets.
ER_CON_COUNT_ERROR = Message(1040, "08004", "Too many connections")
ER_HANDSHAKE_ERROR = Message(1043, "08S01", "Bad handshake")
ER_UNKNOWN_COM_ERROR = Message(1047, "08S01", "Unknown command")
ER_NO_SUCH_THREAD = Message(1094, "HY000", "Unknown thread id: %d")
ER_KILL_DENIED_ERROR = Message(1095, "HY000", "You are not owner of thread %d")
ER_NET_PACKET_TOO_LARGE = Message(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
ER_MALFORMED_PACKET = Message(1835, "HY000", "Malformed communication packet.")

# The following errors tell that a user lacks a privilege.
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

# The following errors concern prepared statements.
ER_UNKNOWN_STMT_HANDLER = Message(
    1243, "HY000", "Unknown prepared statement handler (%d) given to mysqld_stmt_execute"
)
ER_PS_MANY_PARAM = Message(1390, "HY000", "Prepared statement contains too many placeholders")
ER_MAX_PREPARED_STMT_COUNT_REACHED = Message(
    1461, "42000", "Can't create more than max_prepared_stmt_count statements (current value: %d)"
)

# The following errors end a statement that exceeds a limit or is interrupted.
ER_OUT_OF_RESOURCES = Message(
    1041,
    "HY000",
    "Out of memory; the statement needs more than a console's SELECT may have; select fewer rows or shorter texts",
)
"""The error of a SELECT that needs too much memory.

The text is the product's, because the server's text gives advice about mysqld and ulimit.
"""
ER_OUT_OF_CONSOLE_MEMORY = Message(1041, "HY000", "Out of memory; %s")
"""The error 1041 of a client that would hold too much memory of the console in other ways than by a SELECT."""
ER_QUERY_INTERRUPTED = Message(1317, "70100", "Query execution was interrupted")
ER_STACK_OVERRUN_NEED_MORE = Message(
    1436, "HY000", "Thread stack overrun: the statement is nested too deeply"
)
"""The error of a SELECT that is nested too deeply.

The text is shorter than the server's, which contains stack sizes in bytes.
"""
ER_QUERY_TIMEOUT = Message(
    3024, "HY000", "Query execution was interrupted, maximum statement execution time exceeded"
)
ER_CAPACITY_EXCEEDED = Message(3170, "HY000", "Memory capacity of %d bytes for '%s' exceeded. %s")

# The following errors can occur when a console parses or runs a statement of any kind.
ER_PARSE_ERROR = Message(1064, "42000", "%s near '%.80s' at line %d")
ER_EMPTY_QUERY = Message(1065, "42000", "Query was empty")
ER_NO_DB_ERROR = Message(1046, "3D000", "No database selected")
ER_BAD_DB_ERROR = Message(1049, "42000", "Unknown database '%.192s'")
ER_NON_UNIQ_ERROR = Message(1052, "23000", "Column '%.192s' in %.192s is ambiguous")
ER_BAD_FIELD_ERROR = Message(1054, "42S22", "Unknown column '%.192s' in '%.192s'")
ER_TOO_LONG_IDENT = Message(1059, "42000", "Identifier name '%.100s' is too long")
ER_NONUNIQ_TABLE = Message(1066, "42000", "Not unique table/alias: '%.192s'")
ER_NO_TABLES_USED = Message(1096, "HY000", "No tables used")
ER_WRONG_DB_NAME = Message(1102, "42000", "Incorrect database name '%.100s'")
ER_WRONG_TABLE_NAME = Message(1103, "42000", "Incorrect table name '%.100s'")
ER_UNKNOWN_ERROR = Message(1105, "HY000", "%s")
"""The error of a statement that fails for a reason for which MySQL has no error number. The message gives the reason.
"""
ER_UNKNOWN_TABLE = Message(1109, "42S02", "Unknown table '%.192s' in %.32s")
ER_INVALID_GROUP_FUNC_USE = Message(1111, "HY000", "Invalid use of group function")
ER_UNKNOWN_CHARACTER_SET = Message(1115, "42000", "Unknown character set: '%.64s'")
ER_NO_SUCH_TABLE = Message(1146, "42S02", "Table '%.192s.%.192s' doesn't exist")
ER_UNKNOWN_SYSTEM_VARIABLE = Message(1193, "HY000", "Unknown system variable '%.64s'")
ER_WARN_DEPRECATED_SYNTAX = Message(
    1287, "HY000", "'%s' is deprecated and will be removed in a future release. Please use %s instead"
)
ER_MALFORMED_GTID_SET_SPECIFICATION = Message(1772, "HY000", "Malformed GTID set specification '%.200s'.")
ER_WRONG_ARGUMENTS = Message(1210, "HY000", "Incorrect arguments to %s")
ER_ERROR_WHEN_EXECUTING_COMMAND = Message(1220, "HY000", "Error when executing command %s: %.128s")
ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT = Message(
    1222, "21000", "The used SELECT statements have a different number of columns"
)
ER_GLOBAL_VARIABLE = Message(
    1229, "HY000", "Variable '%.64s' is a GLOBAL variable and should be set with SET GLOBAL"
)
ER_WRONG_VALUE_FOR_VAR = Message(1231, "42000", "Variable '%.64s' can't be set to the value of '%.200s'")
ER_NOT_SUPPORTED_YET = Message(1235, "42000", "This version of MySQL doesn't yet support '%s'")
ER_INCORRECT_GLOBAL_LOCAL_VAR = Message(1238, "HY000", "Variable '%.192s' is a %s variable")
ER_OPERAND_COLUMNS = Message(1241, "21000", "Operand should contain %d column(s)")
ER_TRUNCATED_WRONG_VALUE = Message(1292, "22007", "Truncated incorrect %.64s value: '%.128s'")
ER_WRONG_DATETIME_VALUE = Message(1292, "22007", "Incorrect datetime value: '%.128s'")
"""The error 1292 with the text that the server uses when the wrong value should be a datetime."""
ER_INVALID_CHARACTER_STRING = Message(1300, "HY000", "Invalid %s character string: '%.64s'")
ER_SP_DOES_NOT_EXIST = Message(1305, "42000", "%s %s does not exist")
ER_WRONG_OBJECT = Message(1347, "HY000", "'%.192s.%.192s' is not %s")
ER_SP_UNDECLARED_VAR = Message(1327, "42000", "Undeclared variable: %s")
ER_TOO_BIG_PRECISION = Message(1426, "42000", "Too-big precision %d specified for '%.192s'. Maximum is %d.")
ER_DATETIME_FUNCTION_OVERFLOW = Message(1441, "22008", "Datetime function: %.32s field overflow")
ER_WRONG_VALUE = Message(1525, "HY000", "Incorrect %.32s value: '%.128s'")
ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT = Message(
    1582, "42000", "Incorrect parameter count in the call to native function '%.192s'"
)
ER_WRONG_ARGUMENT_LF = Message(1525, "HY000", "Incorrect argument contains not-allowed LF value: '%.128s'")
"""The error 1525 with the text that the server uses when the string of an option contains a line feed."""

# The following errors answer statements about binary logs, such as PURGE BINARY LOGS.
ER_UNKNOWN_TARGET_BINLOG = Message(1373, "HY000", "Target log not found in binlog index")
ER_NO_BINARY_LOGGING = Message(1381, "HY000", "You are not using binary logging")
ER_WARN_PURGE_LOG_IS_ACTIVE = Message(
    1868, "HY000", "file %s was not purged because it is the active log file."
)

# The following errors concern the configuration of a replica.
ER_BAD_REPLICA = Message(
    1200,
    "HY000",
    "The server is not configured as replica; fix in config file or with CHANGE REPLICATION SOURCE TO",
)
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
ER_REPLICA_CONFIGURATION = Message(
    1794,
    "HY000",
    "Replica is not configured or failed to initialize properly. You must at least set --server-id to enable "
    "either a source or a replica. Additional error messages can be found in the MySQL error log.",
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

# The following errors concern the starting and stopping of the replication threads.
ER_BAD_REPLICA_UNTIL_COND = Message(
    1277, "HY000", "Incorrect parameter or combination of parameters for START REPLICA UNTIL"
)
ER_SQLTHREAD_WITH_SECURE_REPLICA = Message(
    1763,
    "HY000",
    "Setting authentication options is not possible when only the Replica SQL Thread is being started.",
)

# The following errors answer statements with FOR CHANNEL.
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
ER_REPLICA_CHANNEL_WAS_RUNNING = Message(
    3083, "HY000", "Replication thread(s) for channel '%s' are already runnning."
)
"""The error of START REPLICA on a running channel. The server's text misspells "running". The console sends the same
text.
"""
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
ER_SECURE_TRANSPORT_REQUIRED = Message(
    3159,
    "HY000",
    "Connections using insecure transport are prohibited while --require_secure_transport=ON.",
)

_CHECK_THE_MANUAL = (
    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the "
    "right syntax to use"
)


def syntax_error(text: str, position: int) -> SqlError:
    """Return the server's syntax error (ER_PARSE_ERROR) for the statement ``text``.

    ``position`` is the index of the first character that the grammar does not allow. The message quotes the statement
    from this character on, and gives the number of its line, counted from 1.
    """
    return ER_PARSE_ERROR(_CHECK_THE_MANUAL, text[position:], text.count("\n", 0, position) + 1)
