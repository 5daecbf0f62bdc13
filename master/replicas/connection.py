"""The replication port: it serves the binlog set to real MySQL and MariaDB replicas, in the master's asyncio loop. Each
connection has its login, its queries, and its dump.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import secrets
import socket
import threading
import uuid as uuids
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from mysql_mimic.types import Capabilities, Commands

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family
from dumpfilter.console.answers import eof
from dumpfilter.console.auth import CACHING_SHA2, NATIVE
from dumpfilter.console.connection import Connection
from dumpfilter.console.port import (
    CAPABILITIES,
    ClientPort,
    Greeting,
)
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Command, Executor
from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import (
    ER_SPECIFIC_ACCESS_DENIED_ERROR,
    ER_UNKNOWN_COM_ERROR,
    SqlError,
)
from dumpfilter.console.wire import MAX_ALLOWED_PACKET
from dumpfilter.dump.packets.protocol import NOTHING, frame
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.master import limits
from dumpfilter.master.advance import ReplicaEncoding
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart, Wanted, check_place
from dumpfilter.master.limits import MAX_NAME, Kind, Overloaded, Places
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import DumpOver, NotRegistered, RegisteredSlave
from dumpfilter.master.replicas import answers
from dumpfilter.master.replicas.stream import KnownPosition, ReplicaStream, state_text
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.who import MYSQL_PROTOCOL, Peer, audit_slave, endpoint_of

log = logger("dumpfilter.master")

MAX_STATEMENT = 64 << 10
"""The largest length of a command from a replica, bytes. MariaDB's GTIDs of 2,000 domains fit into a SET."""
MAX_GTID_REQUEST = MAX_ALLOWED_PACKET
"""The largest length of COM_BINLOG_DUMP_GTID, bytes. A GTID set of 65,000 intervals fits."""

_KNOWS_GTIDS = 4
"""The value of ``@mariadb_slave_capability`` of clients that understand MariaDB's GTID events."""

_CLIENT_OF_SERVERS = "libmysql"
"""The name of the client library that MySQL servers use (connection attribute ``_client_name``)."""

_CHUNK_SIZE = 1 << 20
"""The bytes of events that are sent to a replica together. With the 256 KiB of gRPC messages a dump took 1.4 times the
processor time.
"""

_CHANNEL_ATTRIBUTE = "_client_replication_channel_name"
_VERSION_ATTRIBUTE = "_client_version"


_T = TypeVar("_T")


_MOST_ASKED = 8
"""The largest number of replicas whose own filters are read at the same time."""


