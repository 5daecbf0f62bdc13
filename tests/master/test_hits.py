"""Hits and origins over real gRPC: what the chunks tell, and what the slave counts of them, is all there is."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.convert import filter_to_proto, origin_to_proto
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Hits, RuleKind
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.dump.test_hits import counted
from tests.master.client import Client, hits_of
from tests.master.test_service import ORACLE
from tests.support import MemoryFile

SET = ORACLE / "mysql-row"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    server = MasterServer(BinlogStore(SET))
    server.start()
    made = Client(server)
    yield made
    made.channel.close()
    server.stop(0)


def _everything(rules: Filter) -> Hits:
    hits: Hits = Counter()
    for path in sorted(SET.glob("bin.0*")):
        data = path.read_bytes()
        file = MemoryFile(data)
        hits += counted(file.format_description, data[file.first_event :], rules)
    return hits


@pytest.mark.parametrize("chunk_size", [1, 300, 0])
@pytest.mark.parametrize(
    "options",
    [
        ["--replicate-ignore-db=shop"],
        ["--replicate-rewrite-db=shop->store", "--replicate-wild-ignore-table=store.o%"],
        ["--replicate-do-db=shop", "--replicate-do-table=shop.orders"],
    ],
)
def test_hits(client: Client, options: list[str], chunk_size: int) -> None:
    rules = Filter.from_options(options)
    master: Hits = Counter()
    slave: Hits = Counter()
    fd, stream = None, b""
    for chunk in client.dump(client.register(options).slave_id, chunk_size=chunk_size):
        if chunk.format_description:
            if fd is not None:
                slave += counted(fd, stream, rules)
            fd, stream = MemoryFile(b"\xfebin" + chunk.format_description).format_description, b""
        stream += chunk.events
        master.update(hits_of(chunk))
    assert fd is not None
    slave += counted(fd, stream, rules)
    everything = _everything(rules)
    assert master + slave == everything
    assert everything
    if options[0] == "--replicate-ignore-db=shop":
        assert master == everything == {RuleKind.IGNORE_DB: everything.total()}


def test_an_unwanted_server(client: Client) -> None:
    """Nothing of it comes, nothing of it is told as done, and no rule is hit."""
    definition = filter_to_proto(Filter.from_options(["--replicate-ignore-db=shop"]))
    writer = MemoryFile((SET / "bin.000001").read_bytes()).format_description.header.server_id
    definition.origin.CopyFrom(origin_to_proto(OriginFilter(frozenset({writer}))))
    slave = client.stub.Register(
        pb.RegisterRequest(protocol=2, server_id=7, filter=definition, uuid=str(uuid.uuid4()))
    )
    chunks = list(client.dump(slave.slave_id))
    assert not any(
        chunk.completed.members or (chunk.gaps.runs and sum(chunk.gaps.runs)) or chunk.gaps.hit_kind
        for chunk in chunks
    )
    for chunk in chunks:
        # Rotate and Previous_gtids belong to the file
        assert {EventType.ROTATE, EventType.PREVIOUS_GTIDS} >= set(_kinds(chunk.events))
    assert chunks[-1].end_of_log


def _kinds(stream: bytes) -> Iterator[int]:
    at = 0
    while at < len(stream):
        yield stream[at + 4]
        at += int.from_bytes(stream[at + 9 : at + 13], "little")


def test_both_kinds_of_domain_rule(client: Client) -> None:
    definition = pb.FilterDefinition(origin=pb.OriginFilter(do_domain_ids=[1], ignore_domain_ids=[2]))
    with pytest.raises(grpc.RpcError) as raised:
        client.stub.Register(
            pb.RegisterRequest(protocol=2, server_id=8, filter=definition, uuid=str(uuid.uuid4()))
        )
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "DO_DOMAIN_IDS" in raised.value.details()
