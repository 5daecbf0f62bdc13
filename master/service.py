"""The gRPC service that slaves call: registration, binlog dump, reports that the slave is alive, and status."""

from __future__ import annotations

import contextlib
import uuid as uuids
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace

import grpc
import structlog

from dumpfilter import __version__
from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.logs import Seldom
from dumpfilter.base.printable import printable
from dumpfilter.base.security.audit import audit
from dumpfilter.dump.stream.message import PROTOCOL, Kept, Speaker, check_versions
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.convert import (
    family_to_proto,
    filter_from_proto,
    filter_to_proto,
    origin_from_proto,
)
from dumpfilter.index.subjects import Subjects
from dumpfilter.master import dump as dumps
from dumpfilter.master import limits
from dumpfilter.master.access import Access, AccessDenied, TryLater
from dumpfilter.master.ahead import check_place
from dumpfilter.master.chunks import counts_to_proto
from dumpfilter.master.config import MasterConfig, imposed_on
from dumpfilter.master.dump_start import start_of, wanted_by
from dumpfilter.master.facts import SLAVES, SlaveView
from dumpfilter.master.filter_warnings import FilterWarnings
from dumpfilter.master.grpc_port import Context, stops_slaves
from dumpfilter.master.identity import uuid_of
from dumpfilter.master.register import KnownSlave, KnownSlaves, NotRegistered, Register, RegisteredSlave
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Drained, Drains, Peer, audit_slave
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

log = structlog.get_logger("dumpfilter.master")

SHORTEST_SECRET, LONGEST_SECRET = 16, 64
"""The least and the largest length of a slave's registration secret, bytes. A slave without a secret can never replace
its registration.
"""

_FACTS = frozenset(pb.Slave.DESCRIPTOR.fields_by_name) - {"position", "counts"}
"""The names that a column of ``dumpfilter.slaves`` shares with a field of the gRPC message, with a value of the same
type.
"""

_SHOWN_UUID = 80


