"""The receiver: lost connections, resume points, heartbeats, and masters that break the contract."""

from __future__ import annotations

import pytest

from dumpfilter.errors import StateCorrupt, StreamError
from dumpfilter.slave.state.master_info import MasterInfo, MasterInfoFile
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.slave.receiving import Slave


def test_a_transaction_that_a_lost_connection_left_incomplete_is_discarded(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10, 10, 10])], [(True, [10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    chunks = master.chunks("", 4, [40])
    slave.receiver.receive(next(chunks))
    header = slave.receiver.info.relay_offset
    slave.receiver.receive(next(chunks))
    assert (tmp_path / "relay-bin.000001").stat().st_size == header + 80
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    assert (tmp_path / "relay-bin.000001").stat().st_size == header
    slave.replicate(master, [1000])
    assert slave.receiver.info.source_file == "bin.000002"


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
        slave.receiver.receive(chunk)
        told.append((slave.receiver.info.source_position, slave.receiver.info.retrieved[-4:]))
    assert told == [(start, ""), (start, ""), (files[0].end, ":1-2")]


def test_a_master_that_breaks_the_contract(masters, tmp_path):
    files = masters.synthetic([[(True, [10, 10])], [(True, [10])]])
    master = masters.FakeMaster(files)
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    receive = slave.receiver.receive
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    with pytest.raises(StreamError, match="before its format description event"):
        receive(pb.Chunk(file="bin.000001", events=b"x"))
    first, *_ = master.chunks("", 4, [30])
    receive(first)
    info = slave.receiver.info
    second = next(iter(master.chunks("bin.000002", 4, [1000])))
    with pytest.raises(StreamError, match=r"inside a transaction of bin.000001"):
        receive(second)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    with pytest.raises(StreamError, match="but this slave asked for"):
        receive(pb.Chunk(file="bin.000001", format_description=first.format_description, start_position=5000))
    with pytest.raises(StreamError, match="was the master reset"):
        receive(pb.Chunk(file="bin.000001", format_description=b"other", start_position=4))
    with pytest.raises(StreamError, match="resume point 3"):
        receive(pb.Chunk(file="bin.000001", resume_position=3))
    with pytest.raises(StreamError, match="mariadb"):
        slave.receiver.begin_stream(master_uuid="m", family="mariadb")
    assert slave.receiver.info == info


def test_heartbeats_change_nothing_unless_they_know_more(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.receiver.begin_stream(master_uuid="m", family="mysql")
    slave.receiver.receive(pb.Chunk(heartbeat=True))
    assert slave.receiver.info.source_file == ""
    for chunk in master.chunks("", 4, [1000]):
        slave.receiver.receive(chunk)
    info = slave.receiver.info
    at = info.source_position
    slave.receiver.receive(pb.Chunk(heartbeat=True, file="bin.000001", resume_position=at, end_position=at))
    assert slave.receiver.info == info
    slave.receiver.receive(pb.Chunk(heartbeat=True, file="bin.000001", resume_position=at + 9))
    assert slave.receiver.info.source_position == at + 9
    assert slave.receiver.info.relay_offset == info.relay_offset


def test_another_master_gets_a_relay_log_of_its_own(masters, tmp_path):
    master = masters.FakeMaster(masters.synthetic([[(True, [10, 10])]]))
    slave = Slave(tmp_path, save_period=0.0, sync=0)
    slave.replicate(master, [1000])
    slave.receiver.begin_stream(master_uuid="other", family="mysql", another_master=True)
    assert slave.receiver.info.master_uuid == "m"
    for chunk in master.chunks("", 4, [1000]):
        slave.receiver.receive(chunk)
    assert slave.receiver.info.master_uuid == "other"
    assert slave.relay_log.files == ("relay-bin.000001", "relay-bin.000002")


def test_relay_logs_without_master_info(tmp_path):
    (tmp_path / "relay-bin.000001").write_bytes(b"whose?")
    with pytest.raises(StateCorrupt, match=r"master.info: the file is missing"):
        MasterInfoFile(tmp_path).load()
    assert MasterInfoFile(tmp_path).path == tmp_path / "master.info"
    (tmp_path / "relay-bin.000001").unlink()
    assert MasterInfoFile(tmp_path).load() == MasterInfo()
    assert (tmp_path / "master.info").exists()
