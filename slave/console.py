"""The SQL statements that a slave's console executes: their effects, and the errors with which the slave refuses them.
Among them are the SQL functions that wait for an applier, such as SOURCE_POS_WAIT and WAIT_FOR_EXECUTED_GTID_SET.

The slave answers as MySQL 9.7 does. Error numbers, SQLSTATEs and texts were recorded from such a server and stand in
tests/console/data. docs/console-differences.md lists the statements to which a slave answers differently.
MASTER_GTID_WAIT is MariaDB's function.
"""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import TIMEOUT_MAX
from typing import Any, TypeVar

from dumpfilter import __version__
from dumpfilter.analyse.printing import show_events as events
from dumpfilter.base.errors import GtidError, OptionError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet
from dumpfilter.console.sql import commands as C
from dumpfilter.console.sql import server_errors as E
from dumpfilter.console.sql.columns import BINARY_LOG_STATUS, REPLICA_STATUS, REPLICAS
from dumpfilter.console.sql.functions import number_of
from dumpfilter.console.sql.interruption import held, running_interrupt
from dumpfilter.console.sql.result import OK, Note, Result
from dumpfilter.filter import channels
from dumpfilter.filter.rules import FilterClause
from dumpfilter.slave import facts
from dumpfilter.slave.channels import Channel, Slave
from dumpfilter.slave.relay_log import read_index
from dumpfilter.slave.relay_position import file_number
from dumpfilter.slave.sql_thread import Until, UntilGtids, UntilPosition
from dumpfilter.slave.state import SourceInfo

T = TypeVar("T", bound=GtidSet)

MAX_CHANNELS = 256
"""The largest number of channels of one slave. A MySQL server has the same limit, which it calls ``MAX_CHANNELS``."""

_AFRESH = frozenset({"HOST", "PORT", "LOG_FILE", "LOG_POS"})
"""The options of CHANGE REPLICATION SOURCE TO after which the channel forgets its position in the binlog.

Each of these options names another master or another position in the master's binlog.
"""

_KEPT_AT_0 = ("PORT", "CONNECT_RETRY")
"""The options of CHANGE REPLICATION SOURCE TO whose value 0 changes nothing, as on a server."""


