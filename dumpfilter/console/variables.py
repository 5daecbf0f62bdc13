"""The system variables (``@@x``) of the console's sessions.

Some variables come from the master or slave, such as ``server_id``. The other variables exist because client programs
set or read them when they connect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dumpfilter.console.sql import server_errors
from dumpfilter.console.wire import MAX_ALLOWED_PACKET

Value = str | int | float | None

SESSION_VARIABLES: Mapping[str, Value] = {
    "auto_increment_increment": 1,
    "autocommit": 1,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_database": "utf8mb4",
    "character_set_results": "utf8mb4",
    "character_set_server": "utf8mb4",
    "collation_connection": "utf8mb4_0900_ai_ci",
    "collation_database": "utf8mb4_0900_ai_ci",
    "collation_server": "utf8mb4_0900_ai_ci",
    "foreign_key_checks": 1,
    "group_concat_max_len": 1024,
    "interactive_timeout": 28800,
    "lock_wait_timeout": 31536000,
    "max_execution_time": 0,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "profiling": 0,
    "session_track_schema": 1,
    "sql_auto_is_null": 0,
    "sql_big_selects": 1,
    "sql_mode": "",
    "sql_notes": 1,
    "sql_quote_show_create": 1,
    "sql_safe_updates": 0,
    "sql_select_limit": 18446744073709551615,
    "sql_warnings": 0,
    "time_zone": "SYSTEM",
    "transaction_isolation": "REPEATABLE-READ",
    "transaction_read_only": 0,
    "tx_isolation": "REPEATABLE-READ",
    "tx_read_only": 0,
    "unique_checks": 1,
    "wait_timeout": 28800,
}
"""The system variables that a session can set, with their default values.

Only ``max_execution_time`` (milliseconds) and ``character_set_results`` have an effect. The others exist because client
programs set them.
"""

GLOBAL_VARIABLES: Mapping[str, Value] = {
    "character_set_system": "utf8mb3",
    "default_storage_engine": "PERFORMANCE_SCHEMA",
    "have_ssl": "YES",
    "init_connect": "",
    "license": "",
    "lower_case_table_names": 0,
    "max_allowed_packet": MAX_ALLOWED_PACKET,
    "net_buffer_length": 16384,
    "performance_schema": 1,
    "port": 0,
    "system_time_zone": time.tzname[0],
    "version_comment": "dumpfilter",
}
"""The system variables that no client can set, with their values."""


_LONGEST_VALUE = 1024


class Variables:
    """The system variables (``@@x``) of one client's session, with the values that the client has set."""

    def __init__(self, process: Callable[[], Mapping[str, str | int]]) -> None:
        """Start with the default values.

        ``process`` returns the variables of the master or slave, such as gtid_executed. It is called at every reading,
        because these values change.
        """
        self._read_process = process
        self._session = dict(SESSION_VARIABLES)

    @property
    def _process(self) -> dict[str, str | int]:
        return {name.lower(): value for name, value in self._read_process().items()}

    def all(self) -> dict[str, Value]:
        """Return the present values of all system variables of the client's session by their names."""
        return {**GLOBAL_VARIABLES, **self._session, **self._process}

    def set(self, name: str, value: Value, *, globally: bool) -> None:
        """Set a system variable for this session. A ``value`` of None sets the default.

        Raises SqlError 1193 for an unknown variable, and 1227 if ``globally`` is true (SET GLOBAL). Raises 1229 for a
        variable of the master or slave, and 1238 for any other variable that cannot be set. Raises 1231 for a very long
        text.
        """
        name = name.lower()
        if name not in self.all():
            raise server_errors.ER_UNKNOWN_SYSTEM_VARIABLE(name)
        if globally:
            raise server_errors.ER_SPECIFIC_ACCESS_DENIED_ERROR("SUPER or SYSTEM_VARIABLES_ADMIN")
        if name in self._process:
            raise server_errors.ER_GLOBAL_VARIABLE(name)
        if name not in SESSION_VARIABLES:
            raise server_errors.ER_INCORRECT_GLOBAL_LOCAL_VAR(name, "read only")
        if isinstance(value, str) and len(value) > _LONGEST_VALUE:
            raise server_errors.ER_WRONG_VALUE_FOR_VAR(name, value)
        self._session[name] = SESSION_VARIABLES[name] if value is None else value

    def reset(self) -> None:
        """Set all system variables of the client's session back to their default values."""
        self._session = dict(SESSION_VARIABLES)
