"""The metrics that a master and a slave have in common: version, memory, processor time and open files of the
process.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.console.metrics.facts import Fact, Facts

FACTS: Facts[str] = Facts(
    (
        Fact(
            "",
            read=lambda _: 1.0,
            metric="dumpfilter_build_info",
            help="The version of dumpfilter and of Python, as labels. The value is always 1.",
        ),
    ),
    labels={"version": str, "python": lambda _: platform.python_version()},
)
"""The metrics that a master and a slave have in common. prometheus_client's ``process_…`` metrics come with them."""


class CommonCollector(Collector):
    """A Prometheus collector of the metrics that every process has: the versions of dumpfilter and Python, and the use
    of the machine.

    ``version`` is the version of dumpfilter.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the version, memory, processor time, open files, and start time."""
        yield from FACTS.families([self._version])
        yield from self._process.collect()
