"""The master's gRPC server, to which slaves connect: its address, its limits on calls, and its health.

The port limits how much of a master's resources a client can use before it has proved a password. It limits the calls
in progress, the time and the size of a request, and the requests that are decoded at once. A call beyond a limit is
refused before its request is received.

gRPC itself receives the request of a call before it calls the service, without a time limit. Therefore each method has
a stream of requests for gRPC, of which the port reads one. The bytes on the wire do not change.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import resource
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from dumpfilter.base.errors import BinlogError, DumpfilterError, OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.base.security.listening import Endpoint, host_and_port, listening_socket
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.master import limits
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.limits import MAX_DUMPS, Kind, Overloaded, Places
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.service import Context, DumpFilterService, TryLater
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import SHUTTING_DOWN, Who
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:
    from dumpfilter.base.security.tls import ServerTls, TlsSource
    from dumpfilter.master.source import LoopTurns, SourceThread

# At run time this import would load a large package that a master without TLS does not need.

log = logger("dumpfilter.master")

MAX_ERROR = 1800
"""The longest error text that the master sends to a slave, characters. gRPC limits the text's header to 8 KiB."""

_ESCAPED_SHARE = 3
"""The number by which ``MAX_ERROR`` is divided to get the longest error text that is not ASCII.

gRPC may need 12 bytes for a character that is not ASCII, because it escapes each byte.
"""

_SHOWN = 60
"""The number of characters that an error shows of a request's text that is too long."""

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
    # The dump of a slave that falls silent ends sooner (:meth:`GrpcPort._awaited`). Heartbeats have the same effect, so
    # that pings can be rare.
    ("grpc.keepalive_time_ms", 120_000),
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
    """The error for a gRPC request that :class:`GrpcPort` refuses before it calls the method of DumpFilterService, for
    example because the request is too large. ``code`` is the gRPC status code.

    A dump ends with this error, too, when its slave makes no further gRPC call, such as Alive, for too long. The Dump
    request promises in ``net_timeout_ms`` that no such pause is longer than this time.
    """

    grpc_code = "INVALID_ARGUMENT"

    def __init__(self, text: str, code: str = grpc_code) -> None:
        super().__init__(text)
        self.grpc_code = code


class OutOfMemory(DumpfilterError):
    """The error for a gRPC call that failed because the master has no memory left."""

    grpc_code = "RESOURCE_EXHAUSTED"


_LONGEST = {
    **dict.fromkeys(("value", "host", "channel", "user", "program_version"), limits.MAX_NAME),
    **dict.fromkeys(("ignore_server_ids", "do_domain_ids", "ignore_domain_ids"), limits.MAX_IDS),
    **dict.fromkeys(("gtid_set", "except_gtids", "received_gtids"), limits.MAX_GTID_TEXT),
    "rules": limits.MAX_RULES,
}
"""The largest length of a request's fields, by name: characters of a text, or elements of a list."""


def check_request(request: Message) -> None:
    """Check the lengths of a request's texts and lists. Raises RequestRefused for one that is too long, and for filter
    rules that are too long together.
    """
    for field, value in request.ListFields():
        most = _LONGEST.get(field.name)
        if most is not None and len(value) > most:
            what = "elements" if field.is_repeated else f"characters ({value[:_SHOWN]!r}…)"
            cure = "; start the slave with a file and a position" if "gtid" in field.name else ""
            raise RequestRefused(f"{field.name}: {len(value)} {what}: at most {most}{cure}")
        if field.name == "rules":
            lengths = [len(rule.value) for rule in value]
            if sum(lengths) > limits.MAX_RULES_TEXT:
                raise RequestRefused(
                    f"the rules have more than {limits.MAX_RULES_TEXT} characters together; use wild rules, which "
                    "stand for many tables"
                )
            # No other rule is longer.
            check_request(value[lengths.index(max(lengths))])
        elif field.message_type is not None:
            check_request(value)


@dataclass(frozen=True)
class Method:
    """One gRPC method, with the largest size of its requests and the limit against which its calls count."""

    call: Callable[[Any, Context], Any]
    """The coroutine function that returns the answer to a decoded request, or the asynchronous generator of a dump."""
    request: type[Message]
    kind: Kind = Kind.CALL
    """The concurrency limit against which the call counts, once its request is decoded."""
    max_request: int = limits.MAX_SMALL_REQUEST


_SERVICE = pb.DESCRIPTOR.services_by_name["DumpFilter"].full_name
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


