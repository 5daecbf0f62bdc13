"""The metrics of a master: the values that a scrape reads from a real server."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dumpfilter.index.lag import BinlogEnd
from dumpfilter.master.facts import Slaves, SlaveView
from dumpfilter.master.limits import MAX_DUMPS
from dumpfilter.master.measurements import MEASURED, Measurements, reason_of
from dumpfilter.master.metrics import METRICS, MOST_IDLE_SHOWN, MasterCollector, shown
from dumpfilter.master.register import KnownSlave, Presence
from dumpfilter.master.replica_filters import ReplicaRefused
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer, Who
from tests.console.metrics.series import family_of, series_of
from tests.master.client import Client
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"
SLAVE = "5a8b8d0a-e543-11f1-9c8d-02fc0000abcd"
LABELS = {"slave": SLAVE, "server_id": "7", "channel": "ch", "user": ""}


class Scraped:
    """The values of one scrape."""

    def __init__(self, collector: MasterCollector) -> None:
        collected = CollectorRegistry(auto_describe=False)
        collected.register(collector)
        self.text = generate_latest(collected).decode()
        self.families = {one.name: one for one in text_string_to_metric_families(self.text)}
        self.values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.values[f"dumpfilter_master_{name}", tuple(sorted(labels.items()))]


@pytest.fixture
def binlogs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROW, tmp_path / "set"))


@pytest.fixture
def server(binlogs: Path) -> Iterator[MasterServer]:
    server = MasterServer(BinlogStore(binlogs))
    server.start()
    yield server
    server.stop(0)


def registered(client: Client, *options: str) -> str:
    return client.register(list(options), uuid=SLAVE, channel="ch").slave_id


def test_a_scrape_has_every_metric_once(server: MasterServer, client: Client) -> None:
    list(client.dump(registered(client)))
    scraped = Scraped(MasterCollector(server))
    facts = [(one, group.labels) for group in METRICS for one in group.metrics]
    kinds = {family_of(one): one.kind for one, _ in facts}
    assert {name: family.type for name, family in scraped.families.items()} == kinds
    assert len(kinds) == len(facts)
    found = {name for name, _ in scraped.values}
    assert {series for one, _ in facts for series in series_of(one)} == found
    for one, wanted in facts:
        family = scraped.families[family_of(one)]
        assert family.documentation == one.help
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        assert labels == set(wanted), one.metric


def test_help_texts_are_sentences() -> None:
    for one in (one for group in METRICS for one in group.metrics):
        assert one.help.endswith("."), one.metric


def test_the_counts_of_a_slave(server: MasterServer, client: Client) -> None:
    slave_id = registered(client, "--replicate-do-db=shop")
    chunks = list(client.dump(slave_id))
    counts = client.listed(slave_id).counts
    scraped = Scraped(MasterCollector(server))
    for name in ("bytes_read", "bytes_sent", "bytes_dropped", "events_read", "events_sent", "events_dropped"):
        assert scraped.value(f"{name}_total", **LABELS) == getattr(counts, name), name
    assert scraped.value("events_undecided_total", **LABELS) == counts.events_undecided
    assert scraped.value("transactions_read_total", **LABELS) == counts.transactions_read
    assert scraped.value("transactions_dropped_total", **LABELS) == counts.transactions_dropped > 0
    assert scraped.value("bytes_sent_total", **LABELS) == sum(len(chunk.events) for chunk in chunks) > 0


def test_the_lag_of_a_slave(
    server: MasterServer, client: Client, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    slave_id = registered(client)
    dump = client.dump(slave_id, chunk_size=100)
    next(dump)
    assert Scraped(MasterCollector(server)).value("slave_dumping", **LABELS) == 1
    dump.cancel()
    wait_for(lambda: not client.listed(slave_id).dumping)
    place = client.listed(slave_id).position
    behind = Scraped(MasterCollector(server))
    assert behind.value("slave_dumping", **LABELS) == 0
    sizes = {name: server.service.store.binlogs.size(name) for name in server.service.store.binlogs.names}
    later = sum(size for name, size in sizes.items() if name > place.file)
    assert behind.value("slave_lag_bytes", **LABELS) == sizes[place.file] - place.position + later > 0
    assert behind.value("slave_lag_seconds", **LABELS) > 3600
    list(client.dump(registered(client)))
    there = Scraped(MasterCollector(server))
    assert there.value("slave_lag_bytes", **LABELS) == there.value("slave_lag_seconds", **LABELS) == 0
    assert time.time() - there.value("slave_last_seen_timestamp_seconds", **LABELS) < 600


def test_calls_and_slaves(server: MasterServer, client: Client) -> None:
    before = Scraped(MasterCollector(server))
    assert before.value("calls", kind="dump") == 0
    assert before.value("calls_limit", kind="dump") == MAX_DUMPS
    dump = client.dump(registered(client), once=False)
    next(dump)
    during = Scraped(MasterCollector(server))
    assert during.value("calls", kind="dump") == 1
    assert during.value("slaves", state="connected") == 1
    assert during.value("slaves", state="gone") == 0
    dump.cancel()


def test_drained_slaves(
    server: MasterServer, client: Client, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    dump = client.dump(registered(client), once=False)
    next(dump)
    assert Scraped(MasterCollector(server)).value("slave_drained", **LABELS) == 0
    server.service.drains.drain(Who(), "maintenance")
    with pytest.raises(grpc.RpcError, match="maintenance"):
        list(dump)
    wait_for(lambda: not server.service.register.all()[0].dump)
    drained = Scraped(MasterCollector(server))
    assert drained.value("slave_drained", **LABELS) == drained.value("drains") == 1
    assert drained.value("slave_dumping", **LABELS) == 0


def test_failed_calls_by_reason(server: MasterServer, client: Client) -> None:
    before = Scraped(MasterCollector(server))
    with pytest.raises(grpc.RpcError):
        list(client.dump("nobody"))
    with pytest.raises(grpc.RpcError):
        client.register(["--replicate-do-db=shop"] * 2, server_id=0)
    after = Scraped(MasterCollector(server))
    for reason in ("not_registered", "option_error"):
        name = "failed_calls_total"
        assert after.value(name, reason=reason) == before.value(name, reason=reason) + 1


def test_every_reason_is_shown_from_the_start() -> None:
    shown = Measurements().failures()
    refused = reason_of(ReplicaRefused)
    assert {"access_denied", "binlog_corrupt", "drained", "protocol_mismatch", refused} <= set(shown)
    assert not any(shown.values())
    assert "dumpfilter_error" not in shown


def test_a_damaged_binlog_is_counted(binlogs: Path, server: MasterServer, client: Client) -> None:
    path = binlogs / "bin.000002"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    before = MEASURED.failures()["binlog_corrupt"]
    with pytest.raises(grpc.RpcError):
        list(client.dump(registered(client)))
    assert Scraped(MasterCollector(server)).value("failed_calls_total", reason="binlog_corrupt") == before + 1


def test_a_binlog_that_cannot_be_read(binlogs: Path, server: MasterServer) -> None:
    whole = Scraped(MasterCollector(server))
    assert whole.value("binlog_readable") == 1
    assert whole.value("binlog_files") == 3
    assert whole.value("binlog_bytes") == sum(path.stat().st_size for path in binlogs.glob("bin.0*"))
    assert whole.value("binlog_modified_timestamp_seconds") == pytest.approx(
        (binlogs / "bin.000003").stat().st_mtime
    )
    (binlogs / "bin.000003").rename(binlogs / "elsewhere")
    broken = Scraped(MasterCollector(server))
    assert broken.value("binlog_readable") == 0
    assert "dumpfilter_master_binlog_modified_timestamp_seconds" not in {name for name, _ in broken.values}
    (binlogs / "elsewhere").rename(binlogs / "bin.000003")
    assert Scraped(MasterCollector(server)).value("binlog_readable") == 1


def test_a_master_without_slaves_sees_new_files(binlogs: Path, server: MasterServer) -> None:
    shutil.copy(binlogs / "bin.000003", binlogs / "bin.000004")
    with (binlogs / "bin.index").open("a") as index:
        index.write("./bin.000004\n")
    assert Scraped(MasterCollector(server)).value("binlog_files") == 4


def test_a_stopped_server_does_not_serve(binlogs: Path) -> None:
    server = MasterServer(BinlogStore(binlogs))
    server.start()
    collector = MasterCollector(server)
    assert Scraped(collector).value("serving") == 1
    server.stop(0)
    assert Scraped(collector).value("serving") == 0


def test_caches(server: MasterServer, client: Client) -> None:
    # Messages are kept for other dumps only while several run.
    staying = client.dump(client.register(server_id=101).slave_id, once=False)
    next(staying)
    list(client.dump(registered(client)))
    list(client.dump(registered(client)))
    scraped = Scraped(MasterCollector(server))
    assert scraped.value("cache_entries", cache="segments") == 3
    assert scraped.value("cache_bytes", cache="segments") == server.service.store.cache_state().bytes
    assert scraped.value("cache_limit_bytes", cache="segments") == 32 << 20
    assert scraped.value("cache_hits_total", cache="segments") >= 3
    assert scraped.value("cache_misses_total", cache="segments") == 0
    # The second dump gets the messages of the first one.
    assert scraped.value("cache_hits_total", cache="chunks") >= 1
    assert scraped.value("cache_hits_total", cache="steps") >= 3
    assert scraped.value("cache_bytes", cache="chunks") > 0
    assert scraped.value("cache_bytes", cache="steps") > 0


def test_a_cache_that_is_too_small_misses(binlogs: Path) -> None:
    store = BinlogStore(binlogs, cache_bytes=1)
    for name in ("bin.000001", "bin.000002", "bin.000001"):
        assert store.segment_at(name, store.first_position(name)) is not None
    assert store.cache_state().misses == 1
    store.close()


def test_delays_are_measured(server: MasterServer, client: Client) -> None:
    before = Scraped(MasterCollector(server))
    list(client.dump(registered(client)))
    after = Scraped(MasterCollector(server))
    for name in ("plan_seconds", "encode_seconds", "send_delay_seconds"):
        assert after.value(f"{name}_count") > before.value(f"{name}_count"), name
    # The recording is older than an hour.
    assert after.value("send_delay_seconds_bucket", le="3600.0") == before.value(
        "send_delay_seconds_bucket", le="3600.0"
    )


def known(
    number: int, presence: Presence = Presence.GONE, *, seen: float = 1e9, entry: str = "", **more: str
) -> KnownSlave:
    peer = Peer(**{"server_id": number, "uuid": str(number), **more})  # type: ignore[arg-type]
    return KnownSlave(peer, last_seen_at=seen, presence=presence, entry=entry)


def views(slaves: list[KnownSlave]) -> list[SlaveView]:
    end = BinlogEnd(BinlogStore(ROW).binlogs.paths, 0.0)
    return [SlaveView(slave, end) for slave in slaves]


def test_slaves_that_have_only_registered_are_not_shown() -> None:
    slaves = [known(number, presence) for number, presence in enumerate(Presence, 1)]
    assert [view.slave.presence for view in shown(views(slaves))] == [
        Presence.GONE,
        Presence.REFUSED,
        Presence.DRAINED,
        Presence.NEVER_SEEN,
        Presence.FINISHED,
        Presence.CONNECTED,
    ]


def test_idle_slaves_are_bounded() -> None:
    many = [known(number, seen=1e9 - number) for number in range(1, MOST_IDLE_SHOWN + 50)]
    never = known(0, Presence.NEVER_SEEN, seen=0.0)
    found = [view.slave.peer.server_id for view in shown(views([never, *many]))]
    assert sorted(found) == list(range(MOST_IDLE_SHOWN))


def test_no_two_series_have_equal_labels() -> None:
    dumping = known(1, Presence.CONNECTED, seen=1e9 - 100)
    idle = known(1)
    long_one = known(2, channel="c" * 100)
    long_two = known(2, seen=1e9 - 1, channel="c" * 100 + "d")
    # Tables of one user without server ids.
    tables = [
        known(0, Presence.NEVER_SEEN, uuid="", user="r", seen=0.0, entry=f"replica[{number}]")
        for number in (1, 2)
    ]
    found = shown(views([dumping, idle, long_one, long_two, *tables]))
    assert {id(view.slave) for view in found} == {id(slave) for slave in (dumping, long_one, *tables)}
    samples = next(iter(Slaves.families(found))).samples
    assert len({tuple(sample.labels.values()) for sample in samples}) == 4
    assert samples[0].labels.keys() == {"slave", "server_id", "channel", "user"}
    assert max(len(sample.labels["channel"]) for sample in samples) == 64
