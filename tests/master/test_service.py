"""The gRPC service, over real gRPC on loopback."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.events import MAGIC, EventHeader
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.filter.filter import Filter
from dumpfilter.master.register import Presence
from dumpfilter.master.server import ListenAddress, MasterServer
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.state import server_uuid
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.commands.in_process import run
from tests.master.client import Client, dropped_gtids
from tests.master.inline import InlineReader
from tests.oracle.dumping import dump

ORACLE = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
SHOP = ["--replicate-do-db=shop"]


def files_of(chunks: Iterator[pb.Chunk]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for chunk in chunks:
        if chunk.format_description:
            files[chunk.file] = MAGIC + chunk.format_description
        files[chunk.file] += chunk.events
    return files


def gtids_of(chunks: list[pb.Chunk], field: str) -> MysqlGtidSet:
    gtids = MysqlGtidSet()
    for chunk in chunks:
        for member in getattr(chunk, field).members:
            at = 0
            for skip, count in zip(member.runs[::2], member.runs[1::2], strict=True):
                gtids.add_range((member.uuid, member.tag), at + skip, at + skip + count - 1)
                at += skip + count - 1
    return gtids


def empty_of(chunks: list[pb.Chunk]) -> MysqlGtidSet:
    gtids = MysqlGtidSet()
    for chunk in chunks:
        dropped_gtids(gtids, chunk)
    return gtids


@pytest.mark.parametrize("chunk_size", [1, 100, 5000, 0])
@pytest.mark.parametrize("options", [[], SHOP, ["--replicate-wild-ignore-table=%.emp%"]])
def test_the_stream_is_the_dump_threads(client: Client, options: list[str], chunk_size: int) -> None:
    slave = client.register(options)
    chunks = list(client.dump(slave.slave_id, chunk_size=chunk_size))
    expected = dump([ORACLE / "mysql-row" / f"bin.00000{n}" for n in (1, 2, 3)], Filter.from_options(options))
    assert files_of(iter(chunks)) == expected.files
    assert gtids_of(chunks, "completed") == expected.completed
    assert empty_of(chunks) == expected.empty
    assert chunks[-1].end_of_log
    assert (chunks[-1].file, chunks[-1].resume_position) == expected.position
    totals = pb.Counts()
    for chunk in chunks:
        for name in (
            "bytes_sent",
            "bytes_read",
            "bytes_dropped",
            "events_read",
            "events_sent",
            "events_dropped",
        ):
            setattr(totals, name, getattr(totals, name) + getattr(chunk.counts, name))
    assert totals.bytes_sent == sum(len(chunk.events) for chunk in chunks) == expected.counts.bytes_sent
    assert totals.bytes_read == totals.bytes_sent + totals.bytes_dropped == expected.counts.bytes_read
    assert totals.events_read == totals.events_sent + totals.events_dropped


@pytest.mark.parametrize("chunk_size", [1, 900, 20_000])
def test_a_stream_resumed_anywhere_is_the_same_stream(client: Client, chunk_size: int) -> None:
    """A stream up to a resume point and a dump from that point make the whole stream."""
    slave = client.register(SHOP)
    chunks = list(client.dump(slave.slave_id, chunk_size=chunk_size))
    whole = files_of(iter(chunks))
    before: dict[str, bytes] = {}
    seen: set[tuple[str, int]] = set()
    for chunk in chunks[:: max(len(chunks) // 25, 1)]:
        if (chunk.file, chunk.resume_position) in seen:
            continue
        seen.add((chunk.file, chunk.resume_position))
        before = {}
        for earlier in chunks:
            if earlier.format_description:
                before[earlier.file] = MAGIC + earlier.format_description
            complete = before[earlier.file] + earlier.events[: earlier.resume_bytes]
            before[earlier.file] += earlier.events
            if earlier is chunk:
                # cut the bytes after the last resume point, as a slave does
                cut = _length_at(chunks, chunk)
                before[earlier.file] = complete if earlier.resume_bytes else before[earlier.file][:cut]
                break
        after = list(
            client.dump(
                slave.slave_id, **{"from": pb.BinlogPosition(file=chunk.file, position=chunk.resume_position)}
            )
        )
        assert after[0].start_position == chunk.resume_position
        for later in after:
            if later.format_description and later.file not in before:
                before[later.file] = MAGIC + later.format_description
            before[later.file] += later.events
        assert before == whole


def _length_at(chunks: list[pb.Chunk], wanted: pb.Chunk) -> int:
    """Return the length of the file's stream at the resume point of a chunk."""
    length = complete = 0
    for chunk in chunks:
        if chunk.format_description:
            length = complete = 4 + len(chunk.format_description)
        if chunk.resume_bytes or not chunk.events:
            complete = length + chunk.resume_bytes
        length += len(chunk.events)
        if chunk is wanted:
            break
    return complete


