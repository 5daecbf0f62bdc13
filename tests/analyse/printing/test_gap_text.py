"""Gap events in words, in SHOW RELAYLOG EVENTS and in the text of ``dumpfilter binlog``."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.printing.gap_text import gap_text
from dumpfilter.analyse.printing.options import SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog
from dumpfilter.analyse.printing.show_events import show_events
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.gap_events import Gap, Head, make_gap, make_head
from dumpfilter.filter.factory import FilterOptions
from dumpfilter.index.fileset import BinlogSet
from tests.support import DATA

UUID = bytes(15) + b"\7"
NAME = "00000000-0000-0000-0000-000000000007"


@pytest.fixture
def relay_log(tmp_path: Path) -> Path:
    """Return a recorded binlog with a head event, a Gap event and an event with hits after its format description."""
    data = (DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes()
    size = int.from_bytes(data[13:17], "little")
    path = tmp_path / "relay-bin.000001"
    gaps = [
        make_head({"master_uuid": "m"}, server_id=7, checksum=True),
        make_gap(Gap(4711, {1: 3}, ((UUID, 5, 9), (UUID + b"tag", 1, 1))), server_id=7, checksum=True),
        make_gap(Gap(hits={2: 1}), server_id=7, checksum=True),
    ]
    path.write_bytes(data[: len(MAGIC) + size] + b"".join(gaps) + data[len(MAGIC) + size :])
    return path


TEXTS = [
    "head of a relay log: master_uuid=m",
    f"dropped by the master: GTIDs {NAME}:5-9:tag:1, up to position 4711; hits REPLICATE_DO_DB=3",
    "dropped by the master: hits REPLICATE_IGNORE_DB=1",
]


def test_show_relaylog_events(relay_log: Path) -> None:
    rows = show_events(relay_log, "mysql").rows
    assert [(row[2], row[5]) for row in rows[1:4]] == [("Ignorable", text) for text in TEXTS]
    assert [row[4] for row in rows[1:4]] == [0, 4711, 0]


def test_binlog_prints_comments(relay_log: Path) -> None:
    out, log = io.BytesIO(), io.StringIO()
    counts = print_binlog(
        BinlogSet.open(relay_log), FilterOptions(), SelectionOptions(), TextOptions(), out, Console(file=log)
    )
    found = [line for line in out.getvalue().decode().splitlines() if "\tIgnorable\t" in line]
    assert [line.split("\t")[2] for line in found] == TEXTS
    assert all(line.startswith("#") for line in found)
    assert (counts.events_undecided, log.getvalue()) == (0, "")


def test_odd_contents() -> None:
    assert gap_text(None) == ""
    assert gap_text(Gap()) == "dropped by the master: nothing"
    assert gap_text(Head({})) == "head of a relay log: no member"
    assert gap_text(Gap(5, {250: 1})) == "dropped by the master: up to position 5; hits rule kind 250=1"
    with pytest.raises(BinlogCorrupt, match="impossible GTIDs"):
        gap_text(Gap(5, runs=((bytes(8), 1, 2), (UUID, 1, 2))))
