"""The monitor: a thread that samples the ends of binlogs, the lag of nodes and the bytes of links over a run."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.links import TestbedLink
from dumpfilter.testbed.node import TestbedNode
from dumpfilter.testbed.values import TestbedStatus, sum_known
from dumpfilter.topology.links.client import LinkProcess

END_PERIOD = 0.025
"""The sampling interval of the ends of the origins' binlogs, seconds. It is the resolution of the lag."""
SAMPLE_PERIOD = 0.5
"""The sampling interval of nodes and links, seconds."""
MOST_SAMPLES = 7200
"""The limit of kept samples of a node: an hour. Beyond it older ones are thinned out."""
_RATE_SPAN = 2.0
_MOST_PLOTTED = 300


class Monitor:
    """A thread that measures a running topology at intervals: the ends of the nodes' binlogs, each node's lag, and the
    bytes of each link. It keeps the lags for the report.
    """

    def __init__(
        self, nodes: Mapping[str, TestbedNode], links: Mapping[str, TestbedLink], process: LinkProcess
    ) -> None:
        self._nodes = nodes
        self._links = links
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._samples: dict[str, list[tuple[float, float, int]]] = {
            name: [] for name, node in nodes.items() if node.feeds
        }
        """The Unix time of each sample of a node, and the node's lag in seconds and bytes."""
        self._down: dict[str, deque[tuple[float, int]]] = {name: deque() for name in links}

    def start(self) -> None:
        """Start the thread, which measures until :meth:`close`."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. The measurements stay available."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        next_sample = 0.0
        while not self._stop.wait(END_PERIOD):
            # A node that is being killed at this moment has no status. The next sample may have it again.
            for node in self._nodes.values():
                if node.writes_binlog:
                    with contextlib.suppress(DumpfilterError, OSError):
                        node.watched.note()
            now = time.monotonic()
            if now >= next_sample:
                next_sample = now + SAMPLE_PERIOD
                self._sample(now)

    def _sample(self, now: float) -> None:
        with contextlib.suppress(DumpfilterError, OSError):
            for name, counters in self._process.counters().items():
                seen = self._down[name]
                seen.append((now, counters.down))
                while seen[0][0] < now - _RATE_SPAN and len(seen) > 2:
                    seen.popleft()
                (first, before), (last, after) = seen[0], seen[-1]
                self._links[name].throughput = (after - before) / (last - first) if last > first else 0.0
        for name, samples in self._samples.items():
            with contextlib.suppress(DumpfilterError, OSError):
                if lags := [channel.lag for channel in self._nodes[name].channels()]:
                    samples.append((time.time(), *max(lags)))
                if len(samples) > MOST_SAMPLES:
                    samples[: MOST_SAMPLES // 2] = samples[: MOST_SAMPLES // 2 : 2]

    def report(self, status: TestbedStatus) -> dict[str, Any]:
        """Return the report of the run as values that JSON can represent.

        The report has the bytes of each link. For each node with sources it has the bytes that filters saved, and the
        lag over time. ``status`` is the present status of the topology.
        """
        nodes = {}
        for name, samples in self._samples.items():
            found, plain = status.nodes[name], status.nodes[name].as_dict()
            lags = sorted(seconds for _, seconds, _ in samples) or [0.0]
            nodes[name] = {
                **{key: plain[key] for key in ("kind", "state", "place", "gtids")},
                "bytes_received": sum_known(channel.bytes_received for channel in found.channels),
                "bytes_saved": found.saved,
                "lag": {
                    "now": found.lag.seconds,
                    "p50": _quantile(lags, 0.50),
                    "p95": _quantile(lags, 0.95),
                    "worst": lags[-1],
                    "mean": statistics.fmean(lags),
                    "samples": len(samples),
                },
                "lag_over_time": [list(one) for one in samples[:: max(len(samples) // _MOST_PLOTTED, 1)]],
            }
        return {
            "name": status.name,
            "seconds": status.uptime,
            "nodes": nodes,
            "links": {name: link.as_dict() for name, link in status.links.items()},
            "problems": list(status.problems),
        }


def _quantile(values: list[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]
