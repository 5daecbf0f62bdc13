"""Crashes at every step of the writes: what is recovered ends byte for byte as without them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumpfilter.errors import StateCorrupt, StreamError
from dumpfilter.slave.state import durable
from dumpfilter.slave.state.master_info import MasterInfo, MasterInfoFile
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import RelayEnd
from dumpfilter.v1 import dumpfilter_pb2 as pb

STEPS = ("create", "write", "truncate", "sync", "sync_directory", "rename", "remove")


class Crash(BaseException):
    """kill -9: nothing that catches Exception sees it."""


class CrashPlan:
    """Counts the steps and crashes in the given one; a write leaves a part of what it was to write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.crashes = 0
        for name in STEPS:
            monkeypatch.setattr(durable, name, self._step(name, getattr(durable, name)))

    def _step(self, name, real):
        def step(path, *arguments):
            if self.left == 0:
                self.left = -1
                self.crashes += 1
                if name == "write":
                    fd, written = arguments
                    real(path, fd, bytes(written)[: len(written) // 2])
                raise Crash
            self.left -= self.left > 0
            return real(path, *arguments)

        return step


class Slave:
    """A receiver in a directory that is made anew after each crash."""

    def __init__(self, directory: Path, *, save_period: float, sync: int) -> None:
        self.directory = directory
        self.relay_log = RelayLog(directory, sync_every=sync)
        self.receiver = Receiver(
            self.relay_log, MasterInfoFile(directory, sync_every=sync), RelayEnd(), save_period=save_period
        )

    def replicate(self, master, cuts) -> None:
        self.receiver.begin_stream(master_uuid="m", family="mysql")
        info = self.receiver.info
        for chunk in master.chunks(info.source_file, info.source_position or 4, cuts):
            self.receiver.receive(chunk)
        self.receiver.close()


def content(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if p.name != "master.info"}


shapes = st.lists(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 60), min_size=1, max_size=4)), max_size=6),
    min_size=1,
    max_size=3,
)
cut_lists = st.lists(st.integers(1, 300), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=shapes,
    cuts=st.lists(cut_lists, min_size=1, max_size=3),
    crash_after=st.lists(st.integers(0, 40), max_size=8),
    save_period=st.sampled_from([0.0, 1e9]),
    sync=st.sampled_from([0, 1, 3]),
)
def test_crashes_leave_no_trace(masters, monkeypatch, shape, cuts, crash_after, save_period, sync):
    files = masters.synthetic(shape)
    master = masters.FakeMaster(files)
    directory = Path(tempfile.mkdtemp())
    with monkeypatch.context() as patch:
        plan = CrashPlan(patch)
        try:
            whole = directory / "whole"
            whole.mkdir()
            Slave(whole, save_period=0.0, sync=0).replicate(master, [])
            crashed = directory / "crashed"
            crashed.mkdir()
            plans = iter(crash_after)
            for turn in range(len(crash_after) + 1):
                plan.left = next(plans, -1)
                try:
                    slave = Slave(crashed, save_period=save_period, sync=sync)
                    slave.replicate(master, cuts[turn % len(cuts)])
                except Crash:
                    continue
                break
            plan.left = -1
            last = Slave(crashed, save_period=0.0, sync=0)
            last.replicate(master, [])
            assert content(crashed) == content(whole)
            reference = MasterInfoFile(whole).load()
            assert MasterInfoFile(crashed).load() == reference
            assert reference.source_file == files[-1].name
            assert reference.source_position == max(files[-1].end, 4) or not files[-1].transactions
            numbers = sum(len(f.transactions) for f in files)
            assert reference.retrieved.endswith({0: "", 1: ":1"}.get(numbers, f":1-{numbers}"))
            for file, name in zip(files, sorted(n for n in content(whole) if n[-1].isdigit()), strict=True):
                relayed = content(whole)[name]
                assert relayed.startswith(file.bytes[: 4 + len(file.format_description)])
                assert relayed.endswith(file.bytes[4 + len(file.format_description) :])
        finally:
            shutil.rmtree(directory)


def test_every_single_crash_point(masters, monkeypatch, tmp_path):
    shape = [[(True, [20, 30, 40]), (False, [5]), (True, [1])], [], [(True, [50, 50]), (False, [9])]]
    master = masters.FakeMaster(masters.synthetic(shape))
    plan = CrashPlan(monkeypatch)
    whole = tmp_path / "whole"
    whole.mkdir()
    Slave(whole, save_period=0.0, sync=1).replicate(master, [50])
    step = 0
    while plan.crashes == step:
        directory = tmp_path / str(step)
        directory.mkdir()
        plan.left = step
        try:
            Slave(directory, save_period=0.0, sync=1).replicate(master, [50])
        except Crash:
            plan.left = -1
            Slave(directory, save_period=0.0, sync=1).replicate(master, [33])
        assert content(directory) == content(whole), step
        step += 1
    assert plan.crashes > 60


def test_what_a_lost_connection_left_incomplete_is_given_up(masters, tmp_path):
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
    """An event spread over chunks whose last part tells of a boundary that lay in an earlier one."""
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
