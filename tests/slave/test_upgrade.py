"""Relay directories of release 0.1.0 (``tests/data/v1``), which a slave of today continues."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.errors import StateCorrupt
from dumpfilter.filter import Filter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.slave.channel import Channel, ChannelOptions, Threads
from dumpfilter.slave.state import durable, source_info, state_file
from dumpfilter.slave.state.master_info import MasterInfoFile
from dumpfilter.slave.state.relay_log_info import RelayLogInfoFile
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.slave.upgrade import upgrade
from tests.slave.driven import UUID, Since, expected, serving
from tests.slave.relayed import contents
from tests.support import DATA as RECORDED

DATA = Path(__file__).parent.parent / "data" / "v1"
OPTIONS = ["--replicate-ignore-db=hr", "--replicate-rewrite-db=shop->store"]
WRITER = 11
"""The server id of the server that wrote the recordings."""

SCENARIOS: dict[str, dict[str, Any]] = {
    "stopped": {},
    "killed": {},
    "killed-mariadb": {"recording": "mariadb-row"},
    "killed-before-applying": {},
    "auto-position": {"auto_position": True},
    "unwanted-origin": {
        "origin": OriginFilter(frozenset({WRITER})),
        "filter_on": FilterOn.SLAVE,
        "start_file": "bin.000002",
    },
    "imposed": {"imposed": ["--replicate-ignore-table=shop.orders"]},
}


def binlogs(scenario: str) -> Path:
    return RECORDED / "oracle" / str(SCENARIOS[scenario].get("recording", "mysql-row"))


def config(scenario: str) -> MasterConfig:
    imposed = SCENARIOS[scenario].get("imposed")
    if imposed is None:
        return MasterConfig()
    return MasterConfig(imposed=(ImposedFilter("policy", Filter.from_options(imposed)),))


def old_directory(scenario: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / scenario, tmp_path / "slave"))


def open_slave(scenario: str, directory: Path, port: int, options: list[str] = OPTIONS) -> Channel:
    more = SCENARIOS[scenario]
    # A slave that starts afresh needs a position, and one that continues has it.
    start_file = more.get("start_file", "") if not directory.exists() else ""
    return Channel(
        ChannelOptions(
            master=MasterOptions(
                address=f"127.0.0.1:{port}",
                server_id=77 if directory.name == "slave" else 78,
                uuid="",
                once=True,
                start_file=start_file,
                auto_position=more.get("auto_position", False),
            ),
            relay_dir=directory,
            rules=Filter.from_options(options).rules,
            origin=more.get("origin", OriginFilter()),
            filter_on=more.get("filter_on", FilterOn.BOTH),
        ),
        SummaryTarget(),
    )


def run(slave: Channel) -> Channel:
    slave.start()
    slave.wait()
    return slave


def outcome(slave: Channel) -> dict[str, Any]:
    info = slave.relay_log_info
    return {
        "place": (info.source_file, info.source_position),
        "executed": info.executed,
        "retrieved": slave.master_info.retrieved,
        "target": info.target,
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_slave_continues_the_directory_of_the_old_release(scenario: str, tmp_path: Path) -> None:
    directory = old_directory(scenario, tmp_path)
    old = MasterInfoFile(directory).load()
    relayed = (directory / old.relay_file).read_bytes()[: old.relay_offset]
    with serving(binlogs(scenario), config(scenario)) as master:
        undisturbed = run(open_slave(scenario, tmp_path / "undisturbed", master.port))
        slave = run(open_slave(scenario, directory, master.port))
    assert outcome(slave) == outcome(undisturbed)
    # The slave asked only for what it had not received.
    assert (directory / old.relay_file).read_bytes().startswith(relayed)
    assert slave.received.bytes_received <= undisturbed.received.bytes_received - len(relayed) + 400
    for name in ("master.info", "relay-log.info"):
        assert json.loads((directory / name).read_text())["format"] == state_file.FORMAT
    if scenario != "imposed":
        origin = SCENARIOS[scenario].get("origin")
        wanted = expected(
            binlogs(scenario), [Since(("", 0), Filter.from_options(OPTIONS).rules)], origin=origin
        )
        assert slave.relay_log_info.target == wanted.summary


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_upgrade_happens_once(scenario: str, tmp_path: Path) -> None:
    directory = old_directory(scenario, tmp_path)
    upgrade(directory)
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    upgrade(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == files


def test_a_new_directory_is_left_alone(tmp_path: Path) -> None:
    upgrade(tmp_path)
    assert not list(tmp_path.iterdir())


class Crash(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("scenario", ["killed", "killed-mariadb", "killed-before-applying"])
@pytest.mark.parametrize("torn", [False, True], ids=["before", "inside"])
def test_a_crash_anywhere_in_the_upgrade(
    scenario: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slave that starts next ends as if nothing had happened."""
    with serving(binlogs(scenario)) as master:
        undisturbed = outcome(run(open_slave(scenario, tmp_path / "undisturbed", master.port)))
        number = 0
        while True:
            number += 1
            directory = tmp_path / str(number) / "slave"
            shutil.copytree(DATA / scenario, directory)
            with monkeypatch.context() as patch:
                crash_at(number, torn, patch)
                try:
                    upgrade(directory)
                except Crash:
                    pass
                else:
                    break
            assert outcome(run(open_slave(scenario, directory, master.port))) == undisturbed, number
    assert number > 7


