"""The I/O thread of a channel: the gRPC client that receives events from the master for the relay log.

The I/O thread registers the slave and its filter with the master. Then it requests a dump, a stream of events, from the
position that the slave has saved. The events come in messages called chunks. The thread passes each chunk to
:class:`dumpfilter.slave.receiver.Receiver`, which writes the relay log. After a lost connection the thread
connects and registers again.

The receiver writes a chunk before the thread reads the next one. HTTP/2 flow control limits the chunks that gRPC holds
in memory. Therefore a slow disk on the slave slows down the master's dump instead of filling the slave's memory.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import Any, Protocol

import grpc
from grpc import StatusCode as Status

from dumpfilter import __version__
from dumpfilter.base import errors as E
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable, visible
from dumpfilter.base.waiting import Backoff, watching
from dumpfilter.binlog.format import NameCollation
from dumpfilter.dump.stream.message import PROTOCOL, Speaker, check_versions, client
from dumpfilter.filter.convert import FAMILIES, names_from_proto
from dumpfilter.slave import connection
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.threads import ChannelCounters, ChannelThread, Owner
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = logger("dumpfilter.slave")

_SILENT = "the master was silent for too long"
"""The reason of a failure after this process has cancelled the gRPC call. The helper thread cancels the call of a
silent master. :meth:`IoThread.stop` cancels it, too, but then nobody reads the reason.
"""

_RETRIED = frozenset(
    {
        Status.UNAVAILABLE,
        Status.DEADLINE_EXCEEDED,
        Status.CANCELLED,
        Status.UNKNOWN,
        Status.INTERNAL,
        Status.RESOURCE_EXHAUSTED,
    }
)

_ERRORS: dict[Status, type[E.DumpfilterError]] = {
    Status.ALREADY_EXISTS: E.IdentityTaken,
    Status.INVALID_ARGUMENT: E.PositionError,
    Status.OUT_OF_RANGE: E.PositionError,
    Status.DATA_LOSS: E.BinlogCorrupt,
    Status.ABORTED: E.DumpTakenOver,
}
"""The errors that end the I/O thread, by the status code with which the master ended the dump. Other codes become a
StreamError.
"""

_REGISTRATION_ERRORS: dict[Status, type[E.DumpfilterError]] = {
    Status.FAILED_PRECONDITION: E.ProtocolMismatch,
    Status.ALREADY_EXISTS: E.IdentityTaken,
}
"""The errors that end the I/O thread, by the status code with which the master refused the registration. Other codes
become a RegistrationRefused.
"""

_REGISTERED_ANEW = {
    # The master's users changed during the dump. The next call Register tells whether the slave may go on.
    Status.UNAUTHENTICATED: "the master ended the dump",
    # The master restarted after the call Register, or another filter is imposed.
    Status.NOT_FOUND: "the master does not know this slave (any more)",
}
"""The status codes of dumps after which the slave registers again, each with the beginning of the reason for the
log.
"""

_SLOWEST = 1_000
"""The rate of the slowest supported connection, bytes per second. By this rate, long requests get a longer timeout."""

_HEADERS = 500
"""The bytes that gRPC sends to open a connection and to make a call, in addition to the request and the answer.
Measured.
"""

_SIGN = 150
"""The size of an Alive call and its answer, bytes. Measured. By an Alive call the slave tells the master during a dump
that it is alive.
"""

_MOST_RATE = 0xFFFFFFFF
"""The largest connection rate that the slave can report to its master, bytes per second."""

_SECOND_SIGN = 1.0
"""The longest time between the first two Alive calls of a dump, seconds. The first call measures the connection's rate,
and the second one reports it to the master.
"""

_SIGNS = 4
"""The number of Alive calls that the slave makes in ``net_timeout``. An Alive call tells the master that the slave is
alive.
"""

_TICK = 0.05
"""The interval at which a helper thread saves ``master.info`` and checks whether the master is silent, seconds."""

_MOST_TOLD = 1 << 20
"""The longest GTID set that the slave sends in addition to a position, characters. Masters do not accept a longer
one.
"""

_MOST_DAMAGED = 5
"""The number of damaged messages in a row, without progress between them, after which the slave gives up."""


def _rate(size: int, seconds: float) -> int:
    """Return the average rate of a connection that carried ``size`` bytes in ``seconds``, bytes per second. The result
    is at least 1, and at most the largest rate that the slave can report to its master.
    """
    return min(_MOST_RATE, max(1, int(size / max(seconds, 1e-6))))


class Receiving(Owner, Protocol):
    """The interface through which an I/O thread uses its channel. It has the writer of the relay log, the counts of
    events and errors, and the methods to call after a registration and at the thread's end.
    """

    receiver: Receiver
    counters: ChannelCounters

    def connected(self, answer: pb.RegisterResponse) -> None:
        """Process a registration of the slave at the master, for example store the filters that the master's operator
        has set for this slave. ``answer`` is the master's answer.
        """


class IoThread(ChannelThread):
    """The I/O thread of a channel, which receives events from the master ``source``. ``owner`` is the channel, whose
    receiver writes the events to the relay log.
    """

    def __init__(self, owner: Receiving, source: connection.Source) -> None:
        super().__init__(f"{source.info.channel or 'default'}-io", owner)
        self._owner: Receiving = owner
        self.source = source
        """The master, and the configuration with which the thread connects. If START REPLICA named a user and password,
        the configuration has these in place of the channel's own.
        """
        self._receiver = owner.receiver
        self.counters = owner.counters
        self._backoff = Backoff(source.info.connect_retry)
        self._lock = threading.Lock()
        self._call: Any = None
        """The gRPC call that :meth:`stop`, or the silence of the master, cancels."""
        self._silent_until = math.inf
        """The monotonic time at which a master that sends nothing counts as dead."""
        self._line_rate = 0
        """A rate that the connection is known to carry, bytes per second. The durations of the last registration and of
        Alive calls (which report that the slave is alive) show the rate. 0: not measured yet.
        """
        self._stream_rate = 0
        """The average rate of the last dump, bytes per second."""
        self._sign: grpc.Future[Any] | None = None
        """The last Alive call, by which the slave reports that it is alive. gRPC would cancel a call without a
        reference to it.
        """
        self._sign_at = 0.0
        """The monotonic time at which the slave must next report that it is alive (Alive call), seconds. 0: no such
        call was made in this dump.
        """
        self._damaged_in_a_row = 0
        self._registration: tuple[rpc.DumpFilterStub, str] | None = None
        """The gRPC stub and the slave's id at the master, for Alive calls during a dump. By such a call the slave
        reports that it is alive. None while no dump runs.
        """
        self.connected = False
        """Whether the slave is registered with the master and a dump (stream of events) is running.

        If so, ``Replica_IO_Running`` is ``Yes``. A running thread without a dump shows ``Connecting``. As on a server,
        a change of the filter leaves this state as it is, although a new thread registers again.
        """
        self.state = ""
        """The thread's activity in a server's words, such as "Waiting for source to send event" (``Replica_IO_State``).

        The text is empty while the thread does not run.
        """
        self.ended = False
        """Whether the thread ended at the end of the newest binlog of the master, as the option ``once`` demands."""

    def stop(self) -> None:
        """Ask the thread to end soon, without an error, even while it waits for the master. Do not wait for its end."""
        super().stop()
        self._cancel()

    def run(self) -> None:
        """Receive events until :meth:`stop` is called. With the option ``once``, also end at the end of the newest
        binlog.

        After a lost connection, and other errors that may be temporary, the thread connects again. Raises
        ConnectionLost after ``retry_count`` failed attempts in a row (0: no limit), and every other error at once.
        """
        try:
            with watching(self._tick, "slave-io-ticker"):
                while not self.stopping and not self.ended:
                    kind: type[E.DumpfilterError] = E.ConnectionLost
                    try:
                        self._connect_and_receive()
                        reason = "the master ended the stream"
                    except Exception as error:
                        reason = self._reason_to_retry(error)
                        kind = E.TlsError if isinstance(error, E.TlsError) else kind
                    if not self.ended:
                        self._lost(kind, reason)
        finally:
            self.state = ""
            self.connected = False
            self._receiver.close()

    def _connect_and_receive(self) -> None:
        """Connect to the master, register, and receive one stream of events until the stream ends or fails.

        Set :attr:`ended` if the stream has reached the end of the newest binlog and the option ``once`` is set.
        """
        self.state = "Connecting to source"
        with connection.open_channel(self.source, lambda: self.stopping) as channel:
            stub = client(channel)
            answer = self._register(stub)
            self.failure = None
            request = self._dump_request(answer)
            call = stub.Dump(request)
            self._sign_at = 0.0
            self._watch(call, self._patience(request))
            self._registration = stub, answer.slave_id
            self.connected = True
            try:
                self._owner.connected(answer)
                self.counters.count_connection()
                self.state = "Waiting for source to send event"
                self._receive(call)
            finally:
                connection.end_stream(call)
                self._registration = None
            if self.ended or self.stopping:
                self._unregister(stub, answer.slave_id)

    def _register(self, stub: rpc.DumpFilterStub) -> pb.RegisterResponse:
        source = self.source
        request = pb.RegisterRequest(
            server_id=source.options.server_id,
            uuid=source.uuid,
            host=source.options.report_host,
            port=source.options.report_port,
            channel=source.info.channel,
            filter=source.filter,
            user=source.info.user,
            password=source.info.password,
            secret=bytes.fromhex(source.info.secret),
            protocol=PROTOCOL,
            program_version=__version__,
        )
        # The channel keeps its first collation even if the master's binlogs now come from a newer server. The relay log
        # may still hold transactions that the master filtered with the first collation.
        known = self._receiver.place.info.names
        if known:
            request.filter.MergeFrom(pb.FilterDefinition(names=NameCollation(known).name))
        try:
            begun = time.monotonic()
            patience = self._patience(request)
            call = stub.Register.future(request, timeout=patience)
            self._watch(call, patience)
            answer: pb.RegisterResponse = call.result()
            self._line_rate = _rate(
                request.ByteSize() + answer.ByteSize() + _HEADERS, time.monotonic() - begun
            )
        except grpc.RpcError as error:
            if error.code() in _RETRIED:
                connection.explain_failure(source, error, lambda: self.stopping)
                raise
            kind = _REGISTRATION_ERRORS.get(error.code(), E.RegistrationRefused)
            raise kind(f"{self._where}: {visible(error.details() or '')}") from error
        try:
            check_versions(
                slave=Speaker(PROTOCOL, __version__),
                master=Speaker(answer.protocol, printable(answer.program_version)),
            )
        except E.ProtocolMismatch as error:
            self._unregister(stub, answer.slave_id)
            raise E.ProtocolMismatch(f"{self._where}: {error}") from None
        return answer

    def _unregister(self, stub: rpc.DumpFilterStub, slave_id: str) -> None:
        try:
            stub.Unregister(pb.UnregisterRequest(slave_id=slave_id), timeout=1.0)
        except grpc.RpcError as error:
            log.debug("not unregistered", master=self.source.info.address, status=error.code().name)

    def _dump_request(self, answer: pb.RegisterResponse) -> pb.DumpRequest:
        """Prepare the receiver for a new stream of events (dump). Return the request for the stream, which begins after
        the events that the slave has received.

        ``answer`` is the master's answer to the registration, with the master's UUID and the slave's id.
        """
        source = self.source
        by_gtid = self._receiver.begin_stream(
            master_uuid=answer.master_uuid,
            family=FAMILIES.get(answer.family, "mysql"),
            names=names_from_proto(answer.filter.names),
            filter_digest=source.filter_digest,
            auto_position=source.info.auto_position,
        )
        info = self._receiver.place.info
        request = pb.DumpRequest(
            slave_id=answer.slave_id,
            other_filters_before=info.other_filters,
            once=source.options.once,
            chunk_size=source.options.chunk_size,
            heartbeat_period_ms=int(source.info.heartbeat_period * 1000),
            net_timeout_ms=int(source.options.net_timeout * 1000),
            line_rate=max(self._line_rate, self._stream_rate),
        )
        if by_gtid:
            request.gtid_set = info.retrieved
            return request
        file, position = source.info.log_file, source.info.start_position
        if info.source_file:
            file, position = info.source_file, info.source_position
            request.except_gtids = info.except_gtids
            request.kept_bytes, request.kept_crc32 = self._receiver.kept
            if len(info.retrieved) <= _MOST_TOLD:
                request.received_gtids = info.retrieved
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file=file, position=position))
        return request

    def _receive(self, call: Any) -> None:
        begun, size = time.monotonic(), 0
        try:
            for chunk, events in call:
                size += len(events)
                # While the slave writes, it does not listen. That time must not count as the master's silence.
                self._silent_until = math.inf
                self.counters.count_chunk(chunk, len(events))
                before = self._receiver.place.now
                self._receiver.receive(chunk, events)
                self._backoff.reset()
                if events and self._receiver.place.now is not before:
                    self._damaged_in_a_row = 0
                self._silent_until = time.monotonic() + self.source.options.net_timeout
                if chunk.end_of_log and self.source.options.once:
                    self.ended = True
                    break
        except grpc.RpcError:
            if not self.stopping:
                raise
        finally:
            self._stream_rate = _rate(size, time.monotonic() - begun)

    def _reason_to_retry(self, error: Exception) -> str:
        """Return the reason of a failure as text, if another attempt to connect may succeed.

        Otherwise raise ``error``. In place of a gRPC error, raise the DumpfilterError for its status code, such as
        PositionError.
        """
        match error:
            case grpc.FutureCancelledError():
                return _SILENT
            case grpc.Future() if error.cancelled():
                return _SILENT
            case grpc.RpcError():
                code, details = error.code(), visible(error.details() or "")
                if code in _REGISTERED_ANEW:
                    return f"{_REGISTERED_ANEW[code]}: {details}"
                if code in _RETRIED:
                    return f"{code.name}: {details}"
                if code in _ERRORS:
                    raise _ERRORS[code](f"{self._where}: {details}") from error
                raise E.StreamError(f"{self._where}: {code.name}: {details}") from error
            case E.NotAMaster() | E.TlsError():
                # A certificate that is being renewed on the master, or an address that is being moved, must not end a
                # slave that was connected.
                if not self.counters.received["connections"]:
                    raise error
            case E.StreamDamaged():
                self._receiver.forget_kept()
                self._damaged_in_a_row += 1
                if self._damaged_in_a_row > _MOST_DAMAGED:
                    raise E.StreamError(
                        f"{self._where}: {error}, {self._damaged_in_a_row} times in a row; "
                        "check the master's binlog with dumpfilter inspect --verify, and the network"
                    ) from error
            case connection.Unreachable():
                pass
            case _:
                raise error
        return str(error)

    @property
    def _where(self) -> str:
        return f"master {self.source.info.address}"

    def _lost(self, kind: type[E.DumpfilterError], reason: str) -> None:
        """Record that the connection to the master was lost or could not be made, and wait before the next attempt.
        ``kind`` and ``reason`` are the class of the error, and the text for the log and SHOW REPLICA STATUS.

        Raises ConnectionLost when ``retry_count`` attempts in a row have failed.
        """
        if self.stopping:
            return
        self.connected = False
        source = self.source
        self.failed_at = time.time()
        self.failure = kind(f"Error connecting to source '{source.info.address}': {reason}")
        self.counters.count_error("io", reason)
        self.state = "Waiting to reconnect after a failed source event read"
        wait = self._backoff.next()
        attempts = self._backoff.attempts
        if source.info.retry_count and attempts >= source.info.retry_count:
            raise E.ConnectionLost(
                f"{self._where} cannot be reached after {attempts} attempts ({reason}); is it "
                f"running, and is this {connection.PORT_FOR_SLAVES}?"
            )
        log.warning(
            "connection lost",
            master=source.info.address,
            reason=reason,
            attempt=attempts,
            wait=round(wait, 2),
        )
        self._stop.wait(wait)

    def _patience(self, request: pb.RegisterRequest | pb.DumpRequest) -> float:
        return connection.ROUND_TRIPS * self.source.options.net_timeout + request.ByteSize() / _SLOWEST

    def _watch(self, call: Any, seconds: float) -> None:
        """Store the running gRPC call ``call``, so that another thread can cancel it. The call is cancelled by STOP
        REPLICA, or when the master sends nothing for ``seconds``.
        """
        with self._lock:
            self._silent_until = time.monotonic() + seconds
            self._call = call
        if self.stopping:
            call.cancel()

    def _cancel(self, silent_at: float = math.inf) -> None:
        """Cancel the running gRPC call. With ``silent_at``, a time of ``time.monotonic``, cancel the call only if the
        master may not be silent until then.
        """
        with self._lock:
            # The I/O thread may have begun the next call, with its own time limit, since the caller read the time.
            if self._call is not None and silent_at >= self._silent_until:
                self._call.cancel()

    def _tick(self, done: threading.Event) -> None:
        """Do the periodic work of the helper thread until ``done`` is set. The work is to save ``master.info``, to
        watch the master, and to report that the slave is alive (Alive calls).

        If the master sends nothing for ``net_timeout`` seconds, or longer for the first answer of a connection, the
        helper thread cancels the call. The I/O thread then connects again.
        """
        while not done.wait(_TICK):
            with suppress(E.DumpfilterError):  # The I/O thread meets the error when it saves.
                self._receiver.flush_if_due()
            now = time.monotonic()
            self._cancel(now)
            registration = self._registration
            if registration is not None and now >= self._sign_at:
                self._give_sign(*registration, now)

    def _give_sign(self, stub: rpc.DumpFilterStub, slave_id: str, now: float) -> None:
        """Start an Alive call, which tells the master that the slave is alive, and how fast the connection is.

        The rate in the call, bytes per second, is the highest one that the durations of earlier calls have shown. The
        first call of a dump measures the rate, and the second call, at most a second later, reports it. ``slave_id`` is
        the slave's id at the master, and ``now`` the time (``time.monotonic``).
        """
        period = self.source.options.net_timeout / _SIGNS
        self._sign_at = now + (period if self._sign_at else min(period, _SECOND_SIGN))
        request = pb.AliveRequest(slave_id=slave_id, line_rate=self._line_rate)

        def measure(call: Any) -> None:
            if call.code() is Status.OK:
                self._line_rate = max(self._line_rate, _rate(_SIGN, time.monotonic() - now))

        # The I/O thread may have closed the connection meanwhile.
        with suppress(ValueError):
            self._sign = stub.Alive.future(request)
            self._sign.add_done_callback(measure)
