"""The status of a running master or slave, read from its console (a port for MySQL clients)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dumpfilter.base.errors import ConnectionLost, DumpfilterError, NotAMaster
from dumpfilter.base.security.guarded_client import MALFORMED, Login
from dumpfilter.commands.server_status import model
from dumpfilter.console.client import ResultSet, ScriptStatement, StatementFailed, run_statements

Rows = list[dict[str, Any]]

_SECONDS = 60.0
"""The time after which a console (a port for MySQL clients) that does not answer counts as lost, seconds.

A console lets a user wait up to 16 seconds for the next statement.
"""

_COMMENT = re.compile(r"dumpfilter (\S+), (master|slave)")
"""The pattern of the version_comment of a console, such as ``dumpfilter 0.2.0, master``."""


@contextmanager
def _understanding() -> Iterator[None]:
    """Raise NotAMaster if the ``with`` block fails because the answers of a console (a port for MySQL clients) lack
    expected rows or columns.
    """
    try:
        yield
    except (*MALFORMED, StopIteration) as error:
        raise NotAMaster(
            f"the console's answers are not understood ({type(error).__name__}: {error}): use the dumpfilter of its "
            "version, and check that the address is a console's"
        ) from error


@_understanding()
def master_status(told: model.Record, console: Login | None) -> model.Record:
    """Return the status record of a running master, a dictionary that ``dumpfilter status --json`` prints.

    ``told`` is the part of the record that the master's port for slaves has told; empty if the port was not asked.
    ``console`` is the login at the master's console (a port for MySQL clients); None: the console is not asked.

    Raises ConnectionLost when nothing answers, NotAMaster when another program answers, TlsError when TLS is missing,
    and DumpfilterError for a wrong password.
    """
    status = model.MASTER | told
    if console is None:
        return status
    tables = "slaves", "drains", "source", "replica_drift", "filter_warnings"
    statements = [f"SELECT * FROM dumpfilter.{name}" for name in tables]
    version, (server, logs, slaves, drains, received, drift, warnings) = _ask(
        console, "master", ["SELECT @@version AS version", "SHOW BINARY LOGS", *statements]
    )
    texts: dict[tuple[str, ...], list[str]] = {}
    for row in warnings:
        end = "" if str(row["cure"]).endswith("?") else "."
        line = f"{row['code']}: {row['rules']}: {row['warning']}. {row['cure']}{end}"
        texts.setdefault(_slave_key(row), []).append(line)
    return {
        **status,
        **model.files_record([(row["Log_name"], row["File_size"]) for row in logs]),
        "console": console.address,
        "version": version,
        "server_version": server[0]["version"],
        "slaves": [model.slave_of_master(row, texts.get(_slave_key(row), ())) for row in slaves],
        "drains": drains,
        "source": received[0] if received else None,
        "drift": drift,
    }


def _slave_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["user"], row["channel"], row["uuid"]


@_understanding()
def slave_status(login: Login) -> model.Record:
    """Return the status record (dictionary) of a running slave, read from its console (a port for MySQL clients) at
    ``login``.

    Raises ConnectionLost when nothing answers, NotAMaster when another program answers, and DumpfilterError when the
    console refuses the login.
    """
    statements = (
        "SELECT @@server_uuid AS uuid, @@datadir AS datadir",
        # As in SHOW REPLICA STATUS, a channel without SOURCE_HOST is none.
        "SELECT * FROM dumpfilter.channels WHERE SOURCE <> ''",
        "SELECT * FROM dumpfilter.filter_hits",
    )
    version, ((variables, *_), rows, hits) = _ask(login, "slave", statements)
    uses: dict[str, dict[str, int]] = defaultdict(dict)
    for hit in hits:
        uses[hit["CHANNEL_NAME"]][hit["RULE_KIND"]] = hit["HITS"]
    return model.SLAVE | {
        "console": login.address,
        "relay_dir": variables["datadir"],
        "server_uuid": variables["uuid"],
        "version": version,
        "channels": [model.channel_of_slave(row, uses[row["CHANNEL_NAME"]]) for row in rows],
    }


def _ask(login: Login, role: str, statements: Sequence[str]) -> tuple[str, list[Rows]]:
    """Run ``statements`` on a console (a port for MySQL clients). Return the version of dumpfilter there, and each
    statement's rows as dictionaries by column name.

    ``role`` says whether a ``master`` or a ``slave`` is expected there. Raises ConnectionLost when nothing answers,
    NotAMaster when another program answers, and DumpfilterError when the console refuses the login or a statement.
    """
    where = login.address
    asked = [ScriptStatement(text, 0) for text in ("SELECT @@version_comment", *statements)]
    try:
        answers = run_statements(login, asked, seconds=_SECONDS)
        ((comment,),) = next(answers).rows
        found = _COMMENT.fullmatch(str(comment))
        rows = [] if found is None or found[2] != role else list(map(_rows, answers))
    except StatementFailed as error:
        raise DumpfilterError(
            f"the console {where} refuses: {error}; give the console's --user and --password-file"
        ) from None
    except ConnectionLost as error:
        raise ConnectionLost(
            f"console {error}; is the {role} running with --console-port, and is this its address?"
        ) from None
    if found is None:
        raise NotAMaster(
            f"{where}: another server answers here ({comment}); name the console of a {role} of dumpfilter"
        )
    if found[2] != role:
        option = "--slave" if role == "master" else "--console"
        raise NotAMaster(f"{where}: this is the console of a {found[2]}; ask it with {option} {where}")
    return found[1], rows


def _rows(found: ResultSet) -> Rows:
    return [dict(zip(found.names, row, strict=True)) for row in found.rows]