class ReplicaConnection(Connection):
    """The connection of one MySQL or MariaDB replica, or of a program such as mysqlbinlog that reads the binlog like a
    replica.
    """

    port: ReplicaServer

    def __init__(
        self, port: ReplicaServer, client: socket.socket, address: tuple[Any, ...], number: int
    ) -> None:
        super().__init__(port, client, address, number)
        self._service = port.service
        self._registration = Peer()
        """The server id, host and port that the replica states by COM_REGISTER_SLAVE."""
        self._peer = Peer()
        """The replica's identity, by which the replica's filter is chosen. Set when the replica asks for a dump."""
        self._request_name = ""
        """The value of the column Command in SHOW PROCESSLIST while the connection dumps; empty otherwise."""
        self._replica_stream: ReplicaStream | None = None
        self._family: Family
        """The family of the server that wrote the binlog. Set when the replica asks for a dump."""

    @property
    def doing(self) -> tuple[str, str, str | None]:
        """The values of the columns Command, State and Info that SHOW PROCESSLIST has for this connection."""
        if not self._request_name:
            return super().doing
        stream = self._replica_stream
        has_sent_all = stream is not None and stream.has_sent_all
        return self._request_name, state_text(self._family, has_sent_all=has_sent_all), None

    def longest_command(self, number: int) -> int:
        """Return the largest number of bytes that a command may have. ``number`` is the command's number, the first
        byte of its packet.
        """
        return MAX_GTID_REQUEST if number == Commands.COM_BINLOG_DUMP_GTID else MAX_STATEMENT

    async def _com_register_slave(self, data: bytes) -> None:
        self._registration = answers.parse_register_replica(data)
        await self._send_ok()

    async def _com_binlog_dump(self, data: bytes) -> None:
        await self._dump("Binlog Dump", lambda: answers.parse_binlog_dump(data))

    async def _com_binlog_dump_gtid(self, data: bytes) -> None:
        def parse() -> answers.DumpRequest:
            if self._family == "mariadb":
                raise ER_UNKNOWN_COM_ERROR()
            return answers.parse_binlog_dump_gtid(data)

        await self._dump("Binlog Dump GTID", parse)

    async def _dump(self, name: str, parse: Callable[[], answers.DumpRequest]) -> None:
        """Serve the dump that a command asks for until it ends. ``parse`` returns the request of the command. Raises
        SqlError with the error that the replica gets.

        ``name`` is the command for SHOW PROCESSLIST, such as ``Binlog Dump GTID``.
        """
        self._peer = self._registration
        try:
            # A slave may have lost its relay log since the replica logged in.
            reader = await self._service.opened_reader()
            self._family = reader.store.family
            self._request_name = name
            # A large GTID set takes a while.
            request = await reader.serve(self.counted(parse))
            self._peer = self._applicant(request)
            with self.port.places.take(Kind.DUMP, self._address):
                await self._serve_dump(request)
        except DumpfilterError as error:
            MEASURED.count_failure(error)
            failed = answers.failure(error)
            log.warning(
                "replica dump refused or ended",
                **self._fields,
                number=failed.number,
                error=printable(str(error)),
            )
            if failed.number == answers.FATAL and self._peer.server_id:
                # A replica stops at this error, and shows its text. The master's status shows the text, too.
                self._service.known_slaves.refuse(self._peer, failed.message)
            raise failed from error
        finally:
            self._request_name = ""
            self._replica_stream = None

    @property
    def _fields(self) -> dict[str, object]:
        """The fields of log lines that identify this connection's replica, by name: the connection's id, and the
        replica's server id, channel and user.
        """
        return {"connection": self.id, **self._peer.fields}

    @property
    def _address(self) -> str:
        """The client's address and port in gRPC's notation, such as ``ipv4:10.0.0.7:5000``. The master's register of
        slaves uses this notation for slaves, too.
        """
        return endpoint_of(*self.address)

    async def _serve_dump(self, request: answers.DumpRequest) -> None:
        service, state = self._service, self._state
        await service.reader.serve(lambda: self._check_client(state))
        wanted, text = (
            replace(request.wanted, ignores_duplicates=state.ignores_duplicates),
            state.connect_state,
        )
        if text is not None and self._family == "mariadb":
            parse = functools.partial(answers.parse_connect_state, text)
            wanted = replace(wanted, gtids=await service.reader.serve(self.counted(parse)))
        slave = await self._registered()
        try:
            await self._serve_registered(wanted, slave, request.flags)
        finally:
            if not slave.peer.server_id:
                # Programs without a server id register anew each time.
                service.register.finish(slave)
                with contextlib.suppress(NotRegistered):
                    service.register.remove(slave.slave_id)

    async def _serve_registered(self, wanted: Wanted, slave: RegisteredSlave, flags: int) -> None:
        """Serve the dump of a registered replica until it ends.

        ``wanted`` has the GTIDs or the position with which the replica asks for the dump, and ``flags`` the flags of
        its request. Raises ClientGone when the replica disconnects, and DumpfilterError when the dump is refused or
        fails.
        """
        service, state, by_gtids = self._service, self._state, wanted.gtids is not None
        counts_bytes = not by_gtids and self._is_mysql_server(state)

        def check() -> None:
            if counts_bytes and self._is_filtered(slave):
                raise answers.fatal(
                    "the source filters for this replica, and a filtered stream has other positions than the binlog: "
                    "say CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION=1"
                )

        check()
        await check_place(wanted, service.reader, service.master_uuid)
        start = await service.reader.serve(self.counted(lambda: self._start(wanted, state)))
        begin = start.file, start.position
        earlier = service.register.earlier(slave, service.store.binlogs.names, begin)
        if start.end and slave.peer.server_id and earlier is not None and earlier.has(*begin):
            # The replica has the beginning of the first transaction through another filter.
            raise answers.no_such_part(wanted.file, wanted.position)
        is_mysql = self._family == "mysql"
        # A MariaDB replica of a MySQL source takes ``end_log_pos``, and means Annotate_rows by the flag.
        sums = is_mysql and (by_gtids or counts_bytes)
        v2 = sums and bool(flags & answers.HEARTBEAT_V2)
        source_id = self._source.server_id
        knows_checksum = state.checksum not in (None, "NONE")
        annotations = is_mysql or bool(flags & answers.ANNOTATE_ROWS)
        left_out = NOTHING if annotations else int(EventType.ANNOTATE_ROWS)
        heartbeats = state.heartbeat_seconds
        options = DumpOptions(
            chunk_size=_CHUNK_SIZE,
            once=bool(flags & answers.NON_BLOCK),
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
            self.stream,
            dump,
            KnownPosition(source_id, sums=sums, corrects=not is_mysql or by_gtids, v2=v2),
            start,
            wanted,
            self._computes_position(state),
            self._is_filtered(slave),
            heartbeat_seconds=heartbeats,
            checksum=knows_checksum,
            left_out=left_out,
            check=check,
        )
        log.info(
            "replica dump begins",
            **self._fields,
            file=start.file,
            position=start.position if by_gtids else wanted.position,
            by_gtids=by_gtids,
        )
        try:
            await self._send_dump(stream)
        except DumpOver:
            last = f"; the last event was read from '{dump.reached.file}' at {dump.reached.end}"
            raise answers.Said.SAME_REPLICA.error(self._family, last) from None
        finally:
            dump.close()
            self._log_end(stream, dump)
        await self.stream.send(eof())

    def _start(self, wanted: Wanted, state: answers.SessionState) -> DumpStart:
        store = self._service.store
        if wanted.gtids is not None:
            return answers.start_by_gtids(wanted.gtids, store, is_strict=state.is_strict)
        is_computed = self._computes_position(state)
        return answers.start_by_position(wanted.file, wanted.position, store, is_computed=is_computed)

    @property
    def _source(self) -> answers.Source:
        """The version, server id and system variables of the server that wrote the binlog, for the replica's
        queries.
        """
        return answers.Source(self._service.store)

    @property
    def _state(self) -> answers.SessionState:
        return answers.session_state(self._client.user_variables)

    def _is_filtered(self, slave: RegisteredSlave) -> bool:
        """Tell whether the replica's dump may lack events of the original binlog, for example because of its filter.
        The positions that a MySQL replica computes are then wrong.
        """
        return (
            self._service.store.is_relay_log
            or slave.filter.is_on
            or bool(slave.imposed)
            or self._service.register.write_filter.is_on
        )

    def _computes_position(self, state: answers.SessionState) -> bool:
        """Tell whether the client is a MariaDB replica, which computes its position from the events. A program that
        reads the binlog computes no position.

        A client counts as a replica if it wants heartbeats, or registers a server id. ``state`` has what the client has
        told the master by user variables.
        """
        is_replica = state.heartbeat_seconds is not None or bool(self._registration.server_id)
        return self._family == "mariadb" and is_replica

    def _check_client(self, state: answers.SessionState) -> None:
        """Raise SqlError for a client that the master cannot serve, such as one that does not understand the events of
        the binlog. ``state`` has what the client has told about itself by user variables.
        """
        if state.checksum is None and self._source.has_checksums():
            raise answers.Said.NO_CHECKSUMS.error(self._family)
        if self._family == "mariadb":
            if state.capability < _KNOWS_GTIDS:
                raise answers.fatal(
                    "the binlog has events that this client does not know: use a client that says SET "
                    "@mariadb_slave_capability=4, as those of MariaDB 10.0 and later do"
                )
            if state.until is not None:
                raise answers.fatal(
                    "dumpfilter does not stop at a GTID for a slave: say START SLAVE UNTIL with master_log_file and "
                    "master_log_pos, or without UNTIL"
                )

    def _is_mysql_server(self, state: answers.SessionState) -> bool:
        """Tell whether the client is a MySQL server, which computes its position from the lengths of events. ``state``
        has what the client has told the master by user variables, such as its UUID.
        """
        name = self._login.attributes.get("_client_name", _CLIENT_OF_SERVERS)
        return self._family == "mysql" and bool(state.uuid) and name == _CLIENT_OF_SERVERS

    async def _registered(self) -> RegisteredSlave:
        """Choose the replica's filter, register the replica with this filter at the master, and return the
        registration. Raises DumpfilterError, for example if the configuration file has no ``[[replica]]`` table that
        selects the replica.
        """
        service, peer = self._service, self._peer
        service.drains.check(peer)
        while True:
            entry, chosen = await self._choose_filter(peer)
            slave = await service.reader.serve(self.counted(functools.partial(self._register, chosen)))
            # The filter may change between the choice and the entry into the register. The next entry replaces this
            # one, and takes over the filters of the replica's earlier dumps.
            if entry in service.filters.entries:
                break
        audit_slave("replica", peer, peer.endpoint, rules=" ".join(map(str, chosen.rules)))
        await service.reader.serve(functools.partial(service.filter_warnings.log, slave))
        return slave

    async def _choose_filter(self, peer: Peer) -> tuple[ReplicaEntry, ReplicationFilter]:
        """Return the ``[[replica]]`` table of the configuration that the replica ``peer`` belongs to, and the replica's
        filter.

        The call takes seconds if the master reads the replica's own filter over the network. Raises ReplicaRefused if
        the replica has no table, if its own filter cannot be read, or if its own filter would apply events that the
        master drops.
        """
        filters = self._service.filters
        if not filters.asks(peer):
            return await self._service.reader.serve(lambda: filters.filter_for(peer))
        # Replicas that do not answer make others wait for a thread. One that leaves meanwhile gives its place up.
        return await self.finished(
            asyncio.create_task(self.port.ask(functools.partial(filters.filter_for, peer)))
        )

    def _applicant(self, request: answers.DumpRequest) -> Peer:
        """Return the replica's identity, by which its filter is chosen, from its login, its registration and its
        request.
        """
        assert self.session is not None
        server_id = request.server_id or self._registration.server_id
        return replace(
            self._registration,
            user=self.session.user,
            # Only MySQL's replicas since 8.0 tell the name of their channel.
            channel=self._login.attributes.get(_CHANNEL_ATTRIBUTE, "")[:MAX_NAME],
            server_id=server_id,
            endpoint=self._address,
            uuid=_uuid(self._state.uuid, server_id),
            protocol=MYSQL_PROTOCOL,
            program_version=printable(self._program),
        )

    def _register(self, chosen: ReplicationFilter) -> RegisteredSlave:
        """Add the replica with the chosen filter to the master's register of slaves, and return its entry. Raises
        DumpfilterError, for example if another replica that dumps has its UUID.
        """
        peer = self._peer
        # The secret lets the same replica take over its own dump.
        names = "\0".join((peer.user, peer.channel, peer.uuid)).encode("utf-8", "surrogatepass")
        return self._service.register.add(
            peer,
            chosen,
            secret=hmac.digest(self.port.key, names, "sha256"),
        )

    @property
    def _program(self) -> str:
        """The name and version of the client program, from its connection attributes."""
        attributes = self._login.attributes
        name = attributes.get("program_name", attributes.get("_client_name", ""))
        return f"{name} {attributes.get(_VERSION_ATTRIBUTE, '')}".strip()[:MAX_NAME]

    async def _send_dump(self, stream: ReplicaStream) -> None:
        """Send a dump until it ends, the replica disconnects, or somebody kills the dump (KILL QUERY). Raises
        ClientGone when the replica disconnects, and DumpfilterError when the dump fails.
        """
        sending = asyncio.create_task(stream.run())
        try:
            await self.finished(sending)
        except SqlError:
            if not self._killed.done():
                raise
        finally:
            await asyncio.gather(sending, return_exceptions=True)

    def _log_end(self, stream: ReplicaStream, dump: Dump) -> None:
        compression = self.stream.compression
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

    A replica that reports no valid UUID, such as a MariaDB server, gets a UUID that is made of its server id. A program
    with server id 0 gets a random UUID, because any number of them may read at the same time.

    >>> _uuid("", 101)
    '00000000-0000-0000-0000-000000000101'
    """
    with contextlib.suppress(ValueError):
        return str(uuids.UUID(told))
    return f"00000000-0000-0000-0000-{server_id:012d}" if server_id else str(uuids.uuid4())


REPLICA_CAPABILITIES = (
    CAPABILITIES
    | Capabilities.CLIENT_COMPRESS
    | Capabilities.CLIENT_CONNECT_ATTRS
    | Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
"""The protocol capabilities that the port announces. For MariaDB, compression with zstd is left out."""

_STATEMENT_THREADS = 12
_THREADS_OF_USER = 4
"""The largest number of statements of one user that run at the same time, so that no user occupies all threads."""
_MARIADB_PREFIX = "5.5.5-"
"""The prefix of the version that MariaDB announces, because old replicas refuse a source of version 10."""


class ReplicaStatements:
    """An executor of the SQL statements that a user of the replication port sends. SHOW REPLICAS and the tables of the
    schema ``dumpfilter`` are refused here, because they are for operators.
    """

    def __init__(self, executor: Executor, source: answers.Source) -> None:
        self._executor = executor
        self._source = source

    def execute(self, command: Command) -> Result:
        """Execute a statement of a user of the replication port, and return the result. Raises SqlError 1227 for SHOW
        REPLICAS, which would list the replicas of other users.
        """
        if command.method == "_show_replicas":
            raise ER_SPECIFIC_ACCESS_DENIED_ERROR("an account of the master's console")
        return self._executor.execute(command)

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The tables that users of the replication port can read, by schema and name, each with the function that
        returns its rows. Tables of the schema ``dumpfilter`` are left out.
        """
        return {names: read for names, read in self._executor.tables.items() if names[0] != "dumpfilter"}

    @property
    def version(self) -> str:
        """The version that clients see: that of the server that wrote the binlog."""
        return self._executor.version

    def variables(self) -> Mapping[str, str | int]:
        """Return the system variables of the master's SQL console, and those that replicas query, by name."""
        return ChainMap(dict(self._executor.variables()), self._source.variables())

    @property
    def functions(self) -> Mapping[str, Callable[..., str | int | None]]:
        """The SQL functions that replicas call before a dump, such as BINLOG_GTID_POS, by name in lower case."""
        return self._source.functions()


