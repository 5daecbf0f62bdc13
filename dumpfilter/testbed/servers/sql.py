"""SQL for MariaDB and MySQL servers: the dialects of the two, and a client for servers and for dumpfilter's consoles
(ports for MySQL clients).

A dialect has the options and the replication statements of MariaDB or of MySQL. The client runs statements, reads the
end of a server's binlog and the state of its replication channels, and compares servers by their data.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

import pymysql

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.testbed.errors import NodeIsDown, SqlFailed
from dumpfilter.testbed.values import NO_LAG, ChannelState, Place

# -- the dialects


class SourceAddress(NamedTuple):
    """The address, user and password with which a replica connects to its source: a server, or a replication port of
    dumpfilter.
    """

    host: str
    port: int
    user: str
    password: str
    tls: bool = False
    """Whether the replica uses TLS even without ``ca``. The certificate is then not verified."""
    ca: Path | None = None
    """The CA that must have signed the certificate, which must name the host. None: nothing is verified."""


Rules = Mapping[str, Sequence[str]]
"""Filter rules by the name of a channel, as options such as ``replicate-do-db=shop``."""


class Dialect(SimpleNamespace):
    """The program names, options and replication statements in which MariaDB and MySQL differ, for one of the two
    families. Its attributes are ``family`` and the tables of the file ``dialects.toml``, such as ``program`` (the name
    of the server program) and ``status`` (the statement for the status of all channels).
    """

    without_binlog = "SET SESSION sql_log_bin = 0"
    """The statement that keeps the session's further statements out of the binlog."""

    def rule_options(self, rules: Rules) -> list[str]:
        """Return the options of the server's command line that set replication filters, such as
        ``--replicate-do-db=shop``.

        ``rules`` maps a channel's name (empty for the default channel) to its rules. A rule is a text such as
        ``replicate-do-db=shop``, with or without leading dashes.
        """
        found = []
        for channel, given in rules.items():
            for rule in given:
                option, _, value = rule.removeprefix("--").partition("=")
                form = self.channel_rule if channel else "--{option}={value}"
                found.append(form.format(channel=channel, option=option, value=value))
        return found

    def follow(self, channel: str, source: SourceAddress) -> str:
        """Return the statement (``CHANGE REPLICATION SOURCE TO`` or ``CHANGE MASTER TO``) that sets the source of a
        replication channel.

        ``channel`` is the channel's name, empty for the default channel. Replication begins by GTID, after the
        transactions that the server has applied.
        """
        prefix, tls = self.source, f"{self.source}_SSL"
        ca = f"{tls}_CA={quoted(str(source.ca))}, " if source.ca else ""
        return self.changed(
            channel,
            f"{prefix}_HOST={quoted(source.host)}, {prefix}_PORT={source.port}, "
            f"{prefix}_USER={quoted(source.user)}, {prefix}_PASSWORD={quoted(source.password)}, "
            f"{tls}={int(source.tls or bool(ca))}, {ca}{tls}_VERIFY_SERVER_CERT={int(bool(ca))}, "
            f"{prefix}_CONNECT_RETRY=1, {prefix}_HEARTBEAT_PERIOD={_HEARTBEAT}, {self.by_gtid}",
        )

    def controlled(self, verb: str, channel: str, thread: str = "") -> str:
        """Return the statement that starts, stops or resets the replication of a channel, such as ``STOP REPLICA``.

        ``verb`` is START, STOP or RESET, and ``channel`` the channel's name, empty for the default channel. ``thread``
        restricts the statement to ``IO_THREAD`` or ``SQL_THREAD``; with an empty text it applies to both threads.
        """
        thread = thread and f" {thread}"
        return str(self.control.format(verb=verb, thread=thread, channel=self._named(channel)))

    def wait(self, gtids: str, seconds: float) -> str:
        """Return the statement that waits at most ``seconds`` until the server has applied the GTID set ``gtids``. The
        statement's result is 0 if the server has applied the set in time.
        """
        return str(self.wait_form.format(gtids=quoted(gtids), seconds=max(seconds, _SHORTEST_WAIT)))

    def changed(self, channel: str, settings: str) -> str:
        """Return the statement (such as ``CHANGE REPLICATION SOURCE TO``) that changes settings of a replication
        channel.

        ``channel`` is the channel's name, empty for the default channel. ``settings`` is the text of the statement's
        clauses, such as ``SOURCE_DELAY=3``.
        """
        return str(self.change.format(channel=self._named(channel), settings=settings))

    def delayed(self, channel: str, seconds: int, *, applies: bool = True) -> list[str]:
        """Return the statements that make a replication channel apply each transaction ``seconds`` after its commit at
        the source. 0 seconds end the delay.

        The statements stop the channel, set the delay, and start the channel. Without ``applies`` only the I/O thread
        is started.
        """
        return [
            self.controlled("STOP", channel),
            self.changed(channel, f"{self.source}_DELAY={seconds}"),
            self.controlled("START", channel, "" if applies else "IO_THREAD"),
        ]

    def _named(self, channel: str) -> str:
        # Without a name, MySQL's statement of a server with several channels is for all of them.
        return self.channel.format(quoted(channel)) if channel else ""


