"""The traffic of a binlog set is that of dumps, however the set is divided, and whichever engine reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.binlog.workload import GeneratedSet, generate, schema_names
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.simulation.plan import Clock, SetTraffic
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.options import BandwidthOptions, ReadOptions
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here, shuffled

NAMES = schema_names(6)
SMALL = 96 << 10
"""The size of a range, bytes. The set has about ten of them."""


def slaves(*, own_server: int | None = None) -> list[SlaveDefinition]:
    rules = [
        (),
        (f"--replicate-do-db={NAMES[0]}",),
        (f"--replicate-do-db={NAMES[1]}", f"--replicate-do-db={NAMES[4]}"),
        (f"--replicate-wild-ignore-table={NAMES[0]}.%", f"--replicate-ignore-db={NAMES[2]}"),
        ("--replicate-do-db=nothing",),
    ]
    origin = None if own_server is None else OriginFilter(own_server_id=own_server)
    return [
        SlaveDefinition(f"s{k}", each, FilterSemantics.CLASSIC, 0, own_server, origin)
        for k, each in enumerate(rules)
    ]


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GeneratedSet:
    directory = tmp_path_factory.mktemp(request.param)
    return generate(directory, 1 << 20, style=request.param, schemas=6, tables=4, file_size=(1 << 20) // 3)


def sums(one: Sent) -> tuple[int, int, int]:
    return int(one.bytes.sum()), int(one.events.sum()), len(one.transaction)


def of_filters(traffic: SetTraffic) -> list[Sent]:
    return [traffic.sent(number) for number in range(len(slaves()))]


def check_equal(one: SetTraffic, other: SetTraffic) -> None:
    """Check that two results are equal, entry by entry."""
    for name in ("time", "end", "file", "stand_in_bytes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for name in ("clock", "files", "family", "nbytes", "warnings", "stand_in_events", "stand_ins_joined"):
        assert getattr(one, name) == getattr(other, name)
    for number in (None, *range(5)):
        for name, mine, its in zip(Sent._fields, one.sent(number), other.sent(number), strict=True):
            np.testing.assert_array_equal(mine, its, name)


@pytest.fixture(scope="module")
def bandwidths(made: GeneratedSet) -> Results:
    return bandwidth(made.index, slaves(), run_here, BandwidthOptions(range_size=SMALL))


def test_the_sums_are_those_of_the_bandwidth_job(made: GeneratedSet, bandwidths: Results) -> None:
    found = read_traffic(made.index, slaves(), run_here, ReadOptions(range_size=SMALL))
    assert sums(found.sent(None)) == tuple(bandwidths.slaves[0].no_filter.model_dump().values())
    expected = [tuple(one.master_side.model_dump().values()) for one in bandwidths.slaves]
    between = bandwidths.slaves[-1].master_side.bytes
    for got, (size, events, transactions) in zip(map(sums, of_filters(found)), expected, strict=True):
        # Events between transactions have no transaction with which they travel if nothing else is sent.
        assert got == (size, events, transactions) or (got == (0, 0, 0) and size == between)


def test_the_result_does_not_depend_on_how_the_set_is_divided(made: GeneratedSet) -> None:
    whole = read_traffic(made.index, slaves(), run_here, ReadOptions())
    for run in (run_here, shuffled, ThreadRunner(2)):
        parts = read_traffic(made.index, slaves(), run, ReadOptions(range_size=SMALL))
        check_equal(parts, whole)


def test_positions_and_times_ascend(made: GeneratedSet) -> None:
    found = read_traffic(made.index, slaves(), run_here, ReadOptions(range_size=SMALL))
    place = found.file * (1 << 40) + found.end
    assert (np.diff(place) > 0).all()
    assert (np.diff(found.time) >= 0).all()
    sizes = [Path(file).stat().st_size for file in made.files]
    last = [int(found.end[found.file == k].max()) for k in range(len(sizes))]
    assert all(size - 100 < end <= size for size, end in zip(sizes, last, strict=True))


def test_a_slave_does_not_get_its_own_transactions(made: GeneratedSet) -> None:
    found = read_traffic(made.index, slaves(own_server=1), run_here)
    expected = bandwidth(made.index, slaves(own_server=1), run_here)
    for sent, one in zip(of_filters(found), expected.slaves, strict=True):
        assert len(sent.transaction) == one.master_side.transactions


def test_filters_that_pass_the_same_events_are_known(made: GeneratedSet) -> None:
    given = [
        SlaveDefinition(f"s{k}", rules, FilterSemantics.CLASSIC, 0, None, origin)
        for k, (rules, origin) in enumerate(
            [
                ((f"--replicate-do-db={NAMES[0]}",), None),
                ((f"--replicate-do-db={NAMES[1]}",), None),
                ((f"--replicate-wild-do-table={NAMES[0]}.%",), None),
                ((f"--replicate-do-db={NAMES[0]}", "--replicate-ignore-table=no.table"), None),
                ((f"--replicate-do-db={NAMES[0]}",), OriginFilter(own_server_id=1)),
            ]
        )
    ]
    found = read_traffic(made.index, given, run_here)
    assert found.first_equal[1] == 1
    assert (found.first_equal[3], found.first_equal[4]) == (0, 4)
    for number, first in found.first_equal.items():
        for mine, its in zip(found.sent(number), found.sent(first), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_seconds_are_spread_over_the_second(made: GeneratedSet) -> None:
    found = read_traffic(made.index, [], run_here)
    if found.clock is Clock.SECONDS:
        second, within = np.divmod(found.time, 1_000_000)
        for each in np.unique(second)[:5]:
            here = within[second == each]
            assert here.tolist() == [k * 1_000_000 // len(here) for k in range(len(here))]


def test_the_traffic_of_few_filters_stays_in_memory(made: GeneratedSet) -> None:
    found = read_traffic(made.index, slaves() * 3, run_here)
    first = found.sent(0)
    assert found.sent(0) is first
    for number in range(15):
        found.sent(number)
    assert found.sent(0) is not first
