"""Slaves behind slow lines, long delays and cuts."""

from __future__ import annotations

from dumpfilter.testbed import Testbed, up

OF_CONNECTION = 3500
"""The most bytes that a connection needs besides messages of the stream, and that a cut loses."""


def caught_up(bed: Testbed) -> tuple[int, int, int]:
    """Wait until the slave has everything. Return the bytes of the binlog, those over the link, and the connections."""
    bed.wait_done(180)
    bed["web"].wait_caught_up(180)
    place = bed["web"].status().place
    assert place is not None
    counters = bed.link("m", "web").counters
    return place.position, counters.down, counters.connections


def test_a_backlog_crosses_a_slow_line_once() -> None:
    with up("m[size=64K] >> web[rate=64kbit]") as bed:
        sent, carried, connections = caught_up(bed)
        assert connections == 1
        assert carried <= 1.05 * sent + OF_CONNECTION


def test_a_cut_loses_one_message() -> None:
    with up("m[size=100K] >> web[rate=256kbit]") as bed:
        link = bed.link("m", "web")
        cuts = 4
        for _ in range(cuts):
            before = link.counters.down
            link.cut_after(20_000)
            link.wait("cut", 120)
            assert link.counters.down >= before + 20_000
            link.heal()
        sent, carried, connections = caught_up(bed)
        assert connections >= cuts + 1
        assert carried <= 1.05 * sent + connections * (OF_CONNECTION + 8192)


def test_a_slave_connects_through_a_long_delay() -> None:
    with up("m[size=20K] >> web[delay=3s]") as bed:
        caught_up(bed)
        assert bed.link("m", "web").counters.connections == 1
