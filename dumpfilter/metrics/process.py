"""The metrics that a master and a slave have alike: their version, and their process' memory, time and open files."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.metrics.definition import Definition, gauge

BUILD = gauge(
    "dumpfilter_build_info",
    "The version of dumpfilter and of Python, as labels. The value is always 1.",
    ("version", "python"),
)

METRICS: tuple[Definition, ...] = (BUILD,)
"""The metrics that a master and a slave have alike. prometheus_client's ``process_…`` metrics come with them."""


class CommonCollector(Collector):
    """A collector of the program's version and of its process. ``version`` is the version of dumpfilter."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the version, the memory, the processor time, the open files, and the time of the start."""
        labels = {"version": self._version, "python": platform.python_version()}
        yield BUILD.family([(labels, 1.0)])
        yield from self._process.collect()
