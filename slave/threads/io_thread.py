"""The I/O thread: a gRPC client around :class:`dumpfilter.slave.threads.receiver.Receiver`.

The I/O thread registers the slave with its filter and asks the master for a dump from the receiver's
position. The thread passes every chunk to the receiver. After a lost connection the thread connects and
registers again.

The receiver writes a chunk before the thread reads the next one. HTTP/2 flow control bounds the chunks that
gRPC holds in memory, and therefore a slow disk on the slave slows down the master's dump thread.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import grpc
import structlog

from dumpfilter.binlog.format import Family
from dumpfilter.errors import (
    BinlogCorrupt,
    BinlogMissing,
    ConnectionLost,
    DumpfilterError,
    DumpTakenOver,
    PositionError,
    RegistrationRefused,
    StreamError,
)
from dumpfilter.filter.convert import names_from_proto, names_to_proto
from dumpfilter.slave.state.master_info import MasterInfo
from dumpfilter.slave.threads.backoff import Backoff
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.slave.threads.received import Received
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("dumpfilter.slave")

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Every attempt opens a new connection, and only Backoff decides how long the slave waits between attempts.
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
"""The longest wait, seconds, for the answer to Register and to ChangeFilter. A running master answers both at
once."""

_TICK = 0.05
"""The period, seconds, in which the ticker saves ``master.info`` and checks that the master is not silent."""

_MOST_UNKNOWN_REGISTRATIONS = 3
"""The number of times in a row that a master may answer NOT_FOUND to a dump.

