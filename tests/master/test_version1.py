"""Slaves of version 1 of the protocol at a master of today, over real gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.filter import Filter
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.version1 import fields_of_version1
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import TINY, Client
from tests.master.version1 import UUID, OldContract, OldSlave, interrupted
from tests.slave.driven import Since, expected
from tests.support import DATA

ORACLE = DATA / "oracle"
CASES: dict[str, list[str]] = json.loads((ORACLE / "cases.json").read_text())
SETS = ("mysql-row", "mysql-mixed", "mariadb-row", "mariadb-statement")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, MasterServer]]:
    made = {name: MasterServer(BinlogStore(ORACLE / name), limits=TINY) for name in SETS}
    for server in made.values():
        server.start()
    yield made
    for server in made.values():
        server.stop(0)


@pytest.fixture
def slave_of(servers: dict[str, MasterServer]) -> Iterator[Any]:
    channels = []

    def make(name: str, options: list[str]) -> OldSlave:
        channels.append(
            grpc.insecure_channel(
                f"127.0.0.1:{servers[name].port}", options=[("grpc.max_receive_message_length", -1)]
            )
        )
        return OldSlave(OldContract(channels[-1]), options, "mariadb" if "mariadb" in name else "mysql")

    yield make
    for channel in channels:
        channel.close()


def in_the_end(name: str, options: list[str]) -> Any:
    """Return the result of a slave that receives everything and filters on its own side."""
    return expected(ORACLE / name, [Since(("", 0), Filter.from_options(options).rules)])


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("chunk_size", "chunks"), [(0, 1000), (700, 3), (1, 40)])
def test_the_law_holds_for_a_slave_of_version_1(
    slave_of: Any, name: str, case: str, chunk_size: int, chunks: int
) -> None:
    slave = slave_of(name, CASES[case])
    wanted = in_the_end(name, CASES[case])
    for _ in range(500):
        answer = slave.register()
        stream = slave.dump(answer.slave_id, chunk_size=chunk_size)
        before = slave.place
        if interrupted(stream, chunks, slave.receive):
            break
        if slave.place == before:
            chunks += 1
    else:
        pytest.fail("the slave never gets to the end")
    summary, hits = slave.apply()
    assert summary == wanted.summary
    assert hits == wanted.hits
    gtids = parse_gtid_set("", slave.family)
    for gtid in wanted.gtids:
        gtids.update(parse_gtid_set(gtid, slave.family))
    assert str(slave.retrieved) == str(gtids)
    assert slave.retrieved.issuperset(slave.empty)


@pytest.mark.parametrize("name", ["mariadb-names", "mariadb118-names"])
def test_an_early_slave_compares_names_as_mariadb_before_11_5(name: str) -> None:
    """Its own filter knows no other collation, and the master must not drop what that filter keeps."""
    options = [
        "--replicate-wild-do-table=cafe.%",
        "--replicate-do-table=È.t",
        "--replicate-do-table=ПРИВЕТ.t",
    ]
    server = MasterServer(BinlogStore(DATA / "recordings" / name))
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        slave = OldSlave(OldContract(channel), options, "mariadb")
        for chunk in slave.dump(slave.register().slave_id):
            slave.receive(chunk)
    server.stop(0)
    assert set(slave.apply()[0]["tables"]) == {"café.t", "é.t", "привет.t"}


def test_hits_come_from_the_master(slave_of: Any) -> None:
    slave = slave_of("mysql-row", ["--replicate-ignore-db=hr"])
    answer = slave.register()
    for chunk in slave.dump(answer.slave_id):
        slave.receive(chunk)
    assert slave.hits
    assert len(str(slave.empty)) > 40
    assert "crc32" not in answer.DESCRIPTOR.fields_by_name


def test_a_slave_of_version_1_changes_its_filter(slave_of: Any) -> None:
    slave = slave_of("mysql-row", ["--replicate-do-db=logs"])
    stream = slave.dump(slave_id := slave.register().slave_id, once=False)
    for chunk in stream:
        slave.receive(chunk)
        if chunk.file == "bin.000002":
            break
    message = slave.contract.message
    start = {"from": message("BinlogPosition", file=slave.place[0], position=slave.place[1])}
    definition = slave.definition(["--replicate-ignore-db=hr"])
    request = message("ChangeFilterRequest", slave_id=slave_id, filter=definition, **start)
    changed = slave.contract.call("ChangeFilter", request)
    assert changed.filter_version == 2
    assert list(map(str, changed.filter.rules)) == list(map(str, definition.rules))
    found = next(chunk for chunk in stream if chunk.filter_version == 2)
    assert (found.file, found.start_position) == slave.place
    assert found.format_description
    stream.cancel()


def test_strangers_of_version_1_learn_nothing(slave_of: Any) -> None:
    slave = slave_of("mysql-row", [])
    for name in ("Status", "ListSlaves"):
        with pytest.raises(grpc.RpcError) as caught:
            slave.contract.call(name, slave.contract.message(f"{name}Request"))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_slave_of_version_1_waits_for_the_end_of_its_old_dump(
    slave_of: Any, servers: dict[str, MasterServer]
) -> None:
    """Such a slave ends for good with ALREADY_EXISTS, and tries again after UNAVAILABLE."""
    slave = slave_of("mysql-row", [])
    stream = slave.dump(slave.register().slave_id, once=False)
    next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        slave.register_once()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    client = Client(servers["mysql-row"])
    with pytest.raises(grpc.RpcError) as caught:
        client.register(uuid=UUID)
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    client.channel.close()
    stream.cancel()
    assert slave.register().slave_id


def test_a_slave_without_a_common_version_is_refused(servers: dict[str, MasterServer]) -> None:
    client = Client(servers["mysql-row"])
    with pytest.raises(grpc.RpcError) as caught:
        client.register(lowest_protocol=3, highest_protocol=4, program_version="9.8\x1b[2J")
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    text = caught.value.details()
    assert text.startswith("slave and master have no protocol version in common: the slave (dumpfilter 9.8")
    assert "speaks 3 to 4, the master (dumpfilter" in text
    assert "\x1b" not in text
    assert text.endswith("speaks 1 to 2; upgrade the master")
    with pytest.raises(grpc.RpcError) as caught:
        client.register(lowest_protocol=3, highest_protocol=2)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    client.channel.close()


def test_the_master_tells_versions(servers: dict[str, MasterServer], slave_of: Any) -> None:
    client = Client(servers["mysql-row"])
    answer = client.register(lowest_protocol=1, highest_protocol=9, program_version="9.8")
    assert answer.protocol == 2
    assert answer.program_version
    listed = client.listed(answer.slave_id)
    assert (listed.protocol, listed.program_version) == (2, "9.8")
    old = slave_of("mysql-row", []).register()
    assert client.listed(old.slave_id).protocol == 1
    client.channel.close()


def test_recorded_requests_of_the_old_program(servers: dict[str, MasterServer]) -> None:
    """The bytes are those that the program of release 0.1.0 sent (``tests/data/v1/requests``)."""
    recorded = Path(__file__).parent.parent / "data" / "v1" / "requests"
    channel = grpc.insecure_channel(f"127.0.0.1:{servers['mysql-row'].port}")
    calls = {
        name: channel.unary_unary(f"/dumpfilter.v1.DumpFilter/{name}")
        for name in ("Register", "ChangeFilter", "Unregister")
    }
    answer = pb.RegisterResponse.FromString(calls["Register"]((recorded / "Register").read_bytes()))
    assert answer.protocol == 1
    own = answer.slave_id.encode()
    request = pb.DumpRequest.FromString((recorded / "Dump").read_bytes())
    request.slave_id, request.once = answer.slave_id, True
    stream = channel.unary_stream("/dumpfilter.v1.DumpFilter/Dump")(request.SerializeToString())
    chunks = [pb.Chunk.FromString(data) for data in stream]
    assert chunks[-1].end_of_log
    change = pb.ChangeFilterRequest.FromString((recorded / "ChangeFilter").read_bytes())
    change.slave_id = answer.slave_id
    assert calls["ChangeFilter"](change.SerializeToString())
    assert calls["Unregister"](b"\x0a" + bytes([len(own)]) + own) == b""
    channel.close()


def test_a_chunk_without_gaps_stays_as_it_is() -> None:
    chunk = pb.Chunk(file="bin.000001", events=b"x")
    assert fields_of_version1(chunk) == b""
