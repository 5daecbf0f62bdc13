"""The contract's gRPC service over the store and the register: a thin shell, one method a call."""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

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
from dumpfilter.filter.convert import family_to_proto, filter_from_proto, filter_to_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc
from master.ahead import Ahead
from master.dump import Dump, counts_to_proto, start_of
from master.register import AlreadyRegistered, NotRegistered, Register, RegisteredSlave
from master.store import BinlogStore

MAX_RULES = 10_000
"""How many rules a filter may have."""
MAX_NAME = 1024
"""How long a rule's value, host or channel may be, characters."""
MAX_CHUNK_SIZE = 16 << 20
CHUNKS_AHEAD = 3
"""How many chunks a dump may be ahead of what gRPC has taken."""

_SERVER_UUID = re.compile(r"^\s*server[-_]uuid\s*=\s*([0-9a-fA-F-]{36})\s*$", re.MULTILINE)

T = TypeVar("T")

_CODES: list[tuple[type[DumpfilterError], grpc.StatusCode]] = [
    (NotRegistered, grpc.StatusCode.NOT_FOUND),
    (AlreadyRegistered, grpc.StatusCode.ALREADY_EXISTS),
    (OptionError, grpc.StatusCode.INVALID_ARGUMENT),
    (GtidError, grpc.StatusCode.INVALID_ARGUMENT),
    (PositionError, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogMissing, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogError, grpc.StatusCode.DATA_LOSS),
]

log = structlog.get_logger("dumpfilter.master")


class DumpFilterService(pb_grpc.DumpFilterServicer):  # type: ignore[misc]  # generated, untyped
    """Master side of the contract. With a ``write_filter`` the store is served as though written with it."""

    def __init__(
        self, store: BinlogStore, *, master_uuid: str = "", write_filter: ReplicationFilter | None = None
    ) -> None:
        self.store = store
        self.register = Register(store.subjects, write_filter)
        self.master_uuid = master_uuid or _uuid_of(store)

    def Register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.RegisterResponse:
        def register() -> RegisteredSlave:
            if not request.server_id:
                raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
            try:
                uuid = str(uuids.UUID(request.uuid))
            except ValueError:
                raise OptionError(f"uuid {request.uuid[:80]!r} is not a UUID") from None
            for name, value in (("host", request.host), ("channel", request.channel)):
                if len(value) > MAX_NAME:
                    raise OptionError(f"{name}: longer than {MAX_NAME} characters")
            return self.register.add(
                server_id=request.server_id,
                uuid=uuid,
                host=request.host,
                port=request.port,
                channel=request.channel,
                rule_filter=self._filter(request.filter),
            )

        slave = self._answer(context, register)
        self.store.wake()
        log.info(
            "registered", server_id=slave.server_id, channel=slave.channel, rules=len(slave.filter.rules)
        )
        fd = self.store.format_description
        return pb.RegisterResponse(
            slave_id=slave.slave_id,
            filter=filter_to_proto(slave.filter),
            filter_version=slave.filter_version,
            master_uuid=self.master_uuid,
            family=family_to_proto(fd.family),
            server_version=fd.server_version,
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
        slave = self._answer(
            context, lambda: self.register.change_filter(request.slave_id, self._filter(request.filter))
        )
        self.store.wake()
        return pb.ChangeFilterResponse(
            filter=filter_to_proto(slave.filter), filter_version=slave.filter_version
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
                active=context.is_active,
            )

        dump = self._answer(context, begin)
        # a dump that waits for the binlog to grow learns at once that its slave is gone
        context.add_callback(self.store.wake)
        chunks = Ahead(dump.chunks(), CHUNKS_AHEAD)
        try:
            yield from chunks
        except DumpfilterError as error:
            log.warning("dump stopped", slave=request.slave_id, error=str(error))
            self._abort(context, error)
        finally:
            chunks.close()
            self.store.wake()
            _log_counts(slave)
        if dump.taken_over and context.is_active():
            context.abort(
                grpc.StatusCode.ABORTED,
                "this dump is over: the slave registered or began a dump anew, or was unregistered",
            )

    def ListSlaves(
        self, request: pb.ListSlavesRequest, context: grpc.ServicerContext
    ) -> pb.ListSlavesResponse:
        return pb.ListSlavesResponse(slaves=[_slave(slave) for slave in self.register.all()])

    def Status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusResponse:
        def status() -> pb.StatusResponse:
            self.store.binlogs.refresh()
            names = self.store.binlogs.names
            files = [
                pb.BinlogFile(name=name, size=self.store.binlogs.path(name).stat().st_size) for name in names
            ]
            segments, cached = self.store.cache_status()
            fd = self.store.format_description
            return pb.StatusResponse(
                master_uuid=self.master_uuid,
                family=family_to_proto(fd.family),
                server_version=fd.server_version,
                position=pb.BinlogPosition(file=names[-1], position=files[-1].size),
                files=files,
                slaves=[_slave(slave) for slave in self.register.all()],
                index=pb.IndexStatus(
                    bytes_scanned=self.store.bytes_scanned,
                    events_scanned=self.store.events_scanned,
                    segments_cached=segments,
                    bytes_cached=cached,
                ),
            )

        return self._answer(context, status)

    def _filter(self, definition: pb.FilterDefinition) -> ReplicationFilter:
        if len(definition.rules) > MAX_RULES:
            raise OptionError(f"{len(definition.rules)} rules: at most {MAX_RULES}")
        for rule in definition.rules:
            if len(rule.value) > MAX_NAME:
                raise OptionError(f"rule {rule.value[:60]!r}…: longer than {MAX_NAME} characters")
        return filter_from_proto(definition, default_family=self.store.format_description.family)

    def _answer(self, context: grpc.ServicerContext, call: Callable[[], T]) -> T:
        try:
            return call()
        except DumpfilterError as error:
            self._abort(context, error)

    @staticmethod
    def _abort(context: grpc.ServicerContext, error: DumpfilterError) -> NoReturn:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
        context.abort(code, str(error))
        raise AssertionError("abort() raises")


def _log_counts(slave: RegisteredSlave) -> None:
    """What a slave whose dump is over has cost since it registered."""
    log.info(
        "dump ended",
        server_id=slave.server_id,
        channel=slave.channel,
        file=slave.file,
        position=slave.position,
        events_sent=slave.counts.events_sent,
        events_dropped=slave.counts.events_dropped,
        events_undecided=slave.counts.events_undecided,
    )


def _slave(slave: RegisteredSlave) -> pb.Slave:
    return pb.Slave(
        slave_id=slave.slave_id,
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
    )


def _uuid_of(store: BinlogStore) -> str:
    """An identity for this binlog set, the same whenever the same set is served, so that a slave notices when it
    is pointed at another one: the server's own uuid where the set lies in its data directory, else one made
    from how the first file begins."""
    index = store.binlogs.index
    if index is not None:
        try:
            found = _SERVER_UUID.search((index.parent / "auto.cnf").read_text())
        except OSError:
            found = None
        if found:
            return found[1].lower()
    first = store.open_file(store.binlogs.names[0]).file
    head = first.format_description.raw + first.read(first.first_event, 4096)
    return str(uuids.uuid5(uuids.NAMESPACE_OID, head.hex()))
