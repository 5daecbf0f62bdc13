"""The I/O thread: the gRPC shell around :class:`dumpfilter.slave.receiver.Receiver`.

It registers the slave with its filter, asks for a dump from where the receiver is, hands it every chunk,
and comes back after the connection was lost. Chunks are written before the next one is asked for; what
gRPC holds ahead is bounded by HTTP/2 flow control, so a slow disk holds the master's dump thread back.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import grpc
import structlog

from dumpfilter.binlog.format import Family
from dumpfilter.errors import BinlogCorrupt, BinlogMissing, ConnectionLost, DumpfilterError, PositionError
from dumpfilter.filter.convert import names_from_proto, names_to_proto
from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.slave.backoff import Backoff
from dumpfilter.slave.errors import DumpTakenOver, RegistrationRefused, StreamError
from dumpfilter.slave.master_info import MasterInfo
from dumpfilter.slave.receiver import Receiver
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("dumpfilter.slave.io_thread")

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # every attempt connects anew, with our own backoff only
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)

_RETRIED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)

_REGISTER_TIMEOUT = 10.0
"""Seconds; registering and the like are answered at once by a master that lives."""

_TICK = 0.05
"""How often, seconds, the ticker looks after ``master.info`` and the silence of the master."""

_MOST_REGISTRATIONS = 3
"""So many registrations in a row that the master does not know of when the dump is asked for, and it must
be something else that was not found."""

_FAMILIES: dict[int, Family] = {pb.MYSQL: "mysql", pb.MARIADB: "mariadb"}


class _Call(Protocol):
    """A gRPC call under way."""

    def cancel(self) -> bool: ...


class _Dump(_Call, Protocol):
    """A dump under way."""

    def __iter__(self) -> Iterator[pb.Chunk]: ...


@dataclass(frozen=True)
class SourceOptions:
    """Who the slave is, which master it reads and how (``CHANGE REPLICATION SOURCE TO``)."""

    address: str
    """``host:port`` of the master's gRPC service."""
    server_id: int
    uuid: str
    channel: str = ""
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter to register with."""
    user: str = ""
    password: str = field(default="", repr=False)
    report_host: str = ""
    report_port: int = 0
    once: bool = False
    """End at the end of the newest binlog."""
    auto_position: bool = False
    """``SOURCE_AUTO_POSITION``: the first time, and at another master, go on by GTID set."""
    start_file: str = ""
    start_position: int = 4
    """Where to begin the first time; later the slave knows."""
    chunk_size: int = 0
    """Bytes; 0 leaves it to the master."""
    heartbeat_period: float = HEARTBEAT_PERIOD
    """Seconds."""
    net_timeout: float = 60.0
    """``--replica-net-timeout``: the connection counts as lost after so many seconds of silence."""
    connect_retry: float = 60.0
    """``--connect-retry``: the longest wait between two attempts, seconds."""
    retry_count: int = 86_400
    """``--retry-count``: so many failed attempts in a row and the thread gives up; 0 means never."""


@dataclass
class Received:
    """What came over the wire since the thread began."""

    connections: int = 0
    heartbeats: int = 0
    last_heartbeat_at: float = 0.0
    """Unix time, seconds."""
    chunks: int = 0
    bytes_received: int = 0
    """Bytes of raw events."""
    counts: dict[str, int] = field(default_factory=lambda: {f.name: 0 for f in pb.Counts.DESCRIPTOR.fields})
    """The master's counts of what it read, sent and dropped for this slave."""

    def add(self, chunk: pb.Chunk) -> None:
        """Count a chunk in."""
        self.chunks += 1
        if chunk.heartbeat:
            self.heartbeats += 1
            self.last_heartbeat_at = time.time()
        self.bytes_received += len(chunk.events)
        for name in self.counts:
            self.counts[name] += getattr(chunk.counts, name)


@dataclass(frozen=True)
class _Registration:
    """What the running connection knows of itself."""

    stub: rpc.DumpFilterStub
    slave_id: str
    master_uuid: str


