"""The connection of one real replica: its login, its queries, and its dump."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import secrets
import threading
import uuid as uuids
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog
from mysql_mimic import packets
from mysql_mimic.types import Commands, ServerStatus

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.printable import printable
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.console.connection import Connection, Doorkeeper
from dumpfilter.console.sql.result import Result
from dumpfilter.console.wire import MAX_ALLOWED_PACKET, ClientGone
from dumpfilter.dump.packets.protocol import NOTHING
from dumpfilter.filter import ReplicationFilter
from dumpfilter.master import limits
from dumpfilter.master.ahead import Wanted, check_place
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.limits import MAX_NAME, Kind, Overloaded, Places
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import NotRegistered, RegisteredSlave
from dumpfilter.master.replica_encoding import ReplicaEncoding
from dumpfilter.master.replicas import failures
from dumpfilter.master.replicas.answers import (
    SessionState,
    Source,
    answer,
    session_state,
    start_by_gtids,
    start_by_position,
)
from dumpfilter.master.replicas.filters import ReplicaFilters
from dumpfilter.master.replicas.requests import (
    FATAL,
    DumpRequest,
    MariadbFlag,
    MysqlFlag,
    Registration,
    parse_binlog_dump,
    parse_binlog_dump_gtid,
    parse_connect_state,
    parse_register_replica,
)
from dumpfilter.master.replicas.stream import KnownEvents, KnownPosition, ReplicaStream, state_text
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.who import MYSQL_PROTOCOL, Peer, audit_slave, endpoint_of

log = structlog.get_logger("dumpfilter.master")

MAX_STATEMENT = 64 << 10
"""The largest length of a command from a replica, bytes. MariaDB's GTIDs of 2,000 domains fit into a SET."""
MAX_GTID_REQUEST = MAX_ALLOWED_PACKET
"""The largest length of COM_BINLOG_DUMP_GTID, bytes. A GTID set of 65,000 intervals fits."""

_KNOWS_GTIDS = 4
"""The value of ``@mariadb_slave_capability`` of clients that understand MariaDB's GTID events."""

_CLIENT_OF_SERVERS = "libmysql"
"""The name of the client library that MySQL servers use (connection attribute ``_client_name``)."""

_CHUNK_SIZE = 1 << 20
"""The bytes of events after which a chunk ends. With gRPC's 256 KiB a dump took 1.4 times the processor time."""

_CHANNEL_ATTRIBUTE = "_client_replication_channel_name"
_VERSION_ATTRIBUTE = "_client_version"


_T = TypeVar("_T")


_MOST_ASKED = 8
"""The largest number of replicas whose own filters are read at the same time."""


class ReplicaPort:
    """The objects that all connections of one replication port share: the replicas' filters, the limits on calls, and a
    random key.

    From the key, the port computes a registration secret for each replica. By this secret the master recognizes a
    replica that connects again.
    """

    def __init__(self, filters: ReplicaFilters, places: Places) -> None:
        self.filters = filters
        self.places = places
        self.key = secrets.token_bytes(32)
        """The key from which the registration secrets of replicas are computed."""
        self._asking = asyncio.Semaphore(_MOST_ASKED)

    async def ask(self, work: Callable[[], _T]) -> _T:
        """Call ``work``, a function that connects to a replica to read its filter, in a new thread. Return its result.

        The number of such threads is limited, also if the caller is cancelled. The end of the process does not wait for
        these threads, because a replica may not answer for minutes.
        """
        loop = asyncio.get_running_loop()
        await self._asking.acquire()
        done: Future[_T] = Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
            finally:
                # After the end of the loop nobody waits.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._asking.release)

        try:
            threading.Thread(target=run, name="replica-filter", daemon=True).start()
        except RuntimeError:
            self._asking.release()
            raise Overloaded(
                "the system gives the master no more threads; raise the limit (ulimit -u)"
            ) from None
        return await asyncio.wrap_future(done)


