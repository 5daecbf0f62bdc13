"""A gRPC client of a master."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

import grpc

from dumpfilter.binlog.gap_events import Gap
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.dump.stream.message import PROTOCOL, gaps_from_proto, hits_from_numbers
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Hits
from dumpfilter.master.server import MasterServer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc


class Client:
    def __init__(self, server: MasterServer) -> None:
        self.service = server.service
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{server.port}", options=[("grpc.max_receive_message_length", -1)]
        )
        self.stub = pb_grpc.DumpFilterStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def register(self, options: list[str] = (), server_id: int = 7, **more: object) -> pb.RegisterResponse:
        definition = filter_to_proto(Filter.from_options(list(options)))
        more.setdefault("uuid", str(uuid.uuid4()))
        more.setdefault("protocol", PROTOCOL)
        return self.stub.Register(pb.RegisterRequest(server_id=server_id, filter=definition, **more))

    def listed(self, slave_id: str) -> pb.Slave:
        """Return the entry of the slave with this id, which only the slave itself can ask for."""
        (slave,) = self.stub.Status(pb.StatusRequest(slave_id=slave_id)).slaves
        return slave

    def dump(self, slave_id: str, **request: object) -> Iterator[pb.Chunk]:
        request.setdefault("once", True)
        return self.stub.Dump(pb.DumpRequest(slave_id=slave_id, **request))


def dropped_gtids(gtids: GtidSet, chunk: pb.Chunk) -> None:
    """Add the GTIDs of the transactions that a chunk says the master dropped to a GTID set."""
    gaps = gaps_from_proto(chunk.gaps)
    runs = zip(gaps.run_source.tolist(), gaps.run_first.tolist(), gaps.run_last.tolist(), strict=True)
    Gap(runs=tuple((chunk.gaps.source[source], first, last) for source, first, last in runs)).add_to(gtids)


def hits_of(chunk: pb.Chunk) -> Hits:
    """Return the hits of the events that a chunk says the master dropped."""
    gaps = gaps_from_proto(chunk.gaps)
    hits: Hits = Counter()
    for kind, count in zip(gaps.hit_kind.tolist(), gaps.hit_count.tolist(), strict=True):
        hits.update(hits_from_numbers({kind: count}))
    return hits