@contextmanager
def _answering() -> Iterator[None]:
    """Convert each DumpfilterError of the ``with`` block into the error that a replica gets."""
    try:
        yield
    except DumpfilterError as error:
        raise answers.failure(error) from None


class ReplicaServer(ClientPort):
    """The replication port of one master, to which real replicas (MySQL and MariaDB servers) connect.

    ``executor`` executes the SQL statements that the port does not answer itself. ``service`` is the master's gRPC
    service, whose binlog, register of slaves and filters of replicas the dumps use. ``places`` limits the number of
    concurrent dumps. ``options`` are further parameters of the port, such as ``max_connections``.

    Replicas are registered like dumpfilter's slaves. So the dumps of both share the scans of the binlog, and the
    decisions of equal filters.
    """

    name, title = "replicas", "replication port"
    connection = ReplicaConnection

    def __init__(
        self,
        endpoint: Endpoint,
        service: DumpFilterService,
        places: Places,
        executor: Executor,
        **options: Any,
    ) -> None:
        super().__init__(
            executor,
            endpoint,
            service.config.replica_users,
            roles={},
            threads=_STATEMENT_THREADS,
            threads_of_user=_THREADS_OF_USER,
            **options,
        )
        self.service = service
        # The tables of a configuration that was read again are in force by then, so that a new user finds its table.
        service.on_change.append(lambda config: self.change_users(config.replica_users, {}))
        self.places = places
        self.key = secrets.token_bytes(32)
        """The random key from which the port computes a registration secret for each replica. By this secret the master
        recognizes a replica that connects again.
        """
        self._asking = asyncio.Semaphore(_MOST_ASKED)

    @contextmanager
    def running(self, loop: ServingLoop, **log_fields: str) -> Iterator[int]:
        """Serve replicas in an asyncio loop while the ``with`` block runs, and yield the TCP port number.

        ``log_fields`` are additional fields of the log line ``replicas.listening``. Raises OptionError if the port
        cannot be opened, and OutputError if the port number cannot be written to the file of ``--replica-port-file``.
        """
        # Loading the compiled function takes a while.
        frame(b"", 0)
        with self.serving(loop):
            log.info("replicas.listening", **log_fields, host=self.endpoint.host, port=self.port)
            yield self.port

    @property
    def listed(self) -> dict[int, Any]:
        """The connections that a client of this port can see in SHOW PROCESSLIST and end by KILL, by connection id. A
        client sees the connections of this port only.
        """
        return self.clients

    async def greeting(self) -> Greeting:
        """Return the first packet for a new client. The packet names the version of the server that wrote the binlog,
        so that a replica takes the port for this server. Raises SqlError if the binlog set is unusable.
        """
        with _answering():
            store = (await self.service.opened_reader()).store
        version = store.format_description.server_version
        if store.family == "mysql":
            return Greeting(version, REPLICA_CAPABILITIES, CACHING_SHA2)
        without_zstd = REPLICA_CAPABILITIES & ~Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM
        return Greeting(_MARIADB_PREFIX + version, without_zstd, NATIVE)

    async def ask(self, work: Callable[[], _T]) -> _T:
        """Call ``work``, a function that connects to a replica to read its filter, in a new thread. Return its result
        or raise its error. Raises Overloaded if the system gives the process no more threads.

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

    def executor_of(self, user: str) -> Executor:
        """Return the executor for the SQL statements that a client of this replication port sends, logged in as
        ``user``. Raises SqlError if the binlog set is unusable.
        """
        with _answering():
            return ReplicaStatements(self.executor, answers.Source(self.service.store))
