"""The figures of slaves from measurements of unusual binlogs."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.bandwidth.output import tables
from dumpfilter.spark_jobs.bandwidth.report import render_report, time_chart
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here
from tests.spark_jobs.walking import RECORDINGS

SHOP = SlaveDefinition("shop", ("--replicate-do-db=shop",), FilterSemantics.CLASSIC, 0)


def without_times(data: bytes) -> bytes:
    """Return a binlog with checksums whose events have no timestamp, but for its format description event."""
    found = bytearray(data)
    at = 4
    while at < len(found):
        header = EventHeader.unpack(bytes(found[at : at + HEADER_LENGTH]))
        if header.type != EventType.FORMAT_DESCRIPTION:
            found[at : at + 4] = bytes(4)
            end = at + header.size - 4
            found[end : end + 4] = zlib.crc32(bytes(found[at:end])).to_bytes(4, "little")
        at += header.size
    return bytes(found)


def test_events_without_a_timestamp_have_bytes_and_no_buckets(tmp_path: Path) -> None:
    source = BinlogSet.open(RECORDINGS["oracle/mysql-row"])
    name = source.names[0]
    made = tmp_path / name
    made.write_bytes(without_times(source.path(name).read_bytes()))
    with_times = bandwidth(source.path(name), [SHOP], run_here)
    results = bandwidth(made, [SHOP], run_here)
    assert results.slaves[0].no_filter == with_times.slaves[0].no_filter
    assert results.slaves[0].master_side == with_times.slaves[0].master_side
    assert results.slaves[0].peak is None
    assert results.bucket_starts == results.series.no_filter == results.series.slaves["shop"] == ()
    assert tables(results)["traffic"].num_rows == 0
    assert "There is no traffic with a time." in render_report(results)


def test_statements_on_no_table_do_not_hide_a_broken_rule() -> None:
    """CREATE DATABASE passes a misspelled do-table rule, and the slave still counts as one that gets nothing."""
    broken = SlaveDefinition("broken", ("--replicate-do-table=shop.nope",), FilterSemantics.CLASSIC, 0)
    results = bandwidth(RECORDINGS["oracle/mysql-row"], [broken, SHOP], run_here)
    found = {one.name: one for one in results.slaves}
    assert found["broken"].master_side.transactions > 0
    assert [name for name, one in found.items() if one.nothing_passes] == ["broken"]
    assert results.totals.slaves_left_out == 1
    assert results.totals.of_slaves.filter == found["shop"].master_side.bytes
    assert any(one.startswith("nothing-passes:") for one in found["broken"].warnings)


@pytest.mark.parametrize("name", ["oracle/mysql-row", "recordings/mariadb118-alter"])
def test_buckets_add_up_to_the_bytes_of_a_real_replica(name: str) -> None:
    options = BandwidthOptions(bucket_seconds=1, audience=Audience.REPLICAS)
    results = bandwidth(RECORDINGS[name], [SHOP], run_here, options)
    (shop,) = results.slaves
    assert shop.real_replica is not None
    assert sum(results.series.slaves["shop"]) == shop.real_replica.bytes


def test_the_page_counts_no_ignored_server_as_a_saving() -> None:
    own = SlaveDefinition("own", (), FilterSemantics.CLASSIC, 0, 12, OriginFilter(own_server_id=12))
    options = BandwidthOptions(bucket_seconds=1, audience=Audience.SLAVES)
    results = bandwidth(RECORDINGS["recordings/mariadb118-current"], [own], run_here, options)
    assert sum(results.series.unfiltered("own")) == results.slaves[0].no_filter.bytes
    assert sum(results.series.no_filter) > results.slaves[0].no_filter.bytes
    chart = time_chart(results)
    assert chart is not None
    assert [len(choice["lines"]) for choice in chart.data["choices"]] == [1]
