"""The master's gRPC server, which slaves connect to. It also offers gRPC's health checks and reflection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dumpfilter.filter import ReplicationFilter
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.listen import ListenAddress
from dumpfilter.master.malformed import MalformedRequests
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from dumpfilter.master.presplit import Presplit

MAX_DUMPS = 1000
"""The largest number of slaves that can receive events at once.

The dump to each slave occupies a thread of the master.
"""

log = structlog.get_logger("dumpfilter.master")

_SERVICE = pb.DESCRIPTOR.services_by_name["DumpFilter"].full_name

OPTIONS = [
    ("grpc.max_send_message_length", -1),
    # gRPC's default limit is below the size of a filter with the most rules that the master accepts.
    ("grpc.max_receive_message_length", 16 << 20),
    # Keepalive pings tell the master within half a minute that a slave vanished without closing its connection.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
]


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
    ) -> None:
        listen = listen or ListenAddress()
        warning = listen.check_exposure((config or MasterConfig()).users)
        if warning is not None:
            log.warning(warning)
        self.service = DumpFilterService(store, write_filter=write_filter, config=config, presplit=presplit)
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=MAX_DUMPS + 24, thread_name_prefix="dump"),
            interceptors=[MalformedRequests()],
            options=OPTIONS,
            # gRPC refuses calls above this number. Without the limit they would wait for a free thread for ever.
            maximum_concurrent_rpcs=MAX_DUMPS + 24,
        )
        pb_grpc.add_DumpFilterServicer_to_server(self.service, self._server)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            [_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server
        )
        self.port = listen.open_port(self._server)

    def start(self) -> None:
        """Begin to accept connections, and report the service as healthy."""
        self._server.start()
        for name in ("", _SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace: float = 1.0) -> None:
        """End all dumps, stop the server, and close the binlog set. Running calls get ``grace`` seconds to end."""
        self._health.enter_graceful_shutdown()
        self.service.stopping = True
        for slave in self.service.register.all():
            slave.dump = 0
        self.service.store.wake()
        self._server.stop(grace).wait()
        self.service.store.close()