class IoThread:
    """Fills the relay log. :meth:`run` blocks, once; :meth:`stop` and :meth:`change_filter` may be called from any
    thread.

    ``on_chunk`` is told after each chunk has been written; ``on_connect`` the stub and the registration's
    answer after each registration.
    """

    def __init__(
        self,
        options: SourceOptions,
        receiver: Receiver,
        *,
        on_chunk: Callable[[pb.Chunk], None] = lambda chunk: None,
        on_connect: Callable[[rpc.DumpFilterStub, pb.RegisterResponse], None] = lambda stub, answer: None,
    ) -> None:
        self._options = options
        self._receiver = receiver
        self._on_chunk = on_chunk
        self._on_connect = on_connect
        self.received = Received()
        self._backoff = Backoff(options.connect_retry)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._heard_at = time.monotonic()
        self._ticker_error: DumpfilterError | None = None
        self._unknown_registrations = 0
        # held from before a registration until its dump has been asked for: a filter changes before or after that
        self._registering = threading.Lock()
        self._registration: _Registration | None = None
        self.state = ""
        """What the thread is doing, in the server's words (``Replica_IO_State``); empty when it is not running."""
        self.last_error = ""
        """Why the newest attempt to connect failed; empty when it did not."""
        self.last_error_at = 0.0
        """When that was, Unix time, seconds."""
        self.filter_version = 0
        """Of the filter that the master has of this slave, counted from the newest registration."""
        self.ended = False
        """Whether the dump came to its end (``once``)."""

    @property
    def connected(self) -> bool:
        """Whether a dump is under way (``Replica_IO_Running: Yes``; else, while it runs, ``Connecting``)."""
        return self._registration is not None

    def change_filter(self, definition: pb.FilterDefinition, to: MasterInfo) -> None:
        """Go on with another filter from ``to`` on, which is where the applier is; what was relayed beyond it is given
        up. The master is told when it is there; when it cannot do that in the running stream (it is gone, or it was
        another master's place), the stream is begun anew.
        """
        if self._registration is None:
            self._cancel()  # an attempt to register that nobody answers would be waited for
        with self._registering, self._receiver.rewinding(to):
            self._options = replace(self._options, filter=definition)
            registration = self._registration
            if registration is None:
                return
            version = None
            if to.source_file and to.master_uuid == registration.master_uuid:
                version = self._tell(registration, definition, to)
            if version is None:
                self._cancel()
            else:
                self.filter_version = version
                self._receiver.await_version(version)

    def set_filter(self, definition: pb.FilterDefinition) -> None:
        """Register with this filter. For a thread that does not run yet."""
        self._options = replace(self._options, filter=definition)

    def _tell(
        self, registration: _Registration, definition: pb.FilterDefinition, to: MasterInfo
    ) -> int | None:
        """Tell the master of the change; the version of the new filter, None when it could not take it up."""
        request = pb.ChangeFilterRequest(slave_id=registration.slave_id, filter=self._with_names(definition))
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file=to.source_file, position=to.source_position))
        try:
            answer = registration.stub.ChangeFilter(request, timeout=_REGISTER_TIMEOUT)
        except grpc.RpcError as error:
            log.warning(
                "filter not changed in the stream, which begins anew",
                master=self._options.address,
                status=error.code().name,
                reason=error.details(),
            )
            return None
        return int(answer.filter_version)

    def stop(self) -> None:
        """End :meth:`run` soon; it returns in order."""
        self._stop.set()
        self._cancel()

    def run(self) -> None:
        """Receive until the end (``once``), :meth:`stop`, or an error that another attempt cannot mend.

        Raises the typed error; :class:`ConnectionLost` when the attempts are used up.
        """
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(done,), name="slave-io-ticker", daemon=True)
        ticker.start()
        try:
            while not self._stop.is_set():
                try:
                    if self._connect_and_receive():
                        self.ended = True
                        return
                    self._lost("the master ended the stream")
                except grpc.RpcError as error:
                    self._lost(self._judge(error))
                except grpc.FutureCancelledError:
                    self._lost("the master was silent for too long")  # or stop() was called
        finally:
            self.state = ""
            done.set()
            ticker.join()
            self._receiver.close()

    def _connect_and_receive(self) -> bool:
        """One connection. True when the dump came to its end."""
        self.state = "Connecting to source"
        with grpc.insecure_channel(self._options.address, options=CHANNEL_OPTIONS) as channel:
            stub = rpc.DumpFilterStub(channel)
            with self._registering:
                answer = self._register(stub)
                self.last_error = ""
                call = self._begin(stub, answer)
            self._on_connect(stub, answer)
            self.received.connections += 1
            self.state = "Waiting for source to send event"
            try:
                ended = self._receive(call)
            finally:
                with self._registering:
                    self._registration = None
            if ended or self._stop.is_set():
                self._unregister(stub, answer.slave_id)
            return ended

    def _begin(self, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> _Dump:
        """Ask for the dump, from where the receiver is."""
        another_master = bool(
            self._options.auto_position
            and self._receiver.info.source_file
            and self._receiver.info.master_uuid != answer.master_uuid
        )
        self._receiver.begin_stream(
            master_uuid=answer.master_uuid,
            family=_FAMILIES.get(answer.family, "mysql"),
            names=names_from_proto(answer.filter.names),
            another_master=another_master,
        )
        call: _Dump = stub.Dump(self._dump_request(answer, by_gtid=another_master))
        self._holding(call)
        self._registration = _Registration(stub, answer.slave_id, answer.master_uuid)
        self.filter_version = answer.filter_version
        return call

    def _with_names(self, definition: pb.FilterDefinition) -> pb.FilterDefinition:
        """Return the definition with the collation for names that the relay logs were filtered with.

        The slave keeps to it although the master's binlogs may come from a newer server by now: what the applier has
        not reached yet was chosen with it.
        """
        named = pb.FilterDefinition()
        named.CopyFrom(definition)
        known = self._receiver.info.name_collation
        if known is not None:
            named.names = names_to_proto(known)
        return named

    def _register(self, stub: rpc.DumpFilterStub) -> pb.RegisterResponse:
        options = self._options
        request = pb.RegisterRequest(
            server_id=options.server_id,
            uuid=options.uuid,
            host=options.report_host,
            port=options.report_port,
            channel=options.channel,
            filter=self._with_names(options.filter),
            user=options.user,
            password=options.password,
        )
        try:
            call = stub.Register.future(request, timeout=_REGISTER_TIMEOUT)
            self._holding(call)
            answer: pb.RegisterResponse = call.result()
            return answer
        except grpc.RpcError as error:
            if error.code() in _RETRIED:
                raise
            raise RegistrationRefused(f"master {options.address}: {error.details()}") from error

    def _unregister(self, stub: rpc.DumpFilterStub, slave_id: str) -> None:
        try:
            stub.Unregister(pb.UnregisterRequest(slave_id=slave_id), timeout=1.0)
        except grpc.RpcError as error:
            log.debug("not unregistered", master=self._options.address, status=error.code().name)

    def _dump_request(self, answer: pb.RegisterResponse, *, by_gtid: bool) -> pb.DumpRequest:
        options, info = self._options, self._receiver.info
        request = pb.DumpRequest(
            slave_id=answer.slave_id,
            filter_version=answer.filter_version,
            other_filters_before=info.other_filters,
            once=options.once,
            chunk_size=options.chunk_size,
            heartbeat_period_ms=int(options.heartbeat_period * 1000),
        )
        if by_gtid or (options.auto_position and not info.source_file):
            request.gtid_set = info.retrieved
        elif info.source_file:
            getattr(request, "from").CopyFrom(
                pb.BinlogPosition(file=info.source_file, position=info.source_position)
            )
        else:
            getattr(request, "from").CopyFrom(
                pb.BinlogPosition(file=options.start_file, position=options.start_position)
            )
        return request

    def _receive(self, call: _Dump) -> bool:
        try:
            for chunk in call:
                self._heard_at = math.inf  # a slow disk here is no silence of the master
                self.received.add(chunk)
                if not self._receiver.receive(chunk):
                    self._heard_at = time.monotonic()
                    continue
                self._backoff.reset()
                self._unknown_registrations = 0
                self._on_chunk(chunk)
                self._heard_at = time.monotonic()
                if chunk.end_of_log and self._options.once:
                    return True
            return False
        except grpc.RpcError:
            if self._ticker_error is not None:
                raise self._ticker_error from None
            if self._stop.is_set():
                return False
            raise
        finally:
            call.cancel()

    def _judge(self, error: grpc.RpcError) -> str:
        """What a failed call means: returns the reason when another attempt may help, else raises."""
        code, details = error.code(), error.details() or ""
        where = f"master {self._options.address}"
        if code in _RETRIED:
            return f"{code.name}: {details}"
        if code == grpc.StatusCode.NOT_FOUND:
            self._unknown_registrations += 1
            if self._unknown_registrations < _MOST_REGISTRATIONS:
                return f"the master does not know this slave (any more): {details}"
            raise BinlogMissing(f"{where}: {details}") from error
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE):
            raise PositionError(f"{where}: {details}") from error
        if code == grpc.StatusCode.DATA_LOSS:
            raise BinlogCorrupt(f"{where}: {details}") from error
        if code == grpc.StatusCode.ABORTED:
            raise DumpTakenOver(
                f"{where}: {details or 'a newer dump of the same slave took over'} "
                "(is another slave running with this server uuid?)"
            ) from error
        raise StreamError(f"{where}: {code.name}: {details}") from error

    def _lost(self, reason: str) -> None:
        """Wait for the next attempt. Raises :class:`ConnectionLost` when there is none."""
        if self._ticker_error is not None:
            raise self._ticker_error
        if self._stop.is_set():
            return
        options = self._options
        self.last_error, self.last_error_at = reason, time.time()
        self.state = "Waiting to reconnect after a failed source event read"
        wait = self._backoff.next()
        attempts = self._backoff.attempts
        if options.retry_count and attempts >= options.retry_count:
            raise ConnectionLost(
                f"master {options.address} cannot be reached after {attempts} attempts ({reason}); is it "
                "running, and is this its address?"
            )
        log.warning(
            "connection lost", master=options.address, reason=reason, attempt=attempts, wait=round(wait, 2)
        )
        self._stop.wait(wait)

    def _holding(self, call: _Call) -> None:
        """From here on, :meth:`stop` and a long silence end this call."""
        with self._lock:
            self._heard_at = time.monotonic()
            self._call = call
        if self._stop.is_set():
            call.cancel()

    def _cancel(self) -> None:
        with self._lock:
            if self._call is not None:
                self._call.cancel()

    def _tick(self, done: threading.Event) -> None:
        """Saves what is due while the master is silent, and ends a call that is silent for too long."""
        while not done.wait(_TICK):
            try:
                self._receiver.flush_if_due()
            except DumpfilterError as error:
                self._ticker_error = error
                self._cancel()
                return
            if time.monotonic() - self._heard_at > self._options.net_timeout:
                self._cancel()