PROCESS = "process"
"""The name of the health service that is SERVING as long as the process answers, even if the binlog cannot be read."""

_LOOKS_AT_BINLOG = 5.0
"""The interval at which the master tests whether the binlog can be read, seconds."""


class GrpcPort(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic only in the type stubs
    """The gRPC port of ``service``, to which slaves connect, with the limits on calls.

    All methods but :meth:`abandon` must be called in one asyncio loop. Raises Overloaded if the system gives the
    process no more threads.
    """

    def __init__(self, service: DumpFilterService, max_dumps: int) -> None:
        self._service = service
        self._methods = {
            f"/{_SERVICE}/Register": Method(
                service.Register, pb.RegisterRequest, max_request=limits.MAX_REQUEST
            ),
            f"/{_SERVICE}/Unregister": Method(service.Unregister, pb.UnregisterRequest),
            f"/{_SERVICE}/Dump": Method(service.Dump, pb.DumpRequest, Kind.DUMP, limits.MAX_REQUEST),
            f"/{_SERVICE}/Alive": Method(service.Alive, pb.AliveRequest, Kind.SHORT),
            f"/{_SERVICE}/Status": Method(service.Status, pb.StatusRequest),
            f"/{_HEALTH}/Check": Method(self._check_health, health_pb2.HealthCheckRequest, Kind.SHORT),
        }
        self.places = Places(max_dumps)
        self._decoders = limits.started_pool(_DECODERS, "grpc-decode")
        self._watches: dict[str, tuple[asyncio.Timeout, float]] = {}
        """The timeout of each dump whose slave has promised to make regular calls, by the slave's id. With it is the
        time without a call after which the dump ends, seconds.
        """
        self._is_readable = True
        """Whether the newest binlog file could be read at the last test."""
        self.max_connections = limits.open_connections(
            max_dumps, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        )
        """The largest number of connections that each port for slaves or replicas accepts."""
        self._server = grpc.aio.server(
            handlers=[self],
            options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", self.max_connections)],
            maximum_concurrent_rpcs=limits.open_calls(max_dumps),
        )

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

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler of a call, or None if the method does not exist. gRPC calls this method."""
        name = handler_call_details.method
        method = self._methods.get(name)
        if method is None:
            return None
        kind = Kind.SHORT if method.kind is Kind.SHORT else Kind.CALL

        async def answer(requests: object, context: Context) -> AsyncIterator[bytes]:
            async with self._refusing(method, context, name):
                with self.places.take(kind, context.peer()):
                    request = await self._receive(method, context)
                    if method.kind is not Kind.DUMP:
                        yield (await method.call(request, context)).SerializeToString()
                        return
                with self.places.take(Kind.DUMP, context.peer()):
                    # The dump of a client that vanished in the middle of a message must end at once.
                    async with aclosing(method.call(request, context)) as messages, self._awaited(request):
                        async for message in messages:
                            yield message

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _check_health(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Return the health of one service, by gRPC's health protocol. Ends the call with NOT_FOUND for an unknown
        service. The method Watch of the protocol is left out, because idle watches would occupy the master.

        The health service ``process`` is SERVING until the master shuts down. The service that slaves call, also under
        the empty name, has two further conditions. The master must be able to read the binlog. The operator must not
        have drained every slave at once (told the master to send all slaves away).
        """
        if request.service not in ("", _SERVICE, PROCESS):
            await context.abort(grpc.StatusCode.NOT_FOUND, "the master has no such service")
        is_serving = not self._service.stopping and (
            request.service == PROCESS or (self._is_readable and not self._service.drains.is_all)
        )
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if is_serving else status.NOT_SERVING)

    async def look_at_binlog(self) -> None:
        """Test every few seconds whether the newest binlog file can be read, for the health service. Log when the
        answer changes. The test also closes files that another process has purged.
        """
        store = self._service.store
        while True:
            await asyncio.sleep(_LOOKS_AT_BINLOG)
            try:
                await self._service.reader.call(store.check_readable)
                if not self._is_readable:
                    log.info("the binlog can be read again")
                self._is_readable = True
            except BinlogError as error:
                if self._is_readable:
                    log.error("the binlog cannot be read", error=printable(str(error)))
                self._is_readable = False

    async def _receive(self, method: Method, context: Context) -> Any:
        """Receive the request of a call of ``method``, check its size and contents, and decode it. Return the decoded
        request. The call shows that its slave is alive. So the timeout after which the slave's dump ends begins anew
        (:meth:`_awaited`).

        Raises RequestRefused for an unusable request, and for contents beyond the limits.
        """
        is_short = method.kind is Kind.SHORT
        try:
            async with asyncio.timeout(limits.SHORT_REQUEST_SECONDS if is_short else limits.REQUEST_SECONDS):
                data = await context.read()
        except TimeoutError:
            raise RequestRefused("the request did not arrive in time", "CANCELLED") from None
        if not isinstance(data, bytes):
            # The client has ended the call itself, which is no failure.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        if len(data) > method.max_request:
            text = f"the request has {len(data)} bytes: at most {method.max_request}"
            raise RequestRefused(text, "RESOURCE_EXHAUSTED")

        def decode() -> Any:
            request = method.request.FromString(data)
            check_request(request)
            return request

        try:
            if len(data) <= limits.MAX_SMALL_REQUEST:
                request = decode()
            else:
                request = await asyncio.get_running_loop().run_in_executor(self._decoders, decode)
        except (DecodeError, UnicodeDecodeError) as error:
            raise RequestRefused(
                "the request is not a message of the contract (a string that is not UTF-8?): "
                f"{printable(str(error))}"
            ) from None
        limit, seconds = self._watches.get(getattr(request, "slave_id", ""), (None, 0.0))
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
        return request

    @asynccontextmanager
    async def _awaited(self, request: Any) -> AsyncIterator[None]:
        """Raise RequestRefused in the ``with`` block when the slave makes no call for the time that ``request``
        promises (``net_timeout_ms``). A request without this field, or with 0, has no timeout.

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
            raise RequestRefused("the slave gave no sign of life", "UNAVAILABLE") from None
        finally:
            if self._watches.get(slave_id) is watch:
                del self._watches[slave_id]

    @asynccontextmanager
    async def _refusing(self, method: Method, context: Context, name: str) -> AsyncIterator[None]:
        """End a call of ``method`` with the status code and the text of the error that the ``with`` block raises.
        ``name`` is the method's name for the log.
        """
        try:
            yield
        except (DumpfilterError, MemoryError) as error:
            if isinstance(error, MemoryError):
                error = OutOfMemory("the master is out of memory; try again later")
            text = str(error)
            # The service logs why dumps end.
            is_logged = method.kind is not Kind.DUMP and not isinstance(error, TryLater)
            if is_logged or isinstance(error, Overloaded | OutOfMemory | RequestRefused):
                event = "registration refused" if method.request is pb.RegisterRequest else "call refused"
                log.warning(event, peer=context.peer(), method=printable(name), reason=printable(text))
            MEASURED.count_failure(error)
            most = MAX_ERROR if text.isascii() else MAX_ERROR // _ESCAPED_SHARE
            cut = text if len(text) <= most else text[:most] + "…"
            await context.abort(grpc.StatusCode[error.grpc_code], cut)


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
        address = host_and_port(self.host, self.port)
        try:
            if self.tls is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, self._credentials(self.tls))
        except RuntimeError:
            raise OptionError(
                f"{cannot} {address}: the port is taken, or gRPC cannot use the certificate of --tls-cert; {cure}"
            ) from None

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


async def end_of_tasks() -> None:
    """Wait until gRPC's tasks for closed ports have ended, for at most END_SECONDS. Call this once, before the asyncio
    loop ends, because gRPC writes a traceback for each task that has not ended then.
    """
    # gRPC writes a traceback for each of its tasks that has not ended when the loop ends.
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=END_SECONDS)


_DRAIN_POLL = 0.02
"""The interval at which a master that sends all slaves away checks whether their dumps have ended, seconds."""

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
            source.on_written = store.watcher.follow_writer(lambda: source.progress.file)
            from dumpfilter.master.source import LoopTurns

            reader = self.reader
            self._turns = LoopTurns(self.loop.loop, reader.received, reader.has_dumps)
            source.turns = self._turns
        self.loop.start()
        try:
            self.port = self.loop.wait(self._open(listen, max_dumps))
        except BaseException:
            self._end_loop()
            raise

    async def _open(self, listen: ListenAddress | None, max_dumps: int) -> int:
        self._port = GrpcPort(self.service, max_dumps)
        self.places, self.max_connections = self._port.places, self._port.max_connections
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
        """Begin to accept connections."""
        self.loop.wait(self._start())

    async def _start(self) -> None:
        await self._port.start()
        self._probe = asyncio.create_task(self._port.look_at_binlog())

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