_SHORTEST_WAIT = 0.001
"""The shortest wait for a GTID set, seconds. MySQL would wait without a limit for 0."""

_HEARTBEAT = 1
"""The idle time after which a source sends a heartbeat, with its position, seconds."""


def _dialects() -> Iterator[tuple[Family, Dialect]]:
    """Yield pairs of a server family and its dialect (options and statements), as read from ``dialects.toml``."""
    facts = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
    for family in get_args(Family):
        own = {
            key: values.get("both", []) + values[family] if "both" in values else values[family]
            for key, values in facts.items()
        }
        yield family, Dialect(family=family, **own)


DIALECTS: Mapping[Family, Dialect] = dict(_dialects())


def quoted(text: str) -> str:
    """Return ``text`` as an SQL string literal that both MySQL and MariaDB read in the same way."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def identifier(name: str) -> str:
    """Return ``name`` as an SQL identifier in backquotes, with backquotes inside doubled."""
    return "`" + name.replace("`", "``") + "`"


# -- the client

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
_LONGEST_STATEMENT = 200


class Account(NamedTuple):
    """The user name and password for a login at a server."""

    user: str
    password: str


class SqlServer:
    """A client for SQL statements to a running server: a MySQL or MariaDB server, or an SQL console of dumpfilter."""

    wants_tls = False
    """Whether connections use TLS if the server offers TLS. The default is no, since PyMySQL loads all CA certificates
    of the system for each TLS connection.
    """

    def __init__(self, name: str, family: Family, host: str, port: int, account: Account) -> None:
        self.name = name
        self.family = family
        self.host = host
        self.port = port
        self.account = account
        """The user name and password with which :meth:`connect` logs in."""

    @property
    def dialect(self) -> Dialect:
        """The options and replication statements of the server's family, MySQL or MariaDB."""
        return DIALECTS[self.family]

    @property
    def url(self) -> str:
        """The address for SQL clients, ``mysql://USER[:PASSWORD]@HOST:PORT/``."""
        password = f":{quote(self.account.password, safe='')}" if self.account.password else ""
        return f"mysql://{quote(self.account.user, safe='')}{password}@{self.host}:{self.port}/"

    def connect(self, **more: Any) -> pymysql.Connection[Any]:
        """Open a PyMySQL connection to the server, and return it. ``more`` has further arguments of
        ``pymysql.connect``. Raises NodeIsDown if the server cannot be reached or refuses the login.
        """
        arguments: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.account.user,
            "password": self.account.password,
            "charset": "utf8mb4",
            "autocommit": True,
            "ssl_disabled": not self.wants_tls,
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": READ_TIMEOUT,
        }
        arguments |= more
        try:
            # A server that hangs accepts the connection, and never greets.
            made = pymysql.connect(**{**arguments, "read_timeout": arguments["connect_timeout"]})
            made._read_timeout = arguments["read_timeout"]
            return made
        except (pymysql.Error, OSError) as error:
            raise NodeIsDown(f"{self.name}: no connection to {self.host}:{self.port}: {error}") from None

    def rows(self, statement: str, **more: Any) -> list[dict[str, Any]]:
        r"""Run one statement, and return each row as a dictionary of values by column.

        Raises NodeIsDown if the server cannot be reached, and SqlFailed if it refuses the statement.

        Bytes that are not UTF-8 are shown as ``\xe9``. They occur in MariaDB's replica status, which quotes a failed
        statement in the character set of the client that sent it.
        """
        found = self.sql(statement, cursorclass=pymysql.cursors.DictCursor, use_unicode=False, **more)
        return [{key: _text(value) for key, value in row.items()} for row in found]

    def sql(self, *statements: str, arguments: Any = None, **more: Any) -> list[Any]:
        """Run statements on a new connection, one after another, and return the rows of the last one as tuples.

        ``arguments`` are parameters for the placeholders of each statement, as for PyMySQL's ``Cursor.execute``.
        ``more`` has further arguments of ``pymysql.connect``, such as ``database``. Raises NodeIsDown if the server
        cannot be reached, and SqlFailed at the first statement that it refuses.
        """
        rows: list[Any] = []
        with contextlib.closing(self.connect(**more)) as connection:
            for statement in statements:
                try:
                    with connection.cursor() as cursor:
                        cursor.execute(statement, arguments)
                        rows = list(cursor.fetchall())
                except pymysql.Error as error:
                    number, text = error.args if len(error.args) > 1 else (0, error)
                    shown = statement[:_LONGEST_STATEMENT] + "…" * (len(statement) > _LONGEST_STATEMENT)
                    raise SqlFailed(f"{self.name}: error {number}: {text}: {shown}", number) from None
        return rows

    def value(self, expression: str) -> str:
        """Return the value that the server computes for an SQL expression, as text without line breaks; an empty text
        for NULL. Raises NodeIsDown if the server cannot be reached, and SqlFailed if it refuses the expression.
        """
        ((found,),) = self.sql(f"SELECT {expression}", read_timeout=CONNECT_TIMEOUT)
        return "" if found is None else str(found).replace("\n", "")

    def control(self, verb: str, channels: Iterable[str] = ("",), thread: str = "") -> None:
        """Start, stop or reset replication channels. ``verb`` is START, STOP or RESET. ``channels`` has the channels'
        names, empty for the default channel.

        ``thread`` restricts the call to the ``IO_THREAD`` or ``SQL_THREAD``; with an empty text it is for both threads.
        Raises NodeIsDown if the server cannot be reached, and SqlFailed if it refuses, for example for an unknown
        channel.
        """
        self.sql(*(self.dialect.controlled(verb, channel, thread) for channel in channels))

    def binlog_end(self) -> Place:
        """Return the present end of the server's binlog: the newest file and its size. Raises SqlFailed for a server
        without a binlog.
        """
        rows = self.sql(self.dialect.binlog_status, read_timeout=CONNECT_TIMEOUT)
        if not rows:
            raise SqlFailed(f"{self.name}: has no binlog: start the server with --log-bin")
        return Place(str(rows[0][0]), int(rows[0][1]))

    def binlog_gtids(self) -> str:
        """Return, as text, the GTID set of all transactions in the server's binlog. On MariaDB it has the newest GTID
        of each domain.
        """
        return self.value(self.dialect.binlog_gtids)

    def applied_gtids(self) -> str:
        """Return, as text, the GTID set that the server has applied as a replica. On MySQL the set has the server's own
        transactions, too. On MariaDB it has the newest GTID of each domain.
        """
        return self.value(self.dialect.applied_gtids)