class ReplicaConnection(Connection):
    """The connection of one MySQL or MariaDB replica, or of a program such as mysqlbinlog that reads the binlog like a
    replica.

    ``door`` checks the client's login. ``shared`` has the filters and limits of the replication port, and ``service``
    is the master's gRPC service, whose binlog and register of slaves the dump uses.
    """

    def __init__(self, door: Doorkeeper, shared: ReplicaPort, service: DumpFilterService) -> None:
        super().__init__(door)
        self._shared = shared
        self._service = service
        self._family = service.store.family
        self._registration = Registration(0, "", 0)
        self._peer: Peer
        """The replica's identity, by which its filter is chosen. Set when the replica asks for a dump."""
        self._request_name = ""
        """The value of the column Command in SHOW PROCESSLIST while the connection dumps; empty otherwise."""
        self._replica_stream: ReplicaStream | None = None
        self._sending: asyncio.Task[None] | None = None
        self._is_interrupted = False
        self._commands |= {
            Commands.COM_REGISTER_SLAVE: self._register_replica,
            Commands.COM_BINLOG_DUMP: self._binlog_dump,
        }
        if self._family == "mysql":
            self._commands[Commands.COM_BINLOG_DUMP_GTID] = self._binlog_dump_gtid

    @property
    def doing(self) -> tuple[str, str, str | None]:
        """The values of the columns Command, State and Info that SHOW PROCESSLIST has for this connection."""
        if not self._request_name:
            return super().doing
        stream = self._replica_stream
        is_waiting = stream is not None and stream.is_waiting
        return self._request_name, state_text(self._family, is_waiting=is_waiting), None

    def kill_query(self) -> None:
        """End the running dump, or interrupt the statement that the client is running (KILL QUERY)."""
        super().kill_query()
        if self._sending is not None:
            self._is_interrupted = True
            self._sending.cancel()

    def longest_command(self, number: int) -> int:
        """Return the largest length of a command with this number (the first byte of its packet), bytes."""
        return MAX_GTID_REQUEST if number == Commands.COM_BINLOG_DUMP_GTID else MAX_STATEMENT

    async def _run(self, text: str) -> Result:
        result = await self._in_thread(text, lambda _: answer(text, self._source, self._client))
        return await super()._run(text) if result is None else result

    async def _register_replica(self, data: bytes) -> None:
        self._registration = parse_register_replica(data)
        await self._send_ok()

    async def _binlog_dump(self, data: bytes) -> None:
        request = parse_binlog_dump(data)
        await self._dump(request, "Binlog Dump")

    async def _binlog_dump_gtid(self, data: bytes) -> None:
        try:
            # A large GTID set takes a while.
            request = await self._service.reader.serve(self.counted(lambda: parse_binlog_dump_gtid(data)))
        except DumpfilterError as error:
            # A slave may have lost its relay log since the replica logged in.
            raise failures.failure(error) from error
        await self._dump(request, "Binlog Dump GTID")

    async def _dump(self, request: DumpRequest, name: str) -> None:
        """Serve a dump until it ends. Raises SqlError with the error that the replica gets.

        ``name`` is the command for SHOW PROCESSLIST, such as ``Binlog Dump GTID``.
        """
        self._request_name = name
        self._is_interrupted = False
        peer = self._peer = self._applicant(request)
        try:
            with self._shared.places.take(Kind.DUMP, self._address):
                await self._serve_dump(request)
        except DumpfilterError as error:
            MEASURED.failed_calls.add(error)
            failed = failures.failure(error)
            log.warning(
                "replica dump refused or ended",
                **self._fields,
                number=failed.number,
                error=printable(str(error)),
            )
            if failed.number == FATAL and peer.server_id:
                # A replica stops at this error, and shows its text. The master's status shows the text, too.
                self._service.known_slaves.refuse(peer, failed.message)
            raise failed from error
        finally:
            self._request_name = ""
            self._replica_stream = None

    @property
    def _fields(self) -> dict[str, object]:
        """The fields that identify the replica in log lines."""
        return {"connection": self.id, **self._peer.fields}

    @property
    def _address(self) -> str:
        """The client's address and port in gRPC's notation, which the register uses."""
        return endpoint_of(*self._stream.peer_name)

    async def _serve_dump(self, request: DumpRequest) -> None:
        service, state = self._service, self._state
        await service.reader.serve(lambda: self._check_client(state))
        gtids = request.gtid_set
        if state.connect_state is not None and self._family == "mariadb":
            gtids = parse_connect_state(state.connect_state)
        slave = await self._registered()
        try:
            await self._serve_registered(request, slave, gtids)
        finally:
            if not slave.peer.server_id:
                # Programs without a server id register anew each time.
                service.register.finish(slave)
                with contextlib.suppress(NotRegistered):
                    service.register.remove(slave.slave_id)

    async def _serve_registered(
        self, request: DumpRequest, slave: RegisteredSlave, gtids: GtidSet | None
    ) -> None:
        """Serve the dump of a registered replica until it ends. ``gtids`` are the GTIDs that the replica has; None if
        it names a file and a position.

        Raises ClientGone when the replica disconnects, and DumpfilterError when the dump is refused or fails.
        """
        service, state = self._service, self._state
        counts_bytes = gtids is None and self._is_mysql_server(state)

        def check() -> None:
            if counts_bytes and self._is_filtered(slave):
                raise failures.needs_gtids()

        check()
        wanted = Wanted(gtids, request.file, request.position, state.ignores_duplicates)
        await check_place(wanted, service.reader, service.master_uuid)
        start = await service.reader.serve(self.counted(lambda: self._start(request, state, gtids)))
        begin = start.file, start.position
        earlier = service.register.earlier(slave, service.store.binlogs.names, begin)
        if start.end and slave.peer.server_id and earlier is not None and earlier.has(*begin):
            # The replica has the beginning of the first transaction through another filter.
            raise failures.no_such_part(request.file, request.position)
        is_mysql = self._family == "mysql"
        v2 = is_mysql and bool(request.flags & MysqlFlag.HEARTBEAT_V2)
        source_id = self._source.server_id
        knows_checksum = state.checksum not in (None, "NONE")
        annotations = is_mysql or bool(request.flags & MariadbFlag.ANNOTATE_ROWS)
        left_out = NOTHING if annotations else int(EventType.ANNOTATE_ROWS)
        heartbeats = state.heartbeat_seconds
        options = DumpOptions(
            chunk_size=_CHUNK_SIZE,
            once=bool(request.flags & MysqlFlag.NON_BLOCK),
            heartbeat_period=max(heartbeats, limits.MIN_HEARTBEAT_PERIOD) if heartbeats else 0.0,
            earlier=earlier,
            encoding=ReplicaEncoding(
                by_gtid=not counts_bytes,
                checksum=knows_checksum,
                keeps_temporary_tables=start.has_first_transaction,
            ),
        )
        # The copies of a large GTID set take a while.
        dump = self.counted(
            lambda: Dump(service.reader, service.register, slave, start, options, drains=service.drains)
        )()
        stream = self._replica_stream = ReplicaStream(
            self._stream,
            dump,
            KnownPosition(source_id, sums=is_mysql, corrects=not is_mysql or gtids is not None, v2=v2),
            KnownEvents(
                start,
                request.file or start.file,
                request.position,
                self._computes_position(state),
                self._is_filtered(slave),
                source_id,
                left_out,
            )
            if start.end
            else None,
            heartbeats=bool(heartbeats),
            # Replicas say how often they want heartbeats, and programs do not.
            corrections=heartbeats is not None,
            checksum=knows_checksum,
            left_out=left_out,
            check=check,
        )
        log.info(
            "replica dump begins",
            **self._fields,
            file=start.file,
            position=request.position if gtids is None else start.position,
            by_gtids=gtids is not None,
        )
        try:
            await self._send_dump(stream)
        finally:
            dump.close()
            self._log_end(stream, dump)
        if dump.taken_over and not self._is_interrupted:
            if slave.ended_by is not None:
                raise slave.ended_by
            if service.stopping:
                raise failures.shutting_down()
            last = f"; the last event was read from '{dump.reached.file}' at {dump.reached.end}"
            raise failures.Said.SAME_REPLICA.error(self._family, last)
        # Servers send an EOF packet here even to clients that do not expect EOF packets any more.
        await self._stream.send(
            bytes(packets.make_eof(self._capabilities, ServerStatus.SERVER_STATUS_AUTOCOMMIT))
        )

    def _start(self, request: DumpRequest, state: SessionState, gtids: GtidSet | None) -> DumpStart:
        if gtids is not None:
            return start_by_gtids(gtids, self._service.store, is_strict=state.is_strict)
        return start_by_position(
            request.file, request.position, self._service.store, is_computed=self._computes_position(state)
        )

    @property
    def _source(self) -> Source:
        """The properties of the server that wrote the binlog, for the replica's queries."""
        return Source(self._service.store, self._service.master_uuid)

    @property
    def _state(self) -> SessionState:
        return session_state(self._client.user_variables)

    def _is_filtered(self, slave: RegisteredSlave) -> bool:
        """Tell whether the replica's dump may lack events of the original binlog."""
        write_filter = self._service.register.write_filter
        return (
            self._service.store.is_relay_log
            or slave.filter.is_on
            or bool(slave.imposed)
            or (write_filter is not None and write_filter.is_on)
        )

    def _computes_position(self, state: SessionState) -> bool:
        """Tell whether the client is a MariaDB replica, which computes its position from the events. A program that
        reads the binlog does not.

        A client counts as a replica if it wants heartbeats, or registers a server id.
        """
        is_replica = state.heartbeat_seconds is not None or bool(self._registration.server_id)
        return self._family == "mariadb" and is_replica

    def _check_client(self, state: SessionState) -> None:
        """Raise SqlError for a client that cannot understand the events of the binlog."""
        if state.checksum is None and self._source.has_checksums():
            raise failures.Said.NO_CHECKSUMS.error(self._family)
        if self._family == "mariadb":
            if state.capability < _KNOWS_GTIDS:
                raise failures.no_gtid_events()
            if state.until is not None:
                raise failures.no_until()

    def _is_mysql_server(self, state: SessionState) -> bool:
        """Tell whether the client is a MySQL server, which computes its position from the lengths of events."""
        name = self._login.attributes.get("_client_name", _CLIENT_OF_SERVERS)
        return self._family == "mysql" and bool(state.uuid) and name == _CLIENT_OF_SERVERS

    async def _registered(self) -> RegisteredSlave:
        """Register the replica with its filter, and return the registration. Raises DumpfilterError."""
        service, peer = self._service, self._peer
        service.drains.check(peer)
        while True:
            entry, chosen = await self._choose_filter(peer)
            slave = await service.reader.serve(self.counted(functools.partial(self._register, chosen)))
            if entry in self._shared.filters.entries:
                break
            # The filter changed between the choice and the entry into the register.
            with contextlib.suppress(NotRegistered):
                service.register.remove(slave.slave_id)
        audit_slave("replica", peer, peer.endpoint, rules=" ".join(map(str, chosen.rules)))
        await service.reader.serve(functools.partial(service.filter_warnings.texts, slave))
        return slave

    async def _choose_filter(self, peer: Peer) -> tuple[ReplicaEntry, ReplicationFilter]:
        """Return the filter for the replica ``peer``, and the ``[[replica]]`` table that the filter comes from.

        The call takes seconds if the master reads the replica's own filter over the network. Raises ReplicaRefused.
        """
        filters = self._shared.filters
        if not filters.asks(peer):
            return await self._service.reader.serve(lambda: filters.filter_for(peer))
        # Replicas that do not answer make others wait for a thread. One that leaves meanwhile gives its place up.
        asking = asyncio.create_task(self._shared.ask(functools.partial(filters.filter_for, peer)))
        return await self._unless_client_leaves(asking)

    async def _unless_client_leaves(self, work: asyncio.Future[_T]) -> _T:
        """Return the result of ``work``. Cancel ``work`` and raise ClientGone when the client leaves before."""
        try:
            await asyncio.wait((work, self._stream.left), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGone("closed")
            return await work
        finally:
            work.cancel()

    def _applicant(self, request: DumpRequest) -> Peer:
        """Return the replica's identity, by which its filter is chosen, from its login, its registration and its
        request.
        """
        assert self.session is not None
        server_id = request.server_id or self._registration.server_id
        return Peer(
            user=self.session.user,
            # Only MySQL's replicas since 8.0 tell the name of their channel.
            channel=self._login.attributes.get(_CHANNEL_ATTRIBUTE, "")[:MAX_NAME],
            server_id=server_id,
            endpoint=self._address,
            uuid=_uuid(self._state.uuid, server_id),
            host=printable(self._registration.host),
            port=self._registration.port,
            protocol=MYSQL_PROTOCOL,
            program_version=printable(self._program),
        )

    def _register(self, chosen: ReplicationFilter) -> RegisteredSlave:
        """Register the replica with the chosen filter. Raises DumpfilterError."""
        peer = self._peer
        # The secret lets the same replica take over its own dump.
        names = "\0".join((peer.user, peer.channel, peer.uuid)).encode("utf-8", "surrogatepass")
        return self._service.register.add(
            peer,
            chosen,
            secret=hmac.digest(self._shared.key, names, "sha256"),
        )

    @property
    def _program(self) -> str:
        """The name and version of the client program, from its connection attributes."""
        attributes = self._login.attributes
        name = attributes.get("program_name", attributes.get("_client_name", ""))
        return f"{name} {attributes.get(_VERSION_ATTRIBUTE, '')}".strip()[:MAX_NAME]

    async def _send_dump(self, stream: ReplicaStream) -> None:
        """Send a dump until it ends, the replica disconnects, or somebody kills it (KILL QUERY). Raises ClientGone when
        the replica disconnects, and DumpfilterError when the dump fails.
        """
        sending = self._sending = asyncio.create_task(stream.run())
        try:
            await self._unless_client_leaves(sending)
        except asyncio.CancelledError:
            if not self._is_interrupted:
                raise
        finally:
            self._sending = None
            await asyncio.gather(sending, return_exceptions=True)

    def _log_end(self, stream: ReplicaStream, dump: Dump) -> None:
        compression = self._stream.compression
        fields = {} if compression is None else {"bytes_compressed": compression.sent}
        log.info(
            "replica dump ends",
            **self._fields,
            file=dump.reached.file,
            position=dump.reached.end,
            bytes_sent=stream.sent,
            **fields,
        )


def _uuid(told: str, server_id: int) -> str:
    """Return the UUID under which a replica is registered. ``told`` is the UUID that the replica reports; empty for
    none.

    A replica that reports no valid UUID, such as MariaDB's, gets a UUID that is made of its server id. A program with
    server id 0 gets a random UUID, because any number of them may read at the same time.

    >>> _uuid("", 101)
    '00000000-0000-0000-0000-000000000101'
    """
    with contextlib.suppress(ValueError):
        return str(uuids.UUID(told))
    return f"00000000-0000-0000-0000-{server_id:012d}" if server_id else str(uuids.uuid4())
