"""The status of a running master: by its port for slaves, and by its console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumpfilter.security.guarded_client import Login
from dumpfilter.status.console import Rows, ask
from dumpfilter.status.model import Record, master_record, slave_of_master, with_files

if TYPE_CHECKING:
    from dumpfilter.slave.threads.source import Source


def master_status(source: Source | None, console: Login | None) -> Record:
    """Ask a master. Without a user and a console the status only has what everybody may know.

    ``source`` is the connection to the port for slaves; None: ask the console only. Raises ConnectionLost when nothing
    answers, TlsError when TLS is missing, and StatusRefused for a wrong password.
    """
    status = master_record()
    if source is not None:
        # gRPC takes 0.1 s to import.
        from dumpfilter.status.of_port import ask_port

        ask_port(status, source, whole=console is None)
    if console is not None:
        _ask_console(status, console)
    return status


def _ask_console(status: Record, login: Login) -> None:
    version, (server, logs, slaves, drains, source, drift, warnings) = ask(
        login,
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
    texts = _warnings(warnings)
    status |= {
        "console": f"{login.host}:{login.port}",
        "version": version,
        "server_version": server[0]["version"],
        "slaves": [
            slave_of_master(row, texts.get((row["user"], row["channel"], row["uuid"]), ())) for row in slaves
        ],
        "drains": drains,
        "source": source[0] if source else None,
        "drift": drift,
    }


def _warnings(rows: Rows) -> dict[tuple[str, str, str], list[str]]:
    """Return the warnings about the filter of each slave, by user, channel and UUID."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        end = "" if str(row["cure"]).endswith("?") else "."
        line = f"{row['code']}: {row['rules']}: {row['warning']}. {row['cure']}{end}"
        found.setdefault((row["user"], row["channel"], row["uuid"]), []).append(line)
    return found
