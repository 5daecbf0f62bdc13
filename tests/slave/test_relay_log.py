from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventHeader
from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state.relay_log import RelayLog, RelayPosition, header_bytes, read_index
from tests.binlog_tools import complaints

FOLDERS = ["mysql-row", "mysql-mixed", "mysql-statement", "mariadb-row", "mariadb-mixed", "mariadb-statement"]


def write_recording(directory: Path, files) -> RelayLog:
    log = RelayLog(directory)
    log.recover(None)
    for file in files:
        log.rotate(file.name, 4, file.format_description)
        for transaction in file.transactions:
            for event in transaction.events:
                log.append(event, events=1)
    log.close()
    return log


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_servers_own_reader_reads_it(tmp_path, masters, folder):
    files = masters.recorded(folder)
    log = write_recording(tmp_path, files)
    assert log.files == tuple(f"relay-bin.{n:06d}" for n in range(1, len(files) + 1))
    family = folder.partition("-")[0]
    assert complaints([tmp_path / name for name in log.files], family) == ""


@pytest.mark.parametrize(
    "folder", [f for f in FOLDERS if f != "mysql-mixed"]
)  # MariaDB cannot read MySQL's payloads
def test_mariadb_binlog_reads_both_families(tmp_path, masters, folder):
    log = write_recording(tmp_path, masters.recorded(folder))
    run = subprocess.run(
        ["mariadb-binlog", "--verify-binlog-checksum", *(str(tmp_path / name) for name in log.files)],
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-500:]
    assert b"ERROR" not in run.stderr
    assert b"Rotate to bin.000001  pos: 4" in run.stdout


def test_header_is_an_artificial_rotate(masters):
    for folder, checksum in [("mysql-row", 4), ("mariadb-mixed", 0)]:
        description = masters.recorded(folder)[0].format_description
        head = header_bytes("bin.000009", 1234, description)
        rotate = head[4 + len(description) :]
        header = EventHeader.unpack(rotate)
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
    log.append(b"more", events=1)
    log.truncate_to(500)
    log.append(before[500:], events=1)
    log.close()
    assert (tmp_path / "relay-bin.000002").read_bytes() == before
    log.recover(None)
    assert read_index(tmp_path) == []
    assert log.position is None


def test_less_than_recorded_is_an_error_with_a_cure(tmp_path, masters):
    log = write_recording(tmp_path, masters.recorded("mysql-row"))
    with pytest.raises(StateCorrupt, match=r"relay-bin.000003: has \d+ bytes, but 9999 were .* start afresh"):
        log.recover(RelayPosition("relay-bin.000003", 9999))
    with pytest.raises(StateCorrupt, match=r"relay-bin.index: does not name relay-bin.000009"):
        log.recover(RelayPosition("relay-bin.000009", 4))
    (tmp_path / "relay-bin.index").write_text("./relay-bin.000001\n../../etc/passwd\n")
    with pytest.raises(StateCorrupt, match="etc/passwd"):
        log.recover(None)
    (tmp_path / "relay-bin.index").write_text("./relay-bin.000001\n")
    (tmp_path / "relay-bin.000001").write_bytes(b"nonsense")
    with pytest.raises(StateCorrupt, match="wrong magic"):
        log.recover(RelayPosition("relay-bin.000001", 8))


@pytest.mark.parametrize(("every", "expected"), [(0, 0), (1, 5), (2, 2), (10_000, 0)])
def test_sync_relay_log(tmp_path, masters, monkeypatch, every, expected):
    file = masters.recorded("mysql-row")[0]
    log = RelayLog(tmp_path, sync_every=every)
    log.recover(None)
    log.rotate(file.name, 4, file.format_description)
    synced = []
    monkeypatch.setattr("dumpfilter.slave.state.durable.sync", lambda path, fd: synced.append(path.name))
    for transaction in file.transactions[:5]:
        log.append(transaction.events[0], events=1)
    assert len(synced) == expected
    log.close()
