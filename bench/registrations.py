"""The cost of one registration among ten slaves and among ten thousand, in the register and over gRPC."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import grpc

from bench._common import Options, Report, binlogs, processor_time
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


def _fill(register: Register, numbers: range, secret: bytes = b"") -> None:
    """Register slaves with one secret, or each with a secret of its own."""
    for number in numbers:
        peer = Peer(server_id=number, uuid=str(uuid.UUID(int=number)))
        register.add(peer, Filter(), secret=secret or secrets.token_bytes(32))


def _in_register(others: int) -> float:
    """Return the processor time of registrations by new slaves. The register forgets an idle slave for each of them."""
    register = Register(Subjects(), most_idle=others)
    _fill(register, range(1, others + 1))
    new, secret = range(others + 1, others + NUMBER + 1), secrets.token_bytes(32)
    return processor_time(lambda: _fill(register, new, secret))


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


def run(report: Report, options: Options) -> None:
    cases: dict[str, Callable[[], float]] = {}
    with ExitStack() as stack:
        for others in (FEW, MANY):
            server = MasterServer(BinlogStore(binlogs(1 << 20).index.parent))
            server.start()
            stack.callback(server.stop, 0)
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))
            _fill(server.service.register, range(1, others + 1))
            stub = rpc.DumpFilterStub(channel)
            cases[f"{NUMBER} in the register, among {others}"] = partial(_in_register, others)
            cases[f"{NUMBER} over gRPC, among {others}"] = partial(_over_grpc, stub)
        report.measure(cases, options.runs)
    for where in ("in the register", "over gRPC"):
        many, few = (f"{NUMBER} {where}, among {others}" for others in (MANY, FEW))
        report.ratio(f"{where}: among {MANY} / among {FEW}", many, few, 1.5, at_most=True)
