"""The receiver: lost connections, resume points, heartbeats, and masters that break the contract."""

from __future__ import annotations

import threading
import zlib
from itertools import islice
from pathlib import Path

import pytest

from dumpfilter.base import files
from dumpfilter.base.errors import StateCorrupt, StreamDamaged, StreamError
from dumpfilter.binlog.gap_events import Gap, parse_gap_event
from dumpfilter.slave.receiver import MOST_WAITED_FOR
from dumpfilter.slave.state import MasterInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.slave.receiving import Slave
from tests.slave.relayed import contents


def test_a_transaction_that_a_lost_connection_left_incomplete_is_discarded(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10, 10, 10])], [(True, [10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    chunks = master.chunks("", 4, [40])
    slave.receiver.receive(next(chunks))
    header = slave.receiver.place.info.relay_offset
    first = (tmp_path / "relay-bin.000001").stat().st_size
    slave.receiver.receive(next(chunks))
    assert (tmp_path / "relay-bin.000001").stat().st_size == header + 80 > first
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    # The master leaves out nothing.
    slave.receiver.receive(next(master.chunks("bin.000001", slave.receiver.place.info.source_position, [40])))
    assert (tmp_path / "relay-bin.000001").stat().st_size == first
    slave.replicate(master, [1000])
    assert slave.receiver.place.info.source_file == "bin.000002"


def test_a_resume_point_that_cannot_be_placed(masters, tmp_path):
    """The last chunk of an event names a boundary that lies in an earlier chunk."""
    files = masters.synthetic([[(True, [10]), (True, [500, 10])]])
    first, second = files[0].transactions
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    master = masters.FakeMaster(files)
    [whole] = master.chunks("", 4, [10_000])
    start = 4 + len(files[0].format_description)
    parts = [first.events[0] + second.events[0][:200], second.events[0][200:], second.events[1]]
    resume = [start, start + first.size, files[0].end]
    told = []
    for number, (part, position) in enumerate(zip(parts, resume, strict=True)):
        chunk = pb.Chunk(file="bin.000001", events=part, resume_position=position, end_position=position)
        if number == 0:
            chunk.format_description = whole.format_description
            chunk.start_position = start
        elif number == 1:
            chunk.completed.members.add(uuid=whole.completed.members[0].uuid, runs=[1, 1])
        else:
            chunk.resume_bytes = len(part)
            chunk.completed.members.add(uuid=whole.completed.members[0].uuid, runs=[2, 1])
        chunk.begin_position = resume[number - 1] if number else start
        slave.receiver.receive(masters.sealed(chunk))
        told.append((slave.receiver.place.info.source_position, slave.receiver.place.info.retrieved[-4:]))
    assert told == [(start, ""), (start, ""), (files[0].end, ":1-2")]


def test_a_master_that_breaks_the_contract(masters, tmp_path):
    files = masters.synthetic([[(True, [10, 10])], [(True, [10])]])
    master = masters.FakeMaster(files)
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    receive = slave.receiver.receive
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    seal = masters.sealed
    with pytest.raises(StreamError, match="without its start position"):
        receive(seal(pb.Chunk(file="bin.000001", events=b"x")))
    first, *_ = master.chunks("", 4, [30])
    first.end_of_file = True
    receive(seal(first))
    info = slave.receiver.place.info
    second = next(iter(master.chunks("bin.000002", 4, [1000])))
    second.previous_file = "bin.000001"
    seal(second)
    with pytest.raises(StreamError, match=r"inside a transaction of bin.000001"):
        receive(second)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    with pytest.raises(StreamError, match="but this slave asked for"):
        receive(
            seal(
                pb.Chunk(
                    file="bin.000001",
                    format_description=first.format_description,
                    start_position=5000,
                )
            )
        )
    other = bytearray(first.format_description)
    other[0] += 1
    other[-4:] = zlib.crc32(other[:-4]).to_bytes(4, "little")
    with pytest.raises(StreamError, match="was the master reset"):
        receive(seal(pb.Chunk(file="bin.000001", format_description=bytes(other), start_position=4)))
    with pytest.raises(StreamDamaged, match="unusable format description"):
        receive(seal(pb.Chunk(file="bin.000001", format_description=b"other")))
    first.resume_position = 3
    seal(first)
    with pytest.raises(StreamError, match="resume point 3"):
        receive(first)
    with pytest.raises(StreamError, match="mariadb"):
        slave.receiver.begin_stream(master_uuid="m", family="mariadb")
    assert slave.receiver.place.info == info


def test_a_heartbeat_moves_the_position_only_forward(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    for chunk in master.chunks("", 4, [1000]):
        slave.receiver.receive(chunk)
    info = slave.receiver.place.info
    heartbeat = master.heartbeat()
    slave.receiver.receive(heartbeat)
    assert slave.receiver.place.info == info
    heartbeat = master.heartbeat()
    heartbeat.resume_position += 9
    heartbeat.end_position += 9
    slave.receiver.receive(masters.sealed(heartbeat))
    assert slave.receiver.place.info.source_position == info.source_position + 9
    path = tmp_path / "relay-bin.000001"
    *_, gap = masters.events_of(path.read_bytes())
    assert parse_gap_event(gap[19:-4]) == Gap(info.source_position + 9)
    assert slave.receiver.place.info.relay_offset == path.stat().st_size


DAMAGES = {
    "an event's bit": lambda chunk: setattr(chunk, "events", flipped(chunk.events)),
    "the GTIDs": lambda chunk: chunk.completed.members[0].runs.append(1),
    "the gaps": lambda chunk: chunk.gaps.run_length.__setitem__(0, 9),
    "the end": lambda chunk: setattr(chunk, "end_position", chunk.end_position + 1),
    "the resume point": lambda chunk: setattr(chunk, "resume_bytes", chunk.resume_bytes - 7),
    "the file": lambda chunk: setattr(chunk, "file", "../../x"),
    "half of the events": lambda chunk: setattr(chunk, "events", chunk.events[: len(chunk.events) // 2]),
}


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def flipped(events: bytes) -> bytes:
    return events[:25] + bytes([events[25] ^ 1]) + events[26:]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_chunk_leaves_no_trace(masters, tmp_path, damage):
    """The slave receives the same stream again, and its relay log is that of an undisturbed slave."""
    shape = [[(True, [10, 10]), (False, [7]), (True, [20, 30])]]
    master = masters.FakeMaster(masters.synthetic(shape))
    slave = Slave(made(tmp_path / "s"), save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    [chunk] = master.chunks("", 4, [1000])
    damage(chunk)
    with pytest.raises(StreamDamaged):
        slave.receiver.receive(chunk)
    slave.replicate(master, [1000])
    Slave(made(tmp_path / "whole"), save_period=0.0, sync=0).replicate(master, [1000])
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


@pytest.mark.parametrize("order", [[0, 2], [0, 1, 1], [1], [0, 1, 2, 4], [0, 1, 2, 3, 3]])
def test_a_missing_or_repeated_chunk_is_noticed(masters, tmp_path, order):
    shape = [[(True, [10]), (True, [10]), (True, [10])], [(True, [10]), (True, [10])]]
    master = masters.FakeMaster(masters.synthetic(shape))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    chunks = list(master.chunks("", 4, [33]))
    assert len(chunks) == 5
    *sound, last = order
    for number in sound:
        slave.receiver.receive(chunks[number])
    with pytest.raises(StreamError):
        slave.receiver.receive(chunks[last])
    slave.replicate(master, [33])
    assert slave.receiver.place.info.retrieved.endswith(":1-5")


def test_what_is_shown_was_published(masters, tmp_path):
    """A position that ``master.info`` does not have yet is not shown, since no reader of the relay log has it."""
    slave = Slave(tmp_path, save_period=1000.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    chunks = list(masters.FakeMaster(masters.synthetic([[(True, [10]), (True, [10])]])).chunks("", 4, [33]))
    for chunk in chunks[:-1]:
        slave.receiver.receive(chunk)
    shown, known = slave.receiver.place.saved, slave.receiver._relay_end.position
    assert shown.relay_position == known != slave.receiver.place.info.relay_position
    slave.receiver.close()
    assert slave.receiver.place.saved == slave.receiver.place.info
    assert slave.receiver._relay_end.position == slave.receiver.place.info.relay_position


def test_a_chunk_without_proof_is_refused(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    [chunk] = master.chunks("", 4, [33])
    chunk.crc32 = 0
    with pytest.raises(StreamDamaged, match="CRC32 does not match"):
        slave.receiver.receive(chunk)


def test_another_master_gets_a_relay_log_of_its_own(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(master, [1000])
    slave.receiver.begin_stream(master_uuid="other", family="mysql", auto_position=True)
    assert slave.receiver.place.info.master_uuid == "m"
    for chunk in master.chunks("", 4, [1000]):
        slave.receiver.receive(chunk)
    assert slave.receiver.place.info.master_uuid == "other"
    assert slave.relay_log.names == ["relay-bin.000001", "relay-bin.000002"]


def test_a_master_that_refuses_the_position_is_not_the_owner_of_the_position(masters, tmp_path):
    """After SOURCE_AUTO_POSITION = 1 the slave asks this master by GTID, and no longer by another master's position."""
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(masters.FakeMaster(masters.synthetic([[(True, [10, 10])]])), [1000])
    before = slave.receiver.place.info
    assert not slave.receiver.begin_stream(master_uuid="other", family="mysql")
    assert slave.receiver.place.info == MasterInfo.read(tmp_path) == before
    assert slave.receiver.begin_stream(master_uuid="other", family="mysql", auto_position=True)


def test_a_master_that_restarts_with_a_new_uuid_is_noted_in_the_relay_log(masters, tmp_path):
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10])]]))
    slave.replicate(master, [1000])
    before = slave.receiver.place.info
    slave.receiver.begin_stream(master_uuid="other", family="mysql")
    slave.receiver.receive(next(master.chunks(before.source_file, before.source_position, [1000])))
    after = slave.receiver.place.info
    slave.receiver.close()
    assert (after.master_uuid, after.relay_file) == ("other", before.relay_file)
    data = (tmp_path / after.relay_file).read_bytes()
    assert b'"other"' in data[before.relay_offset :]
    assert after.relay_offset == len(data)


def test_a_filter_that_changes_is_remembered(masters, tmp_path):
    """The applier may hold prepared XA transactions that the new filter would have dropped."""
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(masters.FakeMaster(masters.synthetic([[(True, [10, 10])]])), [1000])
    here = slave.receiver.place.info
    for digest, other in ((here.filter_digest, False), ("another", True), (here.filter_digest, True)):
        slave.receiver.rewind(here.model_copy(update={"filter_digest": digest}))
        assert slave.receiver.place.info.other_filters == MasterInfo.read(tmp_path).other_filters == other


def test_a_filter_that_changes_is_remembered_without_the_relay_log(masters, tmp_path):
    """The applier may hold prepared XA transactions of a relay log that was discarded because of damage."""
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(masters.FakeMaster(masters.synthetic([[(True, [10, 10])]])), [1000])
    nothing = {"relay_file": "", "relay_offset": 0, "filter_digest": "another"}
    slave.receiver.rewind(slave.receiver.place.info.model_copy(update=nothing))
    assert MasterInfo.read(tmp_path).other_filters


def test_relay_logs_without_master_info(tmp_path):
    (tmp_path / "relay-bin.000001").write_bytes(b"whose?")
    with pytest.raises(StateCorrupt, match=r"master.info: the file is missing"):
        MasterInfo.read(tmp_path)
    (tmp_path / "relay-bin.000001").unlink()
    assert MasterInfo.read(tmp_path) == MasterInfo()


@pytest.mark.parametrize("member", [{"tag": "a:1,\nb"}, {"uuid": b"short"}, {"runs": [1]}])
def test_malformed_gtids_do_not_get_into_the_files(masters, tmp_path, member):
    master = masters.FakeMaster(masters.synthetic([[(True, [10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    [chunk] = master.chunks("", 4, [33])
    for name, value in member.items():
        if name == "runs":
            chunk.completed.members[0].runs.extend(value)
        else:
            setattr(chunk.completed.members[0], name, value)
    with pytest.raises(StreamDamaged, match="malformed"):
        slave.receiver.receive(masters.sealed(chunk))
    slave.receiver.close()
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(master, [33])
    assert slave.receiver.place.info.retrieved.endswith(":1")


def test_nothing_of_a_chunk_with_malformed_gtids_is_taken(masters, tmp_path):
    """The GTIDs before the malformed ones are those of transactions that the slave does not have."""
    master = masters.FakeMaster(masters.synthetic([[(True, [10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    for runs in ([1], [0, 1], [5, 0], [(1 << 64) - 1, 9]):
        slave.receiver.begin_stream(master_uuid="m", family="mysql")
        [chunk] = master.chunks("", 4, [33])
        chunk.completed.members[0].runs[:] = [4, 3]
        chunk.completed.members.add(uuid=bytes(16), runs=runs)
        before = slave.relay_log.position
        with pytest.raises(StreamDamaged, match="malformed"):
            slave.receiver.receive(masters.sealed(chunk))
        assert before in (slave.relay_log.position, None)
    slave.replicate(master, [33])
    assert slave.receiver.place.info.retrieved.endswith(":1")


@pytest.mark.parametrize(("every", "expected"), [(0, 0), (1, 5), (2, 2), (10_000, 0)])
def test_the_disk_has_both_files_after_so_many_events(masters, tmp_path, monkeypatch, every, expected):
    slave = Slave(tmp_path, save_period=1000.0, sync=every)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    chunks = masters.FakeMaster(masters.recorded("mysql-row")).chunks("", 4, [100])
    slave.receiver.receive(next(chunks))
    written: list[str] = []
    monkeypatch.setattr("dumpfilter.base.files.sync", lambda path, fd: written.append(path.name))
    slave.receiver._unsynced_events = 0
    for chunk in islice(chunks, 5):
        chunk.counts.events_sent = 1
        slave.receiver.receive(masters.sealed(chunk))
    assert written == ["relay-bin.000001", "master.info.new"] * expected


def test_the_disk_has_the_relay_log_before_the_position_in_it(masters, tmp_path, monkeypatch):
    """With many events between two synchronizations another thread waits for the disk."""
    wait_for, written = files.sync, []

    def sync(path, fd):
        if threading.current_thread().name.startswith("log-sync"):
            written.append(path.name)
        wait_for(path, fd)

    monkeypatch.setattr(files, "sync", sync)
    (tmp_path / "s").mkdir()
    slave = Slave(tmp_path / "s", save_period=1000.0, sync=MOST_WAITED_FOR + 1)
    slave.replicate(masters.FakeMaster(masters.recorded("mysql-row")), [400] * 400)
    assert written
    positions = [k for k, name in enumerate(written) if name == "master.info"]
    assert positions, written
    for k in positions:
        assert written[k - 1].startswith("relay-bin.0")
        assert written[k + 1] == "s", "the directory, which has the new master.info"
