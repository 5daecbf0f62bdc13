"""The metrics of processes: the options, and scrapes of a master and a slave that follow a growing binlog."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.slave.driven import wait_until
from tests.slave.growing import EndlessBinlog
from tests.slave.processes import Launcher


def scrape(note: Path) -> dict[tuple[str, ...], float]:
    """Return the values of the process that wrote its port to ``note``, by name and label values."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{note.read_text().strip()}/metrics", timeout=240
    ) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name.removeprefix("dumpfilter_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_master_and_a_slave_are_scraped(launcher: Launcher, masters: type, tmp_path: Path) -> None:
    binlog = EndlessBinlog(tmp_path / "bin", masters, file_size=20_000, seed=1)
    of_master, of_slave = tmp_path / "master.metrics", tmp_path / "slave.metrics"
    binlog.write(20, torn=False)
    launcher.start_master(binlog.directory, "--metrics-port", "0", "--metrics-port-file", str(of_master))
    launcher.start_slave("s", "--metrics-port=0", f"--metrics_port_file={of_slave}")
    wait_until(of_master.exists)
    wait_until(of_slave.exists, lambda: launcher.log("s"))
    wait_until(lambda: scrape(of_slave)["slave_transactions_applied_total", ""] == 20)
    binlog.write(200, torn=False)
    assert len(binlog.files) > 2
    wait_until(
        lambda: scrape(of_slave)["slave_transactions_applied_total", ""] == 220, lambda: launcher.log("s")
    )
    wait_until(lambda: scrape(of_slave)["slave_lag_bytes", ""] == 0)

    def value(name: str) -> float:
        """Return the value of the only slave's metric."""
        found = [value for key, value in scrape(of_master).items() if key[0] == name]
        assert len(found) == 1
        return found[0]

    wait_until(lambda: value("master_slave_lag_bytes") == 0)
    assert value("master_slave_lag_seconds") == 0
    assert value("master_slave_dumping") == 1
    assert value("master_transactions_read_total") == 220
    assert value("master_binlog_files") == len(binlog.files)
    assert value("master_binlog_bytes") == sum(path.stat().st_size for path in binlog.files)
    assert scrape(of_slave)["slave_bytes_received_total", ""] == value("master_bytes_sent_total")
    assert "metrics on http://127.0.0.1:" in launcher.log("master")
    launcher.kill("s")
    wait_until(lambda: value("master_slave_dumping") == 0)
    binlog.write(1, torn=False)
    assert value("master_slave_lag_bytes") > 0
    binlog.close()


def test_without_the_option_nothing_listens(launcher: Launcher, binlogs: Path, tmp_path: Path) -> None:
    launcher.start_master(binlogs, "--metrics-port-file", str(tmp_path / "note"))
    assert not (tmp_path / "note").exists()
    assert "metrics" not in launcher.log("master")


def test_other_machines_need_certificates(launcher: Launcher, binlogs: Path) -> None:
    launcher.start(
        "master",
        "master",
        str(binlogs),
        *("--port", "0"),
        *("--metrics-port", "0"),
        "--metrics-address=0.0.0.0",
    )
    assert launcher.wait("master") == 2
    log = launcher.log("master")
    assert "--metrics-address=0.0.0.0: the metrics' endpoint would serve other machines" in " ".join(
        log.split()
    )
    assert "Traceback" not in log


def test_a_master_that_has_ended_answers_no_more(launcher: Launcher, binlogs: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    launcher.start_master(binlogs, "--metrics-port=0", "--metrics-port-file", str(note))
    wait_until(note.exists)
    assert scrape(note)["master_serving",] == 1
    launcher.kill("master", 15)
    assert launcher.wait("master") == 0
    with pytest.raises(urllib.error.URLError):
        scrape(note)
