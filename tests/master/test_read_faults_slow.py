"""A master over files that are replaced, truncated, removed or unreadable while slaves read them.

A slave gets the right data, or its stream ends with an error that names the file, the position and the cure.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dumpfilter.base.errors import BinlogError, BinlogTruncated, BinlogUnreadable, BinlogUnsupported
from dumpfilter.binlog import reader
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore, uuid_of
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_service import code_of, files_of
from tests.support import DATA

FIRST, SECOND = "bin.000001", "bin.000002"


def boundaries(data: bytes) -> list[int]:
    """Return the positions at which a transaction begins, and the end of the file."""
    at, found = 4, []
    while at < len(data):
        header = EventHeader.unpack(data, at)
        if header.type == EventType.GTID:
            found.append(at)
        at += header.size
    return [*found, at]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return generate(tmp_path_factory.mktemp("whole"), 2 << 20).files[0].read_bytes()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return another binlog with the same format description event, from the same kind of server."""
    return generate(tmp_path_factory.mktemp("other"), 1 << 20, seed=2).files[0].read_bytes()


def in_use(data: bytes) -> bytes:
    return data[:21] + bytes([data[21] | 1]) + data[22:]


class Set:
    """A set of one file that grows, with the master that serves it and a follower."""

    def __init__(self, directory: Path, data: bytes) -> None:
        directory.mkdir()
        self.path = directory / FIRST
        self.path.write_bytes(in_use(data))
        (directory / "bin.index").write_text(f"./{FIRST}\n")
        self.server = MasterServer(BinlogStore(directory))
        self.server.start()
        self.client = Client(self.server)

    def follow(self, server_id: int = 7, **more: object) -> Iterator[pb.Chunk]:
        slave = self.client.register(server_id=server_id)
        return self.client.dump(slave.slave_id, once=False, heartbeat_period_ms=100, **more)

    def once(self, server_id: int = 8) -> dict[str, bytes]:
        return files_of(self.client.dump(self.client.register(server_id=server_id).slave_id))

    def replace(self, data: bytes) -> None:
        new = self.path.with_name("new")
        new.write_bytes(in_use(data))
        new.replace(self.path)

    def close(self) -> None:
        self.client.channel.close()
        self.server.stop(0)


@pytest.fixture
def served(tmp_path: Path, whole: bytes) -> Iterator[Set]:
    made = Set(tmp_path / "set", whole[: boundaries(whole)[300]])
    yield made
    made.close()


def read_to(stream: Iterator[pb.Chunk], position: int) -> bytes:
    events = b""
    for chunk in stream:
        events += chunk.events
        if chunk.resume_position >= position:
            return events
    raise AssertionError("the stream has ended")


