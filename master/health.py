"""gRPC's standard health service, with a bound on what a watch costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.master.refusals import Context

PROCESS = "process"
"""The name of the service that tells whether the process answers, whatever becomes of the binlog."""

SOURCE = "source"
"""The name of the service that tells whether a running server, which the master follows, sends its binlog."""


class _Facts(NamedTuple):
    """The facts about a master from which the health of its services follows."""

    serving: bool = False
    readable: bool = False
    """Whether the master can read its binlog."""
    drained: bool = False
    """Whether the operator has drained all slaves."""
    receiving: bool | None = None
    """Whether the source that the master follows sends its binlog. None: the master follows none."""


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
        self._facts = _Facts()
        self._changed = asyncio.Event()

    def set(self, **facts: bool) -> None:
        """Replace facts about the master by their names in ``_Facts``, and tell the watches."""
        self._facts = self._facts._replace(**facts)
        self._changed.set()
        self._changed = asyncio.Event()

    def _status(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus | None:
        facts = self._facts
        serves = facts.serving
        if service == SOURCE and facts.receiving is not None:
            serves &= facts.receiving
        elif service in self._services:
            serves &= facts.readable and not facts.drained
        elif service != PROCESS:
            return None
        response = health_pb2.HealthCheckResponse
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
