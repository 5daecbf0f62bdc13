"""The metrics of a slave: the values that a scrape reads from real channels."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dumpfilter.slave.channels import Slave
from dumpfilter.slave.facts import METRICS
from dumpfilter.slave.process import SlaveCollector
from dumpfilter.slave.relay_position import RelayPosition, relay_lag
from tests.console.metrics.series import series_of
from tests.slave.driven import Driven, driven, serving, wait_until


def scrape(slave: Slave) -> dict[tuple[str, ...], float]:
    """Return the values by name and label values, in the order of the labels' names."""
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(SlaveCollector(slave))
    text = generate_latest(collectors).decode()
    return {
        (
            sample.name.removeprefix("dumpfilter_slave_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def values(slave: Driven) -> dict[tuple[str, ...], float]:
    return scrape(slave.slave)


def test_a_scrape_has_every_metric(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master, "ch")
        slave.sql("START REPLICA FOR CHANNEL 'ch'")
        slave.catch_up(master, "ch")
        names = {name for name, *_ in values(slave)}
        wanted = {
            series.removeprefix("dumpfilter_slave_")
            for group in METRICS
            for one in group.metrics
            for series in series_of(one)
        }
        # There was no error.
        assert wanted - names == {"last_error_timestamp_seconds"}
        assert names <= wanted


def test_the_counts_of_a_channel(data: Path, tmp_path: Path) -> None:
    rules = "--replicate-do-db=shop"
    with serving(data / "mysql-row") as master, driven(tmp_path / "s", rules) as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        received = slave.channel().counters.received
        # The applier measures a run of transactions after the last of them.
        wait_until(lambda: values(slave)["apply_delay_seconds_count", ""] >= 1)
        found = values(slave)
        assert found["bytes_received_total", ""] == received["bytes_received"] > 0
        assert found["events_received_total", ""] == received["events_sent"] > 0
        assert found["master_bytes_dropped_total", ""] == received["bytes_dropped"] > 0
        assert found["master_bytes_read_total", ""] == received["bytes_read"]
        assert found["master_events_dropped_total", ""] == received["events_dropped"]
        assert found["messages_received_total", ""] >= 3
        assert found["connections_total", ""] == 1
        assert found["transactions_applied_total", ""] == 24
        assert found["events_filtered_total", ""] == 0
        assert (
            found["connected", ""]
            == found["thread_running", "", "io"]
            == found["thread_running", "", "sql"]
            == 1
        )
        assert found["received_file_number", ""] == found["applied_file_number", ""] == 3
        assert found["received_position_bytes", ""] == found["applied_position_bytes", ""] == master.end[1]
        assert found["lag_bytes", ""] == found["lag_seconds", ""] == 0
        sizes = [path.stat().st_size for path in (tmp_path / "s").glob("relay-bin.0*")]
        assert (found["relay_log_files", ""], found["relay_log_bytes", ""]) == (len(sizes), sum(sizes))
        assert time.time() - found["last_message_timestamp_seconds", ""] < 600
        assert found["relay_delay_seconds_count", ""] >= 1
        assert found["apply_delay_seconds_count", ""] >= 1
        # The recording is older than an hour.
        assert found["apply_delay_seconds_bucket", "", "3600.0"] == 0
        assert found["sync_seconds_count",] > 0


def test_events_that_the_slave_itself_filters(data: Path, tmp_path: Path) -> None:
    with (
        serving(data / "mysql-row") as master,
        driven(tmp_path / "s", "--replicate-do-db=shop") as slave,
    ):
        slave.follow(master)
        configured = slave.slave.get("")
        slave.slave.configure(configured.info.model_copy(update={"filter_on": "SLAVE"}))
        slave.sql("START REPLICA")
        slave.catch_up(master)
        found = values(slave)
        assert found["master_events_dropped_total", ""] == 0
        assert found["events_filtered_total", ""] > 10


def test_the_lag_of_a_stopped_applier(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        found = values(slave)
        sizes = [path.stat().st_size for path in (tmp_path / "s").glob("relay-bin.0*")]
        assert found["lag_bytes", ""] == sum(sizes) - 4
        assert found["lag_seconds", ""] > 3600
        assert found["thread_running", "", "sql"] == 0
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
        assert values(slave)["lag_bytes", ""] == 0


def test_parts_that_are_not_applied(tmp_path: Path) -> None:
    for number, size in ((999_999, 900), (1_000_000, 1000), (1_000_001, 1100)):
        (tmp_path / f"relay-bin.{number:06d}").write_bytes(bytes(size))
    end = RelayPosition("relay-bin.1000001", 50)

    def lag(applied: RelayPosition | None, received: RelayPosition | None = end) -> int:
        found = relay_lag(tmp_path, applied, received, 1e9)
        assert (found.files, found.bytes) == (3, 3000)
        return found.lag_bytes

    assert lag(RelayPosition("relay-bin.999999", 700)) == 200 + 1000 + 50
    assert lag(RelayPosition("relay-bin.1000001", 20)) == 30
    assert lag(end) == lag(None, None) == 0
    assert lag(None) == 896 + 1000 + 50
    # The slave has removed the file that it had applied.
    assert lag(RelayPosition("relay-bin.999998", 500)) == 896 + 1000 + 50
    # The relay log was cut after the applier's place was read.
    assert lag(RelayPosition("relay-bin.1000001", 80)) == 0


def test_a_relay_log_that_is_gone_has_no_seconds(tmp_path: Path) -> None:
    first, last = RelayPosition("relay-bin.000001", 4), RelayPosition("relay-bin.000001", 100)
    assert relay_lag(tmp_path, first, last, 1e9).lag_seconds is None


def test_an_unreachable_master(tmp_path: Path) -> None:
    with driven(tmp_path / "s") as slave:
        slave.follow(SimpleNamespace(port=1))  # type: ignore[arg-type]
        slave.sql("START REPLICA")
        wait_until(lambda: slave.channel().io.failure)
        found = values(slave)
        assert found["connected", ""] == 0
        assert found["last_error_number", "", "io"] == 2003
        assert time.time() - found["last_error_timestamp_seconds", "", "io"] < 600
        assert found["last_error_number", "", "sql"] == found["errors_total", "", "sql"] == 0
        assert found["errors_total", "", "io"] >= 1
        assert ("last_message_timestamp_seconds", "") not in found


def test_a_scrape_waits_for_no_statement(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        done = threading.Event()
        with slave.slave.lock:
            thread = threading.Thread(target=lambda: (values(slave), done.set()))
            thread.start()
            assert done.wait(240)
        thread.join()


def test_counts_go_on_after_a_restart(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        before = values(slave)
        slave.restart()
        after = values(slave)
        for name in ("bytes_received_total", "events_received_total", "connections_total"):
            assert after[name, ""] == before[name, ""] > 0, name


def test_a_removed_channel_leaves(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master, "ch1")
        slave.follow(master, "ch2")
        assert {key[1] for key in values(slave) if key[0] == "connected"} == {"ch1", "ch2"}
        slave.sql("RESET REPLICA ALL FOR CHANNEL 'ch1'")
        assert {key[1] for key in values(slave) if key[0] == "connected"} == {"ch2"}
