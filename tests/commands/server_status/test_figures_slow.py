"""One figure has one value: everywhere where a user sees the traffic of a slave, live and from the binlogs alone."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dumpfilter.analyse.report.text import human_bytes, human_percent
from tests.commands.in_process import run
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import DATA

RULE = "--replicate-do-db=shop"
COUNTS = (
    *("bytes_read", "bytes_sent", "bytes_dropped", "events_read", "events_sent", "events_dropped"),
    *("events_undecided", "transactions_read", "transactions_dropped"),
)
RECORDINGS = ["oracle/mysql-mixed", "oracle/mariadb-mixed", "recordings/mysql-payloads"]


def told(*arguments: str | Path) -> dict[str, Any]:
    """Return the object that a command prints as JSON."""
    done = run(*arguments, "--json")
    assert done.stdout.startswith("{"), done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values


@pytest.mark.parametrize("name", RECORDINGS)
def test_from_the_binlogs(name: str, tmp_path: Path) -> None:
    """The page, the terminal, JSON, Parquet, ``explain`` and ``suggest`` agree about one slave."""
    binlogs, slave = DATA / name / "bin.index", ("--slave", f"web:{RULE}")
    done = run("bandwidth", binlogs, "--for", "slaves", *slave, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    (web,) = results["slaves"]
    whole, sent = web["no_filter"], web["master_side"]
    assert told("bandwidth", binlogs, "--for", "slaves", *slave, "--output", tmp_path) == results
    totals = results["totals"]
    assert (totals["bytes"]["no_filter"], totals["bytes"]["filter"]) == (whole["bytes"], sent["bytes"])
    assert totals["saved"]["filter"] == whole["bytes"] - sent["bytes"]
    # The terminal and the page
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("web "))
    saved = human_percent(totals["saved"]["filter"] / whole["bytes"])
    assert row.split("  ")[0] == "web"
    for shown in (human_bytes(whole["bytes"]), human_bytes(sent["bytes"]), saved):
        assert shown in row
    page = (tmp_path / "report.html").read_text()
    for number in (whole["bytes"], sent["bytes"]):
        assert f'<data value="{number}"' in page
        assert f"{number:,}</td>" in page
    # Parquet
    (columns,) = pq.read_table(tmp_path / "slaves.parquet").to_pylist()
    for kind in ("no_filter", "master_side"):
        assert {name: columns[f"{kind}_{name}"] for name in web[kind]} == web[kind]
    traffic = pq.read_table(tmp_path / "traffic.parquet").to_pylist()
    for kind, series, bytes_of_kind in (
        ("slave", results["series"]["slaves"]["web"], sent["bytes"]),
        ("no filter", results["series"]["no_filter"], whole["bytes"]),
    ):
        of_kind = [row["bytes"] for row in traffic if row["kind"] == kind]
        assert of_kind == series
        # Events without a timestamp are in no time bucket.
        assert 0 < sum(of_kind) <= bytes_of_kind
    assert sum(one["bytes"] for one in web["tables"]) == sent["bytes"]
    assert sum(one["bytes"] for one in results["tables"]) == whole["bytes"]
    # The other commands
    counts = told("explain", binlogs, RULE)["counts"]
    assert (counts["bytes_read"], counts["events_read"]) == (whole["bytes"], whole["events"])
    assert (counts["bytes_sent"], counts["events_sent"]) == (sent["bytes"], sent["events"])
    assert counts["events_undecided"] == web["undecided_events"]
    assert counts["transactions_read"] == whole["transactions"]
    assert counts["transactions_read"] - counts["transactions_dropped"] == sent["transactions"]
    suggestions = told("suggest", binlogs, *slave, "--no-lint")
    assert suggestions["bytes"] == whole["bytes"]
    assert suggestions["plans"][0]["bytes"] == sent["bytes"]
    weights = {one["name"]: one["bytes"] for one in suggestions["tables"] if one["bytes"]}
    assert weights == {one["name"]: one["bytes"] for one in results["tables"]}


@pytest.mark.parametrize("name", ["oracle/mysql-row", "oracle/mariadb-row"])
def test_live(name: str, launcher: Launcher, tmp_path: Path) -> None:
    """Master and slave agree: ``status``, the consoles, the metrics and the binlogs alone."""
    binlogs = DATA / name / "bin.index"
    counts = told("explain", binlogs, RULE)["counts"]

    def ports(role: str) -> tuple[str, ...]:
        console = ("--console-port", "0", "--console-port-file", str(tmp_path / f"{role}.console"))
        return (*console, "--metrics-port", "0", "--metrics-port-file", str(tmp_path / f"{role}.metrics"))

    def address(role: str, kind: str) -> str:
        note = tmp_path / f"{role}.{kind}"
        wait_until(note.exists, lambda: launcher.log(role))
        return f"127.0.0.1:{note.read_text().strip()}"

    def scraped(role: str) -> dict[str, float]:
        with urllib.request.urlopen(f"http://{address(role, 'metrics')}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        return {sample.name: sample.value for family in families for sample in family.samples}

    launcher.start_master(binlogs, *ports("master"))
    launcher.start_slave("s", RULE, *ports("s"))

    def of_slave() -> dict[str, Any]:
        found: dict[str, Any] = told("status", "--slave", address("s", "console"))["channels"][0]["counters"]
        return found

    wait_until(lambda: of_slave()["bytes_read"] >= counts["bytes_read"], lambda: launcher.log("s"))
    (listed,) = told("status", "--console", address("master", "console"))["slaves"]
    assert {name: listed["counts"][name] for name in COUNTS} == {name: counts[name] for name in COUNTS}
    its = of_slave()
    assert {name: its[name] for name in COUNTS if name in its} == {
        name: counts[name] for name in COUNTS if name in its
    }
    assert its["bytes_received"] == counts["bytes_sent"]
    query = f"SELECT {', '.join(COUNTS)} FROM dumpfilter.slaves"
    done = run("sql", "--console", address("master", "console"), "--format", "tsv", "-e", query)
    assert list(map(int, done.stdout.split()[len(COUNTS) :])) == [counts[name] for name in COUNTS], done
    master, slave = scraped("master"), scraped("s")
    for name in COUNTS:
        assert master[f"dumpfilter_master_{name}_total"] == counts[name], name
    for name in ("bytes_read", "bytes_dropped", "events_dropped"):
        assert slave[f"dumpfilter_slave_master_{name}_total"] == counts[name], name
