"""The drains of a master. A drain is the operator's order to send some slaves away for a while, with a reason.

A drained slave's dump ends between two transactions, and the master refuses the slave until the operator ends the
drain. The slave keeps trying, as after any lost connection, and later resumes where it was. This module only stores the
drains. The dumps and the registrations check them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.printable import printable
from dumpfilter.master.who import Peer, Who

MOST_DRAINS = 10_000
"""The largest number of drains that a master keeps, besides the one of all slaves."""

_MOST_FOUND = 20_000
"""The largest number of slaves whose drain is cached between two changes of the drains."""

SHUTTING_DOWN = "the master is shutting down"
"""The reason in the drain of all slaves with which a master shuts down."""


class Drained(DumpfilterError):
    """The error for a slave that the master's operator has drained. The slave tries again until the drain ends."""

    grpc_code = "UNAVAILABLE"


@dataclass(frozen=True)
class Drain:
    """One drain (the operator's order to send slaves away): the condition on slaves, the operator's reason, and the
    Unix time of its beginning, seconds.
    """

    who: Who
    reason: str = ""
    since: float = field(default_factory=time.time)

    @property
    def ends_with_master(self) -> bool:
        """Whether the drain is part of the master's shutdown. The next run of the master does not restore it."""
        return self.who == Who() and self.reason == SHUTTING_DOWN

    def error(self) -> Drained:
        """Return the error with which the master refuses a drained slave, and with which it ends the slave's dump."""
        if self.ends_with_master:
            return Drained(f"drained: {SHUTTING_DOWN}; the slave tries again, and goes on where it was")
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        reason = f": {printable(self.reason)}" if self.reason else ""
        return Drained(
            f"drained: the master's operator has drained {self.who} since {since}{reason}; the slave tries again, "
            "and goes on where it was after UNDRAIN on the master's console"
        )


class Drains:
    """The drains (the operator's orders to send slaves away) in force. Thread-safe.

    Each function of ``on_change`` is called after every change, without the lock. A look-up is cheap, because a dump
    does one after every message.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set({})
        self.on_change: list[Callable[[], object]] = []

    def _set(self, drains: dict[Who, Drain]) -> None:
        self._drains = drains
        # Results are cached until the next change.
        self._find = lru_cache(_MOST_FOUND)(
            lambda peer: next((one for who, one in drains.items() if who.fits(peer)), None)
        )

    def drain(self, who: Who, reason: str = "") -> Drain:
        """Drain the slaves that ``who`` selects from now on, and return the drain.

        A second drain with an equal ``who`` replaces only the reason. Raises OptionError when MOST_DRAINS drains are in
        force; a drain of all slaves is always possible.
        """
        with self._lock:
            old = self._drains.get(who)
            # The drain of all slaves is one more, so that a master can always shut down.
            if old is None and who != Who() and len(self._drains) >= MOST_DRAINS:
                raise OptionError(f"{MOST_DRAINS} drains are in force: end some, or drain ALL REPLICAS")
            new = Drain(who, reason) if old is None else Drain(who, reason, old.since)
            self._set({**self._drains, who: new})
        self._changed()
        return new

    def restore(self, drains: Iterable[Drain]) -> None:
        """Put the drains that an earlier run of the master saved into force."""
        with self._lock:
            self._set({**self._drains, **{drain.who: drain for drain in drains}})
        self._changed()

    def undrain(self, who: Who) -> int:
        """End the drain with exactly the condition ``who``. The condition for all slaves ends every drain. Return the
        number of ended drains.
        """
        with self._lock:
            kept = {other: drain for other, drain in self._drains.items() if who not in (other, Who())}
            ended = len(self._drains) - len(kept)
            self._set(kept)
        if ended:
            self._changed()
        return ended

    def of(self, peer: Peer) -> Drain | None:
        """Return a drain whose condition the slave ``peer`` meets, or None if the slave is not drained."""
        # A dump asks after every message, mostly while no drain is in force.
        return self._find(peer) if self._drains else None

    def check(self, peer: Peer) -> None:
        """Raise Drained when the slave is drained."""
        drain = self.of(peer)
        if drain is not None:
            raise drain.error()

    def all(self) -> list[Drain]:
        """Return the drains in the order in which they began."""
        return list(self._drains.values())

    @property
    def is_all(self) -> bool:
        """Whether every slave is drained, so that the master serves nobody."""
        return Who() in self._drains

    def _changed(self) -> None:
        for call in self.on_change:
            call()
