"""Link shapes as values that JSON has, between a topology and the process of its links."""

from __future__ import annotations

from typing import Any

from dumpfilter.links.shape import LinkShape, Outage


def shape_to_json(shape: LinkShape) -> dict[str, Any]:
    """Return a shape as values that JSON has."""
    return {
        "rate": shape.rate,
        "delay": shape.delay,
        "jitter": shape.jitter,
        "outages": [[outage.start, outage.end] for outage in shape.outages],
    }


def shape_from_json(value: dict[str, Any]) -> LinkShape:
    """Return the shape that :func:`shape_to_json` made values of."""
    outages = tuple(Outage(start, end) for start, end in value["outages"])
    return LinkShape(value["rate"], value["delay"], value["jitter"], outages)
