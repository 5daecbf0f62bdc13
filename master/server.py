"""The master's gRPC server, to which slaves connect: its address, its limits on calls (the gate), and its health.

The gate is an interceptor that limits how much of a master's resources a client can use before it has proved a
password. It limits the calls in progress, the time and the size of a request, and the requests that are decoded at
once. A call beyond a limit is refused before its request is received.

gRPC itself receives the request of a call before it calls the service, without a time limit. Therefore the gate turns
each method into one with a stream of requests, which a service reads itself. The bytes on the wire do not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from dumpfilter.base.errors import BinlogError, DumpfilterError, OptionError
from dumpfilter.base.logs import Seldom, logger
from dumpfilter.base.printable import printable
from dumpfilter.base.security.listening import Endpoint, host_and_port, listening_socket
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.master import limits
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.limits import MAX_DUMPS, Kind, Overloaded, Places
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.service import Context, DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import SHUTTING_DOWN, Who
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from dumpfilter.base.security.tls import ServerTls, TlsSource
    from dumpfilter.master.source import LoopTurns, SourceThread

# At run time this import would load a large package that a master without TLS does not need.

log = logger("dumpfilter.master")

MAX_ERROR = 1800
"""The longest error text that the master sends to a slave, characters. gRPC limits the text's header to 8 KiB."""

_ESCAPED_SHARE = 3
"""The divisor of the longest error text if the text is not ASCII.

gRPC may need 12 bytes for such a character, because it escapes each byte.
"""

_SHOWN_RULE = 60

END_SECONDS = 10.0
"""The additional time that a stopping server waits for its calls after their grace period, seconds."""

_DECODERS = 2
"""The number of threads that decode large requests. A decoded request can be 40 times as large as its bytes."""

OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", limits.MAX_REQUEST),
    # Only the algorithm "identity". gRPC checks the size of a compressed message before it uncompresses the message.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # A ping makes the system notice a client whose machine vanished: gRPC sets keepalive_timeout as TCP_USER_TIMEOUT.
    # The dump of a slave that falls silent ends sooner (:meth:`Gate._awaited`).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 100_000),
    # On a slow line the answer to a ping waits behind the messages in the buffers of both ends.
    ("grpc.http2.ping_timeout_ms", 600_000),
    # A client that pings more often than this is disconnected after a few pings.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_concurrent_streams", limits.MAX_STREAMS),
    # A connection that is no HTTP/2 within this time, or without calls for so long, is closed.
    ("grpc.server_handshake_timeout_ms", 120_000),
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.so_reuseport", 0),
]


class RequestRefused(DumpfilterError):
    """The base class of errors for requests that the master refuses before the service receives them."""


class MalformedRequest(RequestRefused):
    """The error for a request that is not a valid message of the gRPC contract (``dumpfilter.proto``)."""

    grpc_code = "INVALID_ARGUMENT"


class RequestTooLarge(RequestRefused):
    """The error for a request with more bytes than the limit of its method."""

    grpc_code = "RESOURCE_EXHAUSTED"


class RequestTooLate(RequestRefused):
    """The error for a request that does not arrive within the time limit."""

    grpc_code = "CANCELLED"


class OutOfMemory(RequestRefused):
    """The error for a call that failed because the master has no memory left."""

    grpc_code = "RESOURCE_EXHAUSTED"


class Silent(Exception):
    """The exception that ends the dump of a slave that has made no call within the time that the slave promised."""


def check_filter(definition: pb.FilterDefinition) -> None:
    """Check the size of a filter that a slave sent. Raises OptionError for too many or too long rules or id lists."""
    if len(definition.rules) > limits.MAX_RULES:
        raise OptionError(f"{len(definition.rules)} rules: at most {limits.MAX_RULES}")
    total = 0
    for rule in definition.rules:
        length = len(rule.value)
        if length > limits.MAX_NAME:
            raise OptionError(f"rule {rule.value[:_SHOWN_RULE]!r}…: longer than {limits.MAX_NAME} characters")
        total += length
    if total > limits.MAX_RULES_TEXT:
        raise OptionError(
            f"the rules have {total} characters together: at most {limits.MAX_RULES_TEXT}; use wild rules, which "
            "stand for many tables"
        )
    for name in ("ignore_server_ids", "do_domain_ids", "ignore_domain_ids"):
        number = len(getattr(definition.origin, name))
        if number > limits.MAX_IDS:
            raise OptionError(f"{name}: {number} ids: at most {limits.MAX_IDS}")


