from __future__ import annotations

import errno
import os
import threading

import pytest

from dumpfilter.base import files
from dumpfilter.base.errors import BinlogUnreadable, OutputError, RelayLogDamaged, StateCorrupt
from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.gap_events import Head, parse_gap_event
from dumpfilter.slave.relay_log import RelayLog, header_bytes, read_head, read_index
from dumpfilter.slave.relay_position import RelayPosition
from tests.slave.receiving import write_recording


def test_header_is_an_artificial_rotate(masters):
    for folder, checksum in [("mysql-row", 4), ("mariadb-mixed", 0)]:
        description = masters.recorded(folder)[0].format_description
        head = header_bytes("bin.000009", 1234, description, {"master_uuid": "m"})
        rotate = head[4 + len(description) :]
        header = EventHeader.unpack(rotate)
        origin, rotate = rotate[header.size :], rotate[: header.size]
        assert EventHeader.unpack(origin).type == 28
        assert parse_gap_event(origin[19 : len(origin) - checksum]) == Head({"master_uuid": "m"})
        assert header == (0, 4, EventHeader.unpack(description).server_id, len(rotate), 0, 0x20)
        assert rotate[19:27] == (1234).to_bytes(8, "little")
        assert rotate[27 : len(rotate) - checksum] == b"bin.000009"


def test_index_is_as_servers_write_it(tmp_path, masters):
    write_recording(tmp_path, masters.recorded("mysql-row"))
    text = (tmp_path / "relay-bin.index").read_text()
    assert text == "./relay-bin.000001\n./relay-bin.000002\n./relay-bin.000003\n"


def test_recover_goes_back_to_the_recorded_position(tmp_path, masters):
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    (tmp_path / "relay-bin.000004").write_bytes(b"half a fi")
    (tmp_path / "relay-bin.index.new").write_bytes(b"./rel")
    before = (tmp_path / "relay-bin.000002").read_bytes()
    log.recover(RelayPosition("relay-bin.000002", 500))
    assert log.position == ("relay-bin.000002", 500)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "relay-bin.000001",
        "relay-bin.000002",
        "relay-bin.index",
    ]
    log.append(b"more")
    log.recover(RelayPosition("relay-bin.000002", 500))
    log.append(before[500:])
    log.close()
    assert (tmp_path / "relay-bin.000002").read_bytes() == before
    log.recover(None)
    assert read_index(tmp_path) == []
    assert log.position is None


def test_a_head_without_the_name_of_the_masters_file_is_damaged(tmp_path, masters):
    write_recording(tmp_path, masters.recorded("mysql-row"))
    path = tmp_path / "relay-bin.000001"
    whole = path.read_bytes()
    description = 4 + EventHeader.unpack(whole, 4).size
    rotate = description + EventHeader.unpack(whole, description).size
    path.write_bytes(whole[:description])
    with pytest.raises(RelayLogDamaged, match=r"relay-bin.000001: ends inside its head"):
        read_head(path)
    # An earlier release wrote no head event, so the file may end here.
    path.write_bytes(whole[:rotate])
    assert read_head(path)[1:] == ("bin.000001", 4, rotate, True, {})


def test_less_than_recorded_is_damage(tmp_path, masters):
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    with pytest.raises(RelayLogDamaged, match=r"relay-bin.000003: has \d+ bytes, but 9999 were"):
        log.recover(RelayPosition("relay-bin.000003", 9999))
    with pytest.raises(RelayLogDamaged, match=r"relay-bin.index: does not name relay-bin.000009"):
        log.recover(RelayPosition("relay-bin.000009", 4))
    (tmp_path / "relay-bin.index").write_text("./relay-bin.000001\n../../etc/passwd\n")
    with pytest.raises(StateCorrupt, match="etc/passwd"):
        log.recover(None)
    (tmp_path / "relay-bin.index").write_text("./relay-bin.000001\n")
    (tmp_path / "relay-bin.000001").write_bytes(b"nonsense")
    with pytest.raises(RelayLogDamaged, match="wrong magic"):
        log.recover(RelayPosition("relay-bin.000001", 8))


def test_too_many_open_files_are_no_damage(tmp_path, masters, monkeypatch):
    """A slave that took a sound relay log for damaged would discard it."""
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    position = RelayPosition("relay-bin.000003", 500)

    def fail(*_, **named):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(BinlogUnreadable, match="Too many open files"):
        log.recover(position)
    with pytest.raises(BinlogUnreadable, match="Too many open files"):
        read_head(tmp_path / position.file)


