"""The status of a running master: by its health service, by the call Status, and by its console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.errors import ConnectionLost
from dumpfilter.security.guarded_client import Login
from dumpfilter.slave.threads.connection import explain_failure, open_channel
from dumpfilter.slave.threads.source import Source
from dumpfilter.slave.tls_trial import Unreachable
from dumpfilter.status.console import ask
from dumpfilter.status.model import MasterStatus, NotOurs, SlaveOfMaster, StatusRefused, lag_after
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

SECONDS = 10.0
"""The longest wait for an answer of a master, seconds."""

_COUNTS = tuple(field.name for field in pb.Counts.DESCRIPTOR.fields)
_BYTES_GTID = "bytes_gtid"

_LOGIN_OR_CONSOLE = (
    "the master tells strangers its health only; for the slaves and the binlog give --console with the address of the "
    "master's console (its --console-port), or, if the master's configuration has a [[user]], --source-user with "
    "--source-password-file"
)


@dataclass(frozen=True)
class MasterToAsk:
    """The addresses of a master, with what its asker can show: a replication user, or a user of its console."""

    source: Source | None = None
    """The connection to the port for slaves. None: ask the console only."""
    console: Login | None = None


def master_status(master: MasterToAsk) -> MasterStatus:
    """Ask a master. Without a user and a console the status only has what everybody may know.

    Raises ConnectionLost when nothing answers, TlsError when TLS is missing, and StatusRefused for a wrong password.
    """
    status = MasterStatus()
    if master.source is not None:
        _ask_port(status, master.source, whole=master.console is None)
    if master.console is not None:
        _ask_console(status, master.console)
    return status


def _ask_port(status: MasterStatus, source: Source, *, whole: bool) -> None:
    status.address = source.info.address
    try:
        with open_channel(source, lambda: False) as channel:
            status.health = _health(channel, source)
            if not whole:
                return
            if not source.info.user:
                status.hint = _LOGIN_OR_CONSOLE
                return
            request = pb.StatusRequest(user=source.info.user, password=source.info.password)
            try:
                _take(status, rpc.DumpFilterStub(channel).Status(request, timeout=SECONDS))
            except grpc.RpcError as error:
                raise _refused(source, error) from None
    except Unreachable as error:
        raise ConnectionLost(f"master {source.info.address}: {error}") from None


def _health(channel: grpc.Channel, source: Source) -> str:
    try:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    except grpc.RpcError as error:
        code = error.code()
        explain_failure(source, error, lambda: False)
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise ConnectionLost(
                f"master {source.info.address} cannot be reached ({error.details()}); is it running, and is this its "
                "address for slaves?"
            ) from None
        if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
            raise NotOurs(
                f"{source.info.address}: another gRPC server answers here, no master of dumpfilter"
            ) from None
        raise StatusRefused(
            f"master {source.info.address} does not tell its health: {error.details()}"
        ) from None
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def _refused(source: Source, error: grpc.RpcError) -> StatusRefused | ConnectionLost:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAUTHENTICATED:
        cure = (
            "start the master with --console-port, and give --console instead of --source-user"
            if "no users" in str(details)
            else "check --source-user and --source-password-file"
        )
        return StatusRefused(f"master {source.info.address} refuses its status: {details}; {cure}")
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return ConnectionLost(f"master {source.info.address} stopped answering ({details}); try again")
    return StatusRefused(f"master {source.info.address} refuses its status: {code.name}: {details}")


def _take(status: MasterStatus, answer: pb.StatusResponse) -> None:
    status.server_version = answer.server_version
    files = [(file.name, file.size) for file in answer.files]
    _take_files(status, files)
    status.slaves = [_slave(slave, files) for slave in answer.slaves]
    status.hint = "the slaves of this user only, and no lag in seconds: the master's --console tells all"


def _slave(slave: pb.Slave, files: list[tuple[str, int]]) -> SlaveOfMaster:
    values = MessageToDict(slave, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    place = slave.position
    counts = {**values.get("counts", {}), _BYTES_GTID: slave.bytes_gtid}
    lag = lag_after(files, place.file, place.position)
    more = {"file": place.file, "position": place.position, "counts": counts, "lag_bytes": lag}
    return SlaveOfMaster.model_validate(values | more)


def _take_files(status: MasterStatus, files: list[tuple[str, int]]) -> None:
    status.files, status.bytes = len(files), sum(size for _, size in files)
    if files:
        status.file, status.position = files[-1]


def _ask_console(status: MasterStatus, login: Login) -> None:
    status.console = f"{login.host}:{login.port}"
    status.version, answers = ask(
        login,
        "master",
        [
            "SELECT @@version AS version",
            "SHOW BINARY LOGS",
            "SELECT * FROM dumpfilter.slaves",
            "SELECT * FROM dumpfilter.drains",
            "SELECT * FROM dumpfilter.source",
            "SELECT * FROM dumpfilter.replica_drift",
            "SELECT * FROM dumpfilter.filter_warnings",
        ],
    )
    (version, *_), logs, slaves, drains, source, drift, warnings = answers
    status.server_version = version["version"]
    _take_files(status, [(row["Log_name"], row["File_size"]) for row in logs])
    status.slaves = [_slave_of(row) for row in slaves]
    _take_warnings(status.slaves, warnings)
    status.drains = drains
    status.source = source[0] if source else None
    status.drift = drift


def _take_warnings(slaves: list[SlaveOfMaster], rows: Iterable[Mapping[str, Any]]) -> None:
    of_slave: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        key = (row["user"], row["channel"], row["uuid"])
        end = "" if str(row["cure"]).endswith("?") else "."
        line = f"{row['code']}: {row['rules']}: {row['warning']}. {row['cure']}{end}"
        of_slave.setdefault(key, []).append(line)
    for slave in slaves:
        slave.filter_warnings = of_slave.get((slave.user, slave.channel, slave.uuid), [])


def _slave_of(row: Mapping[str, Any]) -> SlaveOfMaster:
    counts = {name: row.get(name) or 0 for name in (*_COUNTS, _BYTES_GTID)}
    return SlaveOfMaster.model_validate({**row, "counts": counts})