def check_dump_request(request: pb.DumpRequest) -> None:
    """Check the lengths of the GTID sets in a request for a dump. Raises OptionError for a set of more than
    MAX_GTID_TEXT characters.
    """
    for name in ("gtid_set", "except_gtids", "received_gtids"):
        length = len(getattr(request, name))
        if length > limits.MAX_GTID_TEXT:
            raise OptionError(
                f"{name}: {length} characters: at most {limits.MAX_GTID_TEXT}; start the slave with a file and a "
                "position"
            )


@dataclass(frozen=True)
class MethodBounds:
    """The limits of one gRPC method: the size of a request, the check of its contents, and the kind of call by which
    concurrent calls are limited.
    """

    max_request: int = limits.MAX_SMALL_REQUEST
    kind: Kind = Kind.CALL
    """The concurrency limit against which a method with streamed responses counts, once its request is decoded."""
    is_serialized: bool = False
    """Whether the service's answers are serialized messages already."""
    check: Callable[[Any], None] = lambda request: None
    """The function that checks the numbers and lengths of the elements in a decoded request. Raises OptionError for a
    request beyond the limits.
    """


_SERVICE = pb.DESCRIPTOR.services_by_name["DumpFilter"].full_name
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_BOUNDS = {
    f"/{_SERVICE}/Register": MethodBounds(
        limits.MAX_REQUEST, check=lambda request: check_filter(request.filter)
    ),
    f"/{_SERVICE}/Alive": MethodBounds(kind=Kind.SHORT),
    f"/{_SERVICE}/Dump": MethodBounds(
        limits.MAX_REQUEST, Kind.DUMP, is_serialized=True, check=check_dump_request
    ),
    f"/{_HEALTH}/Check": MethodBounds(kind=Kind.SHORT),
}
"""The limits of the methods that need others than the default: for large requests, for dumps, and for short calls."""


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic only in the type stubs
    """A gRPC interceptor that enforces the limits of each method.

    ``bounds`` maps the full name of a method to its limits. Methods without an entry have the defaults of
    :class:`MethodBounds`. ``max_dumps`` is the limit of concurrent dumps. Large requests are decoded by the threads of
    ``workers``.
    """

    def __init__(self, max_dumps: int, bounds: dict[str, MethodBounds], workers: Executor) -> None:
        self.places = Places(max_dumps)
        self._bounds = bounds
        self._workers = workers
        self._seldom = Seldom()
        self._watches: dict[str, tuple[asyncio.Timeout, float]] = {}
        """The timeout of each dump whose slave has promised to make regular calls, by the slave's id. With it is the
        time without a call after which the dump ends, seconds.
        """

    async def intercept_service(  # type: ignore[override]  # None stands for an unknown method
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return None
        method = handler_call_details.method
        bounds = self._bounds.get(method, MethodBounds())
        call: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary
        kind = Kind.SHORT if bounds.kind is Kind.SHORT else Kind.CALL

        async def answer(requests: object, context: Context) -> AsyncIterator[Any]:
            async with self._refusing(context, method):
                with self.places.take(kind, context.peer()):
                    request = await self._receive(handler.request_deserializer, bounds, context, method)
                    if not handler.response_streaming:
                        yield await call(request, context)
                        return
                with self.places.take(bounds.kind, context.peer()):
                    # The dump of a client that vanished in the middle of a message must end at once.
                    async with aclosing(call(request, context)) as responses, self._awaited(request):
                        async for response in responses:
                            yield response

        return grpc.stream_stream_rpc_method_handler(
            answer, None, None if bounds.is_serialized else handler.response_serializer
        )

    async def _receive(
        self, parse: Callable[[bytes], Any] | None, bounds: MethodBounds, context: Context, method: str
    ) -> Any:
        """Receive the request of a gRPC call, check its size and contents, decode it, and restart the timeout of the
        slave that sent it. Return the decoded request.

        ``parse`` is the function that decodes the bytes of a request; None leaves them as they are. ``bounds`` has the
        limits of the called method, and ``method`` is its name for the log.

        Raises RequestTooLate, RequestTooLarge or MalformedRequest for an unusable request, and OptionError for contents
        beyond the limits.
        """
        is_short = bounds.kind is Kind.SHORT
        try:
            async with asyncio.timeout(limits.SHORT_REQUEST_SECONDS if is_short else limits.REQUEST_SECONDS):
                data = await context.read()
        except TimeoutError:
            raise RequestTooLate("the request did not arrive in time") from None
        if not isinstance(data, bytes):
            # The client has ended the call itself, which is no failure.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        if len(data) > bounds.max_request:
            raise RequestTooLarge(f"the request has {len(data)} bytes: at most {bounds.max_request}")

        def decode() -> Any:
            request = data if parse is None else parse(data)
            bounds.check(request)
            return request

        try:
            if len(data) <= limits.MAX_SMALL_REQUEST:
                request = decode()
            else:
                request = await asyncio.get_running_loop().run_in_executor(self._workers, decode)
        except (DecodeError, UnicodeDecodeError) as error:
            raise MalformedRequest(
                "the request is not a message of the contract (a string that is not UTF-8?): "
                f"{printable(str(error))}"
            ) from None
        except OptionError as error:
            self._log(error, context, method)
            raise
        limit, seconds = self._watches.get(getattr(request, "slave_id", ""), (None, 0.0))
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
        return request

    @asynccontextmanager
    async def _awaited(self, request: Any) -> AsyncIterator[None]:
        """Raise Silent in the ``with`` block when the slave makes no call for the time that ``request`` promises
        (``net_timeout_ms``). A request without this field, or with 0, has no timeout.

        A slave vanishes without a word when its machine loses power or a cable is cut. Pings of HTTP/2 cannot tell such
        a slave from one with a slow connection, because their answers wait behind the stream.
        """
        milliseconds = getattr(request, "net_timeout_ms", 0)
        if not milliseconds:
            yield
            return
        slave_id, seconds = request.slave_id, max(milliseconds / 1000, limits.MIN_NET_TIMEOUT)
        limit = asyncio.timeout(seconds)
        watch = self._watches[slave_id] = limit, seconds
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise Silent from None
        finally:
            if self._watches.get(slave_id) is watch:
                del self._watches[slave_id]

    @asynccontextmanager
    async def _refusing(self, context: Context, method: str) -> AsyncIterator[None]:
        """End the call with the status code and the text of the error that the ``with`` block raises."""
        try:
            yield
        except Silent:
            log.warning("slave is silent", peer=context.peer(), method=printable(method))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the slave gave no sign of life")
        except (DumpfilterError, MemoryError) as error:
            if isinstance(error, MemoryError):
                error = OutOfMemory("the master is out of memory; try again later")
            # The service has logged its own errors.
            if isinstance(error, Overloaded | RequestRefused):
                self._log(error, context, method)
            MEASURED.count_failure(error)
            text = str(error)
            most = MAX_ERROR if text.isascii() else MAX_ERROR // _ESCAPED_SHARE
            cut = text if len(text) <= most else text[:most] + "…"
            await context.abort(grpc.StatusCode[error.grpc_code], cut)

    def _log(self, error: DumpfilterError, context: Context, method: str) -> None:
        # One stranger can cause thousands of refusals a second, and must not fill the disk with them.
        fields = self._seldom.fields()
        if fields is not None:
            event = "malformed request" if isinstance(error, MalformedRequest) else "call refused"
            log.warning(
                event,
                peer=context.peer(),
                method=printable(method),
                reason=printable(str(error)),
                **fields,
            )


PROCESS = "process"
"""The name of the health service that is SERVING as long as the process answers, even if the binlog cannot be read."""


class Health:
    """The health of a service for slaves: the method ``Check`` of gRPC's health protocol. Watch is left out, because
    idle watches would occupy the master.

    The health service ``process`` is SERVING until ``service`` shuts down. The others are SERVING while the binlog can
    be read, too, and not all slaves are drained.
    """

    def __init__(self, service: DumpFilterService) -> None:
        self._service = service
        self.is_readable = True
        """Whether the newest binlog file could be read when it was checked last."""

    async def check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Return the health of one service. Ends the call with NOT_FOUND for an unknown one."""
        if request.service not in ("", _SERVICE, PROCESS):
            await context.abort(grpc.StatusCode.NOT_FOUND, "the master has no such service")
        can_dump = self.is_readable and not self._service.drains.is_all
        is_serving = not self._service.stopping and (can_dump or request.service == PROCESS)
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if is_serving else status.NOT_SERVING)

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """Return the handler of the health protocol's methods, for a gRPC server."""
        check = grpc.unary_unary_rpc_method_handler(
            self.check,
            health_pb2.HealthCheckRequest.FromString,
            health_pb2.HealthCheckResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(_HEALTH, {"Check": check})


@dataclass(frozen=True)
class ListenAddress(Endpoint):
    """The address at which a master listens for slaves, and the protection of the connections.

    ``tls`` provides the master's certificate; None: connections are not encrypted. With ``insecure`` the master may
    serve other machines without TLS or without a login.
    """

    require_slave_certificate: bool = False
    """Whether each slave must present a certificate that the CA of ``tls`` has signed (mutual TLS)."""
    owner: str = "the master"
    """The name of the listening program in the texts of errors."""
    host_option: str = "--host"
    port_option: str = "--port"

    def __post_init__(self) -> None:
        """Raise OptionError when slaves must present certificates and there is no CA to check them."""
        if self.require_slave_certificate and (self.tls is None or self.tls.current().ca is None):
            raise OptionError(
                "--tls-require-slave-cert needs --tls-ca, the CA that signs the slaves' certificates, and --tls-cert "
                "and --tls-key: give all of them"
            )

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)

    def check_exposure(self, users: Mapping[str, object]) -> None:
        """Check that a master with these ``users`` may listen on this address. Log a warning if only ``--insecure``
        permits it.

        Raises Exposed when the master would serve other machines without TLS or without a login.
        """
        lacks = {}
        if self.tls is None:
            lacks["without TLS"] = "give --tls-cert and --tls-key"
        if not users and not self.require_slave_certificate:
            lacks["without a login"] = (
                "name users ([[user]] in the file of --config), or demand certificates with --tls-ca and "
                "--tls-require-slave-cert"
            )
        self.check_protection(self.owner, self.host_option, lacks)

    def open_port(self, server: grpc.Server | grpc.aio.Server) -> int:
        """Make a gRPC server listen on this address, and return the port. Raises OptionError when the address cannot
        be used.
        """
        cannot = f"{self.owner} cannot listen on"
        cure = f"choose others with {self.host_option} and {self.port_option}"
        # gRPC would write a line with the name of its source file to standard error.
        listening_socket(cannot, self.host, self.port, cure).close()
        try:
            if self.tls is None:
                port = server.add_insecure_port(str(self))
            else:
                port = server.add_secure_port(str(self), self._credentials(self.tls))
        except RuntimeError:
            port = 0
        if not port:
            unusable = "" if self.tls is None else ", or gRPC cannot use the certificate of --tls-cert"
            raise OptionError(
                f"{cannot} {self}: the port is taken, or the address is not this machine's{unusable}; {cure}"
            )
        return port

    def _credentials(self, tls: TlsSource) -> grpc.ServerCredentials:
        """Return gRPC credentials that read the certificate from ``tls`` before each handshake."""
        used = tls.current()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal used
            now = tls.current()
            if now is used:
                return None
            used = now
            return self._configuration(now)

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(used),
            renewed,  # type: ignore[arg-type]  # The stubs do not know that None stands for an unchanged certificate.
            require_client_authentication=self.require_slave_certificate,
        )

    def _configuration(self, tls: ServerTls) -> grpc.ServerCertificateConfiguration:
        roots = tls.ca if self.require_slave_certificate else None
        return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificates)], roots)


