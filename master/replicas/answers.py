"""The client protocol between replicas and their source: queries before a dump, requests for a dump, and errors.

Replicas and programs like mysqlbinlog send few queries before they ask for a dump. They set or read session variables
for heartbeats, checksums, identity and GTIDs, or read system variables of the source. The SQL console executes these
queries. :class:`Source` has the variables and functions that only they need. There are no variables of semi-synchronous
replication, because the master cannot confirm a commit of the source. So replicas send no acknowledgements.

A replica registers (COM_REGISTER_SLAVE), and then asks for a dump: MySQL by COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID,
MariaDB always by COM_BINLOG_DUMP. A replica names GTIDs, or a file and a position. MariaDB's replicas put the GTIDs
that they have into session variables before. The position may lie inside a transaction, because a replica counts single
events. After a connection was lost inside a transaction, the replica asks for the events after its last one.

A replica stops at error 1236, and shows the text in its status. After most other errors it tries again. So 1236 is for
errors that an operator must solve.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogMissing,
    BinlogUnreadable,
    DumpfilterError,
    GtidError,
    PositionError,
)
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.base.printable import printable
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet
from dumpfilter.binlog.gtid_events import decode_previous_gtids, previous_gtids_count
from dumpfilter.binlog.rows.table import describe_table
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.wire import Fields, MalformedPacket
from dumpfilter.index.fileset import add_transactions
from dumpfilter.index.segment import Segment
from dumpfilter.master.dump_start import (
    DumpStart,
    ReplicaAhead,
    Wanted,
    check_no_hole,
    find_position,
    is_event,
    is_gap,
    start_after,
)
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Drained, Peer

MAX_FILE_NAME = 512
"""The longest name of a binlog file that a request may have, bytes (``FN_REFLEN`` in the servers' source)."""

MAX_GTID_SOURCES = 4096
"""The largest number of UUIDs (or UUID and tag) in the GTID set of a request. Each takes memory as long as the dump
runs.
"""

_SHORTEST_SOURCE = 24
"""The smallest number of bytes of a UUID with its intervals in an encoded GTID set."""
FATAL = 1236
"""The number of the error that makes a replica stop replication (ER_MASTER_FATAL_ERROR_READING_BINLOG)."""


NON_BLOCK = 1
"""The flag of a request for a dump that ends at the end of the binlog (``BINLOG_DUMP_NON_BLOCK``)."""
HEARTBEAT_V2 = 2
"""MySQL's flag of a request by a replica that knows heartbeats of version 2 (``USE_HEARTBEAT_EVENT_V2``)."""
ANNOTATE_ROWS = 2
"""MariaDB's flag of a request by a replica that wants Annotate_rows events (``BINLOG_SEND_ANNOTATE_ROWS_EVENT``)."""


@dataclass(frozen=True)
class DumpRequest:
    """The content of COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID: server id, flags, and the position or the GTIDs at which
    the dump begins.
    """

    server_id: int
    flags: int
    """Flags such as NON_BLOCK. The flag 2 is HEARTBEAT_V2 in a request to MySQL, and ANNOTATE_ROWS in a request to
    MariaDB.
    """
    wanted: Wanted


def fatal(text: str) -> SqlError:
    """Return error 1236 with this text, to end or refuse a dump. A replica that receives it stops, and shows the text
    in its status.
    """
    return SqlError(FATAL, "HY000", text)


def parse_register_replica(data: bytes) -> Peer:
    """Parse the command COM_REGISTER_SLAVE, by which a replica states its server id, host and port for SHOW REPLICAS.
    ``data`` is the packet after the command byte. Raises MalformedPacket if the packet ends too early.
    """
    fields = Fields(data)
    server_id = fields.uint(4)
    host = _short_text(fields)
    # The options report_user and report_password say how clients could log in to the replica. Nobody needs them here.
    _short_text(fields)
    _short_text(fields)
    port = fields.uint(2)
    # The replication rank and the source's server id have had no meaning since MySQL 4.
    fields.take(8)
    return Peer(server_id=server_id, host=printable(host), port=port)


def parse_binlog_dump(data: bytes) -> DumpRequest:
    """Parse the command COM_BINLOG_DUMP, by which a replica asks for events from a file and position. ``data`` is the
    packet after the command byte.

    Raises MalformedPacket if the packet ends too early or the file name is too long.
    """
    fields = Fields(data)
    position = fields.uint(4)
    flags = fields.uint(2)
    server_id = fields.uint(4)
    return DumpRequest(server_id, flags, Wanted(None, _file_name(fields.read()), position))


def parse_binlog_dump_gtid(data: bytes) -> DumpRequest:
    """Parse the command COM_BINLOG_DUMP_GTID, by which a MySQL replica asks for the transactions that its GTID set
    lacks. ``data`` is the packet after the command byte.

    Raises MalformedPacket if the packet ends too early or the file name is too long. Raises SqlError 1236 for a GTID
    set of too many servers, and SqlError 1773 for a GTID set that cannot be parsed.
    """
    fields = Fields(data)
    flags = fields.uint(2)
    server_id = fields.uint(4)
    file = _file_name(fields.take(fields.uint(4)))
    position = fields.uint(8)
    encoded = fields.take(fields.uint(4))
    number = previous_gtids_count(encoded)
    # A number that the bytes cannot hold is an error of the encoding.
    if MAX_GTID_SOURCES < number <= len(encoded) // _SHORTEST_SOURCE:
        raise fatal(
            f"The replica's GTID set names {number} servers; the master serves sets of at most {MAX_GTID_SOURCES}"
        )
    try:
        gtid_set = decode_previous_gtids(encoded)
    except BinlogCorrupt as error:
        raise SqlError(1773, "HY000", f"Malformed GTID set encoding. {error}") from None
    return DumpRequest(server_id, flags, Wanted(gtid_set, file, position))


def parse_connect_state(text: str) -> MariadbGtidSet:
    """Parse the GTIDs that a MariaDB replica has, from its variable ``@slave_connect_state``, such as ``0-1-5,1-2-7``.

    Raises SqlError 1236, with MariaDB's text, for a malformed GTID list.
    """
    try:
        return MariadbGtidSet.parse(text)
    except GtidError as error:
        raise fatal(
            f"Out of memory or malformed slave request when obtaining start position from GTID state ({error})"
        ) from None


def _short_text(fields: Fields) -> str:
    return fields.take(fields.uint(1)).decode("utf-8", "replace")


def _file_name(data: bytes) -> str:
    """Return the name of a binlog file in a request, without a NUL at its end. Raises MalformedPacket for a name that
    is too long.
    """
    if len(data) > MAX_FILE_NAME:
        raise MalformedPacket
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


MOST_TEXT = 480
"""The longest error text, bytes. Replicas store 512 bytes (``MYSQL_ERRMSG_SIZE``)."""

_LONGEST_OF_SERVERS = 511
"""The length to which servers cut the texts of their own errors, bytes."""

_ER_CON_COUNT_ERROR = 1040
_SERVER_SHUTDOWN = 1053
_ER_UNKNOWN_ERROR = 1105

_MOMENTARY = {
    "UNAVAILABLE": _ER_UNKNOWN_ERROR,
    "RESOURCE_EXHAUSTED": _ER_CON_COUNT_ERROR,
    **dict.fromkeys(("ALREADY_EXISTS", "NOT_FOUND", "ABORTED"), _ER_UNKNOWN_ERROR),
}
"""The gRPC status codes of errors after which a replica shall try again, each with the MySQL error number for it."""


class Said(enum.Enum):
    """The kinds of replication errors (number 1236) that a source sends to a replica. Each value is a pair: the error
    text of MySQL, and the error text of MariaDB.
    """

    SAME_REPLICA = (
        "A replica with the same server_uuid/server_id as this replica has connected to the source",
        "A slave with the same server_uuid/server_id as this slave has connected to the master",
    )
    NO_CHECKSUMS = (
        "Replica can not handle replication events with the checksum that source is configured to log",
        "Slave can not handle replication events with the checksum that master is configured to log",
    )
    BEYOND_END = (
        "Client requested source to start replication from position > file size",
        "Client requested master to start replication from impossible position",
    )
    BEFORE_BEGIN = (
        "Client requested source to start replication from position < 4",
        "Client requested master to start replication from impossible position",
    )
    PURGED = (
        "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from "
        "elsewhere, or provision a new replica from backup. Consider increasing the source's binary log expiration "
        "period.",
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and "
        "required binlog files have been purged.",
    )

    def error(self, family: Family, details: str = "") -> SqlError:
        """Return a replication error (number 1236) of this kind, with the text that servers of ``family`` (MySQL or
        MariaDB) send. ``details`` are added to the text if the whole text is short enough for a replica's status.
        """
        text = self.value[family == "mariadb"]
        return fatal(text + (details if len(text) + len(details) <= MOST_TEXT else ""))


def failure(error: DumpfilterError) -> SqlError:
    """Return the error of MySQL's protocol that a replica gets when its dump, or its request for a dump, fails with
    ``error``. The returned error's number decides whether the replica stops or tries again.
    """
    if isinstance(error, SqlError):
        return error
    if isinstance(error, ReplicaAhead):
        return fatal(error.told[:_LONGEST_OF_SERVERS])
    text = str(error).encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore")
    if isinstance(error, BinlogMissing):
        return fatal(f"Could not find first log file name in binary log index file ({text})")
    number = _SERVER_SHUTDOWN if isinstance(error, Drained) else _MOMENTARY.get(error.grpc_code)
    return fatal(text) if number is None else SqlError(number, "08S01", text)


def no_such_part(file: str, position: int) -> SqlError:
    """Return error 1236 for a replica that lost its connection inside a transaction and asks for the rest of the
    transaction.

    The master would send other events of the transaction now, for example after a change of the filter, so the rest
    does not fit. ``file`` and ``position`` say up to where the replica has the transaction.
    """
    return fatal(
        f"the slave has a part of a transaction, up to {position} of {file}, and the source now sends other events of "
        "this transaction, for example because of another filter. To receive the transaction anew, say STOP SLAVE, "
        "CHANGE MASTER TO MASTER_USE_GTID=slave_pos, START SLAVE"
    )


_ON = (1, "1")


class SessionState(NamedTuple):
    """The properties that a replica has told the master before its dump, such as its UUID, heartbeat interval and
    GTIDs. The replica sets user variables on its connection for this purpose.
    """

    heartbeat_seconds: float | None
    """The interval between heartbeats while no event is sent, seconds. None: the replica has set none."""
    checksum: str | None
    """The checksum algorithm that the replica expects before the first format description event. None: the replica does
    not know checksums.
    """
    uuid: str
    """The replica's server UUID, empty for MariaDB and for programs."""
    capability: int
    """The capability level of a MariaDB replica (``@mariadb_slave_capability``), which says what kinds of events the
    replica understands. 0 if the replica has set none.
    """
    connect_state: str | None
    """The GTIDs that a MariaDB replica has, as text. None: the dump begins at a file and position."""
    until: str | None
    """The GTIDs after which a MariaDB replica wants to stop, as text. None: the replica does not stop."""
    is_strict: bool = False
    """Whether a MariaDB replica runs with ``gtid_strict_mode``."""
    ignores_duplicates: bool = False
    """Whether a MariaDB replica runs with ``gtid_ignore_duplicates``."""


def session_state(variables: Mapping[str, object]) -> SessionState:
    """Return what a replica has told the master about itself by user variables. ``variables`` has their values by name,
    without ``@``.

    Newer replicas call some variables ``source_…`` or ``replica_…``, and older ones ``master_…`` or ``slave_…``. A
    heartbeat interval, UUID or capability level of an unexpected type counts as not set.
    """

    def text(name: str) -> str | None:
        value = variables.get(name)
        return None if value is None else str(value)

    period = variables.get("source_heartbeat_period", variables.get("master_heartbeat_period"))
    checksum = variables.get("source_binlog_checksum", variables.get("master_binlog_checksum"))
    uuid = variables.get("replica_uuid", variables.get("slave_uuid"))
    capability = variables.get("mariadb_slave_capability")
    return SessionState(
        heartbeat_seconds=period / 1e9 if isinstance(period, int) else None,
        checksum=None if checksum is None else str(checksum).upper(),
        uuid=uuid.lower() if isinstance(uuid, str) else "",
        capability=capability if isinstance(capability, int) else 0,
        connect_state=text("slave_connect_state"),
        until=text("slave_until_gtid"),
        is_strict=variables.get("slave_gtid_strict_mode") in _ON,
        ignores_duplicates=variables.get("slave_gtid_ignore_duplicates") in _ON,
    )


_NO_GTID = -1
"""The value in the array ``txn_source`` of a Segment (scanned events) for a transaction without a GTID."""


_MOST_FILES = 16
"""The largest number of binlog files in which Table_map events are searched for the answer to one query."""


class _Computed(dict[str, Any]):
    """A dictionary that stores functions and gives values. Reading a key calls the key's function and returns the
    result. So a query reads binlog files only for the variables that it names.
    """

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


class Source:
    """The properties of the server that wrote a binlog set, for the queries of its replicas: version, server id, and
    values of system variables. The methods may read binlog files, and then raise BinlogError if a file cannot be read.
    """

    def __init__(self, store: BinlogStore) -> None:
        self.store = store
        self.family = store.family
        self.version = store.format_description.server_version
        self.server_id = store.format_description.header.server_id

    def variables(self) -> dict[str, str | int]:
        """Return the system variables of the source (the server that wrote the binlog) that only replicas and programs
        like mysqlbinlog query. The keys are names. Reading a value may read binlog files, and then raises BinlogError
        if a file cannot be read.
        """
        values: dict[str, Callable[[], str | int]] = {
            "binlog_checksum": lambda: "CRC32" if self.has_checksums() else "NONE",
            "binlog_row_metadata": self.row_metadata,
        }
        if self.family == "mysql":
            values["gtid_mode"] = self.gtid_mode
        else:
            # The id belongs to events without GTIDs, from servers before MariaDB 10.0.
            values["gtid_domain_id"] = lambda: 0
        return _Computed(values)

    def functions(self) -> Mapping[str, Callable[..., str | None]]:
        """Return the SQL functions that only replicas call on their source, by name in lower case. For MariaDB this is
        BINLOG_GTID_POS. For MySQL the result is empty.
        """
        return {} if self.family == "mysql" else {"binlog_gtid_pos": partial(gtid_position, self.store)}

    def has_checksums(self) -> bool:
        """Tell whether the events of the newest binlog file in the binlog set end in a checksum. Raises BinlogError if
        the file cannot be opened.
        """
        store = self.store
        return store.open_file(store.binlogs.names[-1]).file.format_description.checksum

    def row_metadata(self) -> str:
        """Return ``binlog_row_metadata`` of the server, FULL or MINIMAL, judged by a Table_map event near the beginning
        of a recent binlog file.

        FULL means that Table_map events have column names. Programs query the variable to know this. Without a
        Table_map event there the answer is MINIMAL. Raises BinlogError if a file cannot be read.
        """
        for segment in islice(self._first_segments(), _MOST_FILES):
            (maps,) = np.nonzero(segment.type == EventType.TABLE_MAP)
            if maps.size:
                file = self.store.open_file(segment.file).file
                body = segment.format_description.body(file.read_event(int(segment.offset[maps[-1]])))
                return "FULL" if describe_table(decode_table_map(body), self.family).has_names else "MINIMAL"
        return "MINIMAL"

    def gtid_mode(self) -> str:
        """Return MySQL's ``gtid_mode`` of the server, ON or OFF, judged by the first transactions of the newest binlog
        file that has transactions.

        Without any transaction the answer is ON, so that a replica may replicate by GTIDs. Raises BinlogError if a file
        cannot be read.
        """
        for segment in self._first_segments():
            if (segment.txn_source >= 0).any():
                return "ON"
            if (segment.txn_source == _NO_GTID).any():
                return "OFF"
        return "ON"

    def _first_segments(self) -> Iterator[Segment]:
        """Yield the first segment of each binlog file, the newest file first. A segment has consecutive events of at
        most 8 MiB together, or one larger event.

        Files in which no whole transaction is written yet are left out. Raises BinlogError if a file cannot be read.
        """
        store = self.store
        for name in reversed(store.binlogs.names):
            segment = store.segment_at(name, store.first_position(name))
            if segment is not None:
                yield segment


def gtid_position(store: BinlogStore, file: str, position: int) -> str | None:
    """Return MariaDB's GTID position, such as ``0-1-5``, at the byte offset ``position`` of the binlog file ``file`` in
    the binlog set ``store``, as BINLOG_GTID_POS does.

    Return None if the binlog set does not have the position, or the file cannot be read. Return an empty text for
    MySQL, and for a file that does not tell the GTIDs before it.

    As on a server, a transaction counts as done from its Gtid event on. A replica that resumes inside a transaction
    takes the answer for its ``gtid_slave_pos``. No later event would tell the GTID of this transaction.
    """
    try:
        place = find_position(file, position, store)
        found = store.previous_gtids(place.file)
    except (BinlogMissing, PositionError, BinlogUnreadable):
        return None
    if not isinstance(found, MariadbGtidSet):
        return ""
    indexed = store.open_file(place.file)
    if not (store.is_relay_log or is_event(position, indexed, store)):
        return None
    is_inside = place.end and not is_gap(indexed, place.position)
    until = place.position + 1 if is_inside else place.position
    for segment in store.segments(place.file):
        if segment.start >= until:
            break
        begun = int(np.searchsorted(segment.txn_start, until))
        if begun:
            is_part = begun < len(segment.txn_start)
            add_transactions(
                found, segment.before(begun) if is_part else replace(segment, open=False), store.sources
            )
    return ",".join(map(str, found.gtids()))


def start_by_gtids(have: GtidSet, store: BinlogStore, *, is_strict: bool = False) -> DumpStart:
    """Return the start of a dump for a replica that has the transactions in ``have``: the binlog file and position, and
    the transactions to leave out.

    With ``is_strict`` (MariaDB's ``gtid_strict_mode``) the binlog must contain the replica's last GTIDs. Raises
    SqlError 1236 when the binlog no longer has transactions that the replica lacks, and ReplicaAhead when ``is_strict``
    fails.
    """
    try:
        start = start_after(have, store)
    except PositionError:
        before = store.previous_gtids(store.binlogs.names[0])
        missing = "" if before is None else str(before - have)
        raise Said.PURGED.error(store.family, f" The missing transactions are '{missing}'.") from None
    if is_strict:
        check_no_hole(have, start.file, store)
    return replace(start, has_first_transaction=_has_first_transaction(have, start, store))


def _has_first_transaction(have: GtidSet, start: DumpStart, store: BinlogStore) -> bool:
    segment = store.segment_at(start.file, start.position)
    if segment is None:
        return False
    (with_gtid,) = np.nonzero(segment.txn_source >= 0)
    if not with_gtid.size:
        return False
    source, number = (int(column[with_gtid[0]]) for column in (segment.txn_source, segment.txn_number))
    key = store.sources.key(source)
    return have.overlaps(key, number, number)


def start_by_position(
    file: str, position: int, store: BinlogStore, *, is_computed: bool = False
) -> DumpStart:
    """Return the start of a dump for a replica that names a binlog file and a byte offset in it. An empty ``file``
    stands for the first file of the binlog set.

    The dump begins at the transaction boundary at or before the position. ``is_computed`` says that the replica
    computes its position from the events that it received. Such a position inside a transaction need not be the
    beginning of an event (:mod:`dumpfilter.master.replicas.stream`). If the binlog is a slave's relay log, the replica
    names a file of the writer (the server that wrote the events).

    Raises BinlogMissing for an unknown file, PositionError for a position at which no event begins, and SqlError 1236
    for one outside the file. For a relay log, raises BinlogUnreadable (momentary: a later attempt may succeed) for a
    position that the slave has not received yet.
    """
    store.refresh()
    if position < FIRST_EVENT:
        raise Said.BEFORE_BEGIN.error(store.family)
    if not store.is_relay_log:
        indexed = store.open_file(file or store.binlogs.names[0])
        position = max(position, indexed.file.first_event)
        if position > indexed.file.size:
            raise Said.BEYOND_END.error(store.family)
    found = find_position(file, position, store)
    if not (
        not found.end
        or store.is_relay_log
        or is_computed
        or is_event(position, store.open_file(found.file), store)
    ):
        raise PositionError("no event begins here", file=found.file, position=position)
    return found
