"""A master and a client over gRPC on loopback, with filters that keep everything and a fifth."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import grpc

from bench._common import Cases, Options, Report, binlogs, do_db, keeping
from bench._processes import Child, master
from bench._raw import COPY, grpc_server
from dumpfilter.dump.stream.message import PROTOCOL, client
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_UNLIMITED = [("grpc.max_receive_message_length", -1)]


@contextmanager
def connected(address: str) -> Iterator[rpc.DumpFilterStub]:
    """Yield a client of a master."""
    with grpc.insecure_channel(address, options=_UNLIMITED) as channel:
        yield client(channel)


def dump(stub: rpc.DumpFilterStub, names: list[str], *, most: int | None = None) -> list[int]:
    """Receive one dump to the end of the log, and return the sizes of the chunks with events."""
    rules = filter_to_proto(do_db(names))
    identity = pb.RegisterRequest(protocol=PROTOCOL, server_id=77, uuid=str(uuid.uuid4()), filter=rules)
    answer = stub.Register(identity)
    call: Any = stub.Dump(pb.DumpRequest(slave_id=answer.slave_id, once=True))
    sizes = list(islice((len(events) for _, events in call if events), most))
    call.cancel()
    stub.Unregister(pb.UnregisterRequest(slave_id=answer.slave_id))
    return sizes


def run(report: Report, options: Options) -> None:
    made = binlogs(options.size)
    share = {"everything": keeping(made, 1.0), "a fifth": keeping(made, 0.2)}

    def fresh(kept: str) -> float:
        """Return the seconds of the first dump of a new master, which has loaded its code and indexed nothing."""
        with master(made.index) as server, connected(server.address) as stub:
            dump(stub, share[kept], most=1)
            start = time.perf_counter()
            dump(stub, share[kept])
            return time.perf_counter() - start

    report.nbytes = made.bytes
    with (
        Child(grpc_server) as bare,
        master(made.index, "--cache-size", "256") as server,
        connected(server.address) as stub,
        grpc.insecure_channel(f"127.0.0.1:{bare.answer()}", options=_UNLIMITED) as channel,
    ):
        sizes = {kept: dump(stub, share[kept]) for kept in share}
        copy = channel.unary_stream(COPY, None, None)

        def raw(kept: str) -> None:
            for _ in copy(" ".join(map(str, sizes[kept])).encode()):
                pass

        cases: Cases = {
            **{f"{kept}, first dump": partial(fresh, kept) for kept in share},
            **{f"{kept}, indexed": partial(dump, stub, names) for kept, names in share.items()},
            **{f"{kept}, raw copy": partial(raw, kept) for kept in share},
        }
        m = report.measure(cases)
    fifth, everything = sizes["a fifth"], sizes["everything"]
    report.row("kept", sum(fifth) / sum(everything), f"{{:.3f}} of the bytes, in {len(fifth)} chunks")
    speeds = {}
    for state in ("first dump", "indexed"):
        for kept in share:
            speeds[kept] = m[f"{kept}, raw copy"] / m[f"{kept}, {state}"]
            report.row(f"raw / {kept}, {state}", speeds[kept], "{:.2f} of a raw copy's speed")
        ratio = m[f"everything, {state}"] / m[f"a fifth, {state}"]
        report.target(f"everything / a fifth, {state}", ratio, 3)
    report.target("raw copy / everything, indexed", speeds["everything"], 0.65)
    report.target("raw copy / a fifth, indexed", speeds["a fifth"], 0.4)