def ends_with(stream: Iterator[pb.Chunk]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        for _ in stream:
            pass
    return code_of(caught)


def outcome(stream: Iterator[pb.Chunk]) -> bytes | tuple[grpc.StatusCode, str]:
    """Return the events of a stream that has reached the end of the binlog, or the error with which it ended."""
    events = b""
    try:
        for chunk in stream:
            events += chunk.events
    except grpc.RpcError as error:
        return error.code(), error.details()
    assert chunk.end_of_log
    return events


class TestReplaced:
    def test_by_a_newer_copy_of_the_same_binlog(self, served: Set, whole: bytes) -> None:
        """Rsync without --inplace does this."""
        ends = boundaries(whole)
        stream = served.follow()
        got = read_to(stream, ends[300])
        for k in (700, 701, len(ends) - 1):
            served.replace(whole[: ends[k]])
            got += read_to(stream, ends[k])
        assert got == whole[boundaries_start(whole) :]
        assert served.once()[FIRST][200:] == whole[200:]
        stream.cancel()

    def test_by_another_binlog(self, served: Set, whole: bytes, other: bytes) -> None:
        end = boundaries(whole)[300]
        stream = served.follow()
        read_to(stream, end)
        served.replace(other)
        code, text = ends_with(stream)
        assert code is grpc.StatusCode.DATA_LOSS
        assert text.startswith(
            f"{FIRST}: at {end}: another file with other events has taken this file's name;"
        )
        assert served.once()[FIRST][200:] == other[200:]

    def test_by_a_shorter_copy(self, served: Set, whole: bytes) -> None:
        ends = boundaries(whole)
        stream = served.follow()
        read_to(stream, ends[300])
        served.replace(whole[: ends[100]])
        assert ends_with(stream)[0] is grpc.StatusCode.DATA_LOSS
        assert served.once()[FIRST][200:] == whole[200 : ends[100]]

    def test_while_a_dump_reads_from_the_middle(self, tmp_path: Path, whole: bytes, other: bytes) -> None:
        store = BinlogStore(set_of(tmp_path, whole), cache_bytes=1)
        source = store.open_file(FIRST)
        segment = store.segment_of(source, source.file.first_event)
        assert segment is not None
        (tmp_path / "new").write_bytes(other)
        (tmp_path / "new").replace(tmp_path / FIRST)
        # The old file is still open, and the dump never gets bytes of the new file.
        assert source.read(200, 1000) == whole[200:1200]
        with pytest.raises(BinlogError, match="another file with other events"):
            store.segment_of(source, segment.start)
        again = store.open_file(FIRST)
        assert again is not source
        assert again.read(200, 1000) == other[200:1200]
        store.close()

    def test_in_place(self, served: Set, whole: bytes, other: bytes) -> None:
        """A plain ``cp`` truncates the file and writes another binlog into it."""
        end = boundaries(whole)[300]
        stream = served.follow()
        read_to(stream, end)
        with served.path.open("r+b") as file:
            file.write(in_use(other))
        code, text = ends_with(stream)
        assert code is grpc.StatusCode.DATA_LOSS
        assert f"{FIRST}: at {end}: another file with other events" in text
        assert served.once()[FIRST][200:] == other[200:]

    def test_cached_segments_of_the_old_file_are_not_used(
        self, tmp_path: Path, whole: bytes, other: bytes
    ) -> None:
        store = BinlogStore(set_of(tmp_path, whole))
        source = store.open_file(FIRST)
        while store.segment_of(source, source.scanned_to) is not None:
            pass
        (tmp_path / "new").write_bytes(other)
        (tmp_path / "new").replace(tmp_path / FIRST)
        segment = store.segment_at(FIRST, source.file.first_event)
        assert segment is not None
        assert segment.end == len(other)
        assert store.cache_state().entries == 1
        store.close()


def set_of(directory: Path, data: bytes) -> Path:
    (directory / FIRST).write_bytes(data)
    (directory / "bin.index").write_text(f"./{FIRST}\n")
    return directory


def boundaries_start(data: bytes) -> int:
    return 4 + EventHeader.unpack(data, 4).size


class TestTruncated:
    def test_a_follower_is_told(self, served: Set, whole: bytes) -> None:
        ends = boundaries(whole)
        stream = served.follow()
        read_to(stream, ends[300])
        os.truncate(served.path, ends[200] + 5)
        assert ends_with(stream) == (
            grpc.StatusCode.DATA_LOSS,
            f"{FIRST}: at {ends[200] + 5}: the file was truncated: it ends at {ends[200] + 5}, and it had events up to "
            f"{ends[300]}; copy it again from the server",
        )
        assert served.once()[FIRST][200:] == whole[200 : ends[200]]

    def test_and_written_again(self, served: Set, whole: bytes, other: bytes) -> None:
        """The new content begins with the same format description event, and is longer."""
        end = boundaries(whole)[300]
        stream = served.follow()
        read_to(stream, end)
        with served.path.open("r+b") as file:
            file.seek(200)
            file.write(other[200:])
            file.truncate()
        assert ends_with(stream)[0] is grpc.StatusCode.DATA_LOSS
        assert served.once()[FIRST][200:] == other[200:]

    def test_between_scan_and_read(self, tmp_path: Path, whole: bytes) -> None:
        store = BinlogStore(set_of(tmp_path, whole))
        source = store.open_file(FIRST)
        segment = store.segment_of(source, source.file.first_event)
        assert segment is not None
        os.truncate(tmp_path / FIRST, 1000)
        with pytest.raises(
            BinlogTruncated, match=rf"{FIRST}: at 1000: the file was truncated: it ends at 1000"
        ):
            source.read(900, 500)
        store.close()

    def test_before_a_second_scan(self, tmp_path: Path, whole: bytes) -> None:
        store = BinlogStore(set_of(tmp_path, whole), cache_bytes=1)
        source = store.open_file(FIRST)
        start = source.file.first_event
        while store.segment_of(source, source.scanned_to) is not None:
            pass
        source._cache.remove_if(lambda key: key[0] == source.number)
        os.truncate(tmp_path / FIRST, 1000)
        with pytest.raises(BinlogTruncated):
            store.segment_of(source, start)
        store.close()


class TestRemoved:
    def test_the_newest_file(self, served: Set, whole: bytes) -> None:
        stream = served.follow()
        read_to(stream, boundaries(whole)[300])
        served.path.unlink()
        code, text = ends_with(stream)
        assert code is grpc.StatusCode.OUT_OF_RANGE
        assert "the index names this file, but it is not there; copy it from the server" in text

    def test_the_server_begins_anew(self, served: Set, whole: bytes, other: bytes) -> None:
        """RESET MASTER deletes all files, and begins with number 1 again."""
        end = boundaries(whole)[300]
        directory = served.path.parent
        served.path.rename(directory / "bin.000007")
        (directory / "bin.index").write_text("./bin.000007\n")
        stream = served.follow()
        read_to(stream, end)
        (directory / FIRST).write_bytes(in_use(other))
        (directory / "bin.index").write_text(f"./{FIRST}\n")
        (directory / "bin.000007").unlink()
        code, text = ends_with(stream)
        assert code is grpc.StatusCode.OUT_OF_RANGE
        assert text.startswith(
            f"bin.000007: at {end}: the binlog set no longer has this file nor a later one;"
        )
        assert "RESET MASTER" in text
        assert served.once()[FIRST][200:] == other[200:]

    @pytest.mark.parametrize("purged", [1, 2])
    def test_a_purge_by_another_process_disturbs_a_dump_that_has_not_reached_the_last_purged_file(
        self, tmp_path: Path, purged: int
    ) -> None:
        made = generate(tmp_path / "set", 12 << 20, file_size=4 << 20)
        names = [path.name for path in made.files]
        assert len(names) > 2
        expected = {path.name: path.read_bytes() for path in made.files}
        server = MasterServer(BinlogStore(made.index))
        server.start()
        client = Client(server)
        stream = client.dump(client.register().slave_id, chunk_size=64 << 10)
        seen = [next(stream)]  # gRPC's flow control holds the dump back, far from the first file's end
        made.index.write_text("".join(f"./{name}\n" for name in names[purged:]))
        for path in made.files[:purged]:
            path.unlink()
        list(client.dump(client.register(server_id=9).slave_id))  # this dump reads the index again
        if purged == 1:
            seen += stream
            found = files_of(iter(seen))
            assert list(found) == names
            assert all(found[name][200:] == expected[name][200:] for name in names)
            assert seen[-1].end_of_log
        else:
            code, text = ends_with(stream)
            assert code is grpc.StatusCode.OUT_OF_RANGE
            assert text.startswith(f"{names[0]}: the files between this file and {names[2]} were purged")
        client.channel.close()
        server.stop(0)


class TestUnreadable:
    def test_random_faults_give_the_right_data_or_a_typed_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = generate(tmp_path / "set", 1 << 20, file_size=400 << 10)
        server = MasterServer(BinlogStore(made.index, cache_bytes=1))
        server.start()
        client = Client(server)
        slave = client.register(["--replicate-ignore-db=shop_00"])
        want = b"".join(chunk.events for chunk in client.dump(slave.slave_id))
        chance = random.Random(1)

        def faulty(call: object, shorter: object) -> object:
            def read(fd: int, what: object, offset: int, *flags: int) -> object:
                chosen = chance.random()
                if chosen < 0.02:
                    raise OSError(errno.EIO, "Input/output error")
                return call(fd, shorter(what) if chosen < 0.2 else what, offset, *flags)  # type: ignore[operator]

            return read

        pread = faulty(os.pread, lambda length: max(length // 2, 1))
        preadv = faulty(os.preadv, lambda views: [views[0][: max(len(views[0]) // 2, 1)]])
        outcomes = {"right": 0, "error": 0}
        for number in range(100):
            slave = client.register(["--replicate-ignore-db=shop_00"], server_id=10 + number)
            with monkeypatch.context() as patch:
                patch.setattr(reader.os, "pread", pread)
                patch.setattr(reader.os, "preadv", preadv)
                found = outcome(client.dump(slave.slave_id))
            if isinstance(found, bytes):
                assert found == want
                outcomes["right"] += 1
            else:
                assert found[0] is grpc.StatusCode.DATA_LOSS
                assert "cannot be read: Input/output error; check the disk" in found[1]
                outcomes["error"] += 1
        assert min(outcomes.values()) > 10, outcomes
        client.channel.close()
        server.stop(0)

    def test_an_error_that_may_pass_lets_the_slave_try_again(
        self, served: Set, whole: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stale(*_: object) -> bytes:
            raise OSError(errno.ESTALE, "Stale file handle")

        stream = served.follow()
        read_to(stream, boundaries(whole)[300])
        with monkeypatch.context() as patch:
            patch.setattr(reader.os, "pread", stale)
            served.path.touch()
            code, text = ends_with(stream)
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "cannot be read: Stale file handle; try again" in text
        assert served.once()[FIRST][200:] == whole[200 : boundaries(whole)[300]]

    def test_the_uuid_does_not_change_because_its_file_cannot_be_read(self, tmp_path: Path) -> None:
        shutil.copytree(DATA / "oracle" / "mysql-row", tmp_path / "set")
        (tmp_path / "set" / "auto.cnf").mkdir()
        with pytest.raises(BinlogUnreadable, match=r"auto.cnf: cannot be read: Is a directory"):
            uuid_of(BinlogSet.open(tmp_path / "set"))


class TestIndex:
    def test_a_nul_byte_under_a_follower(self, served: Set, whole: bytes) -> None:
        stream = served.follow()
        read_to(stream, boundaries(whole)[300])
        (served.path.parent / "bin.index").write_bytes(b"./bin.000001\n./bin\0.000002\n")
        code, text = ends_with(stream)
        assert code is grpc.StatusCode.DATA_LOSS
        assert text.endswith(
            "bin.index: line 2 of the index has a NUL byte; copy the index again from the server, or correct the line"
        )
        with pytest.raises(grpc.RpcError) as caught:
            served.once()
        assert code_of(caught)[0] is grpc.StatusCode.DATA_LOSS

    def test_a_name_that_slaves_cannot_be_told(self, tmp_path: Path, whole: bytes) -> None:
        name = os.fsdecode(b"b\xffn.000001")
        (tmp_path / name).write_bytes(whole)
        (tmp_path / "bin.index").write_bytes(b"./b\xffn.000001\n")
        with pytest.raises(BinlogUnsupported, match=r"b\\udcffn.000001: the file's name is not UTF-8"):
            BinlogStore(tmp_path)

    def test_status_of_a_set_with_a_missing_file(self, served: Set) -> None:
        (served.path.parent / "bin.index").write_text(f"./{FIRST}\n./{SECOND}\n./bin.000003\n")
        slave = served.client.register()
        files = served.client.stub.Status(pb.StatusRequest(slave_id=slave.slave_id)).files
        assert [(file.name, file.size) for file in files] == [
            (FIRST, served.path.stat().st_size),
            (SECOND, 0),
            ("bin.000003", 0),
        ]


def test_a_file_that_grows_and_is_scanned_while_it_is_checked(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check compares the size with the part that was scanned before, not with what another dump scans meanwhile."""
    first, second, *_ = boundaries(whole)[40:]
    path = tmp_path / FIRST
    path.write_bytes(in_use(whole[:first]))
    (tmp_path / "bin.index").write_text(f"./{FIRST}\n")
    store = BinlogStore(tmp_path)
    indexed = store.open_file(FIRST)
    indexed.prepared_at_end()
    kind = type(indexed.file)
    size_of = kind.size.fget
    left = [whole[first:second]]

    def size(file: object) -> int:
        found = size_of(file)
        if left:
            with path.open("ab") as growing:
                growing.write(left.pop())
            indexed.prepared_at_end()
        return found

    monkeypatch.setattr(kind, "size", property(size))
    indexed.check()
    assert indexed.scanned_to == second
