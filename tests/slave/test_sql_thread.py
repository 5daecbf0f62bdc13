"""The SQL thread over relay logs of recordings, and crashes of the SQL thread."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dumpfilter.base.errors import BinlogUnreadable, RelayLogDamaged
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.slave import sql_thread
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.sql_thread import SqlThread
from dumpfilter.slave.state import Place, RelayLogInfo, SourceInfo
from dumpfilter.slave.threads import ChannelMeasurements, Progress, RelayEnd
from tests.slave.driven import wait_until

END = {"mysql-row": ":1-74", "mariadb-row": "0-11-74"}


class Recorder:
    """A target whose state is the list of the calls that it received."""

    def __init__(self, fail_after=10**9):
        self.told = []
        self.fail_after = fail_after

    def _tell(self, *what):
        if len(self.told) >= self.fail_after:
            raise RuntimeError("the target failed")
        self.told.append(list(what))

    def begin(self, gtid):
        self._tell("begin", gtid)

    def commit(self):
        self._tell("commit")

    def rows(self, database, table, table_map, header, data):
        self._tell(database, table, header.kind, len(data))

    def statement(self, database, text):
        self._tell(database, text.decode())

    def state(self):
        return {"told": self.told}

    def restore(self, state):
        self.told = state.get("told", [])

    def text(self):
        return str(self.told)


def family_of(folder):
    return folder.partition("-")[0]


@pytest.fixture
def channel(tmp_path, masters):
    """Return a class with a receiver of a recording's chunks, and SQL threads over its relay logs."""

    class Channel:
        def __init__(self, folder):
            self.folder = folder
            self.relay_end = RelayEnd()
            self.receiver = Receiver(RelayLog(tmp_path), self.relay_end, save_period=0.0)
            self.receiver.begin_stream(master_uuid="m", family=family_of(folder))
            # FakeMaster takes each event for a transaction. Only the ends of files are true boundaries.
            self.master = masters.FakeMaster(masters.recorded(folder))
            self.chunks = self.master.chunks("", 4, [1 << 20])

        def thread(self, target, *options, **more):
            owner = {
                "name": "",
                "info": SourceInfo(),
                "place": Place(RelayLogInfo, tmp_path, save_period=sql_thread.SAVE_PERIOD),
                "relay_end": self.relay_end,
                "target": target,
                "measured": ChannelMeasurements(),
                "progress": Progress(),
                "origin": OriginFilter(),
                "applied_filter": lambda names: Filter.from_options(list(options), names=names),
                "hit": lambda hits: None,
                "discard_damaged": lambda damage, finder: False,
                "ended": lambda thread: None,
            }
            return SqlThread(SimpleNamespace(**owner | more))

        def receive_all(self):
            for chunk in self.chunks:
                self.receiver.receive(chunk)
            self.receiver.close()
            self.relay_end.close()

    return Channel


@pytest.mark.parametrize("folder", END)
def test_applies_everything_and_knows_where_it_is(tmp_path, channel, folder):
    c = channel(folder)
    c.receive_all()
    target = Recorder()
    thread = c.thread(target)
    thread.run()
    info = thread._place.info
    assert info == RelayLogInfo.read(tmp_path)
    assert info.target == target.state()
    assert (info.source_file, info.source_position) == ("bin.000003", c.master.files[-1].end)
    assert info.relay_file == "relay-bin.000003"
    assert info.executed.endswith(END[folder])
    assert target.told[0][:1] == ["begin"]
    assert target.told[-1] == ["commit"]
    again = Recorder()
    thread = c.thread(again)
    thread.run()
    assert again.told == target.told
    assert thread._place.info == info


def test_a_statement_that_waits_sees_each_transaction_before_it_is_saved(tmp_path, channel, monkeypatch):
    c = channel("mysql-row")
    c.receive_all()
    progress = Progress()
    monkeypatch.setattr(sql_thread, "SAVE_PERIOD", 4000.0)
    thread = c.thread(Recorder(), progress=progress)
    seen = []

    def told():
        seen.append((thread._place.info.executed, RelayLogInfo.read(tmp_path).executed))

    progress.told = told
    thread.run()
    assert len({shown for shown, _ in seen if shown}) == 74
    assert {saved for _, saved in seen} == {""}


