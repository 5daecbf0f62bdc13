"""The status of a running master or slave, read from its console."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dumpfilter.base.errors import ConnectionLost, DumpfilterError, NotAMaster
from dumpfilter.base.security.guarded_client import Login
from dumpfilter.commands.server_status.model import (
    Record,
    channel_record,
    master_record,
    slave_of_master,
    slave_record,
    with_files,
)
from dumpfilter.console.client import ScriptStatement, StatementFailed, run_statements

if TYPE_CHECKING:
    from dumpfilter.slave.connection import Source

Rows = list[dict[str, Any]]

_SECONDS = 60.0
"""The time after which a console that does not answer counts as lost, seconds.

A console lets a user wait up to 16 seconds for the next statement.
"""

_VERSION = re.compile(r"dumpfilter (\d\S*), ")
"""The pattern of the beginning of a console's version_comment, such as ``dumpfilter 0.2.0, master``."""


def master_status(source: Source | None, console: Login | None) -> Record:
    """Return the status record of a running master, a dictionary that ``dumpfilter status --json`` prints.

    ``source`` is the connection to the master's port for slaves, or None. ``console`` is the login at the master's
    console, or None. Without ``console`` and without a user in ``source``, the record has only the master's health.
    Raises ConnectionLost when nothing answers, TlsError when TLS is missing, and DumpfilterError for a wrong password.
    """
    status = master_record()
    if source is not None:
        # gRPC takes 0.1 s to import.
        from dumpfilter.commands.server_status.of_port import ask_port

        ask_port(status, source, whole=console is None)
    if console is None:
        return status
    version, (server, logs, slaves, drains, received, drift, warnings) = _ask(
        console,
        "master",
        [
            "SELECT @@version AS version",
            "SHOW BINARY LOGS",
            "SELECT * FROM dumpfilter.slaves",
            "SELECT * FROM dumpfilter.drains",
            "SELECT * FROM dumpfilter.source",
            "SELECT * FROM dumpfilter.replica_drift",
            "SELECT * FROM dumpfilter.filter_warnings",
        ],
    )
    with_files(status, [(row["Log_name"], row["File_size"]) for row in logs])
    texts: dict[tuple[str, ...], list[str]] = {}
    for row in warnings:
        end = "" if str(row["cure"]).endswith("?") else "."
        line = f"{row['code']}: {row['rules']}: {row['warning']}. {row['cure']}{end}"
        texts.setdefault(_slave_key(row), []).append(line)
    return status | {
        "console": console.address,
        "version": version,
        "server_version": server[0]["version"],
        "slaves": [slave_of_master(row, texts.get(_slave_key(row), ())) for row in slaves],
        "drains": drains,
        "source": received[0] if received else None,
        "drift": drift,
    }


def _slave_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["user"], row["channel"], row["uuid"]


_COLUMNS = {
    "channel": "Channel_Name",
    "io_running": "Replica_IO_Running",
    "sql_running": "Replica_SQL_Running",
    "io_error": "Last_IO_Error",
    "sql_error": "Last_SQL_Error",
    "received_file": "Source_Log_File",
    "received_position": "Read_Source_Log_Pos",
    "applied_file": "Relay_Source_Log_File",
    "applied_position": "Exec_Source_Log_Pos",
    "relay_file": "Relay_Log_File",
    "relay_position": "Relay_Log_Pos",
    "retrieved_gtids": "Retrieved_Gtid_Set",
    "executed_gtids": "Executed_Gtid_Set",
}
"""The members of a channel's record that come from SHOW REPLICA STATUS, with their columns there."""

_NO_COUNTERS = ("lag_bytes", "lag_seconds")
"""The integer columns of ``dumpfilter.channels`` that are not counters since the channel's first start."""


def slave_status(login: Login) -> Record:
    """Return the status record (dictionary) of a running slave, read from its console at ``login``.

    Raises ConnectionLost when nothing answers, NotAMaster when another program answers, and DumpfilterError when the
    console refuses the login.
    """
    version, ((variables, *_), rows, counts, hits) = _ask(
        login,
        "slave",
        [
            "SELECT @@server_uuid AS uuid, @@datadir AS datadir",
            "SHOW REPLICA STATUS",
            "SELECT * FROM dumpfilter.channels",
            "SELECT * FROM dumpfilter.filter_hits",
        ],
    )
    more = {row["CHANNEL_NAME"]: row for row in counts}
    return slave_record(
        console=login.address,
        relay_dir=variables["datadir"],
        server_uuid=variables["uuid"],
        version=version,
        channels=[_channel(row, more.get(row["Channel_Name"], {}), hits) for row in rows],
    )


def _channel(row: Mapping[str, Any], more: Mapping[str, Any], hits: Iterable[Mapping[str, Any]]) -> Record:
    """Return the status record of a slave's channel, from rows that its console has returned.

    ``row`` is the channel's row of SHOW REPLICA STATUS, and ``more`` its row of ``dumpfilter.channels``. ``hits`` are
    the rows of all channels with the number of uses of each kind of filter rule.
    """
    facts = {name.lower(): value for name, value in more.items() if name != "CHANNEL_NAME"}
    counters = {
        name: value for name, value in facts.items() if isinstance(value, int) and name not in _NO_COUNTERS
    }
    return channel_record(
        **{name: row[column] for name, column in _COLUMNS.items() if column in row},
        **{name: value for name, value in facts.items() if name not in counters},
        source=f"{row['Source_Host']}:{row['Source_Port']}",
        counters=counters,
        hits={hit["RULE_KIND"]: hit["HITS"] for hit in hits if hit["CHANNEL_NAME"] == row["Channel_Name"]},
    )


def _ask(login: Login, role: str, statements: Sequence[str]) -> tuple[str, list[Rows]]:
    """Return the version of dumpfilter behind a console, and the rows of each statement as dictionaries by column name.

    ``role`` is ``master`` or ``slave``. Raises ConnectionLost when nothing answers, NotAMaster when another program
    answers, and DumpfilterError when the console refuses the login or a statement.
    """
    where = login.address
    try:
        ((comment,),) = _run(login, ["SELECT @@version_comment AS comment"])
        told = str(comment["comment"])
        if "dumpfilter" not in told:
            raise NotAMaster(
                f"{where}: another server answers here ({told}); name the console of a {role} of dumpfilter"
            )
        if role not in told:
            other, option = ("slave", "--slave") if role == "master" else ("master", "--console")
            raise NotAMaster(f"{where}: this is the console of a {other}; ask it with {option} {where}")
        version = _VERSION.match(told)
        return version[1] if version else "", _run(login, statements)
    except StatementFailed as error:
        raise DumpfilterError(
            f"the console {where} refuses: {error}; give the console's --user and --password-file"
        ) from None
    except NotAMaster:
        raise
    except ConnectionLost as error:
        raise ConnectionLost(
            f"console {error}; is the {role} running with --console-port, and is this its address?"
        ) from None


def _run(login: Login, statements: Sequence[str]) -> list[Rows]:
    asked = [ScriptStatement(text, number) for number, text in enumerate(statements, 1)]
    return [
        [dict(zip(found.names, row, strict=True)) for row in found.rows]
        for found in run_statements(login, asked, seconds=_SECONDS)
    ]