A master that was restarted between Register and Dump has forgotten the registration, and registering again helps.
After this many times the cause must be another one, for example a purged binlog file.
"""

_CONNECTING = "Connecting to source"
_RECEIVING = "Waiting for source to send event"
_WAITING = "Waiting to reconnect after a failed source event read"

_FAMILIES: dict[int, Family] = {pb.MYSQL: "mysql", pb.MARIADB: "mariadb"}


class _Call(Protocol):
    """A running gRPC call."""

    def cancel(self) -> bool: ...


class _Dump(_Call, Protocol):
    """A running dump: a stream of chunks."""

    def __iter__(self) -> Iterator[pb.Chunk]: ...


@dataclass(frozen=True)
class _Registration:
    """The registration that the running dump belongs to."""

    stub: rpc.DumpFilterStub
    slave_id: str
    master_uuid: str


class IoThread:
    """The thread that fills the relay log.

    :meth:`run` blocks and may be called once. Any thread may call :meth:`stop` and :meth:`change_filter`. The
    I/O thread calls ``on_chunk`` after the receiver has written a chunk, and ``on_connect`` after each
    registration, with the connection's stub and the master's answer.
    """

    def __init__(
        self,
        options: MasterOptions,
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
        # Held from Register until Dump has been requested. A change of filter must not fall between the two calls.
        self._registering = threading.Lock()
        self._registration: _Registration | None = None
        self.state = ""
        """The thread's activity in the server's words (``Replica_IO_State``). Empty before and after :meth:`run`."""
        self.last_error = ""
        """The reason why the newest attempt to connect failed. Empty when that attempt succeeded."""
        self.last_error_at = 0.0
        """The Unix time at which the newest attempt to connect failed, seconds."""
        self.filter_version = 0
        """The version of the filter that the master uses for this slave. Each registration counts anew, from 1."""
        self.ended = False
        """Whether the dump with the option ``once`` has reached the end of the newest binlog."""

    @property
    def connected(self) -> bool:
        """Whether a dump is running. ``Replica_IO_Running`` is ``Yes`` then, and ``Connecting`` while the
        thread has no dump."""
        return self._registration is not None

    def change_filter(self, definition: pb.FilterDefinition, to: MasterInfo) -> None:
        """Use another filter from the resume point ``to`` on, which is the applier's position.

        The receiver truncates the relay log to ``to``, and the running dump continues from ``to`` with the
        new filter. When the master is unreachable, or when ``to`` is a position in another master's binlog,
        the dump cannot continue. This method then cancels the dump, and the thread registers again with the
        new filter.
        """
        if self._registration is None:
            self._cancel()  # a call of Register to an unreachable master would hold the lock until its timeout
        with self._registering, self._receiver.rewinding(to):
            self._options = replace(self._options, filter=definition)
            registration = self._registration
            if registration is None:
                return
            version = None
            if to.source_file and to.master_uuid == registration.master_uuid:
                version = self._change_in_dump(registration, definition, to)
            if version is None:
                self._cancel()
            else:
                self.filter_version = version
                self._receiver.await_version(version)

    def set_filter(self, definition: pb.FilterDefinition) -> None:
        """Set the filter to register with. The thread must not be running."""
        self._options = replace(self._options, filter=definition)

    def _change_in_dump(
        self, registration: _Registration, definition: pb.FilterDefinition, to: MasterInfo
    ) -> int | None:
        """Call ChangeFilter. Return the new filter's version, or None when the master did not accept the change."""
        request = pb.ChangeFilterRequest(slave_id=registration.slave_id, filter=self._with_names(definition))
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file=to.source_file, position=to.source_position))
        try:
            answer = registration.stub.ChangeFilter(request, timeout=_REGISTER_TIMEOUT)
        except grpc.RpcError as error:
            log.warning(
                "the master did not change the filter in the running dump; the slave registers again",
                master=self._options.address,
                status=error.code().name,
                reason=error.details(),
            )
            return None
        return int(answer.filter_version)

    def stop(self) -> None:
        """Make :meth:`run` return soon, without an error."""
        self._stop.set()
        self._cancel()

    def run(self) -> None:
        """Receive until :meth:`stop`, until the end of the newest binlog (``once``), or until an error.

        The thread connects again after an error that another attempt can cure. Raises the other errors, and
        :class:`ConnectionLost` after ``retry_count`` failed attempts.
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
                    self._lost(self._reason_to_retry(error))
                except grpc.FutureCancelledError:
                    # The ticker cancelled the call, or stop() did. After stop() the reason is not used.
                    self._lost("the master was silent for too long")
        finally:
            self.state = ""
            done.set()
            ticker.join()
            self._receiver.close()

    def _connect_and_receive(self) -> bool:
        """Register once and receive one dump. Return True when the dump has reached its end."""
        self.state = _CONNECTING
        with grpc.insecure_channel(self._options.address, options=CHANNEL_OPTIONS) as channel:
            stub = rpc.DumpFilterStub(channel)
            with self._registering:
                answer = self._register(stub)
                self.last_error = ""
                call = self._begin_dump(stub, answer)
            self._on_connect(stub, answer)
            self.received.connections += 1
            self.state = _RECEIVING
            try:
                ended = self._receive(call)
            finally:
                with self._registering:
                    self._registration = None
            if ended or self._stop.is_set():
                self._unregister(stub, answer.slave_id)
            return ended

    def _begin_dump(self, stub: rpc.DumpFilterStub, answer: pb.RegisterResponse) -> _Dump:
        """Request a dump from the receiver's position."""
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
        self._watch(call)
        self._registration = _Registration(stub, answer.slave_id, answer.master_uuid)
        self.filter_version = answer.filter_version
        return call

    def _with_names(self, definition: pb.FilterDefinition) -> pb.FilterDefinition:
        """Return the definition with the collation for names with which the relay logs were filtered.

        The slave keeps its first collation even if the master's binlogs come from a newer server now. The
        relay log may hold transactions that were filtered with the first collation and that the applier has
        not reached.
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
            self._watch(call)
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
                self._heard_at = math.inf  # the slave is busy writing, and the master is not silent
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

    def _reason_to_retry(self, error: grpc.RpcError) -> str:
        """Return the reason of a failed call that another attempt may cure. Raise the typed error for other calls."""
        code, details = error.code(), error.details() or ""
        where = f"master {self._options.address}"
        if code in _RETRIED:
            return f"{code.name}: {details}"
        if code == grpc.StatusCode.NOT_FOUND:
            self._unknown_registrations += 1
            if self._unknown_registrations < _MOST_UNKNOWN_REGISTRATIONS:
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
        """Wait before the next attempt. Raise :class:`ConnectionLost` after the last attempt that
        ``retry_count`` allows."""
        if self._ticker_error is not None:
            raise self._ticker_error
        if self._stop.is_set():
            return
        options = self._options
        self.last_error, self.last_error_at = reason, time.time()
        self.state = _WAITING
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

    def _watch(self, call: _Call) -> None:
        """Make :meth:`stop` and the ticker cancel this call from now on."""
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
        """Save ``master.info`` when it is due, and cancel a call on which the master is silent for
        ``net_timeout``."""
        while not done.wait(_TICK):
            try:
                self._receiver.flush_if_due()
            except DumpfilterError as error:
                self._ticker_error = error
                self._cancel()
                return
            if time.monotonic() - self._heard_at > self._options.net_timeout:
                self._cancel()