@dataclass(eq=False)
class SlaveConsole(C.Executor):
    """The executor of the SQL statements that clients send to a slave's console."""

    slave: Slave
    replicas: Callable[[], Sequence[tuple[int, str, int, int, str]]] = lambda: ()
    """The function that returns the rows of SHOW REPLICAS, one for each replica that is connected to this slave."""
    port: int = 0
    """The TCP port of the console. Clients read it as the system variable ``@@port``."""

    def execute(self, command: C.Command) -> Result:
        """Execute one parsed SQL statement of a client on the slave, and return its result.

        Raises SqlError with the server's error number when the slave refuses the statement.
        """
        # STOP REPLICA may hold the lock for long. A statement whose client has left must not keep a thread meanwhile.
        try:
            with held(self.slave.lock, running_interrupt()):
                if self.slave.is_closing:
                    # The relay directory may be unlocked, so that no statement may start a thread.
                    raise E.ER_QUERY_INTERRUPTED()
                return super().execute(command)
        except channels.UnknownChannel as error:
            raise E.ER_REPLICA_CHANNEL_DOES_NOT_EXIST(error.channel) from None
        except OptionError as error:
            raise E.ER_WRONG_ARGUMENTS(str(error)) from error

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The tables that SELECT can read on the console, by schema and name, each with the function that returns its
        present rows.
        """
        return {names: partial(rows, self.slave) for names, rows in facts.TABLES.items()}

    @property
    def version(self) -> str:
        """The server version that clients see, such as ``8.4.0-dumpfilter-1.0``, with the version of dumpfilter."""
        return f"8.4.0-dumpfilter-{__version__}"

    def variables(self) -> Mapping[str, str | int]:
        """Return the current values of the system variables that the console knows, by the server's names.

        The method does not wait for a statement that changes the channels.
        """
        options = self.slave.options
        return {
            "server_id": options.server_id,
            "server_uuid": self.slave.uuid,
            "version": self.version,
            "version_comment": f"dumpfilter {__version__}, slave",
            "hostname": socket.gethostname(),
            "port": self.port,
            "report_host": options.report_host,
            "report_port": options.report_port,
            "log_bin": "OFF",
            "relay_log": str(options.relay_dir / "relay-bin"),
            "datadir": str(options.relay_dir),
            "lower_case_table_names": options.lower_case_table_names,
            "replica_net_timeout": int(options.net_timeout),
            "replicate_same_server_id": "ON" if options.replicate_same_server_id else "OFF",
            "sync_relay_log": options.sync_relay_log,
            "gtid_executed": str(facts.executed(map(facts.ChannelView, self.slave.channels)) or ""),
        }

    @property
    def functions(self) -> Mapping[str, Callable[..., int | None]]:
        """The SQL functions that wait until an applier has applied a position or GTID set, such as SOURCE_POS_WAIT, by
        name in lower case. The functions raise SqlError for invalid arguments, and when the statement is interrupted.
        """
        position_wait = partial(_source_pos_wait, self.slave)
        return {
            "source_pos_wait": position_wait,
            "master_pos_wait": position_wait,
            "wait_for_executed_gtid_set": partial(_wait_for_executed_gtid_set, self.slave),
            "master_gtid_wait": partial(_master_gtid_wait, self.slave),
        }

    def _change_replication_filter(
        self, clauses: Sequence[FilterClause], channel: str | None = None
    ) -> Result:
        if channel is not None and channels.fold_channel(channel) in channels.GROUP_REPLICATION_CHANNELS:
            raise E.ER_REPLICA_CHANNEL_OPERATION_NOT_ALLOWED("CHANGE REPLICATION FILTER", channel)
        if channel is not None and not (self.slave.has(channel) and self.slave.get(channel).info.host):
            raise E.ER_REPLICA_CONFIGURATION()
        for one in self.slave.channels if channel is None else [self.slave.get(channel)]:
            if C.Threads.SQL in one.running:
                raise E.ER_REPLICA_CHANNEL_SQL_THREAD_MUST_STOP(one.name)
        self.slave.change_filter(clauses, channel)
        return OK

    def _change_replication_source_to(
        self,
        options: Iterable[tuple[str, Any]],
        clauses: Sequence[FilterClause],
        channel: str | None = None,
        **_: Any,
    ) -> Result:
        name = self._channel_to_configure(channel)
        known = self.slave.get(name) if self.slave.has(name) else None
        if known is not None and known.running:
            if C.Threads.IO in known.running:
                raise E.ER_REPLICA_CHANNEL_IO_THREAD_MUST_STOP(name)
            raise E.ER_REPLICA_CHANNEL_SQL_THREAD_MUST_STOP(name)
        given = {name: value for name, value in options if value or name not in _KEPT_AT_0}
        before = known.info if known is not None else SourceInfo(channel=name)
        info, notes = _changed(before, given, self.slave.options.net_timeout)
        if known is None and len(self.slave.channels) >= MAX_CHANNELS:
            raise E.ER_REPLICA_MAX_CHANNELS_EXCEEDED()
        afresh = bool(_AFRESH & given.keys())
        # SOURCE_HOST or SOURCE_PORT names another master. The old master's binlog files do not exist there.
        is_elsewhere = afresh and not {"LOG_FILE", "LOG_POS"} & given.keys()
        if is_elsewhere or (info.auto_position and not before.auto_position):
            info = info.model_copy(update={"log_file": "", "log_pos": 4})
        self.slave.configure(info, clauses, afresh=afresh)
        return Result(notes=notes)

    def _start_replica(
        self,
        threads: C.Threads = C.Threads.BOTH,
        until: Mapping[str, Any] | None = None,
        user: str | None = None,
        password: str | None = None,
        **chosen_by: Any,
    ) -> Result:
        chosen = self._chosen(**chosen_by)
        if not chosen:
            raise E.ER_BAD_REPLICA()
        if until is not None and threads is C.Threads.IO:
            raise E.ER_BAD_REPLICA_UNTIL_COND()
        if until is not None and len(chosen) > 1:
            raise E.ER_REPLICA_MULTIPLE_CHANNELS_CMD()
        end = None if until is None else _until(until)
        notes: list[Note] = []
        for one in chosen:
            if not one.info.host and C.Threads.IO in threads:
                raise E.ER_BAD_REPLICA()
            if threads in one.running:
                notes.append(E.ER_REPLICA_CHANNEL_WAS_RUNNING.note(one.name))
                continue
            one.start(threads, until=end, user=user, password=password)
        return Result(notes=notes)

    def _stop_replica(self, threads: C.Threads = C.Threads.BOTH, **chosen_by: Any) -> Result:
        chosen = self._chosen(**chosen_by)
        idle = (
            [one.name for one in chosen if not threads & one.running]
            if chosen
            else [channels.DEFAULT_CHANNEL]
        )
        for one in chosen:
            one.request_stop(threads)
        for one in chosen:
            one.stop(threads)
        return Result(notes=[E.ER_REPLICA_CHANNEL_WAS_NOT_RUNNING.note(name) for name in idle])

    def _reset_replica(self, channel: str | None = None, all: bool = False) -> Result:
        chosen = self._chosen(channel)
        for one in chosen:
            if one.running:
                raise E.ER_REPLICA_CHANNEL_MUST_STOP(one.name)
        for one in chosen:
            self.slave.reset(one.name, all=all)
        return OK

    def _show_replica_status(self, old: bool = False, **chosen_by: Any) -> Result:
        # SHOW REPLICA STATUS of a server leaves out channels for which no SOURCE_HOST is set.
        shown = [facts.ChannelView(one) for one in self._chosen(**chosen_by) if one.info.host]
        executed = str(facts.executed(map(facts.ChannelView, self.slave.channels)) or "")
        return Result(
            REPLICA_STATUS[old], [facts.status_row(one, self.slave.filters, executed) for one in shown]
        )

    def _show_replicas(self, old: bool = False) -> Result:
        return Result(REPLICAS[old], list(self.replicas()))

    def _show_binary_log_status(self, old: bool = False) -> Result:
        return Result(BINARY_LOG_STATUS)

    def _change_binlog(self, **_: Any) -> Result:
        raise E.ER_NO_BINARY_LOGGING()

    _show_binary_logs = _change_binlog

    def _purge_binary_logs(self, **_: Any) -> Result:
        # The slave writes no binlog. A server without a binlog accepts PURGE BINARY LOGS and does nothing.
        return OK

    def _show_binlog_events(
        self, relay_log: bool = False, channel: str | None = None, file: str | None = None, **window: int
    ) -> Result:
        if not relay_log:
            return Result(events.COLUMNS)
        if channel is None and any(one.name for one in self.slave.channels):
            # A server counts the default channel even if nobody has configured the default channel. With a named
            # channel there are then several channels, and the statement without FOR CHANNEL is ambiguous.
            raise E.ER_REPLICA_MULTIPLE_CHANNELS_CMD()
        for one in self._chosen(channel):
            files = read_index(one.directory)
            if file is not None and file not in files:
                raise events.no_events("Could not find target log", "SHOW RELAYLOG EVENTS")
            if files:
                family: Family = one.master_info.family or "mysql"
                return events.show_events(one.directory / (file or files[0]), family, **window)
        return Result(events.COLUMNS)

    def _chosen(self, channel: str | None = None, every: bool = False, **_: Any) -> list[Channel]:
        """Return the channels that a statement applies to: all channels, or the channel in its FOR CHANNEL clause.

        ``channel`` is None for a statement without this clause. ``every`` is true for MariaDB's statements for all
        channels, such as START ALL SLAVES. The list is empty when the statement names the default channel and that
        channel is not configured. Raises UnknownChannel for another channel that does not exist.
        """
        if channel is None or every:
            return self.slave.channels
        if channels.fold_channel(channel) == channels.DEFAULT_CHANNEL and not self.slave.has(channel):
            return []
        return [self.slave.get(channel)]

    def _channel_to_configure(self, channel: str | None) -> str:
        if channel is None:
            if any(one.name != channels.DEFAULT_CHANNEL for one in self.slave.channels):
                raise E.ER_REPLICA_MULTIPLE_CHANNELS_CMD()
            return channels.DEFAULT_CHANNEL
        name = channels.fold_channel(channel)
        if name in channels.GROUP_REPLICATION_CHANNELS:
            raise E.ER_REPLICA_CHANNEL_OPERATION_NOT_ALLOWED(
                "CHANGE REPLICATION SOURCE with the given parameters", channel
            )
        if not channels.is_channel_name(name):
            raise E.ER_REPLICA_CHANNEL_NAME_INVALID_OR_TOO_LONG()
        return name


def _changed(
    before: SourceInfo, given: dict[str, Any], net_timeout: float
) -> tuple[SourceInfo, Sequence[Note]]:
    """Return a channel's configuration after CHANGE REPLICATION SOURCE TO, with the notes and warnings for the client.

    ``before`` is the channel's present configuration. ``given`` holds the statement's options by name without
    ``SOURCE_``. The mapping ``given`` is changed in place: USE_GTID becomes AUTO_POSITION, a heartbeat period below a
    millisecond becomes 0, and a new address adds the default heartbeat period. Each option sets the field of
    :class:`SourceInfo` with the same name in lower case. ``net_timeout`` is the slave's network timeout in seconds; a
    longer heartbeat period causes a warning. Raises SqlError for options that the slave must refuse.
    """
    notes: list[Note] = []
    if given.get("HOST") == "":
        raise E.ER_WRONG_ARGUMENTS("SOURCE_HOST")
    # Without these options of TLS the slave would verify less than the user asks for.
    for name in ("DELAY", "SSL_CAPATH", "SSL_CRL", "SSL_CRLPATH"):
        if given.get(name):
            raise E.ER_NOT_SUPPORTED_YET(f"SOURCE_{name}")
    if "USE_GTID" in given:
        given.setdefault("AUTO_POSITION", given.pop("USE_GTID") != "NO")
    places = {"LOG_FILE", "LOG_POS", "RELAY_LOG_FILE", "RELAY_LOG_POS"} & given.keys()
    if given.get("AUTO_POSITION", before.auto_position) and places:
        raise E.ER_BAD_REPLICA_AUTO_POSITION()
    if {"HOST", "PORT"} & given.keys():
        # As on a server, another address brings the default back.
        given.setdefault("HEARTBEAT_PERIOD", net_timeout / 2)
    heartbeat = given.get("HEARTBEAT_PERIOD")
    if heartbeat is not None and 0 < heartbeat < 0.001:
        given["HEARTBEAT_PERIOD"] = 0.0
        notes.append(E.ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE_MIN.warning())
    elif heartbeat is not None and heartbeat > net_timeout:
        notes.append(E.ER_REPLICA_HEARTBEAT_VALUE_OUT_OF_RANGE_MAX.warning())
    if {"USER", "PASSWORD"} & given.keys():
        notes.append(E.ER_INSECURE_CHANGE_SOURCE.note())
    fields = {name: given[name.upper()] for name in SourceInfo.model_fields if name.upper() in given}
    if "port" in fields:
        fields["port"] &= 0xFFFFFFFF
    if {"log_file", "log_pos"} & fields.keys():
        fields["log_pos"] = max(fields.get("log_pos", 0), FIRST_EVENT)
    info = SourceInfo.model_validate(before.model_dump() | fields, strict=False)
    notes += _tls_notes({name: value for name, value in given.items() if name.startswith("SSL")}, info)
    for name in sorted(given):
        if name.lower() not in fields and given[name] not in (0, "", None, ()):
            notes.append(Note("Warning", 1235, f"dumpfilter has no use for {name}; it is ignored"))
    return info, notes


def _tls_notes(given: Mapping[str, Any], info: SourceInfo) -> Iterator[Note]:
    """Yield a warning when a statement with TLS options leaves the connection to the master without encryption or
    verification. ``given`` has the statement's TLS options by name without ``SOURCE_``. ``info`` is the channel's
    configuration after the statement.
    """
    if info.tls is None and any(given.values()):
        named = ", ".join(f"SOURCE_{name}" for name in sorted(given))
        text = f"SOURCE_SSL is 0: the connection to the master is not encrypted, and {named} has no effect"
        yield E.ER_UNKNOWN_ERROR.warning(text)
    elif given and info.tls is not None and info.tls.mode is TlsMode.REQUIRED:
        text = (
            "There is no SOURCE_SSL_CA: the connection is encrypted, but the master's certificate is not verified. "
            "Somebody in between can read and change everything."
        )
        yield E.ER_UNKNOWN_ERROR.warning(text)


def _until(until: Mapping[str, Any]) -> Until:
    """Return the condition at which START REPLICA UNTIL stops the applier, as an object that the applier asks at each
    transaction boundary.

    ``until`` has the parsed UNTIL clause, by the names of the parameters of :class:`UntilPosition` or
    :class:`UntilGtids`. Raises SqlError for a malformed GTID set.
    """
    try:
        return UntilPosition(**until) if "log" in until else UntilGtids(**until)
    except GtidError as error:
        raise E.ER_MALFORMED_GTID_SET_SPECIFICATION(until["gtids"]) from error


Value = int | float | str | None
"""The type of an argument of an SQL function."""


def _source_pos_wait(
    slave: Slave, file: Value, position: Value, timeout: Value = 0, channel: Value = ""
) -> int | None:
    name = None if channel is None else channels.fold_channel(str(channel))
    found = next((one for one in slave.channels if one.name == name), None)
    seconds = number_of(timeout)
    if seconds < 0:
        raise E.ER_WRONG_ARGUMENTS("SOURCE_POS_WAIT.")
    offset = math.floor(number_of(position) + 0.5)
    # A file without a number at its end is no binlog file.
    if found is None or not found.sql.works or offset < 0 or not re.search(r"\.[0-9]+\Z", str(file)):
        return None
    base, wanted = str(file).rpartition(".")[0], (file_number(str(file)), max(offset, FIRST_EVENT))
    reached: bool | None = False
    advances = -1

    def ask() -> bool:
        nonlocal reached, advances
        advances += 1
        applied = found.relay_log_info
        reached = (file_number(applied.source_file), applied.source_position) >= wanted
        # The applier never comes to a file whose name is not one of this master's.
        if applied.source_file.rpartition(".")[0] not in ("", base):
            reached = None
        return reached is not False or not found.sql.works

    if not _wait_until(slave, ask, seconds or math.inf):
        return -1
    return advances if reached else None


def _wait_for_executed_gtid_set(slave: Slave, gtids: Value, timeout: Value = 0) -> int:
    shown = "NULL" if gtids is None else str(gtids)
    try:
        wanted = MysqlGtidSet.parse(shown)
    except GtidError as error:
        raise E.ER_MALFORMED_GTID_SET_SPECIFICATION(shown) from error
    if timeout is None or number_of(timeout) < 0:
        raise E.ER_WRONG_ARGUMENTS("WAIT_FOR_EXECUTED_GTID_SET.")

    def has_all() -> bool:
        return bool(_executed(slave, MysqlGtidSet).issuperset(wanted))

    return 0 if _wait_until(slave, has_all, number_of(timeout) or math.inf) else 1


def _master_gtid_wait(slave: Slave, gtids: Value, timeout: Value = None) -> int | None:
    if gtids is None:
        return None
    try:
        wanted = MariadbGtidSet.parse(str(gtids))
    except GtidError as error:
        raise E.ER_MARIADB_INCORRECT_GTID_STATE() from error

    def has_all() -> bool:
        here = {gtid.domain_id: gtid.seq_no for gtid in _executed(slave, MariadbGtidSet).gtids()}
        return all(here.get(gtid.domain_id, 0) >= gtid.seq_no for gtid in wanted.gtids())

    # A negative timeout is none, and 0 does not wait.
    seconds = math.inf if timeout is None or number_of(timeout) < 0 else number_of(timeout)
    return 0 if _wait_until(slave, has_all, seconds) else -1


def _executed(slave: Slave, kind: type[T]) -> T:
    return facts.executed(map(facts.ChannelView, slave.channels), kind) or kind()


def _wait_until(slave: Slave, ask: Callable[[], bool], timeout: float) -> bool:
    """Wait until the function ``ask`` returns true, and return its last result. ``ask`` is called at once, and whenever
    an applier has completed a transaction or has ended.

    The wait ends after ``timeout`` seconds. Raises SqlError 1317 when the running statement is interrupted or the slave
    stops, and 3024 after the statement's time limit.
    """
    interrupt = running_interrupt()
    limit = interrupt.deadline - time.monotonic()

    def is_over() -> bool:
        return interrupt.is_set() or slave.is_closing

    interrupt.on_set = slave.progress.told
    answer = slave.progress.until(lambda: is_over() or ask(), min(timeout, limit, TIMEOUT_MAX))
    if is_over():
        raise E.ER_QUERY_INTERRUPTED()
    # The statement's limit ends it with an error, and the function's own timeout with a value.
    if not answer and limit < timeout:
        raise E.ER_QUERY_TIMEOUT()
    return answer
