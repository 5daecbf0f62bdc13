"""gRPC's standard health service, with a bound on what a watch costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.master.refusals import Context

PROCESS = "process"
"""The name of the service that tells whether the process answers, whatever becomes of the binlog."""

SOURCE = "source"
"""The name of the service that tells whether a running server, which the master follows, sends its binlog."""


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, untyped
    """The health of the master, by service name.

    The service ``process`` is SERVING from the master's start until it shuts down. The services in ``services`` are
    SERVING while the master can also read its binlog, and has not drained all slaves. The service ``source`` exists
    after :meth:`set` was told of a source. The servicer of the package
    grpc_health remembers each service name that a client watches, for ever, and has no bound on watches. This servicer
    knows its own names only.
    """

    def __init__(self, services: frozenset[str]) -> None:
        self._services = services
        self._is_serving = self._is_readable = self._is_drained = False
        self._is_receiving: bool | None = None
        self._changed = asyncio.Event()

    def set(
        self,
        *,
        serving: bool | None = None,
        readable: bool | None = None,
        drained: bool | None = None,
        receiving: bool | None = None,
    ) -> None:
        """Tell clients and watches whether the master serves, can read its binlog, and has drained all slaves.

        ``receiving`` tells whether the source that the master follows sends its binlog.
        """
        self._is_receiving = self._is_receiving if receiving is None else receiving
        self._is_serving = self._is_serving if serving is None else serving
        self._is_readable = self._is_readable if readable is None else readable
        self._is_drained = self._is_drained if drained is None else drained
        self._changed.set()
        self._changed = asyncio.Event()

    def _status(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus | None:
        response = health_pb2.HealthCheckResponse
        if service == SOURCE and self._is_receiving is not None:
            receives = self._is_serving and self._is_receiving
            return response.SERVING if receives else response.NOT_SERVING
        if service != PROCESS and service not in self._services:
            return None
        serves = self._is_serving and (service == PROCESS or (self._is_readable and not self._is_drained))
        return response.SERVING if serves else response.NOT_SERVING

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Return whether the master serves."""
        status = self._status(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the master has no such service")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Yield whether the master serves, now and after each change."""
        told = None
        while True:
            changed = self._changed
            status = self._status(request.service)
            if status is None:
                yield health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
                return
            if status != told:
                yield health_pb2.HealthCheckResponse(status=status)
                told = status
            await changed.wait()
