"""Crashes at every step of the writes. The recovered slave ends byte for byte as a slave without crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumpfilter.base import files
from dumpfilter.slave.state import MasterInfo
from tests.slave.receiving import Slave
from tests.slave.relayed import contents, raw_events

SYNCHRONIZING = ("sync", "sync_path")
STEPS = ("create", "write", "truncate", *SYNCHRONIZING, "rename", "remove")


class Crash(BaseException):
    """A kill of the process. No handler of Exception catches it."""


class CrashPlan:
    """Crashes in the step with the number ``left``. A crash in a write leaves the first half of the data.

    The steps that synchronize do nothing else, because only a crash of the machine would show a difference.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.crashes = 0
        for name in STEPS:
            monkeypatch.setattr(files, name, self._step(name, getattr(files, name)))

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
            return None if name in SYNCHRONIZING else real(path, *arguments)

        return step


shapes = st.lists(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 60), min_size=1, max_size=4)), max_size=6),
    min_size=1,
    max_size=3,
)
cut_lists = st.lists(st.integers(1, 300), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
            assert contents(crashed) == contents(whole)
            reference = MasterInfo.read(whole)
            found = MasterInfo.read(crashed)
            assert found.model_copy(update={"relay_offset": reference.relay_offset}) == reference
            assert reference.source_file == files[-1].name
            assert reference.source_position == max(files[-1].end, 4) or not files[-1].transactions
            numbers = sum(len(f.transactions) for f in files)
            assert reference.retrieved.endswith({0: "", 1: ":1"}.get(numbers, f":1-{numbers}"))
            for file, path in zip(files, sorted(whole.glob("relay-bin.0*")), strict=True):
                relayed = raw_events(path)
                assert relayed.startswith(file.format_description)
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
        assert contents(directory) == contents(whole), step
        step += 1
    assert plan.crashes > 60