class RunningServer(SqlServer):
    """A client for SQL statements to a server that the testbed has not started. The testbed never stops the server. The
    constructor asks the server for its family, and raises NodeIsDown if the server cannot be reached.
    """

    wants_tls = True

    def __init__(self, name: str, host: str, port: int, account: Account) -> None:
        super().__init__(name, "mysql", host, port, account)
        if "MariaDB" in self.value("VERSION()"):
            self.family = "mariadb"


# -- replicas


def channel_states(server: SqlServer, **more: Any) -> list[ChannelState]:
    """Return the state of each replication channel of a server, as SHOW REPLICA STATUS tells it. A server without
    channels has an empty list.

    The fields for the name of the source node, the lag, and the GTIDs that a channel has applied are not set, since the
    server does not show them. Raises NodeIsDown if the server cannot be reached, and SqlFailed if it refuses the
    statement.
    """
    return [
        ChannelState(
            channel=str(row.get("Channel_Name", row.get("Connection_name"))),
            source="",
            received=Place(row["Source_Log_File"], int(row["Read_Source_Log_Pos"])),
            applied=Place(row["Relay_Source_Log_File"], int(row["Exec_Source_Log_Pos"])),
            gtids="",
            lag=NO_LAG,
            io=str(row["Replica_IO_Running"]),
            sql=str(row["Replica_SQL_Running"]),
            errors=tuple(
                f"error {number}: {row[f'Last_{thread}_Error']}"
                for thread in ("IO", "SQL")
                if (number := int(row[f"Last_{thread}_Errno"]))
            ),
        )
        for row in status_rows(server, **more)
    ]


