"""The master's gRPC server, which slaves connect to. It also offers gRPC's health checks."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.errors import DumpfilterError
from dumpfilter.filter import ReplicationFilter
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.gate import Gate, MethodBounds
from dumpfilter.master.handlers import Handlers
from dumpfilter.master.health import Health
from dumpfilter.master.limits import MAX_REQUEST, MAX_STREAMS, Kind, ServerLimits
from dumpfilter.master.listen import ListenAddress
from dumpfilter.master.messages import check_dump_request, check_filter
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from dumpfilter.master.presplit import Presplit

log = structlog.get_logger("dumpfilter.master")

_SERVICE = pb.DESCRIPTOR.services_by_name["DumpFilter"].full_name
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_BOUNDS = {
    f"/{_SERVICE}/Register": MethodBounds(MAX_REQUEST, check=lambda request: check_filter(request.filter)),
    f"/{_SERVICE}/ChangeFilter": MethodBounds(
        MAX_REQUEST, check=lambda request: check_filter(request.filter)
    ),
    f"/{_SERVICE}/Dump": MethodBounds(MAX_REQUEST, Kind.DUMP, check_dump_request),
    f"/{_HEALTH}/Watch": MethodBounds(kind=Kind.WATCH),
}
"""The bounds of the methods whose requests are large or that occupy a thread for long."""

_DRAIN_POLL = 0.02
"""The interval at which a master that drains its slaves looks whether their dumps have ended, seconds."""

_END_SECONDS = 10.0
"""The time that a server which stops waits for its serving loop, seconds."""

OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_REQUEST),
    # Only the algorithm "identity". gRPC checks the size of a compressed message before it uncompresses the message.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Keepalive pings tell the master within half a minute that a slave vanished without closing its connection.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A client that pings more often than this is disconnected after a few pings.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # A connection that is no HTTP/2 within this time, or without calls for so long, is closed.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.so_reuseport", 0),
]


class ServerDied(DumpfilterError):
    """The error for a master whose gRPC serving loop has ended by itself, so that no slave could connect any more."""


class MasterServer:
    """The gRPC server that serves one binlog set to slaves.

    With port 0 in ``listen`` the system chooses a free port, and :attr:`port` tells which. ``write_filter`` has rules
    like ``--binlog-do-db`` that hide events from all slaves. ``presplit`` holds binlogs that were filtered in advance
    for slaves with the same filter. Raises Exposed when other machines could connect without TLS or without a login.
    """

    def __init__(
        self,
        store: BinlogStore,
        *,
        listen: ListenAddress | None = None,
        write_filter: ReplicationFilter | None = None,
        config: MasterConfig | None = None,
        presplit: Presplit | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        listen = listen or ListenAddress()
        warning = listen.check_exposure((config or MasterConfig()).users)
        if warning is not None:
            log.warning("insecure", reason=warning)
        limits = limits or ServerLimits()
        self.service = DumpFilterService(
            store, write_filter=write_filter, config=config, presplit=presplit, limits=limits
        )
        self.gate = Gate(limits, _BOUNDS)
        self._handlers = Handlers(limits.handlers)
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        connections = limits.connections(open_files)
        self._server = grpc.server(
            self._handlers,  # type: ignore[arg-type]  # gRPC only submits calls
            interceptors=[self.gate],
            options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", connections)],
        )
        self._loop: list[threading.Thread] = []
        """The threads that gRPC has started to serve. They run until the server stops."""
        pb_grpc.add_DumpFilterServicer_to_server(self.service, self._server)
        self._health = Health(frozenset(("", _SERVICE)))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.service.drains.on_change.append(self._set_health)
        self.port = listen.open_port(self._server)

    def start(self) -> None:
        """Begin to accept connections, and report the service as healthy."""
        before = set(threading.enumerate())
        self._server.start()
        self._loop = [thread for thread in threading.enumerate() if thread not in before]
        self._set_health()

    def _set_health(self) -> None:
        """Report the service as healthy unless all slaves are drained."""
        self._health.set(serving=self.is_serving and not self.service.drains.is_all)

    def drain(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> int:
        """Send all slaves away, each after its current transaction, and wait until their dumps have ended.

        The wait ends after ``seconds``, or as soon as ``interrupted`` returns true. Return the number of dumps that
        still run. :meth:`stop` ends these inside a transaction.
        """
        deadline = time.monotonic() + seconds
        self.service.drains.drain_all()
        while (left := self._dumps) and time.monotonic() < deadline and not interrupted():
            time.sleep(_DRAIN_POLL)
        return left

    @property
    def _dumps(self) -> int:
        return sum(bool(slave.dump) for slave in self.service.register.all())

    def check(self) -> None:
        """Raise ServerDied when the serving loop has ended, although nobody has stopped the server."""
        if not self.is_serving:
            raise ServerDied(
                "the gRPC server has ended by itself, probably for want of memory; start the master again, with more "
                "memory or fewer --max-dumps"
            )

    @property
    def is_serving(self) -> bool:
        """Whether the serving loop runs: from the start of the server to its stop."""
        return all(thread.is_alive() for thread in self._loop)

    def stop(self, grace: float = 1.0) -> None:
        """End all dumps, stop the server, and close the binlog set. Running calls get ``grace`` seconds to end."""
        self._health.set(serving=False)
        self.service.stopping = True
        for slave in self.service.register.all():
            slave.dump = 0
        self.service.store.wake()
        ended = False
        if self.is_serving:
            # gRPC starts a thread here, which the system may refuse.
            with contextlib.suppress(RuntimeError):
                ended = self._server.stop(grace).wait(grace + _END_SECONDS)
        if not ended:
            # Without its serving loop a server never stops, and gRPC waits for that when it frees the server.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))
        self.gate.close()
        self._handlers.shutdown()
        self.service.store.close()
