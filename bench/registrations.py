"""The cost of one registration among ten slaves and among ten thousand, in the register and over gRPC."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc

from bench._common import OUT, Options, Report, processor_time
from dumpfilter.binlog.workload.generate import generate
from dumpfilter.dump.stream.versions import PROTOCOL
from dumpfilter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.register import Register
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

FEW, MANY = 10, 10_000
NUMBER = 200
"""The registrations that one run times."""


def _add(register: Register, number: int, secret: bytes) -> None:
    register.add(Peer(server_id=number, uuid=str(uuid.UUID(int=number))), Filter(), secret=secret)


def _in_register(others: int) -> float:
    """Return the processor time of registrations by new slaves. The register forgets an idle slave for each of them."""
    register = Register(Subjects(), most_idle=others)
    for number in range(1, others + 1):
        _add(register, number, secrets.token_bytes(32))
    secret = secrets.token_bytes(32)
    return processor_time(
        lambda: [_add(register, others + number, secret) for number in range(1, NUMBER + 1)]
    )


def _over_grpc(stub: rpc.DumpFilterStub) -> float:
    """Return the processor time of registrations over gRPC, master and client together."""
    secret = secrets.token_bytes(32)
    requests = [
        pb.RegisterRequest(
            protocol=PROTOCOL, server_id=number, uuid=str(uuid.uuid4()), channel="bench", secret=secret
        )
        for number in range(1, NUMBER + 1)
    ]
    return processor_time(lambda: [stub.Register(request) for request in requests])


def _set() -> Path:
    directory = OUT / "registrations"
    if not (directory / "bin.index").exists():
        generate(directory, 1 << 20)
    return directory


def run(options: Options) -> bool:
    report = Report("registrations", "a registration costs the same among ten others and among ten thousand")
    cases: dict[str, Callable[[], float]] = {}
    with ExitStack() as stack:
        for others in (FEW, MANY):
            server = MasterServer(BinlogStore(_set()))
            server.start()
            stack.callback(server.stop, 0)
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))
            for number in range(1, others + 1):
                _add(server.service.register, number, secrets.token_bytes(32))
            stub = rpc.DumpFilterStub(channel)
            cases[f"{NUMBER} in the register, among {others}"] = partial(_in_register, others)
            cases[f"{NUMBER} over gRPC, among {others}"] = partial(_over_grpc, stub)
        report.measure(cases, options.runs)
    for where in ("in the register", "over gRPC"):
        many, few = (f"{NUMBER} {where}, among {others}" for others in (MANY, FEW))
        report.ratio(f"{where}: among {MANY} / among {FEW}", many, few, 1.5, at_most=True)
    return report.print()
