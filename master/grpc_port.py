"""The gRPC port of a master, to which slaves connect. It has the limits of each method, and gRPC's health checks."""

from __future__ import annotations

import asyncio
import ctypes
import resource

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.master.gate import Gate, MethodBounds
from dumpfilter.master.health import Health
from dumpfilter.master.limits import MAX_REQUEST, MAX_STREAMS, Kind, open_calls, open_connections
from dumpfilter.master.listen import ListenAddress
from dumpfilter.master.messages import check_dump_request, check_filter
from dumpfilter.master.pools import started_pool
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

_SERVICE = pb.DESCRIPTOR.services_by_name["DumpFilter"].full_name
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_BOUNDS = {
    f"/{_SERVICE}/Register": MethodBounds(MAX_REQUEST, check=lambda request: check_filter(request.filter)),
    f"/{_SERVICE}/Alive": MethodBounds(kind=Kind.FREE),
    f"/{_SERVICE}/Dump": MethodBounds(MAX_REQUEST, Kind.DUMP, is_serialized=True, check=check_dump_request),
    f"/{_HEALTH}/Check": MethodBounds(kind=Kind.FREE),
    f"/{_HEALTH}/Watch": MethodBounds(kind=Kind.WATCH),
}
"""The limits of the methods that need others than the default: for large requests, for streams, and for health
checks.
"""

END_SECONDS = 10.0
"""The additional time that a stopping server waits for its calls after their grace period, seconds."""

_DECODERS = 2
"""The number of threads that decode large requests. A decoded request can be 40 times as large as its bytes."""

OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_REQUEST),
    # Only the algorithm "identity". gRPC checks the size of a compressed message before it uncompresses the message.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # A ping makes the system notice a client whose machine vanished: gRPC sets keepalive_timeout as TCP_USER_TIMEOUT.
    # The dump of a slave that falls silent ends sooner (gate.LifeSigns).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 100_000),
    # On a slow line the answer to a ping waits behind the messages in the buffers of both ends.
    ("grpc.http2.ping_timeout_ms", 600_000),
    # A client that pings more often than this is disconnected after a few pings.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # A connection that is no HTTP/2 within this time, or without calls for so long, is closed.
    ("grpc.server_handshake_timeout_ms", 120_000),
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.so_reuseport", 0),
]


class GrpcPort:
    """The gRPC port to which slaves connect. All methods but :meth:`abandon` must be called in one asyncio loop."""

    def __init__(self, servicer: pb_grpc.DumpFilterServicer, max_dumps: int) -> None:
        connections = open_connections(max_dumps, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._decoders = started_pool(_DECODERS, "grpc-decode")
        self.gate = Gate(max_dumps, _BOUNDS, self._decoders)
        self.health = Health(frozenset(("", _SERVICE)))
        self._server = grpc.aio.server(
            interceptors=[self.gate],
            options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", connections)],
            maximum_concurrent_rpcs=open_calls(max_dumps),
        )
        pb_grpc.add_DumpFilterServicer_to_server(servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)

    def open(self, listen: ListenAddress) -> int:
        """Listen at an address, and return the port. Raises OptionError when the address cannot be used."""
        try:
            return listen.open_port(self._server)
        except BaseException:
            self._decoders.shutdown(cancel_futures=True)
            raise

    async def start(self, *, drained: bool = False) -> None:
        """Begin to accept connections, and report the health. ``drained`` says that the operator has drained all
        slaves, so that the service is not healthy.
        """
        await self._server.start()
        await self.health.tell(serving=True, readable=True, drained=drained)

    async def stop(self, grace: float) -> None:
        """Refuse new calls, end the running ones after at most ``grace`` seconds, and close the port."""
        await self.health.tell(serving=False)
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
    loop ends.
    """
    # gRPC writes a traceback for each of its tasks that has not ended when the loop ends.
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=END_SECONDS)