def crash_at(number: int, torn: bool, patch: pytest.MonkeyPatch) -> None:
    """Make the process end before a system call that changes files or, with ``torn``, in the middle of a write."""
    calls = 0

    def crashing(call: Callable[..., Any]) -> Callable[..., Any]:
        def crash(path: Path, *arguments: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                if torn and call.__name__ == "write":
                    fd, data = arguments
                    call(path, fd, data[: len(data) // 2])
                raise Crash
            return call(path, *arguments, **more)

        return crash

    for name in ("create", "write", "truncate", "sync", "sync_directory", "rename", "remove"):
        patch.setattr(durable, name, crashing(getattr(durable, name)))


@pytest.mark.parametrize("scenario", ["killed", "killed-mariadb"])
def test_another_filter_at_the_upgrade(scenario: str, tmp_path: Path) -> None:
    """The master sends again what the applier has not applied, and the GTID set has no holes."""
    directory = old_directory(scenario, tmp_path)
    before = RelayLogInfoFile(directory).load()
    options = ["--replicate-ignore-db=logs"]
    with serving(binlogs(scenario)) as master:
        slave = run(open_slave(scenario, directory, master.port, options))
        whole = run(open_slave(scenario, tmp_path / "whole", master.port, []))
    history = [
        Since(("", 0), Filter.from_options(OPTIONS).rules),
        Since((before.source_file, before.source_position), Filter.from_options(options).rules),
    ]
    assert slave.relay_log_info.target == expected(binlogs(scenario), history).summary
    assert slave.relay_log_info.executed == whole.relay_log_info.executed


def test_a_damaged_relay_log_of_the_old_release(tmp_path: Path) -> None:
    directory = old_directory("killed", tmp_path)
    before = RelayLogInfoFile(directory).load()
    with serving(binlogs("killed")) as master:
        undisturbed = run(open_slave("killed", tmp_path / "undisturbed", master.port))
        with (directory / before.relay_file).open("r+b") as file:
            file.truncate(before.relay_offset + 1000)
        slave = run(open_slave("killed", directory, master.port))
    assert outcome(slave) == outcome(undisturbed)


def test_transactions_that_a_slave_by_gtid_has_applied_are_never_sent_again(tmp_path: Path) -> None:
    directory = old_directory("auto-position", tmp_path)
    before = RelayLogInfoFile(directory).load()
    upgrade(directory, by_gtid=True)
    assert MasterInfoFile(directory).load().except_gtids == before.executed


def test_the_applier_knows_what_was_dropped_before_its_position(tmp_path: Path) -> None:
    directory = old_directory("killed", tmp_path)
    assert RelayLogInfoFile(directory).load().executed == f"{UUID}:1:3-10:13-19:21-23"
    upgrade(directory)
    assert RelayLogInfoFile(directory).load().executed == f"{UUID}:1-23"


def test_gaps_that_the_relay_log_tells_already_are_not_told_again(tmp_path: Path) -> None:
    """Programs between the two releases wrote format 1, and Gap events."""
    with serving(binlogs("stopped")) as master:
        slave = open_slave("stopped", tmp_path / "slave", master.port)
        slave.start(Threads.IO)
        slave.join()
        slave.close()
        for name in ("master.info", "relay-log.info"):
            path = tmp_path / "slave" / name
            found = state_file.load_document(path, name)
            if found is not None:
                path.write_bytes(state_file.encode_document(name, state_file.Document(1, found.members)))
        slave = run(open_slave("stopped", tmp_path / "slave", master.port))
        undisturbed = run(open_slave("stopped", tmp_path / "undisturbed", master.port))
    assert outcome(slave) == outcome(undisturbed)
    gaps = [contents(directory) for directory in (tmp_path / "slave", tmp_path / "undisturbed")]
    assert gaps[0] == gaps[1]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    directory = old_directory("stopped", tmp_path)
    upgrade(directory)
    path = directory / "master.info"
    path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 3'))
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(
        StateCorrupt,
        match=r"slave/master.info: has format 3, but dumpfilter .* reads formats up to 2, so a newer one wrote the "
        "file: start that release, or put back a copy",
    ):
        open_slave("stopped", directory, 1)
    assert {
        path.name: path.read_bytes() for path in directory.iterdir() if path.name != "slave.lock"
    } == files


def test_the_old_configuration_of_a_channel_is_read(tmp_path: Path) -> None:
    """Release 0.1.0 wrote no options of TLS."""
    members = source_info.SourceInfo(host="h", password="p").model_dump(mode="json")
    old = {name: value for name, value in members.items() if not name.startswith("ssl")}
    document = state_file.Document(1, old)
    (tmp_path / source_info.NAME).write_bytes(state_file.encode_document(source_info.NAME, document))
    assert source_info.load(tmp_path) == source_info.SourceInfo(host="h", password="p")