class GrpcPort:
    """The gRPC port to which slaves connect. All methods but :meth:`abandon` must be called in one asyncio loop. Raises
    Overloaded if the system gives the process no more threads.
    """

    def __init__(self, service: DumpFilterService, max_dumps: int) -> None:
        self.max_connections = limits.open_connections(
            max_dumps, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        )
        """The largest number of connections that each port for slaves or replicas accepts."""
        self._decoders = limits.started_pool(_DECODERS, "grpc-decode")
        self.gate = Gate(max_dumps, _BOUNDS, self._decoders)
        self.health = Health(service)
        self._server = grpc.aio.server(
            interceptors=[self.gate],
            options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", self.max_connections)],
            maximum_concurrent_rpcs=limits.open_calls(max_dumps),
        )
        pb_grpc.add_DumpFilterServicer_to_server(service, self._server)
        self._server.add_generic_rpc_handlers((self.health.handler(),))

    def open(self, listen: ListenAddress) -> int:
        """Listen at an address, and return the port. Raises OptionError when the address cannot be used."""
        return listen.open_port(self._server)

    async def start(self) -> None:
        """Begin to accept connections."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Refuse new calls, end the running ones after at most ``grace`` seconds, and close the port."""
        await self._server.stop(grace)
        # gRPC ends the server with a last task of the loop when the server is freed.
        del self._server
        self._decoders.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """Release the port after its asyncio loop has died. Any thread may call this method."""
        # Without its loop a server never ends, and gRPC complains when the server is freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))
        self._decoders.shutdown(cancel_futures=True)