def status_rows(server: SqlServer, **more: Any) -> list[dict[str, Any]]:
    """Return the rows of SHOW REPLICA STATUS, one for each replication channel, as dictionaries of values by column.
    MariaDB's columns get the names that MySQL gives to them.
    """
    return [
        {key.replace("Slave", "Replica").replace("Master", "Source"): value for key, value in row.items()}
        for row in server.rows(server.dialect.status, **more)
    ]


def _text(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


# -- data

_OF_THE_SERVER = ("information_schema", "mysql", "performance_schema", "sys")

TABLE = "table "
"""The prefix with which :func:`read_data` names a table, as in ``table `shop`.`orders```."""

_DEFINITION = f"definition of {TABLE}"

_NEXT_NUMBER = re.compile(r" AUTO_INCREMENT=\d+")
"""The pattern of a table's next AUTO_INCREMENT value, which a server may increase without any change of data."""

_OBJECTS = {
    "view": "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE table_schema",
    "trigger": "SELECT trigger_schema, trigger_name, action_statement FROM information_schema.triggers "
    "WHERE trigger_schema",
    "routine": "SELECT routine_schema, routine_name, routine_definition FROM information_schema.routines "
    "WHERE routine_schema",
    "event": "SELECT event_schema, event_name, event_definition FROM information_schema.events WHERE event_schema",
}


def databases_of(server: SqlServer) -> list[str]:
    """Return the names of a server's databases without the system databases, such as ``mysql`` and ``sys``. Raises
    NodeIsDown if the server cannot be reached.
    """
    return [name for (name,) in server.sql("SHOW DATABASES") if name not in _OF_THE_SERVER]


def read_data(server: SqlServer) -> dict[str, str]:
    """Return a dictionary of the data of a server outside the system databases, for a comparison with another server.

    A key names an object, such as ``table `shop`.`orders```. The backquotes keep names with dots apart. The value is
    the checksum of a table, ``present`` for a database, and the definition of other objects. The definition of a table
    has an entry of its own. Raises NodeIsDown if the server cannot be reached, and SqlFailed if it refuses a statement.
    """
    databases = databases_of(server)
    found = {f"database {name}": "present" for name in databases}
    if not databases:
        return found
    # Named databases are looked up. Without their names a server would open every view of its own databases.
    where = f"IN ({', '.join(map(quoted, sorted(databases)))})"
    tables = server.sql(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
        f"AND table_schema {where} ORDER BY 1, 2"
    )
    listed = [f"{identifier(database)}.{identifier(table)}" for database, table in tables]
    for name in listed:
        shown = str(server.sql(f"SHOW CREATE TABLE {name}")[0][1])
        found[f"{_DEFINITION}{name}"] = _NEXT_NUMBER.sub("", shown)
    for kind, select in _OBJECTS.items():
        for database, name, text in server.sql(f"{select} {where}"):
            found[f"{kind} {identifier(database)}.{identifier(name)}"] = str(text)
    sums = server.sql(f"CHECKSUM TABLE {', '.join(listed)}") if listed else []
    for name, (_, checksum) in zip(listed, sums, strict=True):
        found[f"{TABLE}{name}"] = str(checksum)
    return found


def equal_gtids(one: str, other: str) -> bool:
    """Tell whether two texts denote the same GTID set. Texts that are no GTID sets must be equal."""
    try:
        return parse_gtid_set(one) == parse_gtid_set(other)
    except GtidError:
        return one == other


def differences(
    server: SqlServer, found: Mapping[str, str], reference: SqlServer, expected: Mapping[str, str]
) -> list[str]:
    """Compare the data of two servers, and return the differences as sentences.

    ``found`` is what :func:`read_data` returned for ``server``, and ``expected`` what it returned for ``reference``.
    The reference read the unfiltered source and filters for itself. For each table that differs, both servers are asked
    for the number of rows.
    """
    told = []
    for name in sorted(found.keys() | expected.keys()):
        ours, theirs = found.get(name), expected.get(name)
        # A table that only one side has is told by its rows.
        if ours != theirs and not (name.startswith(_DEFINITION) and (ours is None or theirs is None)):
            has, needs = _shown(server, name, ours, theirs), _shown(reference, name, theirs, ours)
            told.append(f"{server.name}: {name.replace('`', '')}: found {has}, expected {needs}")
    return told


def _shown(server: SqlServer, name: str, value: str | None, other: str | None) -> str:
    if value is None:
        return "absent"
    if name.startswith(TABLE):
        ((rows,),) = server.sql(f"SELECT COUNT(*) FROM {name.removeprefix(TABLE)}")
        return f"{rows} rows with checksum {value}"
    return "present" if other is None else value