class DumpFilterService(pb_grpc.DumpFilterServicer):  # type: ignore[misc]  # generated, untyped
    """The master's implementation of the gRPC service that ``dumpfilter.proto`` defines.

    The methods are coroutines of one asyncio loop. Work that may wait for the disk or take long runs in other threads,
    through ``reader``. The methods raise DumpfilterError, which the interceptor of the gRPC port turns into gRPC status
    codes. On an edge (a slave that serves its relay log) ``reader`` is None until a slave or replica connects.

    ``write_filter`` has rules like ``--binlog-do-db``. With it every slave sees the binlog as if a server with these
    rules had written it.
    """

    def __init__(
        self,
        reader: SharedReader | None,
        *,
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
    ) -> None:
        self._reader = reader
        self.subjects = Subjects() if reader is None else reader.store.subjects
        self.config = config or MasterConfig()
        """The configuration in force. :meth:`reconfigure` replaces it."""
        self.register = Register(self.subjects, write_filter, imposed=self.config.imposed)
        self.master_uuid = "" if reader is None else uuid_of(reader.store.binlogs)
        self.access = Access(self.config.users)
        self.filter_warnings = FilterWarnings(self.subjects)
        self.drains = Drains()
        self.drains.on_change.append(self.wake_dumps)
        self.known_slaves = KnownSlaves(self.register, self.drains)
        self._refusals = Seldom(most=limits.REFUSALS_LOGGED)
        """The rate limit for log lines about refused calls, of which a stranger can cause thousands in a second."""
        self.stopping = False
        """Whether the master is shutting down. Dumps then end with UNAVAILABLE, so that the slaves reconnect."""

    @property
    def reader(self) -> SharedReader:
        """The object through which all dumps read the binlog. The subclass for an edge (a slave that serves its relay
        log) raises BinlogUnreadable while there is no binlog.
        """
        assert self._reader is not None
        return self._reader

    @property
    def store(self) -> BinlogStore:
        """The binlog set that is served. It caches the index of what dumps have read. The subclass for an edge (a slave
        that serves its relay log) raises BinlogUnreadable before the first relay log file exists.
        """
        return self.reader.store

    def end_dumps(self) -> None:
        """End all dumps with an error after which slaves connect again, because the master shuts down."""
        self.stopping = True
        for slave in self.register.all():
            slave.dump = 0
            slave.notify()

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        """Register a slave with its filter. Return the slave's id, the filters imposed on it, warnings about its
        filter, and facts about the server that wrote the binlog.

        Raises DumpfilterError, such as AccessDenied, OptionError or AlreadyRegistered.
        """
        peer = context.peer()
        details = {"server_id": request.server_id, "rules": len(request.filter.rules)}
        with self._logging_refusal("Register", "registration refused", request.user, peer, **details):
            slave = await self.reader.serve(lambda: self._register(request, peer))
            warnings = await self.reader.serve(lambda: self.filter_warnings.texts(slave))
        audit_slave("Register", slave.peer, peer)
        log.info(
            "registered",
            peer=peer,
            **slave.peer.fields,
            rules=len(slave.filter.rules),
            protocol=slave.peer.protocol,
            version=printable(slave.peer.program_version),
            imposed=[printable(each.name) for each in slave.imposed],
        )
        fd = self.store.format_description
        return pb.RegisterResponse(
            slave_id=slave.slave_id,
            filter=filter_to_proto(slave.filter),
            master_uuid=self.master_uuid,
            family=family_to_proto(fd.family),
            server_version=fd.server_version,
            imposed=[
                pb.ImposedFilter(name=one.name, filter=filter_to_proto(one.filter)) for one in slave.imposed
            ],
            server_id=fd.header.server_id,
            protocol=slave.peer.protocol,
            program_version=__version__,
            filter_warnings=warnings,
        )

    @contextlib.contextmanager
    def _logging_refusal(
        self, what: str, event: str, account: str, peer: str, **details: int
    ) -> Iterator[None]:
        """Log a DumpfilterError that the ``with`` block raises, and raise it again.

        The audit log gets the error as the result of the call ``what``, and the ordinary log as the event ``event``. An
        empty ``what`` or ``event`` leaves that log out. Lines are suppressed when a stranger causes many.
        """
        try:
            yield
        except DumpfilterError as error:
            held = None if isinstance(error, TryLater) and error.quiet else self._refusals.allows()
            if held is not None:
                fields = {**details, **({"lines_held_back": held} if held else {})}
                if event:
                    log.warning(event, peer=peer, reason=printable(str(error)), **fields)
                if what:
                    fields.pop("rules", None)
                    audit(what, account=account, peer=peer, result=str(error), **fields)
            raise

    def _register(self, request: pb.RegisterRequest, peer: str) -> RegisteredSlave:
        uuid = check_registration(request)
        check_protocol(request)
        config = self.config
        password = self.access.check(request.user, request.password, peer=peer, secret=request.secret)
        asking = Peer(
            request.user,
            request.channel,
            request.server_id,
            peer,
            uuid,
            request.host,
            request.port,
            request.protocol,
            request.program_version,
        )
        self.drains.check(asking)
        with self._noting_refusal(asking):
            slave = self.register.add(
                asking,
                filter_from_proto(request.filter, default=self.store.names),
                origin=origin_from_proto(request.filter.origin),
                password=password,
                secret=request.secret,
            )
        if self.config is not config and self._no_longer_valid(slave) is not None:
            # The configuration changed between the check and the entry into the register.
            with contextlib.suppress(NotRegistered):
                self.register.remove(slave.slave_id)
            return self._register(request, peer)
        return slave

    @contextlib.contextmanager
    def _noting_refusal(self, peer: Peer) -> Iterator[None]:
        """Record an error that the ``with`` block raises, if slaves stop at it, and raise the error again. The master's
        status then shows the slave as refused.
        """
        try:
            yield
        except DumpfilterError as error:
            if stops_slaves(error):
                self.known_slaves.refuse(peer, str(error))
            raise

    def wake_dumps(self) -> None:
        """Wake the dumps that wait for new events, because they may have to end. Any thread may call this method."""
        for slave in self.register.all():
            slave.notify()

    def check_reconfigurable(self, config: MasterConfig) -> None:
        """Raise OptionError if ``config`` has no users, but the running master has. Without users every slave could
        connect.
        """
        if self.config.users and not config.users:
            raise OptionError(
                "no [[user]] is left, and every slave could connect: to open this master, restart it"
            )

    def reconfigure(self, config: MasterConfig) -> int:
        """Put the users and the imposed filters of ``config`` into force. Return the number of registrations that have
        ended. Only one thread at a time calls this method.

        Dumps of slaves whose user is gone or has another password end with UNAUTHENTICATED. Dumps of slaves on which
        other filters are imposed now end with NOT_FOUND. These slaves register again, receive the filters, and resume
        at their last complete transaction.
        """
        self.access.change(config.users)
        self.config = config
        self.register.imposed = config.imposed
        ended = self.register.remove_all(self._no_longer_valid)
        for slave in ended:
            known = slave.peer
            audit_slave(f"end of the registration: {slave.ended_by}", known, known.endpoint)
            log.info(
                "registration ended",
                peer=known.endpoint,
                **known.fields,
                reason=printable(str(slave.ended_by)),
            )
        return len(ended)

    def _no_longer_valid(self, slave: RegisteredSlave) -> DumpfilterError | None:
        """Return the error with which a slave's registration must end under the present configuration. Return None if
        the registration may stay.
        """
        config = self.config
        # The replication port itself ends the connections of real replicas whose accounts have changed.
        if (
            config.users
            and not slave.peer.is_real_replica
            and (slave.password is None or config.users.get(slave.peer.user) != slave.password)
        ):
            return AccessDenied(
                f"the master's configuration no longer has this password for user {printable(slave.peer.user)!r}"
            )
        now = imposed_on(config.imposed, slave.peer)
        if [one.sends for one in now] != [one.sends for one in slave.imposed]:
            return NotRegistered("the filters imposed on this slave have changed: register again")
        return None

    async def Unregister(self, request: pb.UnregisterRequest, context: Context) -> pb.UnregisterResponse:
        """Remove the slave with the request's id from the register, and end its dump. Raises NotRegistered for an
        unknown id.
        """
        peer = context.peer()
        with self._logging_refusal("Unregister", "", "", peer):
            slave = await self.reader.serve(lambda: self.register.remove(request.slave_id))
        audit_slave("Unregister", slave.peer, peer)
        return pb.UnregisterResponse()

    async def Dump(self, request: pb.DumpRequest, context: Context) -> AsyncIterator[bytes]:
        """Stream the filtered binlog to a slave in chunks (serialized messages), from the position or GTID set that the
        slave sent.

        Raises DumpfilterError, such as NotRegistered, PositionError or Drained. Ends with the status ABORTED when a
        newer dump of the slave has begun, and with UNAVAILABLE when the master shuts down.
        """
        slave = await self.reader.serve(lambda: self.register.get(request.slave_id))
        with self._noting_refusal(replace(slave.peer, endpoint=context.peer())):
            dump = await self._begin_dump(request, slave)
            try:
                async with contextlib.aclosing(dump.messages()) as messages:
                    async for message in messages:
                        yield message
            except DumpfilterError as error:
                if isinstance(error, Drained):
                    log.info("dump drained", **slave.peer.fields, reason=printable(str(error)))
                else:
                    log.warning("dump stopped", **slave.peer.fields, error=printable(str(error)))
                raise
            finally:
                dump.close()
                _log_counts(slave)
        if dump.taken_over:
            if slave.ended_by is not None:
                raise slave.ended_by
            if self.stopping:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the master is shutting down")
            await context.abort(
                grpc.StatusCode.ABORTED,
                "this dump is over: the slave registered or began a dump anew, or was unregistered "
                "(is another slave running with a copy of this slave's relay directory?)",
            )

    async def Alive(self, request: pb.AliveRequest, context: Context) -> pb.AliveResponse:
        """Answer a slave that reports to be alive, and store the rate that its connection carries (bytes per second).
        Raises NotRegistered.

        The gRPC interceptor (the gate) has restarted the slave's timeout before.
        """
        self.register.get(request.slave_id).line_rate = request.line_rate
        return pb.AliveResponse()

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusResponse:
        """Return the master's binlog files, and the slaves that the client may see.

        Raises AccessDenied for a stranger, and TryLater for a client that must wait; both are logged.
        """
        peer = context.peer()
        with self._logging_refusal("", "status refused", "", peer):
            slaves = await self.reader.serve(lambda: self._known_to(request, peer))
        return await self.reader.serve(lambda: self._status(slaves))

    def _known_to(self, request: pb.StatusRequest, peer: str) -> list[KnownSlave]:
        """Return the slaves that a client may see: the slave with the request's id, or all slaves of the request's
        user.

        Raises AccessDenied for an unknown id, a wrong password, or a master without users. Raises TryLater for a client
        that must wait after wrong passwords.
        """
        if request.slave_id:
            try:
                return [self.known_slaves.of(self.register.get(request.slave_id))]
            except NotRegistered as error:
                raise AccessDenied(str(error)) from None
        if self.access.is_open:
            raise AccessDenied(
                "this master has no users: ask with the slave_id of a registration, or look at the master's console"
            )
        self.access.check(request.user, request.password, peer=peer)
        return [one for one in self.known_slaves.all() if one.peer.user == request.user]

    def _status(self, slaves: list[KnownSlave]) -> pb.StatusResponse:
        """Return the answer to a Status request. ``slaves`` are the slaves that the client may see. Reads the binlog's
        index file again.
        """
        files = [pb.BinlogFile(name=printable(name), size=size) for name, size in self.store.sizes()]
        status = pb.StatusResponse(server_version=self.store.format_description.server_version, files=files)
        for one in slaves:
            texts = () if one.registered is None else self.filter_warnings.texts(one.registered)
            status.slaves.append(slave_to_proto(one, texts))
        return status

    async def _begin_dump(self, request: pb.DumpRequest, slave: RegisteredSlave) -> dumps.Dump:
        wanted = await self.reader.serve(lambda: wanted_by(request, self.store))
        await check_place(wanted, self.reader, self.master_uuid)
        start = await self.reader.serve(lambda: start_of(request, wanted, self.store))
        if request.chunk_size > limits.MAX_CHUNK_SIZE:
            raise OptionError(f"chunk_size {request.chunk_size}: at most {limits.MAX_CHUNK_SIZE}")
        self.drains.check(slave.peer)
        options = dumps.DumpOptions(
            once=request.once,
            chunk_size=request.chunk_size and max(request.chunk_size, limits.MIN_CHUNK_SIZE),
            line_rate=request.line_rate,
            kept=Kept(request.kept_bytes, request.kept_crc32),
            heartbeat_period=request.heartbeat_period_ms
            and max(request.heartbeat_period_ms / 1000, limits.MIN_HEARTBEAT_PERIOD),
            earlier=self.register.earlier(
                slave,
                self.store.binlogs.names,
                (start.file, start.position),
                is_any=request.other_filters_before,
            ),
        )
        return dumps.Dump(self.reader, self.register, slave, start, options, drains=self.drains)


