from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base import files
from dumpfilter.base.errors import DirectoryBusy, OutputError, StateCorrupt
from dumpfilter.base.state_file import State, StateFile
from dumpfilter.slave.state import FORMAT, MasterInfo, lock_directory, server_uuid

NAME = MasterInfo.NAME
INFO = MasterInfo(source_file="bin.000002", source_position=4711, retrieved="a:1-5", family="mysql")


def file(path):
    return StateFile(path, MasterInfo, FORMAT)


def _json(data):
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_round_trip(tmp_path):
    path = tmp_path / NAME
    assert file(path).load() is None
    file(path).save(INFO)
    assert file(path).load() == INFO
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_flipped_byte_goes_unnoticed(tmp_path_factory, at, flip):
    where = tmp_path_factory.getbasetemp() / NAME
    data = bytearray(file(where).encode(INFO))
    data[at % len(data)] ^= flip
    if json.loads(file(where).encode(INFO)) == _json(bytes(data)):
        return  # only white space between the members has changed
    with pytest.raises(StateCorrupt, match=rf"^{where}: .*start afresh"):
        file(where).decode(bytes(data))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no JSON"),
        ("[]", "is not a master.info file"),
        ('{"kind": "relay-log.info"}', "is not a master.info file"),
        (
            '{"kind": "master.info", "format": 3}',
            "has format 3, but dumpfilter .* reads format 2, .*newer",
        ),
        ('{"kind": "master.info", "format": "2"}', "has format '2', but dumpfilter .* reads format 2;"),
        ('{"kind": "master.info", "format": 1}', "has format 1, but dumpfilter .* reads format 2;"),
        ('{"kind": "master.info"}', "has format None, but dumpfilter .* reads format 2;"),
        ('{"kind": "master.info", "format": 2, "crc32": 1}', "crc32 does not match"),
    ],
)
def test_foreign_files(tmp_path, text, what):
    path = tmp_path / NAME
    path.write_text(text)
    with pytest.raises(StateCorrupt, match=what):
        file(path).load()


def test_unusable_member(tmp_path):
    class Other(State):
        source_position: str = "four"

    with pytest.raises(StateCorrupt, match="'source_position'"):
        file(tmp_path / NAME).decode(file(tmp_path / NAME).encode(Other()))


def test_server_uuid_is_kept(tmp_path):
    made = server_uuid(tmp_path)
    assert server_uuid(tmp_path) == made
    assert (tmp_path / "auto.cnf").read_text() == f"[auto]\nserver-uuid={made}\n"
    (tmp_path / "auto.cnf").write_text("[auto]\nserver-uuid=what\n")
    with pytest.raises(StateCorrupt, match=r"auto.cnf: holds no server-uuid"):
        server_uuid(tmp_path)


def test_two_slaves_in_one_directory(tmp_path):
    lock = lock_directory(tmp_path / "new")
    with pytest.raises(DirectoryBusy, match=f"another slave works here .process {os.getpid()}."):
        lock_directory(tmp_path / "new", patience=0.1)
    lock.release()
    code = (
        "import os, pathlib, sys; from dumpfilter.slave.state import lock_directory;"
        "lock = lock_directory(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "new"], check=False).returncode == -9
    lock_directory(tmp_path / "new").release()


def test_a_lock_file_that_cannot_be_written_leaves_no_lock(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "disk full")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", no_space)
        with pytest.raises(OutputError, match=r"slave.lock: cannot be written: disk full"):
            lock_directory(tmp_path)
    lock_directory(tmp_path, patience=0.0).release()


def test_disk_errors_name_the_file(tmp_path):
    with pytest.raises(OutputError, match=r"no/master.info.new: cannot be written: No such file"):
        files.replace(tmp_path / "no" / "master.info", b"", synced=False)
    with pytest.raises(OutputError, match="/dev/full: cannot be written: No space left"):
        files.write("/dev/full", os.open("/dev/full", os.O_WRONLY), b"x")


def test_a_full_disk_leaves_no_half_written_file(tmp_path, monkeypatch):
    path = tmp_path / NAME
    file(path).save(INFO, synced=False)
    before = path.read_bytes()

    def full(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return write(fd, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: full(fd, data[: max(len(data) // 2, 1)]))
    with pytest.raises(OutputError, match=r"master.info.new: cannot be written: No space left on device"):
        file(path).save(INFO, synced=False)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [NAME]
    assert path.read_bytes() == before
