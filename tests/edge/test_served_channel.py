"""A relay log is read up to the published position, and never again after the slave has gone back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import BinlogUnreadable, OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.edge import ServedChannel
from dumpfilter.index.fileset import BinlogSet, PublishedEnd, RelayWentBack
from dumpfilter.master.config import Account, MasterConfig
from dumpfilter.master.service import AccessDenied, Context
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.relay_position import RelayPosition
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.test_relay_plans import receive


@pytest.fixture(scope="module")
def relay_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("relay")
    receive("mysql-row", directory, ["--replicate-do-db=shop"])
    return directory


@pytest.fixture
def served(relay_dir: Path) -> Iterator[ServedChannel]:
    """A channel without a configuration file, whose relay log may be read up to a position in its first file."""
    info = SimpleNamespace(auto_position=True)
    slave = SimpleNamespace(uuid="u", channels=[SimpleNamespace(name="", info=info, directory=relay_dir)])
    loop = asyncio.new_event_loop()
    served = ServedChannel("", loop)
    served.note(RelayPosition("relay-bin.000001", 700))
    served.serve(cast("Slave", slave))
    yield served
    served.close()
    loop.close()


def test_files_and_bytes_end_at_the_position(relay_dir: Path) -> None:
    end = PublishedEnd(RelayPosition("relay-bin.000001", 700))
    found = BinlogSet.from_index(relay_dir / "relay-bin.index", end)
    assert found.names == ["relay-bin.000001"]
    assert found.size("relay-bin.000001") == 700
    whole = (relay_dir / "relay-bin.000001").stat().st_size
    with found.file("relay-bin.000001") as file:
        assert file.size == 700
        assert len(file.read_up_to(600, 500)) == 100
        assert file.read_up_to(800, 10) == b""
        end.position = RelayPosition("relay-bin.000002", 300)
        assert found.refresh()
        assert found.names == ["relay-bin.000001", "relay-bin.000002"]
        assert file.size == whole
        assert found.size("relay-bin.000002") == 300


def test_a_closed_relay_log_cannot_be_read(relay_dir: Path) -> None:
    end = PublishedEnd(RelayPosition("relay-bin.000003", 200))
    store = BinlogStore(BinlogSet.from_index(relay_dir / "relay-bin.index", end))
    indexed = store.open_file("relay-bin.000002")
    assert store.segment_of(indexed, indexed.file.first_event) is not None
    indexed.check()
    end.is_closed = True
    store.give_up(RelayWentBack())
    with pytest.raises(RelayWentBack) as error:
        indexed.check()
    assert error.value.momentary
    for attempt in (
        lambda: indexed.read(4, 10),
        lambda: store.segment_of(indexed, indexed.file.first_event),
        lambda: store.open_file("relay-bin.000001").file.read(4, 10),
    ):
        with pytest.raises(RelayWentBack):
            attempt()
    store.close()


def test_who_publishes_wakes_who_waits(served: ServedChannel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slave in this process has just written the relay log, so nobody looks at the files."""
    monkeypatch.setattr(BinlogSet, "growth", lambda self: ())
    watcher = served.store.watcher
    woken = threading.Event()
    watcher.listener = woken.set
    watcher.start()
    served.note(RelayPosition("relay-bin.000002", 300))
    assert woken.wait(30)


def test_without_a_configuration_file_nothing_is_read_again(served: ServedChannel) -> None:
    with capture_logs() as logs:
        assert served.store.binlogs.names == ["relay-bin.000001"]
    assert not [line for line in logs if "configuration" in line["event"]]


def test_a_configuration_that_has_lost_its_users_opens_nothing(relay_dir: Path) -> None:
    info = SimpleNamespace(auto_position=True)
    slave = SimpleNamespace(uuid="u", channels=[SimpleNamespace(name="", info=info, directory=relay_dir)])
    configs = [MasterConfig(user=(Account(name="repl", password="secret"),))]
    loop = asyncio.new_event_loop()
    served = ServedChannel("", loop, load_config=lambda names: configs[-1])
    served.note(RelayPosition("relay-bin.000001", 700))
    served.serve(cast("Slave", slave))
    configs.append(MasterConfig())
    with pytest.raises(BinlogUnreadable, match="configuration file cannot be used") as error:
        _ = served.reader
    assert error.value.momentary
    with pytest.raises(AccessDenied):
        served.access.check("", "", peer="ipv4:127.0.0.1:1")
    configs.pop()
    assert served.store.binlogs.names == ["relay-bin.000001"]
    served.close()
    loop.close()


def test_a_registration_does_not_open_the_relay_log_in_the_loop(relay_dir: Path) -> None:
    """The loop serves all channels, and a disk may answer late."""
    info = SimpleNamespace(auto_position=True)
    slave = SimpleNamespace(uuid="u", channels=[SimpleNamespace(name="", info=info, directory=relay_dir)])
    opened_in: list[threading.Thread] = []

    def load_config(names: NameRules) -> MasterConfig:
        opened_in.append(threading.current_thread())
        return MasterConfig()

    async def register() -> None:
        served = ServedChannel("", asyncio.get_running_loop(), load_config=load_config)
        served.note(RelayPosition("relay-bin.000001", 700))
        served.serve(cast("Slave", slave))
        opened_in.clear()
        context = SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1")
        with pytest.raises(OptionError, match="server_id 0"):
            await served.Register(pb.RegisterRequest(), cast("Context", context))
        assert served.opened is not None
        served.close()

    asyncio.run(register())
    assert len(opened_in) == 1
    assert threading.current_thread() not in opened_in
