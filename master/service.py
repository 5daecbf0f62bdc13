"""The contract's gRPC service over the store and the register: a thin shell, one method a call."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn, TypeVar

import grpc
import structlog

from dumpfilter.errors import (
    BinlogError,
    BinlogMissing,
    DumpfilterError,
    GtidError,
    OptionError,
    PositionError,
)
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.convert import (
    family_to_proto,
    filter_from_proto,
    filter_to_proto,
    origin_from_proto,
)
from dumpfilter.master.access import AccessDenied, check_password
from dumpfilter.master.ahead import Ahead
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.dump import Dump, check_boundary, counts_to_proto, start_at, start_of
from dumpfilter.master.identity import uuid_of
from dumpfilter.master.imposed import ImposedFilter, imposed_on
from dumpfilter.master.register import AlreadyRegistered, NotRegistered, Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
from dumpfilter.printable import printable
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from dumpfilter.master.presplit import Presplit

MAX_RULES = 10_000
"""How many rules a filter may have."""
MAX_NAME = 1024
"""How long a rule's value, host or channel may be, characters."""
MAX_ERROR = 1800
"""How long the text of an error may be, characters."""
MAX_CHUNK_SIZE = 16 << 20
CHUNKS_AHEAD = 3
"""How many chunks a dump may be ahead of what gRPC has taken."""

T = TypeVar("T")

_CODES: list[tuple[type[DumpfilterError], grpc.StatusCode]] = [
    (NotRegistered, grpc.StatusCode.NOT_FOUND),
    (AlreadyRegistered, grpc.StatusCode.ALREADY_EXISTS),
    (AccessDenied, grpc.StatusCode.UNAUTHENTICATED),
    (OptionError, grpc.StatusCode.INVALID_ARGUMENT),
    (GtidError, grpc.StatusCode.INVALID_ARGUMENT),
    (PositionError, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogMissing, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogError, grpc.StatusCode.DATA_LOSS),
]

log = structlog.get_logger("dumpfilter.master")


