"""The columns and metrics of a slave's channels and their threads. Each is declared once.

The rows of SHOW REPLICA STATUS, the tables of performance_schema and dumpfilter, the metrics and docs/metrics.md are
made from these declarations. Names and types of the columns that a MySQL server shows, too, are in
:mod:`dumpfilter.console.sql.columns`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dumpfilter.base import errors as E
from dumpfilter.console.facts import Fact, Facts, Latency, column, metric
from dumpfilter.console.sql.columns import PERFORMANCE_SCHEMA, REPLICA_STATUS
from dumpfilter.console.sql.result import ZERO_TIMESTAMP, Column, ColumnType, Result
from dumpfilter.filter.rules import RuleKind
from dumpfilter.slave.relay_position import RelayLag, file_number, relay_lag
from dumpfilter.slave.state import CountersInfo, MasterInfo, RelayLogInfo, SourceInfo

# The status of a relay directory imports this module, and must not wait for packages that only a running slave needs.
if TYPE_CHECKING:
    from dumpfilter.binlog.gtid import GtidSet
    from dumpfilter.filter.channels import ChannelFilters, Setting
    from dumpfilter.slave.channels import Channel, Slave
    from dumpfilter.slave.threads import ChannelThread

_TEXT = ColumnType.TEXT

CR_CONN_HOST_ERROR = 2003
CR_SSL_CONNECTION_ERROR = 2026

_Numbers = tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...]

_IO_NUMBERS: _Numbers = (
    (E.TlsError, CR_SSL_CONNECTION_ERROR),
    (E.ConnectionLost, CR_CONN_HOST_ERROR),
    (E.RegistrationRefused, 1597),  # ER_REPLICA_SOURCE_COM_FAILURE
    ((E.BinlogError, E.DumpTakenOver), 1236),  # ER_SOURCE_FATAL_ERROR_READING_BINLOG
    (E.DumpfilterError, 1593),  # ER_REPLICA_FATAL_ERROR
    (BaseException, 1595),  # ER_REPLICA_RELAY_LOG_WRITE_FAILURE
)
"""The error numbers that a server shows for errors that end the I/O thread. The first entry with a matching class is
used.
"""

_SQL_NUMBERS: _Numbers = (
    (E.SlaveIncident, 1590),  # ER_REPLICA_INCIDENT
    (E.BinlogError, 1594),  # ER_REPLICA_RELAY_LOG_READ_FAILURE
    (BaseException, 1593),  # ER_REPLICA_FATAL_ERROR
)
"""The error numbers that a server shows for errors that end the applier. The first entry with a matching class is
used.
"""


class ThreadView(NamedTuple):
    """The state of one of a channel's two threads (I/O thread or applier) at one moment, with its newest error.

    Without an error ``number`` (the server's error number) is 0, ``text`` is empty, and ``at`` (the time) is 0.
    """

    channel: str
    thread: str
    running: bool
    errors: int
    """The number of errors of the thread since the channel was first started."""
    number: int = 0
    text: str = ""
    at: float = 0.0
    """The Unix time of the newest error, seconds; 0 without an error."""


@dataclass
class StoredChannel:
    """The state of a channel that can be read from its files, even if the slave does not run: configuration, counts,
    and the positions of both threads.
    """

    directory: Path
    info: SourceInfo
    # The applier's place is read first, so that everything applied has also been received.
    applied: RelayLogInfo
    received: MasterInfo
    counted: CountersInfo
    """The channel's counts of connections, messages, bytes and events since it was first started."""

    @classmethod
    def read(cls, directory: Path) -> StoredChannel:
        """Return the state of a channel, read from the state files in its directory. Raises StateCorrupt for an
        unusable file.
        """
        source, applied = SourceInfo.read(directory), RelayLogInfo.read(directory)
        return cls(directory, source, applied, MasterInfo.read(directory), CountersInfo.read(directory))

    @property
    def executed(self) -> GtidSet | None:
        """The GTIDs of the transactions that the channel has applied, or that the master dropped. None before the first
        stream, as long as it is unknown whether the servers are MySQL or MariaDB.
        """
        from dumpfilter.binlog.gtid import parse_gtid_set

        family = self.received.family
        return parse_gtid_set(self.applied.executed, family) if family else None

    def count(self, name: str) -> int:
        """Return the count called ``name`` of this channel, such as ``chunks`` (messages of the master's stream), since
        the channel was first started. Return 0 if nothing was counted by this name.
        """
        return self.counted.counts.get(name, 0)

    @cached_property
    def lag(self) -> RelayLag:
        """The number and size of the channel's relay log files, and how far the applier is behind: the size and the age
        of the received events that are not applied.
        """
        return relay_lag(
            self.directory, self.applied.relay_position, self.received.relay_position, time.time()
        )


class ChannelView(StoredChannel):
    """The state of a channel of a running slave at one moment: the state of its files and of its threads. The columns
    of status tables and the metrics are computed from this state.
    """

    def __init__(self, channel: Channel) -> None:
        applied, received = channel.relay_log_info, channel.master_info
        super().__init__(channel.directory, channel.info, applied, received, channel.counters.info)
        self.channel = channel

    @cached_property
    def io(self) -> ThreadView:
        """The state of the I/O thread. If no error has ended the thread, its newest error is the reason of the last
        failed attempt to connect.
        """
        return self._view("io", self.channel.io, _IO_NUMBERS)

    @cached_property
    def sql(self) -> ThreadView:
        """The state of the applier (SQL thread), with the error that ended the thread."""
        return self._view("sql", self.channel.sql, _SQL_NUMBERS)

    def _view(self, name: str, thread: ChannelThread, numbers: _Numbers) -> ThreadView:
        view = ThreadView(self.info.channel, name, thread.running, self.count(f"{name}_errors"))
        failure = thread.failure
        if failure is None:
            return view
        number = next(number for kinds, number in numbers if isinstance(failure, kinds))
        return view._replace(number=number, text=str(failure), at=thread.failed_at)

    @property
    def io_running(self) -> str:
        """``Replica_IO_Running`` of SHOW REPLICA STATUS: "Yes", "No" or "Connecting"."""
        if not self.channel.io.running:
            return "No"
        return "Yes" if self.channel.io.connected else "Connecting"

    @property
    def sql_running(self) -> str:
        """``Replica_SQL_Running`` of SHOW REPLICA STATUS: "Yes" or "No"."""
        return "Yes" if self.sql.running else "No"

    @property
    def seconds_behind(self) -> int | None:
        """The value of ``Seconds_Behind_Source``, in whole seconds: the time since the server wrote the first received
        event that the applier has not applied yet. The value is 0 if everything received is applied and the I/O thread
        is connected.

        As in a server, the value is None (NULL) while the applier is stopped. The value is also None if the applier has
        applied everything and the I/O thread has no connection. If nothing was ever received, the value is 0 while the
        applier runs.
        """
        if not self.sql.running:
            return None
        if not self.lag.lag_bytes:
            return 0 if self.channel.io.connected or self.received.relay_position is None else None
        return None if self.lag.lag_seconds is None else int(self.lag.lag_seconds)


class Threads(
    Facts[ThreadView],
    prefix="dumpfilter_slave_",
    labels={"channel": lambda view: view.channel, "thread": lambda view: view.thread},
):
    """The metrics of each of a channel's two threads, the I/O thread and the applier (SQL thread)."""

    thread_running = metric("running")
    """1 while the thread runs. The I/O thread is io, the applier sql."""
    errors_total = metric("errors")
    """Errors of the thread, with lost connections and failed attempts to connect."""
    last_error_number = metric("number")
    """Number of the newest error, as in SHOW REPLICA STATUS; 0 without one."""
    last_error_timestamp_seconds = metric(lambda view: view.at or None)
    """Unix time of the newest error; no value without one."""


def _count(name: str, metric: str = "") -> Fact:
    """Declare a column of the table ``dumpfilter.channels``. The column shows the channel's count called ``name``, such
    as ``bytes_read``.

    With ``metric`` the value is also a Prometheus metric, called ``dumpfilter_slave_`` followed by ``metric``. With the
    empty text there is no metric.
    """
    return column(lambda view: view.count(name), metric=metric)


class Channels(
    Facts[StoredChannel], prefix="dumpfilter_slave_", labels={"channel": attrgetter("info.channel")}
):
    """The columns of the table ``dumpfilter.channels``, which shows a slave's channels, and the metrics of each
    channel. The counts outlive connections and restarts.
    """

    CHANNEL_NAME = column("info.channel", _TEXT)
    SOURCE = column(lambda view: view.info.host and view.info.address, _TEXT)
    IO_RUNNING = column("io_running", _TEXT)
    SQL_RUNNING = column("sql_running", _TEXT)
    IO_ERROR = column("io.text", _TEXT)
    SQL_ERROR = column("sql.text", _TEXT)
    RECEIVED_FILE = column("received.source_file", _TEXT)
    RECEIVED_POSITION = column("received.source_position", metric="received_position_bytes")
    """Position in the binlog that the channel has received."""
    APPLIED_FILE = column("applied.source_file", _TEXT)
    APPLIED_POSITION = column("applied.source_position", metric="applied_position_bytes")
    """Position in the binlog that the applier has applied."""
    RELAY_FILE = column("applied.relay_file", _TEXT)
    RELAY_POSITION = column("applied.relay_offset")
    RETRIEVED_GTIDS = column("received.retrieved", _TEXT)
    EXECUTED_GTIDS = column("applied.executed", _TEXT)
    FILTER_ON = column("info.filter_on", _TEXT)
    FILTER_SEMANTICS = column(lambda view: _semantics(view.channel), _TEXT)
    IMPOSED_BY = column(lambda view: ",".join(one.name for one in view.channel.imposed), _TEXT)
    IMPOSED_RULES = column(lambda view: " ".join(imposed_rules(view.channel)), _TEXT)
    CONNECTIONS = _count("connections", "connections_total")
    """Connections on which a dump began."""
    CHUNKS = _count("chunks", "messages_received_total")
    """Messages of the master's stream, heartbeats included."""
    BYTES_RECEIVED = _count("bytes_received", "bytes_received_total")
    """Bytes of events received."""
    BYTES_READ = _count("bytes_read", "master_bytes_read_total")
    """Bytes of events that the master read for the channel."""
    BYTES_DROPPED = _count("bytes_dropped", "master_bytes_dropped_total")
    """Bytes of events that the master dropped for the channel."""
    BYTES_SENT = _count("bytes_sent")
    EVENTS_READ = _count("events_read")
    EVENTS_SENT = _count("events_sent", "events_received_total")
    """Events received."""
    EVENTS_DROPPED = _count("events_dropped", "master_events_dropped_total")
    """Events that the master dropped for the channel."""
    EVENTS_UNDECIDED = _count("events_undecided", "events_undecided_total")
    """Events received because the master could not decide whether the filter drops them."""
    HEARTBEATS = _count("heartbeats", "heartbeats_received_total")
    """Heartbeats of the master."""
    TRANSACTIONS_READ = _count("transactions_read")
    TRANSACTIONS_DROPPED = _count("transactions_dropped")
    IO_ERRORS = _count("io_errors")
    SQL_ERRORS = _count("sql_errors")
    COUNTING_SINCE = column("counted.since", ColumnType.TIMESTAMP)
    LAG_BYTES = column("lag.lag_bytes", metric="lag_bytes")
    """Bytes of the relay log that the applier has not applied."""
    LAG_SECONDS = column("lag.lag_seconds", ColumnType.DOUBLE, metric="lag_seconds")
    """Time since the server wrote the first event that is received and not applied."""
    connected = metric(lambda view: float(view.channel.io.connected))
    """1 while the channel receives a dump."""
    last_message_timestamp_seconds = metric(lambda view: view.channel.counters.last_chunk_at or None)
    """Unix time of the newest message, heartbeats included; no value before the first."""
    received_file_number = metric(lambda view: file_number(view.received.source_file) or None)
    """Number of the binlog up to which the channel has received everything."""
    applied_file_number = metric(lambda view: file_number(view.applied.source_file) or None)
    """Number of the binlog up to which the applier has applied everything."""
    relay_log_bytes = metric("lag.bytes")
    """Size of all relay log files of the channel."""
    relay_log_files = metric("lag.files")
    """Relay log files of the channel."""
    events_filtered_total = metric("channel.measured.events_filtered")
    """Row events and statements that the slave's own filter dropped."""
    transactions_applied_total = metric("channel.measured.transactions")
    """Transactions that the applier has completed."""
    relay_delay_seconds = metric("channel.measured.relay_delay", Latency)
    """Time from the commit of the first transaction in a master's message until the message is in the relay log."""
    apply_delay_seconds = metric("channel.measured.apply_delay", Latency)
    """Time from a transaction's commit on the server until the slave has applied the transaction. Of several that
    are applied without a pause, only the last is measured."""


def _semantics(channel: Channel) -> str | None:
    # The table is read without a lock. RESET REPLICA ALL may have removed the channel's filter meanwhile.
    with suppress(E.OptionError):
        return channel.semantics.value.upper()
    return None


STORED = {column.name for column in Channels.columns} - {
    *("IO_RUNNING", "SQL_RUNNING", "IO_ERROR", "SQL_ERROR"),
    *("FILTER_SEMANTICS", "IMPOSED_BY", "IMPOSED_RULES", "COUNTING_SINCE"),
}
"""The names of the columns of :class:`Channels` that can be read from a slave's files (:class:`StoredChannel`). The
time COUNTING_SINCE is left out, although a file has it, because the console shows it as text and not as a number.
"""


class FilterHits(Facts[tuple[str, str, int]]):
    """The table ``dumpfilter.filter_hits``: the number of uses (matches with events) of each kind of filter rule since
    the channel was first started.

    A row is a tuple of the channel's name, the kind's option such as ``replicate-do-db``, and the number of uses.
    Unlike COUNTER of ``replication_applier_filters``, the numbers survive a change of the filter and a restart.
    """

    CHANNEL_NAME = column(itemgetter(0), _TEXT)
    RULE_KIND = column(itemgetter(1), _TEXT)
    HITS = column(itemgetter(2))


class Process(Facts[Latency], prefix="dumpfilter_slave_"):
    """The metrics about the slave's process as a whole, not about one channel: the latency of syncs to the disk."""

    sync_seconds = metric(lambda latency: latency, Latency)
    """Time of a synchronization of a relay log or state file (fdatasync)."""


METRICS: tuple[type[Facts[Any]], ...] = (Threads, Channels, Process)
"""The groups of metrics of a slave, in the order of docs/metrics.md."""


_NO_VALUES = {ColumnType.TEXT: "", ColumnType.INTEGER: 0, ColumnType.TIMESTAMP: ZERO_TIMESTAMP}
"""The values, by the column's type, that a server's table shows in the columns for which the slave has no value."""


def _row(columns: Iterable[Column], values: Mapping[str, Any]) -> list[Any]:
    """Return a row of a server's table with the given ``columns``. ``values`` has the values of some columns by name.
    Each other column gets an empty text, 0 or the zero timestamp, by its type.
    """
    return [values[one.name] if one.name in values else _NO_VALUES[one.type] for one in columns]


def status_row(view: ChannelView, filters: ChannelFilters, executed: str) -> list[Any]:
    """Return the values of one channel's row in SHOW REPLICA STATUS, in the order of the columns. ``view`` is a
    snapshot of the channel's state.

    ``filters`` has the filter rules of all channels. ``executed`` is the GTID set that all channels of the slave
    together have applied. A server shows this set for every channel.
    """
    info, channel, relay, master = view.info, view.channel, view.applied, view.received
    until = ("None", "", 0) if channel.sql.until is None else channel.sql.until.shown
    rules = {setting.kind: setting.rule_text for setting in filters.settings(info.channel)}
    values: dict[str, Any] = {
        "Replica_IO_State": channel.io.state if view.io.running else "",
        "Source_Host": info.host,
        "Source_User": info.user,
        "Source_Port": info.port,
        "Connect_Retry": math.ceil(info.connect_retry),
        "Source_Log_File": master.source_file or info.log_file,
        "Read_Source_Log_Pos": master.source_position or info.log_pos,
        "Relay_Log_File": relay.relay_file or "relay-bin.000001",
        "Relay_Log_Pos": relay.relay_offset or 4,
        "Relay_Source_Log_File": relay.source_file or info.log_file,
        "Replica_IO_Running": view.io_running,
        "Replica_SQL_Running": view.sql_running,
        **{kind.status_column: rules.get(kind, "") for kind in RuleKind},
        "Last_Errno": view.sql.number,
        "Last_Error": view.sql.text,
        "Exec_Source_Log_Pos": relay.source_position or (info.log_pos if info.log_file else 0),
        "Relay_Log_Space": view.lag.bytes,
        **dict(zip(("Until_Condition", "Until_Log_File", "Until_Log_Pos"), until, strict=True)),
        "Source_SSL_Allowed": "Yes" if info.ssl else "No",
        "Source_SSL_CA_File": info.ssl_ca,
        "Source_SSL_Cert": info.ssl_cert,
        "Source_SSL_Key": info.ssl_key,
        "Seconds_Behind_Source": view.seconds_behind,
        "Source_SSL_Verify_Server_Cert": "Yes" if info.verifies_host else "No",
        "Last_IO_Errno": view.io.number,
        "Last_IO_Error": view.io.text,
        "Last_SQL_Errno": view.sql.number,
        "Last_SQL_Error": view.sql.text,
        "Replicate_Ignore_Server_Ids": ", ".join(map(str, sorted(set(info.ignore_server_ids)))),
        "Source_Server_Id": channel.master_server_id,
        "Source_UUID": master.master_uuid,
        "Source_Info_File": str(channel.directory / "source.info"),
        "SQL_Remaining_Delay": None,
        "Replica_SQL_Running_State": (
            "Replica has read all relay log; waiting for more updates" if view.sql.running else ""
        ),
        "Source_Retry_Count": info.retry_count,
        "Last_IO_Error_Timestamp": _short_time(view.io.at),
        "Last_SQL_Error_Timestamp": _short_time(view.sql.at),
        "Retrieved_Gtid_Set": master.retrieved,
        "Executed_Gtid_Set": executed,
        "Auto_Position": int(info.auto_position),
        "Channel_Name": info.channel,
    }
    return _row(REPLICA_STATUS[False], values)


def executed(channels: Iterable[ChannelView], kind: type[object] = object) -> Any:
    """Return the set of GTIDs that all channels together have applied (``gtid_executed``). Return None if no channel
    has applied a transaction with a GTID.

    GTIDs of MySQL and MariaDB cannot be in one set. ``kind`` is the class of the wanted set. With ``object``, the first
    channel that has GTIDs decides the class. Channels whose set has another class are left out.
    """
    found = [gtids for one in channels if (gtids := one.executed) and isinstance(gtids, kind)]
    for more in found[1:]:
        if type(more) is type(found[0]):
            found[0].update(more)
    return found[0] if found else None


def _filter_row(setting: Setting) -> list[Any]:
    return [setting.kind.sql_name, setting.rule_text, setting.configured_by.value, setting.active_since]


def _filter_rows(slave: Slave) -> Iterator[list[Any]]:
    """Yield the rows of ``replication_applier_filters``: each channel's filter rules by kind, with the number of events
    that matched each (section E of MySQL's worklog WL#7361).
    """
    for name in slave.filters.channels:
        # The table is read without a lock. RESET REPLICA ALL may have removed the channel meanwhile.
        with suppress(E.OptionError):
            for setting in slave.filters.settings(name):
                yield [name, *_filter_row(setting), setting.counter]


def _connection_row(view: ChannelView) -> list[Any]:
    """Return a channel's row of ``replication_connection_status``, with the state, the GTIDs and the error of the I/O
    thread.
    """
    channel, io = view.channel, view.io
    values = {
        "CHANNEL_NAME": view.info.channel,
        "SOURCE_UUID": view.received.master_uuid,
        "THREAD_ID": channel.io.thread_id if channel.io.connected else None,
        "SERVICE_STATE": {"Yes": "ON", "No": "OFF", "Connecting": "CONNECTING"}[view.io_running],
        "COUNT_RECEIVED_HEARTBEATS": channel.counters.received["heartbeats"],
        "LAST_HEARTBEAT_TIMESTAMP": _long_time(channel.counters.last_heartbeat_at),
        "RECEIVED_TRANSACTION_SET": view.received.retrieved,
        "LAST_ERROR_NUMBER": io.number,
        "LAST_ERROR_MESSAGE": io.text,
        "LAST_ERROR_TIMESTAMP": _long_time(io.at),
    }
    return _row(PERFORMANCE_SCHEMA["replication_connection_status"], values)


def _configuration_row(info: SourceInfo) -> list[Any]:
    """Return a channel's row of ``replication_connection_configuration``, with the options of its connection to the
    master.
    """
    return [
        *(info.channel, info.host, info.port, info.user, "", str(int(info.auto_position))),
        *("YES" if info.ssl else "NO", info.ssl_ca, "", info.ssl_cert, "", info.ssl_key),
        *("YES" if info.verifies_host else "NO", "", ""),
        *(math.ceil(info.connect_retry), info.retry_count, info.heartbeat_period),
        *("", "", "NO", "", "uncompressed", 3, None, "0", "0"),
    ]


_ROWS: Mapping[str, Callable[[Slave], Iterable[list[Any]]]] = {
    "replication_applier_filters": _filter_rows,
    # The rules that new channels start with (WL#7361 F).
    "replication_applier_global_filters": lambda slave: map(_filter_row, slave.filters.settings(None)),
    "replication_connection_status": lambda slave: map(_connection_row, map(ChannelView, slave.channels)),
    "replication_connection_configuration": lambda slave: (
        _configuration_row(one.info) for one in slave.channels
    ),
    # The slave has none of the options that this table shows, such as a delay.
    "replication_applier_configuration": lambda slave: (
        [one.name, 0, None, "NO", "STREAM", "OFF", None] for one in slave.channels
    ),
    "replication_applier_status": lambda slave: (
        [one.name, "ON" if one.sql.running else "OFF", None, 0] for one in slave.channels
    ),
}
"""The function that returns the rows, for each replication table of the performance_schema."""


def _server_table(name: str) -> Callable[[Slave], Result]:
    return lambda slave: Result(PERFORMANCE_SCHEMA[name], list(_ROWS[name](slave)))


TABLES: Mapping[tuple[str, str], Callable[[Slave], Result]] = {
    **{("performance_schema", name): _server_table(name) for name in PERFORMANCE_SCHEMA},
    ("dumpfilter", "channels"): lambda slave: Channels.table(map(ChannelView, slave.channels)),
    ("dumpfilter", "filter_hits"): lambda slave: FilterHits.table(
        (one.name, option, count)
        for one in slave.channels
        for option, count in sorted(one.counters.info.hits.items())
    ),
}
"""The tables that a client of the console can SELECT from, by schema and name."""


def imposed_rules(channel: Channel) -> list[str]:
    """Return the rules of all filters that the master's operator has set for this slave's channel.

    Each rule is text in the spelling of the command line, such as ``--replicate-do-db=shop``.
    """
    # The status of a directory does without the code of protocol buffers, which takes 0.05 s to import.
    from dumpfilter.filter.convert import filter_from_proto

    return [str(rule) for one in channel.imposed for rule in filter_from_proto(one.filter).rules]


def _short_time(when: float) -> str:
    return datetime.fromtimestamp(when).strftime("%y%m%d %H:%M:%S") if when else ""


def _long_time(when: float) -> datetime | str:
    return datetime.fromtimestamp(when, UTC) if when else ZERO_TIMESTAMP
