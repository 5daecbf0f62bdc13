"""The status of a running master, read from its gRPC port for slaves: the health service, and the call Status."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.base.errors import ConnectionLost, DumpfilterError, NotAMaster
from dumpfilter.commands.server_status.model import Record, files_record, slave_of_master
from dumpfilter.slave.connection import PORT_FOR_SLAVES, Source, Unreachable, explain_failure, open_channel
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

SECONDS = 10.0
"""The time limit for a master's answer to a status request, seconds."""

_LOGIN_OR_CONSOLE = (
    "the master tells strangers its health only; for the slaves and the binlog give --console with the address of the "
    "master's console (its --console-port), or, if the master's configuration has a [[user]], --source-user with "
    "--source-password-file"
)


def ask_port(source: Source, *, whole: bool) -> Record:
    """Return the part of a master's status record (dictionary) with its address and health (such as SERVING). With
    ``whole``, the part also has the binlog files and slaves that the replication user may see. Without such a user, the
    part has a hint instead.

    ``source`` is the connection to the master's port for slaves, with the user. Raises ConnectionLost when nothing
    answers, NotAMaster when another gRPC server answers, TlsError when TLS is missing, and DumpfilterError for a wrong
    password.
    """
    info = source.info
    try:
        with open_channel(source, lambda: False) as channel:
            status = {"address": info.address, "health": _health(channel, source)}
            if not whole:
                return status
            if not info.user:
                return status | {"hint": _LOGIN_OR_CONSOLE}
            request = pb.StatusRequest(user=info.user, password=info.password)
            answer = rpc.DumpFilterStub(channel).Status(request, timeout=SECONDS)
            return {
                **status,
                **files_record([(file.name, file.size) for file in answer.files]),
                "server_version": answer.server_version,
                "slaves": [_slave(slave) for slave in answer.slaves],
                "hint": "the slaves of this user only: the master's --console tells all",
            }
    except grpc.RpcError as error:
        raise _refused(source, error) from None
    except Unreachable as error:
        raise ConnectionLost(f"master {info.address}: {error}") from None


def _health(channel: grpc.Channel, source: Source) -> str:
    try:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    except grpc.RpcError as error:
        explain_failure(source, error, lambda: False)
        raise
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def _refused(source: Source, error: grpc.RpcError) -> DumpfilterError:
    master, code, details = source.info.address, error.code(), error.details()
    match code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED:
            return ConnectionLost(
                f"master {master} cannot be reached ({details}); is it running, and is this {PORT_FOR_SLAVES}?"
            )
        case grpc.StatusCode.UNIMPLEMENTED | grpc.StatusCode.NOT_FOUND:
            return NotAMaster(f"{master}: another gRPC server answers here, no master of dumpfilter")
        case grpc.StatusCode.UNAUTHENTICATED:
            cure = (
                "start the master with --console-port, and give --console instead of --source-user"
                if "no users" in str(details)
                else "check --source-user and --source-password-file"
            )
            return DumpfilterError(f"master {master} refuses its status: {details}; {cure}")
    return DumpfilterError(f"master {master} refuses its status: {code.name}: {details}")


_LEFT_OUT = {"registered_at", "last_seen_at", "filter_warnings", "counts"}
"""The fields of the gRPC message about a slave that are not copied to the slave's status record. The two times are left
out, because records from a console have times as text.
"""


def _slave(slave: pb.Slave) -> Record:
    facts: dict[str, Any] = {
        field.name: getattr(message, field.name)
        for message in (slave, slave.counts, slave.position)
        for field in message.DESCRIPTOR.fields
        if field.name not in _LEFT_OUT
    }
    for name in ("lag_bytes", "lag_seconds"):
        facts[name] = facts[name] if slave.HasField(name) else None
    return slave_of_master(facts, slave.filter_warnings)
