"""gRPC's standard health service, with a bound on what a watch costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_RECHECK_SECONDS = 5.0
"""The interval at which a health watch looks whether its client is still there, seconds."""


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, untyped
    """The health of the master: SERVING from its start until it shuts down.

    The servicer of the package grpc_health remembers each service name that a client watches, for ever, and has no
    bound on watches. This servicer knows the names in ``services`` only.
    """

    def __init__(self, services: frozenset[str]) -> None:
        self._services = services
        self._status = health_pb2.HealthCheckResponse.NOT_SERVING
        self._changed = threading.Condition()

    def set(self, *, serving: bool) -> None:
        """Tell clients and watches whether the master serves."""
        response = health_pb2.HealthCheckResponse
        with self._changed:
            self._status = response.SERVING if serving else response.NOT_SERVING
            self._changed.notify_all()

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Return whether the master serves."""
        if request.service not in self._services:
            context.abort(grpc.StatusCode.NOT_FOUND, "the master has no such service")
        return health_pb2.HealthCheckResponse(status=self._status)

    def Watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.HealthCheckResponse]:
        """Yield whether the master serves, now and after each change."""
        if request.service not in self._services:
            yield health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            return
        told = None
        # The callback wakes the watch when its client has gone.
        context.add_callback(self._wake)
        while context.is_active():
            status = self._status
            if status != told:
                yield health_pb2.HealthCheckResponse(status=status)
                told = status
            with self._changed:
                if self._status == told and context.is_active():
                    self._changed.wait(_RECHECK_SECONDS)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
