"""A master's source: errors never end the thread, an empty store waits for its first file, and everybody is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.errors import ConnectionLost, DirectoryBusy, SourceRefused
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.server import MasterServer
from dumpfilter.master.source import FollowedSource, SourceThread, following
from dumpfilter.master.source_metrics import METRICS, SourceCollector
from dumpfilter.master.store import BinlogStore
from dumpfilter.receiver.url import parse_source_url
from tests.receiver.fake_source import FakeSource, error_packet, small_set
from tests.slave.driven import wait_until


@pytest.fixture
def source() -> Iterator[FakeSource]:
    """A server with two small files."""
    made = FakeSource(small_set())
    yield made
    made.close()


def followed(source: FakeSource, directory: Path) -> FollowedSource:
    """Return the description of a source to follow."""
    return FollowedSource(parse_source_url(source.url), directory)


def test_a_store_has_a_file_before_it_is_served(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        assert BinlogSet.open(tmp_path).names[0] == "bin.000001"
        wait_until(lambda: thread.follower.progress.file == "bin.000002")
        assert thread.state == "receiving"
    assert BinlogSet.open(tmp_path).names == list(source.files)
    with following(None) as nothing:
        assert nothing is None


def test_an_empty_store_without_a_source_is_an_error(source: FakeSource, tmp_path: Path) -> None:
    source.close()
    with pytest.raises(ConnectionLost), following(followed(source, tmp_path)):
        pytest.fail("there is nothing to serve")


def test_a_refused_login_is_an_error_at_the_start_and_passes_later(
    source: FakeSource, tmp_path: Path
) -> None:
    source.change = lambda payloads: [error_packet(1045, "Access denied")]
    with (
        capture_logs() as logs,
        pytest.raises(SourceRefused),
        following(followed(source, tmp_path)),
    ):
        pytest.fail("there is nothing to serve")
    assert not any("tries the source again" in str(line) for line in logs)
    source.change = lambda payloads: payloads
    with following(followed(source, tmp_path)):
        pass
    source.change = lambda payloads: [error_packet(1045, "Access denied")]
    thread = SourceThread(followed(source, tmp_path), retry_seconds=0.05)
    try:
        thread.wait_for_files()
        wait_until(lambda: thread.follower.failures > 2)
        assert isinstance(thread.error, SourceRefused)
        source.change = lambda payloads: payloads
        wait_until(lambda: thread.state == "receiving")
    finally:
        thread.close()


def test_the_store_is_free_after_the_end(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)), pytest.raises(DirectoryBusy):
        SourceThread(followed(source, tmp_path))
    with following(followed(source, tmp_path)):
        pass


def test_console_and_metrics_tell_of_the_source(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        wait_until(lambda: thread.follower.progress.position == len(source.files["bin.000002"]))
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        try:
            table = MasterConsole(server.service, source=thread).table("dumpfilter", "source")
            assert table is not None
            ((address, state, file, position, *_),) = table.rows
            assert (address, state, file) == (source.url, "receiving", "bin.000002")
            assert position == len(source.files["bin.000002"])
            families = {each.name: each for each in SourceCollector(thread).collect()}
        finally:
            server.stop()
    assert set(families) == {each.family_name for each in METRICS}
    values = {name: each.samples[0].value for name, each in families.items()}
    assert values["dumpfilter_master_source_connected"] == 1
    assert values["dumpfilter_master_source_received_bytes"] == sum(map(len, source.files.values())) - 8


def test_a_master_without_a_source_has_an_empty_table(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)):
        pass
    server = MasterServer(BinlogStore(tmp_path))
    try:
        table = MasterConsole(server.service).table("dumpfilter", "source")
        assert table is not None
        assert list(table.rows) == []
    finally:
        server.stop()
