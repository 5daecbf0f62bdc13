"""Scheduled outages of a link."""

from __future__ import annotations

from dumpfilter.topology.links.shape import LinkShape, Outage


def test_an_outage_begins_at_its_start_and_is_over_at_its_end() -> None:
    shape = LinkShape(outages=(Outage(60, 120), Outage(200, None)))
    assert [shape.is_down(at) for at in (0, 59, 60, 119, 120, 199, 200, 10_000)] == [
        False,
        False,
        True,
        True,
        False,
        False,
        True,
        True,
    ]