def test_a_slow_disk_delays_the_second_synchronization_and_not_the_first(tmp_path, masters, monkeypatch):
    file = masters.recorded("mysql-row")[0]
    log = RelayLog(tmp_path)
    log.recover(None)
    log.rotate(file.name, 4, file.format_description, {})
    disk, written = threading.Semaphore(0), []

    def sync(path, fd):
        disk.acquire()
        written.append(path.name)

    monkeypatch.setattr("dumpfilter.base.files.sync", sync)
    begun = threading.Event()

    def append() -> None:
        for transaction in file.transactions[:3]:
            log.append(transaction.events[0])
            log.sync_later(tmp_path / "relay-bin.index")
            begun.set()
        written.append("the third call has returned")

    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    begun.wait()
    for _ in range(2):
        disk.release()
    thread.join()
    assert written == ["relay-bin.000001", "relay-bin.index", "the third call has returned"]
    for _ in range(4):
        disk.release()
    log.close()
    assert written[3:] == ["relay-bin.000001", "relay-bin.index"] * 2


def test_a_disk_that_fails_in_the_other_thread_ends_the_next_synchronization(tmp_path, masters, monkeypatch):
    file = masters.recorded("mysql-row")[0]
    log = RelayLog(tmp_path)
    log.recover(None)
    log.rotate(file.name, 4, file.format_description, {})

    def sync(path, fd):
        raise OutputError(f"{path.name}: cannot be written: Input/output error")

    def append() -> None:
        for transaction in file.transactions[:3]:
            log.append(transaction.events[0])
            log.sync_later()

    with monkeypatch.context() as patch:
        patch.setattr("dumpfilter.base.files.sync", sync)
        with pytest.raises(OutputError, match=r"relay-bin.000001: .*Input/output error"):
            append()
        log.close()
    log.recover(None)
    log.close()


def test_a_file_that_cannot_be_put_into_the_index_receives_nothing(tmp_path, masters, monkeypatch):
    """A disk without free inodes lets the file be made and the index not."""
    first, second = masters.recorded("mysql-row")[:2]
    log = RelayLog(tmp_path)
    log.recover(None)

    def full(*_: object, **__: object) -> None:
        raise OutputError("relay-bin.index.new: cannot be written: No space left on device")

    for before, file in ((None, first), ("relay-bin.000001", second)):
        with monkeypatch.context() as patch:
            patch.setattr("dumpfilter.base.files.replace", full)
            with pytest.raises(OutputError, match="No space left on device"):
                log.rotate(file.name, 4, file.format_description, {})
            log.sync()
            with pytest.raises(AssertionError):
                log.append(b"lost")
            assert log.names == ([] if before is None else [before])
        log.rotate(file.name, 4, file.format_description, {})
    log.close()
    assert read_index(tmp_path) == ["relay-bin.000001", "relay-bin.000002"]


def test_old_files_expire_in_order(tmp_path, masters):
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    names = read_index(tmp_path)
    assert log.expire(names[-1], written_before=0) == []
    os.utime(tmp_path / names[1], (1, 1))
    assert log.expire(names[-1], written_before=10) == [], "the first file is new"
    os.utime(tmp_path / names[0], (1, 1))
    assert log.expire(names[0], written_before=10) == [], "somebody needs the first file"
    assert log.expire("relay-bin.000099", written_before=10) == names[:2]
    assert log.expire("relay-bin.000099", written_before=1e12) == [], "the newest file stays"
    assert read_index(tmp_path) == log.names == names[2:]
    assert sorted(path.name for path in tmp_path.glob("relay-bin.0*")) == names[2:]
    end = RelayPosition(names[-1], (tmp_path / names[-1]).stat().st_size)
    log.recover(end)
    assert log.position == end


def test_a_crash_while_files_expire_leaves_files_that_nobody_names(tmp_path, masters, monkeypatch):
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    names = read_index(tmp_path)
    end = RelayPosition(names[-1], (tmp_path / names[-1]).stat().st_size)
    for name in names[:2]:
        os.utime(tmp_path / name, (1, 1))

    def crash(path):
        raise OutputError(f"{path}: the machine is gone")

    monkeypatch.setattr(files, "remove", crash)
    with pytest.raises(OutputError):
        log.expire(names[2], written_before=10)
    monkeypatch.undo()
    again = RelayLog(tmp_path)
    again.recover(end)
    assert again.names == [names[2]]
    assert sorted(path.name for path in tmp_path.glob("relay-bin.0*")) == names[2:]