async def end_of_tasks() -> None:
    """Wait until gRPC's tasks for closed ports have ended, for at most END_SECONDS. Call this once, before the asyncio
    loop ends, because gRPC writes a traceback for each task that has not ended then.
    """
    # gRPC writes a traceback for each of its tasks that has not ended when the loop ends.
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=END_SECONDS)


_DRAIN_POLL = 0.02
"""The interval at which a draining master checks whether the dumps have ended, seconds."""

_LOOKS_AT_BINLOG = 5.0
"""The interval at which the health check tests whether the binlog can be read, seconds."""

_ANSWER_SECONDS = 5.0
"""The time within which the asyncio loop must answer to count as alive, seconds."""

_ANY_PORT = ListenAddress()
"""The default address of a server: a free port that only this machine can reach."""


class ServerDied(DumpfilterError):
    """The error for a master whose asyncio loop has ended unexpectedly, so that no slave could connect any more."""


class MasterServer:
    """The gRPC server that serves one binlog set to slaves.

    With port 0 in ``listen`` the system chooses a free port, which :attr:`port` holds. With None for ``listen`` no
    dumpfilter slave can connect, and :attr:`port` is 0; only the port for real replicas serves the set.
    ``write_filter`` has rules like ``--binlog-do-db`` that apply to all slaves. ``source`` is the thread that follows a
    running server; None for a set of files.

    Raises Exposed when other machines could connect without TLS or without a login. Raises OptionError for an address
    that cannot be used, and Overloaded when the system gives the process no more threads.

    All calls run in one asyncio loop, which has its own thread. The methods of this class must be called from other
    threads.
    """

    def __init__(
        self,
        store: BinlogStore,
        *,
        listen: ListenAddress | None = _ANY_PORT,
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
        max_dumps: int = MAX_DUMPS,
        source: SourceThread | None = None,
    ) -> None:
        if listen is not None:
            listen.check_exposure((config or MasterConfig()).users)
        self.loop = ServingLoop("grpc-loop")
        self._probe: asyncio.Task[None] | None = None
        self._stopped = False
        self.count_replicas: Callable[[], tuple[int, int]] | None = None
        """The function that returns the number of connections of the replication port and their limit. None: the master
        has no such port.
        """
        self.source = source
        self._turns: LoopTurns | None = None
        self.reader = SharedReader(store, self.loop.loop)
        self.service = DumpFilterService(self.reader, write_filter=write_filter, config=config)
        if source is not None:
            store.upstream, store.ended = source.ask_logged, source.ended
            source.on_ended = self.service.wake_dumps
            source.on_written = store.watcher.follow_writer(lambda: source.follower.progress.file)
            from dumpfilter.master.source import LoopTurns

            reader = self.reader
            self._turns = LoopTurns(self.loop.loop, reader.received, reader.has_dumps)
            source.follower.turns = self._turns
        self.loop.start()
        try:
            self.port = self.loop.wait(self._open(listen, max_dumps))
        except BaseException:
            self._end_loop()
            raise

    async def _open(self, listen: ListenAddress | None, max_dumps: int) -> int:
        self._port = GrpcPort(self.service, max_dumps)
        self.gate, self.max_connections = self._port.gate, self._port.max_connections
        if self.max_connections < max_dumps:
            log.warning(
                "fewer connections than dumps",
                connections=self.max_connections,
                max_dumps=max_dumps,
                open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                hint="raise the limit of open files (ulimit -n) to twice --max-dumps, or give a smaller --max-dumps",
            )
        return 0 if listen is None else self._port.open(listen)

    def start(self) -> None:
        """Begin to accept connections, and report the service as healthy."""
        self.loop.wait(self._start())

    async def _start(self) -> None:
        await self._port.start()
        self._probe = asyncio.create_task(self._look_at_binlog())

    async def _look_at_binlog(self) -> None:
        """Report to the health service every few seconds whether the newest binlog file can be read. Log when the
        binlog can no longer be read, and when it can be read again.
        """
        health = self._port.health
        while True:
            await asyncio.sleep(_LOOKS_AT_BINLOG)
            try:
                await self.reader.call(self.service.store.check_readable)
                if not health.is_readable:
                    log.info("the binlog can be read again")
                health.is_readable = True
            except BinlogError as error:
                if health.is_readable:
                    log.error("the binlog cannot be read", error=printable(str(error)))
                health.is_readable = False

    def drain(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> int:
        """Send all slaves away, each at its next transaction boundary, and wait until their dumps have ended.

        The wait ends after ``seconds``, or as soon as ``interrupted`` returns true. Return the number of dumps that
        still run. :meth:`stop` ends these inside a transaction.
        """
        deadline = time.monotonic() + seconds
        if not self.service.drains.is_all:
            # An operator's drain of all slaves must stay as it is, since the next run of the master restores it.
            self.service.drains.drain(Who(), SHUTTING_DOWN)
        while left := sum(bool(slave.dump) for slave in self.service.register.all()):
            if time.monotonic() >= deadline or interrupted():
                break
            time.sleep(_DRAIN_POLL)
        return left

    def answers(self) -> bool:
        """Tell whether the asyncio loop answers within a few seconds."""
        with contextlib.suppress(TimeoutError):
            self.loop.wait(asyncio.sleep(0), _ANSWER_SECONDS)
            return True
        return False

    def check(self) -> None:
        """Raise ServerDied when the asyncio loop has ended, although nobody has stopped the server."""
        if not self.loop.is_running:
            raise ServerDied(
                "the gRPC server has ended by itself, probably for want of memory; start the master again, with more "
                "memory or fewer --max-dumps"
            )

    def stop(self, grace: float = 1.0) -> None:
        """End all dumps, stop the server, and close the binlog set. Running calls get ``grace`` seconds to end."""
        if self._stopped:
            return
        self._stopped = True
        if self.loop.is_running:
            with contextlib.suppress(TimeoutError):
                self.loop.wait(self._stop(grace), grace + END_SECONDS)
        else:
            self._port.abandon()
        self._end_loop()
        self.service.store.close()

    async def _stop(self, grace: float) -> None:
        self.service.end_dumps()
        if self._turns is not None:
            self._turns.close()
        if self._probe is not None:
            self._probe.cancel()
        await self._port.stop(grace)
        await end_of_tasks()

    def _end_loop(self) -> None:
        self.loop.end()
        self.reader.close()
