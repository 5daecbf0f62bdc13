"""The health of a running master, read from the health service of its gRPC port for slaves."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.base.errors import ConnectionLost, DumpfilterError
from dumpfilter.commands.server_status.model import NotOurs, StatusRefused
from dumpfilter.slave.threads.connection import Source, explain_failure, open_channel
from dumpfilter.slave.tls_trial import Unreachable

SECONDS = 10.0
"""The time limit of a master's answer, seconds."""


def health(source: Source) -> str:
    """Return the health that a master tells everybody, such as SERVING.

    ``source`` is the connection to the master's port for slaves. Raises ConnectionLost when nothing answers, and
    TlsError when TLS is missing.
    """
    try:
        with open_channel(source, lambda: False) as channel:
            try:
                request = health_pb2.HealthCheckRequest()
                answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=SECONDS)
            except grpc.RpcError as error:
                explain_failure(source, error, lambda: False)
                raise
    except grpc.RpcError as error:
        raise _refused(source.info.address, error) from None
    except Unreachable as error:
        raise ConnectionLost(f"master {source.info.address}: {error}") from None
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def _refused(master: str, error: grpc.RpcError) -> DumpfilterError:
    code, details = error.code(), error.details()
    match code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED:
            return ConnectionLost(
                f"master {master} cannot be reached ({details}); is it running, and is this its address for slaves?"
            )
        case grpc.StatusCode.UNIMPLEMENTED | grpc.StatusCode.NOT_FOUND:
            return NotOurs(f"{master}: another gRPC server answers here, no master of dumpfilter")
    return StatusRefused(f"master {master} refuses its status: {code.name}: {details}")
