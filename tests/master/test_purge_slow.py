"""PURGE BINARY LOGS: what goes, what stays, and what a crash leaves."""

from __future__ import annotations

import datetime
import os
import shutil
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from dumpfilter.binlog.events import GTID_INDEX_MAGIC
from dumpfilter.binlog.workload import generate
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet, gtid_index_of
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.purge import purge, writer_of
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore, uuid_of
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_service import code_of, files_of
from tests.oracle.dumping import dump
from tests.support import DATA, binlogs_in

NAMES = ["bin.000001", "bin.000002", "bin.000003"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a set that no server writes. The recording was copied while a server wrote it."""
    made = Path(shutil.copytree(DATA / "oracle" / "mysql-row", tmp_path / "set"))
    mark(made / NAMES[2], in_use=False)
    return made


def mark(path: Path, *, in_use: bool) -> None:
    """Set or clear LOG_EVENT_BINLOG_IN_USE_F, which no checksum covers."""
    data = bytearray(path.read_bytes())
    data[21] = data[21] & ~1 | in_use
    path.write_bytes(data)


def files(directory: Path) -> list[str]:
    return [path.name for path in binlogs_in(directory)]


def test_to_a_file(directory: Path) -> None:
    binlogs = BinlogSet.open(directory)
    assert purge(binlogs, to="bin.000003") == (NAMES[:2], [])
    assert binlogs.names == files(directory) == BinlogSet.open(directory).names == NAMES[2:]
    assert purge(binlogs, to="bin.000003") == ([], [])
    assert not list(directory.glob("*.purge"))


def test_an_index_keeps_its_spelling_its_mode_and_its_owner(directory: Path) -> None:
    index = directory / "bin.index"
    index.write_text("./bin.000001\n/elsewhere/bin.000002\n./bin.000003\n")
    index.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(index, 12345, 54321)
    before = index.stat()
    purge(BinlogSet.open(directory), to="bin.000002")
    after = index.stat()
    assert index.read_text() == "/elsewhere/bin.000002\n./bin.000003\n"
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_before_a_time(directory: Path) -> None:
    binlogs = BinlogSet.open(directory)
    for n, name in enumerate(NAMES):
        os.utime(directory / name, (1_700_000_000 + 1000 * n,) * 2)
    at = datetime.datetime.fromtimestamp
    assert purge(binlogs, before=datetime.datetime(1, 1, 1)) == ([], [])
    assert purge(binlogs, before=at(1_700_000_000)) == ([], [])
    assert purge(binlogs, before=at(1_700_000_001)) == (NAMES[:1], [])
    gone, (note,) = purge(binlogs, before=at(1_800_000_000))
    assert (gone, files(directory)) == (NAMES[1:2], NAMES[2:])
    assert (note.number, note.message) == (
        1868,
        "file bin.000003 was not purged because it is the active log file.",
    )


def test_a_gtid_index_goes_with_its_binlog(directory: Path) -> None:
    indexes = [gtid_index_of(directory / name) for name in NAMES]
    for index in indexes:
        index.write_bytes(GTID_INDEX_MAGIC)
    purge(BinlogSet.open(directory), to="bin.000003")
    assert [index.exists() for index in indexes] == [False, False, True]


def test_an_unknown_file(directory: Path) -> None:
    for name in ("bin.000009", "", "bin"):
        with pytest.raises(SqlError) as caught:
            purge(BinlogSet.open(directory), to=name)
        assert str(caught.value) == "ERROR 1373 (HY000): Target log not found in binlog index"
    assert files(directory) == NAMES


def test_a_set_that_a_server_writes_is_the_servers_to_purge(directory: Path) -> None:
    newest = directory / NAMES[2]
    mark(newest, in_use=True)
    hold = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"
    for mode, writes in (("ab", True), ("rb", False)):
        with subprocess.Popen(
            [sys.executable, "-c", hold, newest, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            assert server.stdout.readline() == b"open\n"
            assert writer_of(newest) == (server.pid if writes else None)
            if writes:
                with pytest.raises(SqlError, match=rf"1375 .*process {server.pid} .*purge it on that server"):
                    purge(BinlogSet.open(directory), to="bin.000003")
            server.stdin.close()
    assert files(directory) == NAMES


def test_a_set_that_was_copied_from_a_running_server_can_be_purged(directory: Path) -> None:
    mark(directory / NAMES[2], in_use=True)
    gone, notes = purge(BinlogSet.open(directory), to="bin.000002")
    assert gone == NAMES[:1]
    assert [note.message for note in notes] == [
        "bin.000003 is marked as in use, but no process that can be seen here has it open for writing"
    ]
    assert files(directory) == NAMES[1:]


def test_files_without_an_index_are_not_purged(directory: Path) -> None:
    with pytest.raises(SqlError, match=r"1375 .*without an index"):
        purge(BinlogSet.open([directory / name for name in NAMES]), to="bin.000003")
    assert files(directory) == NAMES


@pytest.mark.parametrize(("reading", "left"), [("bin.000001", 3), ("bin.000002", 2)])
def test_files_that_are_read_are_kept(directory: Path, reading: str, left: int) -> None:
    binlogs = BinlogSet.open(directory)
    gone, (note,) = purge(binlogs, to="bin.000003", reading=[reading, reading])
    assert len(files(directory)) == left
    # the text of a MySQL 9.7, which writes the name as the index does
    assert (note.level, note.number, note.message) == (
        "Warning",
        1867,
        f"file {reading} was not purged because it was being read by 2 thread(s), "
        f"purged only {len(gone)} out of 2 files.",
    )


def test_nothing_outside_of_the_indexs_directory_is_deleted(directory: Path, tmp_path: Path) -> None:
    """An index file may name files anywhere. Only the index file's directory was named by the operator."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (directory / NAMES[0]).rename(elsewhere / NAMES[0])
    (directory / "link").symlink_to(elsewhere)
    index = directory / "bin.index"
    for line in (f"../elsewhere/{NAMES[0]}", str(elsewhere / NAMES[0]), f"./link/{NAMES[0]}"):
        text = f"{line}\n./{NAMES[1]}\n./{NAMES[2]}\n"
        index.write_text(text)
        binlogs = BinlogSet.open(directory)
        assert binlogs.file(NAMES[0]).size  # reading is allowed
        with pytest.raises(
            SqlError, match=rf"1375 .*{NAMES[0]} is in {elsewhere}, outside of the index file's"
        ):
            purge(binlogs, to=NAMES[2])
        assert index.read_text() == text
    assert (elsewhere / NAMES[0]).exists()
    assert files(directory) == NAMES[1:]


def test_a_symbolic_link_is_deleted_and_its_file_stays(directory: Path, tmp_path: Path) -> None:
    (directory / NAMES[0]).rename(tmp_path / "kept")
    (directory / NAMES[0]).symlink_to(tmp_path / "kept")
    assert purge(BinlogSet.open(directory), to=NAMES[1]) == (NAMES[:1], [])
    assert (tmp_path / "kept").exists()
    assert not (directory / NAMES[0]).is_symlink()


def test_what_is_no_binlog_is_not_deleted(directory: Path) -> None:
    index = directory / "bin.index"
    (directory / "precious.txt").write_text("precious")
    (directory / "bin.000000").mkdir()
    for name, why in (("precious.txt", "is no name of a binlog file"), ("bin.000000", "is no file")):
        index.write_text(f"./{name}\n./{NAMES[1]}\n./{NAMES[2]}\n")
        with pytest.raises(SqlError, match=rf"1375 .*{name} {why}"):
            purge(BinlogSet.open(directory), to=NAMES[2])
    assert (directory / "precious.txt").read_text() == "precious"


def test_an_index_that_is_a_link_is_not_replaced(directory: Path) -> None:
    (directory / "bin.index").rename(directory / "real.index")
    (directory / "bin.index").symlink_to("real.index")
    with pytest.raises(SqlError, match=r"1375 .*is a symbolic link; start the master with .*real.index"):
        purge(BinlogSet.open(directory / "bin.index"), to=NAMES[1])
    assert files(directory) == NAMES


def test_a_planted_link_is_not_written_through(directory: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("bin.index.purge", "bin.uuid.new"):
        (directory / name).symlink_to(victim)
    purge(BinlogSet.open(directory), to=NAMES[1])
    assert victim.read_text() == "precious"


def test_a_damaged_index_is_an_error_of_the_statement(directory: Path) -> None:
    binlogs = BinlogSet.open(directory)
    (directory / "bin.index").write_bytes(b"./bin\0.000001\n")
    with pytest.raises(SqlError, match=r"1377 .*line 1 of the index has a NUL byte"):
        purge(binlogs, to=NAMES[1])


CRASHING = """
import os, shutil, sys
from datetime import datetime
from pathlib import Path
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.purge import purge

source, work = map(Path, sys.argv[1:])
for number in range(1, 1000):
    directory = shutil.copytree(source, work / str(number))
    child = os.fork()
    if not child:
        seen = 0
        def crash(event, arguments):
            global seen
            if event in ("open", "os.rename", "os.remove", "os.chmod", "os.chown", "os.truncate"):
                seen += 1
                if seen == number:
                    os._exit(9)
        binlogs = BinlogSet.open(directory)
        sys.addaudithook(crash)
        purge(binlogs, to="bin.000003")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(number)
"""


def test_a_crash_at_any_step_leaves_a_valid_set(directory: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-c", CRASHING, directory, work]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 8
    left = []
    for number in range(1, steps + 1):
        binlogs = BinlogSet.open(work / str(number))
        assert set(binlogs.names) <= set(files(work / str(number)))
        left.append(binlogs.names)
        assert list(dump([binlogs.path(name) for name in binlogs.names], Filter()).files) == binlogs.names
        # and the next PURGE does the rest
        purge(binlogs, to="bin.000003")
        assert binlogs.names == NAMES[2:]
        assert uuid_of(binlogs) == uuid_of(BinlogSet.open(directory))
    assert left == sorted(left)  # first all of it, then what was asked for: nothing in between
    assert {tuple(names) for names in left} == {tuple(NAMES), tuple(NAMES[2:])}


@pytest.fixture
def server(directory: Path) -> Iterator[MasterServer]:
    server = MasterServer(BinlogStore(directory))
    server.start()
    yield server
    server.stop(0)


def execute(server: MasterServer, statement: str) -> list[str]:
    """Execute a statement and return its warnings."""
    result = MasterConsole(server.service).execute(parse_statement(statement))
    return [note.message for note in result.notes]


def test_the_store_goes_on_with_what_is_left(server: MasterServer, client: Client) -> None:
    slave = client.register()
    whole = files_of(client.dump(slave.slave_id))
    execute(server, "PURGE BINARY LOGS TO 'bin.000002'")
    assert files_of(client.dump(slave.slave_id)) == {name: whole[name] for name in NAMES[1:]}
    assert [
        file.name for file in client.stub.Status(pb.StatusRequest(slave_id=slave.slave_id)).files
    ] == NAMES[1:]
    for start in (
        {"from": pb.BinlogPosition(file="bin.000001", position=4)},
        {"gtid_set": ""},
    ):
        with pytest.raises(grpc.RpcError) as caught:
            list(client.dump(slave.slave_id, **start))
        assert code_of(caught)[0] is grpc.StatusCode.OUT_OF_RANGE
    everything = "5a8b8d0a-e543-11f1-9c8d-02fc00000001:1-38"
    assert next(client.dump(slave.slave_id, gtid_set=everything)).file == "bin.000002"


def test_the_space_is_given_back(
    server: MasterServer, client: Client, directory: Path, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    list(client.dump(client.register().slave_id))
    execute(server, "PURGE BINARY LOGS TO 'bin.000003'")

    def held() -> list[str]:
        paths = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [path for path in paths if path.startswith(f"{directory}/bin.00000") and "deleted" in path]

    wait_for(lambda: not held())


def test_a_dump_keeps_its_file_and_those_after_it(tmp_path: Path) -> None:
    made = generate(tmp_path / "set", 12 << 20, file_size=4 << 20)
    names = [path.name for path in made.files]
    server = MasterServer(BinlogStore(made.index))
    server.start()
    client = Client(server)
    try:
        slave = client.register()
        stream = client.dump(slave.slave_id, chunk_size=64 << 10)
        seen = [next(stream)]  # it is held back by what gRPC takes, far from the first file's end
        (warning,) = execute(server, f"PURGE BINARY LOGS TO '{names[-1]}'")
        assert f"file {names[0]} was not purged because it was being read by 1 thread(s)" in warning
        seen += stream
        assert list(dict.fromkeys(chunk.file for chunk in seen)) == names
        assert seen[-1].end_of_log
        assert not execute(server, f"PURGE BINARY LOGS TO '{names[-1]}'")
        assert BinlogSet.open(made.index).names == names[-1:]
    finally:
        client.channel.close()
        server.stop(0)


def test_a_dump_keeps_its_file_before_its_first_message(server: MasterServer) -> None:
    service = server.service
    slave = service.register.add(Peer(server_id=7, uuid=str(uuid.UUID(int=7))), Filter())
    start = DumpStart(NAMES[0], service.store.first_position(NAMES[0]))
    dump = Dump(service.reader, service.register, slave, start, DumpOptions())
    (warning,) = execute(server, f"PURGE BINARY LOGS TO '{NAMES[2]}'")
    assert f"file {NAMES[0]} was not purged because it was being read by 1 thread(s)" in warning
    dump.close()
    assert not execute(server, f"PURGE BINARY LOGS TO '{NAMES[2]}'")


def test_the_set_is_still_known_when_its_first_file_is_gone(directory: Path) -> None:
    before = uuid_of(BinlogSet.open(directory))
    purge(BinlogSet.open(directory), to="bin.000002")
    assert uuid_of(BinlogSet.open(directory)) == before
    (directory / "bin.uuid").unlink()
    assert uuid_of(BinlogSet.open(directory)) != before


def test_a_servers_own_identity_is_left_alone(directory: Path) -> None:
    (directory / "auto.cnf").write_text("[auto]\nserver-uuid=5a8b8d0a-e543-11f1-9c8d-02fc00000001\n")
    purge(BinlogSet.open(directory), to="bin.000002")
    assert not (directory / "bin.uuid").exists()