def _log_counts(slave: RegisteredSlave) -> None:
    log.info(
        "dump ended",
        **slave.peer.fields,
        file=slave.file,
        position=slave.position,
        events_sent=slave.counts.events_sent,
        events_dropped=slave.counts.events_dropped,
        events_undecided=slave.counts.events_undecided,
    )


def check_registration(request: pb.RegisterRequest) -> str:
    """Check the fields of a slave's registration, and return the slave's UUID in lower case with hyphens.

    Raises OptionError for server id 0, a malformed UUID, a name that is too long, or a secret of a wrong length.
    """
    if not request.server_id:
        raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
    try:
        uuid = str(uuids.UUID(request.uuid))
    except ValueError:
        raise OptionError(f"uuid {request.uuid[:_SHOWN_UUID]!r} is not a UUID") from None
    for name in ("host", "channel", "user", "program_version"):
        value = getattr(request, name)
        if len(value) > limits.MAX_NAME:
            raise OptionError(f"{name}: longer than {limits.MAX_NAME} characters")
    if request.secret and not SHORTEST_SECRET <= len(request.secret) <= LONGEST_SECRET:
        raise OptionError(
            f"secret: {len(request.secret)} bytes; give {SHORTEST_SECRET} to {LONGEST_SECRET} random bytes, or none"
        )
    return uuid


def check_protocol(request: pb.RegisterRequest) -> None:
    """Raise ProtocolMismatch when this master does not support the version of the gRPC protocol that the slave uses."""
    check_versions(
        slave=Speaker(request.protocol, printable(request.program_version)),
        master=Speaker(PROTOCOL, __version__),
    )


def slave_to_proto(slave: KnownSlave, filter_warnings: Iterable[str] = ()) -> pb.Slave:
    """Return the gRPC message that describes a slave, registered or not, without its id and secret.

    ``filter_warnings`` are the warnings about the slave's filter.
    """
    view = SlaveView(slave, None)
    facts = {name: value for name, value in SLAVES.document(view, _FACTS).items() if value is not None}
    return pb.Slave(
        **facts,
        position=pb.BinlogPosition(file=slave.file, position=slave.position),
        counts=counts_to_proto(slave.counts),
        filter_warnings=filter_warnings,
    )
