"""The links of a running topology (connections between nodes with rate and delay), which tests can query and change."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, get_args

from dumpfilter.base.errors import OptionError
from dumpfilter.base.waiting import until
from dumpfilter.testbed.errors import NotCaughtUp
from dumpfilter.testbed.values import LinkStatus
from dumpfilter.topology import build
from dumpfilter.topology.links.client import LinkProcess, OpenLink
from dumpfilter.topology.links.records import Counters, State
from dumpfilter.topology.links.shape import LinkShape, Outage
from dumpfilter.topology.model import Link

_UNCHANGED: Any = object()


class TestbedLink(OpenLink):
    """A link of a running topology: the network connections between two nodes, with a limited rate, a delay, and faults
    that tests can cause.
    """

    __test__ = False

    def __init__(self, process: LinkProcess, link: Link, *, wait_timeout: float = 30.0) -> None:
        super().__init__(process, link.name)
        self.source = link.source
        self.target = link.target
        self.shape = link.shape
        """The link's current rate, delay, jitter and outages, without the delay of :meth:`hold`."""
        self.throughput = 0.0
        """The rate of bytes towards the target in the last seconds, bytes per second."""
        self._link = link
        self._wait_timeout = wait_timeout
        self._held = 0.0
        self._outages: tuple[Outage, ...] = ()
        """The scheduled outages, which are empty before :meth:`begin_outages`."""
        self.port = 0
        """The port of 127.0.0.1 to which the target (the reading node) connects."""

    def open(self, host: str, port: int) -> None:
        """Start the proxy of the link, which passes connections on to ``host`` and ``port``, the address of the source.
        If the link is open, new connections go to this address.
        """
        if self.port:
            self.retarget(port, host=host)
        else:
            # The times of outages count from begin_outages, since a slow start must not use them up.
            self.port = self._process.open(self.name, port, replace(self.shape, outages=()), host=host)

    def begin_outages(self) -> None:
        """Start the clock of the link's scheduled outages, whose begins and ends are seconds since this call. Call this
        once.
        """
        if self.shape.outages:
            self._outages = self.shape.outages
            self._set(self.shape)

    def wait(self, state: State, timeout: float | None = None) -> None:
        """Wait until the link is ``up``, ``cut`` or ``silent``, for example after :meth:`cut_after`.

        ``timeout`` is in seconds; None for the default limit. Raises NotCaughtUp, and OptionError for another state.
        """
        if state not in get_args(State):
            raise OptionError(
                f"link {self.name}: there is no state {state!r}: give {', '.join(get_args(State))}"
            )
        limit = self._wait_timeout if timeout is None else timeout
        until(
            lambda: self.counters.state == state,
            time.monotonic() + limit,
            lambda: NotCaughtUp(
                f"link {self.name}: is {self.counters.state}, and has not become {state} in {limit:g} s; "
                f"{self.counters.down} bytes have reached {self.target}"
            ),
        )

    def set(
        self,
        *,
        rate: int | str | None = _UNCHANGED,
        delay: float | str = _UNCHANGED,
        jitter: float | str = _UNCHANGED,
    ) -> None:
        """Change the rate (bits a second or ``"2mbit"``), the delay or the jitter (seconds or ``"50ms"``).

        The rate None means no limit. Omitted properties stay unchanged. Raises OptionError.
        """
        given: dict[str, Any] = {"rate": rate, "delay": delay, "jitter": jitter}
        changes = {key: value for key, value in given.items() if value is not _UNCHANGED}
        changed = build.link(**changes)
        self._set(replace(self.shape, **{key: getattr(changed, key) for key in changes}))

    def hold(self, seconds: float) -> None:
        """Delay the bytes by ``seconds`` in addition to the link's own delay. 0 ends the additional delay."""
        self._held = seconds
        self._set(self.shape)

    def restore(self) -> None:
        """End all faults of the link, and give it the rate and delay that the topology defines."""
        self._held = 0.0
        self._set(self._link.shape)
        self.heal()

    def _set(self, shape: LinkShape) -> None:
        self.reshape(replace(shape, delay=shape.delay + self._held, outages=self._outages))
        self.shape = shape

    def status(self, counters: Counters | None = None) -> LinkStatus:
        """Return the link's state (such as ``cut``), rate, delay and number of bytes. ``counters`` are its byte
        counters, if the caller has read them already. None: read them.
        """
        found = self.counters if counters is None else counters
        return LinkStatus(
            name=self.name,
            source=self.source,
            target=self.target,
            state=found.state,
            rate=self.shape.rate,
            delay=self.shape.delay + self._held,
            jitter=self.shape.jitter,
            bytes_to_target=found.down,
            bytes_to_source=found.up,
            connections=found.connections,
            throughput=self.throughput,
        )
