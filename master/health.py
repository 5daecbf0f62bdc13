"""gRPC's standard health service, as a master offers it."""

from __future__ import annotations

from typing import NamedTuple

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio  # type: ignore[attr-defined]  # the package has no types

PROCESS = "process"
"""The name of the health service that is SERVING as long as the process answers, even if the binlog cannot be read."""

SOURCE = "source"
"""The name of the health service that is SERVING while the server that the master follows sends its binlog."""


class _Facts(NamedTuple):
    """The conditions from which the health of a master's services is computed."""

    serving: bool = False
    readable: bool = False
    """Whether the master can read its binlog."""
    drained: bool = False
    """Whether the operator has drained all slaves."""
    receiving: bool | None = None
    """Whether the server that the master follows sends its binlog. None: the master follows no server."""


class Health(aio.HealthServicer):  # type: ignore[misc]  # the package has no types
    """The health of the master's services, by service name.

    The service ``process`` is SERVING from the master's start until the master shuts down. The services in ``services``
    are SERVING while the master can also read its binlog, and has not drained all slaves. The service ``source`` exists
    once :meth:`tell` has set ``receiving``.
    """

    def __init__(self, services: frozenset[str]) -> None:
        super().__init__()
        self._services = services
        self._facts = _Facts()

    async def tell(self, **facts: bool) -> None:
        """Set conditions of the master, and report the new health to all clients that watch it. The keywords are
        ``serving``, ``readable``, ``drained`` and ``receiving``; conditions that are not named stay.
        """
        now = self._facts = self._facts._replace(**facts)
        serves = dict.fromkeys(self._services, now.readable and not now.drained)
        serves[PROCESS] = True
        if now.receiving is not None:
            serves[SOURCE] = now.receiving
        status = health_pb2.HealthCheckResponse
        for service, is_good in serves.items():
            await self.set(service, status.SERVING if now.serving and is_good else status.NOT_SERVING)