class DumpFilterService(pb_grpc.DumpFilterServicer):  # type: ignore[misc]  # generated, untyped
    """Master side of the contract. With a ``write_filter`` the store is served as though written with it;
    slaves are dumped to from ``presplit`` where it has what they get."""

    def __init__(
        self,
        store: BinlogStore,
        *,
        master_uuid: str = "",
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
        presplit: Presplit | None = None,
    ) -> None:
        self.store = store
        self.presplit = presplit
        self.register = Register(store.subjects, write_filter)
        self.master_uuid = master_uuid or uuid_of(store.binlogs)
        self.config = config or MasterConfig()
        self.stopping = False
        """Whether the master is about to end: slaves come back, to whoever has its address then."""

    def Register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.RegisterResponse:
        peer = context.peer()

        def register() -> RegisteredSlave:
            check_password(self.config.users, request.user, request.password, peer=peer)
            if not request.server_id:
                raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
            try:
                uuid = str(uuids.UUID(request.uuid))
            except ValueError:
                raise OptionError(f"uuid {request.uuid[:80]!r} is not a UUID") from None
            for name in ("host", "channel", "user"):
                value = getattr(request, name)
                if len(value) > MAX_NAME:
                    raise OptionError(f"{name}: longer than {MAX_NAME} characters")
            return self.register.add(
                server_id=request.server_id,
                uuid=uuid,
                host=request.host,
                port=request.port,
                channel=request.channel,
                rule_filter=self._filter(request.filter),
                origin=origin_from_proto(request.filter.origin),
                user=request.user,
                imposed=imposed_on(
                    self.config.imposed, server_id=request.server_id, user=request.user, peer=peer
                ),
            )

        def register_or_log() -> RegisteredSlave:
            try:
                return register()
            except DumpfilterError as error:
                log.warning(
                    "registration refused",
                    peer=peer,
                    server_id=request.server_id,
                    rules=len(request.filter.rules),
                    reason=printable(str(error)),
                )
                raise

        slave = self._answer(context, register_or_log)
        self.store.wake()
        log.info(
            "registered",
            peer=peer,
            server_id=slave.server_id,
            channel=printable(slave.channel),
            user=printable(slave.user),
            rules=len(slave.filter.rules),
            imposed=[printable(one.name) for one in slave.imposed],
        )
        fd = self.store.format_description
        return pb.RegisterResponse(
            slave_id=slave.slave_id,
            filter=filter_to_proto(slave.filter),
            filter_version=slave.filter_version,
            master_uuid=self.master_uuid,
            family=family_to_proto(fd.family),
            server_version=fd.server_version,
            imposed=imposed_to_proto(slave.imposed),
            server_id=fd.header.server_id,
        )

    def Unregister(
        self, request: pb.UnregisterRequest, context: grpc.ServicerContext
    ) -> pb.UnregisterResponse:
        self._answer(context, lambda: self.register.remove(request.slave_id))
        self.store.wake()
        return pb.UnregisterResponse()

    def ChangeFilter(
        self, request: pb.ChangeFilterRequest, context: grpc.ServicerContext
    ) -> pb.ChangeFilterResponse:
        def change() -> RegisteredSlave:
            place = getattr(request, "from")
            return self.register.change_filter(
                request.slave_id,
                self._filter(request.filter),
                origin=origin_from_proto(request.filter.origin),
                place=self._place(place) if place.file else None,
            )

        slave = self._answer(context, change)
        self.store.wake()
        return pb.ChangeFilterResponse(
            filter=filter_to_proto(slave.filter),
            filter_version=slave.filter_version,
            imposed=imposed_to_proto(slave.imposed),
        )

    def Dump(self, request: pb.DumpRequest, context: grpc.ServicerContext) -> Iterator[pb.Chunk]:
        slave = self._answer(context, lambda: self.register.get(request.slave_id))

        def begin() -> Dump:
            if request.chunk_size > MAX_CHUNK_SIZE:
                raise OptionError(f"chunk_size {request.chunk_size}: at most {MAX_CHUNK_SIZE}")
            return Dump(
                self.store,
                self.register,
                slave,
                start_of(request, self.store),
                once=request.once,
                chunk_size=request.chunk_size,
                heartbeat=request.heartbeat_period_ms / 1000,
                filter_version=request.filter_version,
                other_filters_before=request.other_filters_before,
                active=context.is_active,
                presplit=self.presplit,
            )

        dump = self._answer(context, begin)
        # a dump that waits for the binlog to grow learns at once that its slave is gone
        context.add_callback(self.store.wake)
        chunks = Ahead(dump.chunks(), CHUNKS_AHEAD)
        try:
            yield from chunks
        except DumpfilterError as error:
            log.warning("dump stopped", slave=printable(request.slave_id), error=printable(str(error)))
            self._abort(context, error)
        finally:
            chunks.close()
            self.store.wake()
            _log_counts(slave)
        if dump.taken_over and context.is_active():
            if self.stopping:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the master is shutting down")
            context.abort(
                grpc.StatusCode.ABORTED,
                "this dump is over: the slave registered or began a dump anew, or was unregistered",
            )

    def ListSlaves(
        self, request: pb.ListSlavesRequest, context: grpc.ServicerContext
    ) -> pb.ListSlavesResponse:
        return pb.ListSlavesResponse(slaves=self._slaves())

    def _slaves(self) -> list[pb.Slave]:
        """As SHOW REPLICAS has them. Where slaves are told apart the id of one would let another use its registration:
        then it is left out."""
        secret = bool(self.config.users or self.config.imposed)
        return [_slave(slave, secret=secret) for slave in self.register.all()]

    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusResponse:
        def status() -> pb.StatusResponse:
            self.store.binlogs.refresh()
            names = self.store.binlogs.names
            files = [
                pb.BinlogFile(name=name, size=self.store.binlogs.path(name).stat().st_size) for name in names
            ]
            segments, cached = self.store.cache_status()
            fd = self.store.format_description
            write_filter = self.register.write_filter
            return pb.StatusResponse(
                master_uuid=self.master_uuid,
                family=family_to_proto(fd.family),
                server_version=fd.server_version,
                position=pb.BinlogPosition(file=names[-1], position=files[-1].size),
                files=files,
                slaves=self._slaves(),
                index=pb.IndexStatus(
                    bytes_scanned=self.store.bytes_scanned,
                    events_scanned=self.store.events_scanned,
                    segments_cached=segments,
                    bytes_cached=cached,
                ),
                write_rules=map(str, write_filter.rules) if write_filter is not None else (),
            )

        return self._answer(context, status)

    def _place(self, place: pb.BinlogPosition) -> tuple[str, int]:
        """Where a filter is to change: a transaction boundary of a file that is there. A dump that began in a file's
        middle is not asked, the slave knows what it has. Raises BinlogMissing or PositionError."""
        start = start_at(place.file, place.position, self.store)
        check_boundary(start, self.store)
        return start.file, start.position

    def _filter(self, definition: pb.FilterDefinition) -> ReplicationFilter:
        if len(definition.rules) > MAX_RULES:
            raise OptionError(f"{len(definition.rules)} rules: at most {MAX_RULES}")
        for rule in definition.rules:
            if len(rule.value) > MAX_NAME:
                raise OptionError(f"rule {rule.value[:60]!r}…: longer than {MAX_NAME} characters")
        return filter_from_proto(definition, default=self.store.names)

    def _answer(self, context: grpc.ServicerContext, call: Callable[[], T]) -> T:
        try:
            return call()
        except DumpfilterError as error:
            self._abort(context, error)

    @staticmethod
    def _abort(context: grpc.ServicerContext, error: DumpfilterError) -> NoReturn:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
        text = str(error)
        # gRPC carries it as a header of at most 8 KiB, in which a character may take 12 bytes
        most = MAX_ERROR if text.isascii() else MAX_ERROR // 3
        context.abort(code, text if len(text) <= most else text[:most] + "…")
        raise AssertionError("abort() raises")


def _log_counts(slave: RegisteredSlave) -> None:
    """What a slave whose dump is over has cost since it registered."""
    log.info(
        "dump ended",
        server_id=slave.server_id,
        channel=printable(slave.channel),
        file=slave.file,
        position=slave.position,
        events_sent=slave.counts.events_sent,
        events_dropped=slave.counts.events_dropped,
        events_undecided=slave.counts.events_undecided,
    )


def imposed_to_proto(imposed: Iterable[ImposedFilter]) -> list[pb.ImposedFilter]:
    """Imposed filters as a slave is told them."""
    return [pb.ImposedFilter(name=one.name, filter=filter_to_proto(one.filter)) for one in imposed]


def _slave(slave: RegisteredSlave, *, secret: bool) -> pb.Slave:
    return pb.Slave(
        slave_id="" if secret else slave.slave_id,
        server_id=slave.server_id,
        uuid=slave.uuid,
        host=slave.host,
        port=slave.port,
        channel=slave.channel,
        filter=filter_to_proto(slave.filter),
        filter_version=slave.filter_version,
        dumping=bool(slave.dump),
        position=pb.BinlogPosition(file=slave.file, position=slave.position),
        counts=counts_to_proto(slave.counts),
        registered_at=slave.registered_at,
        last_seen_at=slave.last_seen_at,
        imposed=imposed_to_proto(slave.imposed),
        user=slave.user,
    )
