"""A master and a client over gRPC on loopback, with filters that keep everything and a fifth."""

from __future__ import annotations

import uuid

import grpc

from bench import _grpc_raw
from bench._common import Options, Report, binlogs, child, do_db, interleaved, keeping, master, timed, warm
from dumpfilter.dump.stream.message import client
from dumpfilter.dump.stream.versions import PROTOCOL
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_UNLIMITED = [("grpc.max_receive_message_length", -1)]


def dump(stub: rpc.DumpFilterStub, names: list[str], *, most: int | None = None) -> list[int]:
    """Receive one dump to the end of the log, and return the sizes of the chunks with events."""
    answer = stub.Register(
        pb.RegisterRequest(
            protocol=PROTOCOL, server_id=77, uuid=str(uuid.uuid4()), filter=filter_to_proto(do_db(names))
        )
    )
    sizes = []
    call = stub.Dump(
        pb.DumpRequest(slave_id=answer.slave_id, once=True, **{"from": pb.BinlogPosition(position=4)})
    )
    for _, events in call:
        if events:
            sizes.append(len(events))
        if most is not None and len(sizes) >= most:
            call.cancel()
            break
    stub.Unregister(pb.UnregisterRequest(slave_id=answer.slave_id))
    return sizes


def run(options: Options) -> bool:
    made = binlogs(options.size)
    warm(made)
    share = {"everything": keeping(made, 1.0), "a fifth": keeping(made, 0.2)}
    sizes: dict[str, list[int]] = {}

    def fresh(kept: str) -> float:
        """Return the seconds of the first dump of a new master, which has loaded its code and indexed nothing."""
        with (
            master(made.index) as (address, _),
            grpc.insecure_channel(address, options=_UNLIMITED) as channel,
        ):
            stub = client(channel)
            dump(stub, share[kept], most=1)

            def work() -> None:
                sizes[kept] = dump(stub, share[kept])

            return timed(work)

    with (
        child(["-m", "bench._grpc_raw"]) as raw_server,
        master(made.index, "--cache-size", "256") as (address, _),
        grpc.insecure_channel(address, options=_UNLIMITED) as channel,
    ):
        raw_address = f"127.0.0.1:{raw_server.line()}"
        stub = client(channel)
        for kept in share:
            sizes[kept] = dump(stub, share[kept])
        with grpc.insecure_channel(raw_address, options=_UNLIMITED) as raw_channel:
            stream = raw_channel.unary_stream(_grpc_raw.METHOD)

            def raw(kept: str) -> float:
                request = " ".join(map(str, sizes[kept])).encode()
                return timed(lambda: [len(piece) for piece in stream(request)])

            found = interleaved(
                {
                    "everything, first dump": lambda: fresh("everything"),
                    "a fifth, first dump": lambda: fresh("a fifth"),
                    "everything, indexed": lambda: timed(lambda: dump(stub, share["everything"])),
                    "a fifth, indexed": lambda: timed(lambda: dump(stub, share["a fifth"])),
                    "everything, raw copy": lambda: raw("everything"),
                    "a fifth, raw copy": lambda: raw("a fifth"),
                },
                options.runs,
            )
    report = Report("grpc_end_to_end", "filtering on the master saves the slave's time too", made.bytes)
    m = report.times(found)
    kept_share = sum(sizes["a fifth"]) / sum(sizes["everything"])
    report.row("kept", kept_share, f"{kept_share:.3f} of the bytes, in {len(sizes['a fifth'])} chunks")
    for state in ("first dump", "indexed"):
        report.row(
            f"raw / everything, {state}",
            m["everything, raw copy"] / m[f"everything, {state}"],
            f"{m['everything, raw copy'] / m[f'everything, {state}']:.2f} of a raw copy's speed",
        )
        report.row(
            f"raw / a fifth, {state}",
            m["a fifth, raw copy"] / m[f"a fifth, {state}"],
            f"{m['a fifth, raw copy'] / m[f'a fifth, {state}']:.2f} of a raw copy's speed",
        )
    report.target(
        "everything / a fifth, first dump", m["everything, first dump"] / m["a fifth, first dump"], 3
    )
    report.target("everything / a fifth, indexed", m["everything, indexed"] / m["a fifth, indexed"], 3)
    for kept, wanted in (("everything", 0.65), ("a fifth", 0.4)):
        speed = m[f"{kept}, raw copy"] / m[f"{kept}, indexed"]
        report.target(f"raw copy / {kept}, indexed", speed, wanted)
    return report.print()