def test_auto_position_sends_what_is_not_in_the_set(client: Client) -> None:
    slave = client.register()
    uuid_text = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"
    chunks = list(client.dump(slave.slave_id, gtid_set=f"{uuid_text}:1-40:45-50"))
    assert str(gtids_of(chunks, "completed")) == f"{uuid_text}:41-44:51-74"
    everything = list(client.dump(slave.slave_id, gtid_set=""))
    assert str(gtids_of(everything, "completed")) == f"{uuid_text}:1-74"
    assert chunks[0].file == "bin.000002"  # the first file lies before the set


def test_a_dump_from_a_position_excepts_the_gtids_that_the_slave_has(client: Client) -> None:
    slave = client.register()
    uuid_text = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"
    chunks = list(client.dump(slave.slave_id, except_gtids=f"{uuid_text}:1-40:45-50"))
    assert chunks[0].file == "bin.000001"
    assert str(gtids_of(chunks, "completed")) == f"{uuid_text}:41-44:51-74"


def code_of(error: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    return error.value.code(), error.value.details()


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (pb.Rule(kind=pb.REPLICATE_DO_TABLE, value="nodot"), "--replicate-do-table=nodot"),
        (pb.Rule(kind=pb.REPLICATE_REWRITE_DB, value="a->"), "empty TO"),
        (pb.Rule(kind=pb.REPLICATE_DO_DB, value=""), "a value is missing"),
        (pb.Rule(value="x"), "no known kind"),
        (pb.Rule(kind=pb.REPLICATE_DO_DB, value="x" * 70_000), "70000 characters ('xxx"),
    ],
)
def test_a_bad_rule_is_named(client: Client, rule: pb.Rule, named: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Register(
            pb.RegisterRequest(
                protocol=2, server_id=1, uuid=str(uuid.uuid4()), filter=pb.FilterDefinition(rules=[rule])
            )
        )
    code, details = code_of(caught)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert named in details


def test_registration_says_what_the_master_understood(client: Client) -> None:
    answer = client.register(
        ["--replicate-rewrite-db=a  ->  b", "--replicate-do-db=b", "--replicate-do-db=b"]
    )
    assert [rule.value for rule in answer.filter.rules] == ["a->b", "b"]
    assert answer.family == pb.MYSQL
    assert answer.server_version == "9.7.4-2"


def test_a_set_in_a_data_directory_has_its_servers_uuid(tmp_path: Path) -> None:
    shutil.copytree(ORACLE / "mysql-row", tmp_path / "data")
    without = DumpFilterService(InlineReader(BinlogStore(tmp_path / "data"))).master_uuid
    assert without == DumpFilterService(InlineReader(BinlogStore(ORACLE / "mysql-row"))).master_uuid
    assert without != DumpFilterService(InlineReader(BinlogStore(ORACLE / "mysql-mixed"))).master_uuid
    own = str(uuid.uuid4())
    (tmp_path / "data" / "auto.cnf").write_text(f"[auto]\nserver-uuid={own}\n")
    assert DumpFilterService(InlineReader(BinlogStore(tmp_path / "data"))).master_uuid == own


def test_requests_that_cannot_be_served(client: Client) -> None:
    slave = client.register()
    for request, code, text in [
        ({"slave_id": "who"}, grpc.StatusCode.NOT_FOUND, "register again"),
        (
            {"from": pb.BinlogPosition(file="bin.000009")},
            grpc.StatusCode.OUT_OF_RANGE,
            "bin.000001 to bin.000003",
        ),
        ({"from": pb.BinlogPosition(position=2)}, grpc.StatusCode.OUT_OF_RANGE, "begin at 4"),
        (
            {"from": pb.BinlogPosition(position=500)},
            grpc.StatusCode.OUT_OF_RANGE,
            "nearest places are 343 and 522",
        ),
        ({"from": pb.BinlogPosition(position=10**9)}, grpc.StatusCode.OUT_OF_RANGE, "past the end"),
        ({"gtid_set": "nonsense"}, grpc.StatusCode.INVALID_ARGUMENT, "nonsense"),
        ({"gtid_set": "0-1-5"}, grpc.StatusCode.INVALID_ARGUMENT, "0-1-5"),
        ({"chunk_size": 2**31}, grpc.StatusCode.INVALID_ARGUMENT, "at most"),
    ]:
        with pytest.raises(grpc.RpcError) as caught:
            list(client.dump(**{"slave_id": slave.slave_id, **request}))
        assert caught.value.code() is code, request
        assert text in caught.value.details()


def test_a_refused_slave_shows_as_refused_until_it_is_served(client: Client) -> None:
    slave = client.register()

    def known() -> tuple[Presence, str]:
        (one,) = client.service.known_slaves.all()
        return one.presence, one.refusal

    with pytest.raises(grpc.RpcError) as caught:
        list(client.dump(slave.slave_id, **{"from": pb.BinlogPosition(position=10**9)}))
    assert known() == (Presence.REFUSED, caught.value.details())
    assert client.listed(slave.slave_id).state == "refused"
    assert client.listed(slave.slave_id).refusal == caught.value.details()
    list(client.dump(slave.slave_id))
    assert known() == (Presence.FINISHED, "")


def test_a_slave_whose_identity_is_taken_shows_as_refused(client: Client) -> None:
    first = client.register(uuid=str(uuid.UUID(int=1)))
    dump = client.dump(first.slave_id, once=False)
    next(dump)
    with pytest.raises(grpc.RpcError) as caught:
        client.register(server_id=8, uuid=str(uuid.UUID(int=1)))
    dump.cancel()
    refused = [one for one in client.service.known_slaves.all() if one.peer.server_id == 8]
    assert [(one.presence, one.refusal) for one in refused] == [(Presence.REFUSED, caught.value.details())]
    with pytest.raises(grpc.RpcError) as caught:
        client.register(server_id=0)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        client.register(uuid="not one")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_two_slaves_with_one_server_id(client: Client) -> None:
    first = client.register(server_id=9)
    stream = client.dump(first.slave_id, once=False)
    next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        client.register(server_id=9)
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "--server-id" in caught.value.details()
    client.register(server_id=9, channel="other")
    stream.cancel()
    wait_for(lambda: not dumping(client, first.slave_id))
    client.register(server_id=9)


def test_the_command_slave_ends_with_1_where_its_identity_is_in_use(
    server: MasterServer, client: Client, tmp_path: Path
) -> None:
    arguments = ("slave", f"--master=127.0.0.1:{server.port}", f"--relay-dir={tmp_path / 's'}", "--once")
    assert run(*arguments, "--server-id=9").returncode == 0
    uuid_of_slave = server_uuid(tmp_path / "s")
    for server_id, identity, told in (
        (9, str(uuid.uuid4()), "server id 9"),
        (8, uuid_of_slave, "server uuid"),
    ):
        other = client.register(server_id=server_id, uuid=identity)
        stream = client.dump(other.slave_id, once=False)
        next(stream)
        done = run(*arguments, "--server-id=9")
        assert f"the {told}" in done.stderr
        assert done.returncode == 1, done.stderr
        stream.cancel()
        wait_for(lambda slave_id=other.slave_id: not dumping(client, slave_id))


def test_registering_again_takes_over(server: MasterServer, client: Client) -> None:
    own = str(uuid.uuid4())
    secret = bytes(range(32))
    first = client.register(uuid=own, secret=secret)
    stream = client.dump(first.slave_id, once=False, heartbeat_period_ms=50)
    next(stream)
    second = client.register(uuid=own, secret=secret)
    assert second.slave_id != first.slave_id
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert caught.value.code() is grpc.StatusCode.ABORTED
    assert client.listed(second.slave_id).uuid == own
    assert len(server.service.register.all()) == 1


def test_a_slave_that_vanishes_is_noticed(client: Client) -> None:
    slave = client.register()
    stream = client.dump(slave.slave_id, once=False, heartbeat_period_ms=60_000)
    next(stream)
    wait_for(lambda: dumping(client, slave.slave_id))
    stream.cancel()
    wait_for(lambda: not dumping(client, slave.slave_id))
    client.stub.Unregister(pb.UnregisterRequest(slave_id=slave.slave_id))
    with pytest.raises(grpc.RpcError) as caught:
        client.listed(slave.slave_id)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_slow_slave_holds_back_only_itself(tmp_path: Path) -> None:
    """A slave that reads nothing: its dump stops early in the file, while another gets everything."""
    from dumpfilter.binlog.writer import make_event, rebase

    head = (ORACLE / "mysql-row" / "bin.000003").read_bytes()
    fd_end = 4 + EventHeader.unpack(head, 4).size
    big = make_event(2, b"\0" * 13 + b"\0" + b"/* " + b"x" * 100_000 + b" */")
    events = rebase(big * 1200, fd_end, checksum=True)
    (tmp_path / "bin.000001").write_bytes(head[:fd_end] + events)
    server = MasterServer(BinlogStore(tmp_path / "bin.000001"))
    server.start()
    try:
        client = Client(server)
        slow, quick = client.register(server_id=1), client.register(server_id=2)
        stalled = client.dump(slow.slave_id)
        next(stalled)
        assert sum(len(chunk.events) for chunk in client.dump(quick.slave_id)) == len(events)
        time.sleep(0.3)
        # gRPC holds some tens of megabytes ahead, more on a busy machine
        assert client.listed(slow.slave_id).counts.bytes_sent < len(events) * 3 // 4
        assert sum(len(chunk.events) for chunk in stalled) == len(events)
        client.channel.close()
    finally:
        server.stop(0)


def test_a_growing_file_is_followed_with_heartbeats(tmp_path: Path) -> None:
    shutil.copytree(ORACLE / "mysql-row", tmp_path / "set")
    index, last = tmp_path / "set" / "bin.index", tmp_path / "set" / "bin.000002"
    whole = last.read_bytes()
    start = bytearray(whole[:4000])
    start[21] |= 1
    last.write_bytes(start)
    index.write_text("bin.000001\nbin.000002\n")
    end = last.with_name("bin.000003").stat().st_size
    server = MasterServer(BinlogStore(index))
    server.start()
    try:
        client = Client(server)
        slave = client.register(SHOP)
        received: list[pb.Chunk] = []

        def follow() -> None:
            for chunk in client.dump(slave.slave_id, once=False, heartbeat_period_ms=30):
                received.append(chunk)
                # A heartbeat also comes while a busy machine still reads the file.
                if chunk.heartbeat and (chunk.file, chunk.end_position) == ("bin.000003", end):
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        wait_for(lambda: any(chunk.heartbeat for chunk in received))
        with open(last, "ab") as file:
            for at in range(4000, len(whole), 997):
                file.write(whole[at : at + 997])
                file.flush()
                time.sleep(0.005)
        index.write_text("bin.000001\nbin.000002\nbin.000003\n")
        thread.join(240)
        assert not thread.is_alive()
        expected = dump(
            [ORACLE / "mysql-row" / f"bin.00000{n}" for n in (1, 2, 3)], Filter.from_options(SHOP)
        )
        assert files_of(iter(received)) == expected.files
        assert gtids_of(received, "completed") == expected.completed
        client.channel.close()
    finally:
        server.stop(0)


def test_a_changed_filter_takes_effect_and_is_told(client: Client) -> None:
    """A slave changes its filter by another registration, which ends the first one."""
    identity = {"server_id": 7, "uuid": "6b3fb0ce-0000-4000-8000-000000000007", "secret": b"s" * 32}
    first = client.register(SHOP, **identity)
    slave = client.register([], **identity)
    with pytest.raises(grpc.RpcError) as caught:
        list(client.dump(first.slave_id))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    chunks = list(client.dump(slave.slave_id))
    assert sum(len(chunk.events) for chunk in chunks) == chunks[0].counts.bytes_read + sum(
        chunk.counts.bytes_read for chunk in chunks[1:]
    )


def test_damage_stops_the_dump_and_names_the_place(tmp_path: Path) -> None:
    data = bytearray((ORACLE / "mysql-row" / "bin.000002").read_bytes())
    data[5000] ^= 0x10
    (tmp_path / "bin.000001").write_bytes(data)
    server = MasterServer(BinlogStore(tmp_path / "bin.000001"))
    server.start()
    try:
        client = Client(server)
        slave = client.register()
        received = []
        with pytest.raises(grpc.RpcError) as caught:
            received += iter_into(client.dump(slave.slave_id), received)
        assert caught.value.code() is grpc.StatusCode.DATA_LOSS
        assert "bin.000001: at 4" in caught.value.details() or "checksum mismatch" in caught.value.details()
        assert sum(len(chunk.events) for chunk in received) > 2000
        client.channel.close()
    finally:
        server.stop(0)


def iter_into(chunks: Iterator[pb.Chunk], received: list[pb.Chunk]) -> list[pb.Chunk]:
    for chunk in chunks:
        received.append(chunk)
    return []


def test_status(client: Client) -> None:
    slave = client.register(SHOP, host="replica-1", port=3306)
    list(client.dump(slave.slave_id))
    status = client.stub.Status(pb.StatusRequest(slave_id=slave.slave_id))
    assert [(file.name, file.size) for file in status.files][-1] == ("bin.000003", 198)
    (told,) = status.slaves
    assert (told.host, told.port, told.position.file) == ("replica-1", 3306, "bin.000003")
    assert told.counts.transactions_read == 74
    assert told.counts.transactions_dropped == 50
    assert not told.dumping


def test_a_port_that_is_taken_is_an_error_that_says_so(server: MasterServer) -> None:
    with pytest.raises(OptionError, match=f"{server.port}"):
        MasterServer(BinlogStore(ORACLE / "mysql-row"), listen=ListenAddress(port=server.port))


def dumping(client: Client, slave_id: str) -> bool:
    return client.listed(slave_id).dumping


def wait_for(condition: object, timeout: float = 240.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


@pytest.mark.parametrize("protocol", [0, 1, 3])
def test_a_slave_of_another_version_of_the_protocol_is_refused(client: Client, protocol: int) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.register(protocol=protocol, program_version="9.8\x1b[2J")
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"the slave (dumpfilter 9.8\\x1b[2J) speaks version {protocol or 1}" in caught.value.details()