def test_follows_the_relay_log_as_it_grows(channel):
    c = channel("mysql-row")
    target = Recorder()
    thread = c.thread(target)
    running = threading.Thread(target=thread.run)
    running.start()
    counts = []
    for chunk in c.chunks:
        c.receiver.receive(chunk)
        place = (chunk.file, chunk.resume_position)
        wait_until(lambda p=place: (thread._place.info.source_file, thread._place.info.source_position) == p)
        counts.append(len(target.told))
    c.relay_end.close()
    running.join(240)
    assert not running.is_alive()
    assert 0 < counts[0] < counts[1] <= len(target.told)
    assert thread._place.info.executed.endswith(":1-74")


@pytest.mark.parametrize("fail_after", range(0, 140, 20))
def test_nothing_is_applied_twice_after_a_crash(tmp_path, channel, monkeypatch, fail_after):
    monkeypatch.setattr(sql_thread, "SAVE_PERIOD", 0.0)
    c = channel("mysql-row")
    c.receive_all()
    with pytest.raises(RuntimeError):
        c.thread(Recorder(fail_after)).run()
    recorded = RelayLogInfo.read(tmp_path)
    assert fail_after < 7 or recorded.relay_file
    target = Recorder()
    c.thread(target).run()
    whole = Recorder()
    RelayLogInfo.file(tmp_path).path.unlink()
    c.thread(whole).run()
    assert target.told == whole.told


def test_stop_is_between_transactions_and_goes_on_there(tmp_path, channel):
    c = channel("mariadb-row")
    c.receive_all()
    target = Recorder()
    for _ in range(1000):
        thread = c.thread(target)
        stopping = Recorder()
        stopping.told = target.told
        thread = c.thread(stopping)
        stopping.commit = lambda thread=thread, t=stopping: (Recorder.commit(t), thread.stop())
        before = len(target.told)
        thread.run()
        target = Recorder()
        c.thread(target)
        if len(stopping.told) == before:
            break
        assert target.told == stopping.told
        assert target.told[-1] == ["commit"]
    whole = Recorder()
    RelayLogInfo.file(tmp_path).path.unlink()
    c.thread(whole).run()
    assert target.told == whole.told


@pytest.mark.parametrize("number", [1, 2])
def test_saves_no_place_in_a_file_that_was_cut_inside_its_head(tmp_path, channel, monkeypatch, number):
    monkeypatch.setattr(sql_thread, "SAVE_PERIOD", 0.0)
    c = channel("mysql-row")
    c.receive_all()
    path = tmp_path / f"relay-bin.{number:06d}"
    with path.open("rb") as file:
        events = [event.offset for event in iter_events(file, file=str(path))]
    for cut in events[2:0:-1]:
        RelayLogInfo.file(tmp_path).path.unlink(missing_ok=True)
        os.truncate(path, cut)
        with pytest.raises(RelayLogDamaged, match=path.name):
            c.thread(Recorder()).run()
        place = RelayLogInfo.read(tmp_path).relay_position
        assert place is None or place.file != path.name


def test_too_many_open_files_are_no_damage(channel, monkeypatch):
    c = channel("mysql-row")
    c.receive_all()
    opened = Path.open

    def fail(path, *mode, **named):
        if path.name.startswith("relay-bin.0"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *mode, **named)

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(BinlogUnreadable, match="Too many open files"):
        c.thread(Recorder()).run()


def test_a_thread_that_waits_for_events_ends_at_once(tmp_path, channel, monkeypatch):
    monkeypatch.setattr(sql_thread, "SAVE_PERIOD", 4000.0)
    c = channel("mysql-row")
    until, waits = c.relay_end.until, threading.Event()
    monkeypatch.setattr(c.relay_end, "until", lambda *given: (waits.set(), until(*given))[1])
    thread = c.thread(Recorder())
    running = threading.Thread(target=thread.run, daemon=True)
    running.start()
    assert waits.wait(60)
    thread.stop()
    running.join(60)
    assert not running.is_alive()
