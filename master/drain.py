"""The drains of a master: the slaves that the operator has sent away for a while, with the reason and the time.

A drained slave's dump ends between two transactions, and the master refuses the slave until the operator ends the
drain. The slave keeps trying, as after any lost connection, and goes on where it was. This module only holds which
slaves are drained. The dumps and the registrations ask it.
"""

from __future__ import annotations

import enum
import ipaddress
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from dumpfilter.errors import DumpfilterError, OptionError
from dumpfilter.master.imposed import peer_address
from dumpfilter.printable import printable

MOST_DRAINS = 10_000
"""The most drains that a master keeps at once."""

SHUTTING_DOWN = "the master is shutting down"
"""The reason of the drain with which a master ends."""


class Drained(DumpfilterError):
    """The error for a slave that the master's operator has drained. The slave tries again until the drain ends."""


class Kind(enum.StrEnum):
    """The property by which a drain chooses its slaves."""

    ALL = "all"
    SERVER_ID = "server_id"
    UUID = "uuid"
    USER = "user"
    HOST = "host"
    """The network address of the slave, or the host name that the slave reports."""


class DrainableSlave(Protocol):
    """The properties of a slave by which a drain can choose it. A registered slave has them all."""

    @property
    def server_id(self) -> int: ...

    @property
    def uuid(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def peer(self) -> str: ...

    @property
    def channel(self) -> str: ...


@dataclass(frozen=True)
class Applicant:
    """A slave that asks for its registration, by the properties that a drain looks at."""

    server_id: int
    uuid: str
    user: str
    host: str
    peer: str
    channel: str


@dataclass(frozen=True)
class Slaves:
    """The choice of a drain: all slaves, or those with one server id, UUID, user or host.

    With a ``channel`` the choice only has the slaves that replicate on this channel.
    """

    kind: Kind = Kind.ALL
    value: str = ""
    channel: str | None = None

    @classmethod
    def of(cls, kind: Kind, value: str | int, channel: str | None = None) -> Slaves:
        """Return a choice of slaves whose value is spelled as the master compares it.

        >>> Slaves.of(Kind.HOST, "2001:DB8:0::1").value
        '2001:db8::1'
        """
        text = str(value)
        if kind is Kind.UUID:
            text = text.lower()
        elif kind is Kind.HOST:
            text = _host(text)
        return cls(kind, text, channel)

    def __str__(self) -> str:
        where = "" if self.channel is None else f" on channel {printable(self.channel)!r}"
        if self.kind is Kind.ALL:
            return f"all slaves{where}"
        return f"{self.kind.value.replace('_', ' ')} {printable(self.value)}{where}"


@dataclass(frozen=True)
class Drain:
    """One drain: the slaves that it concerns, the operator's reason, and the Unix time of its beginning, seconds."""

    slaves: Slaves
    reason: str = ""
    since: float = field(default_factory=time.time)

    @property
    def ends_with_master(self) -> bool:
        """Whether the drain is part of the master's shutdown, so that the next master does not know it."""
        return self.slaves.kind is Kind.ALL and self.reason == SHUTTING_DOWN

    def concerns(self, slave: DrainableSlave) -> bool:
        """Tell whether the drain's choice has this slave, even if another drain has the slave, too."""
        return self.slaves in _choices(slave)

    def error(self) -> Drained:
        """Return the error with which the master refuses a drained slave, and ends its dump."""
        if self.ends_with_master:
            return Drained(f"drained: {SHUTTING_DOWN}; the slave tries again, and goes on where it was")
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        reason = f": {printable(self.reason)}" if self.reason else ""
        return Drained(
            f"drained: the master's operator has drained {self.slaves} since {since}{reason}; the slave tries again, "
            "and goes on where it was after UNDRAIN on the master's console"
        )


class Drains:
    """The drains in force. Thread-safe.

    Each function of ``on_change`` is called after every change, without the lock. A look-up is cheap, because a dump
    looks after every message.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drains: dict[Slaves, Drain] = {}
        self.on_change: list[Callable[[], None]] = []

    def drain(self, slaves: Slaves, reason: str = "") -> Drain:
        """Drain these slaves from now on, and return the drain. A second drain of the same slaves changes the reason.

        Raises OptionError when there are too many drains.
        """
        with self._lock:
            old = self._drains.get(slaves)
            if old is None and len(self._drains) >= MOST_DRAINS:
                raise OptionError(f"{MOST_DRAINS} drains are in force: end some, or drain ALL REPLICAS")
            new = Drain(slaves, reason) if old is None else Drain(slaves, reason, old.since)
            # A reader without the lock sees the drains before or after the change.
            self._drains = {**self._drains, slaves: new}
        self._changed()
        return new

    def restore(self, drains: Iterable[Drain]) -> None:
        """Take over the drains of an earlier run of the master."""
        with self._lock:
            self._drains = {**self._drains, **{drain.slaves: drain for drain in drains}}
        self._changed()

    def drain_all(self, reason: str = SHUTTING_DOWN) -> Drain:
        """Drain all slaves. The default reason is that of a master which ends."""
        return self.drain(Slaves(), reason)

    def undrain(self, slaves: Slaves) -> bool:
        """End the drain of exactly these slaves. Return whether there was one."""
        with self._lock:
            drains = dict(self._drains)
            if drains.pop(slaves, None) is None:
                return False
            self._drains = drains
        self._changed()
        return True

    def undrain_all(self) -> int:
        """End every drain, and return how many there were."""
        with self._lock:
            ended, self._drains = len(self._drains), {}
        if ended:
            self._changed()
        return ended

    def of(self, slave: DrainableSlave) -> Drain | None:
        """Return a drain that concerns the slave, or None."""
        drains = self._drains
        if not drains:
            return None
        return next((drains[choice] for choice in _choices(slave) if choice in drains), None)

    def check(self, slave: DrainableSlave) -> None:
        """Raise Drained when the slave is drained."""
        drain = self.of(slave)
        if drain is not None:
            raise drain.error()

    def all(self) -> list[Drain]:
        """Return the drains in the order in which they began."""
        return list(self._drains.values())

    @property
    def is_all(self) -> bool:
        """Whether every slave is drained, so that the master serves nobody."""
        return Slaves() in self._drains

    def _changed(self) -> None:
        for call in self.on_change:
            call()


def _choices(slave: DrainableSlave) -> Iterator[Slaves]:
    """Yield every choice of slaves that this slave belongs to."""
    values = [
        (Kind.ALL, ""),
        (Kind.SERVER_ID, str(slave.server_id)),
        (Kind.UUID, slave.uuid),
        (Kind.USER, slave.user),
    ]
    address = peer_address(slave.peer)
    if address is not None:
        values.append((Kind.HOST, str(address)))
    if slave.host:
        values.append((Kind.HOST, _host(slave.host)))
    for kind, value in values:
        yield Slaves(kind, value)
        yield Slaves(kind, value, slave.channel)


def _host(host: str) -> str:
    """Return a network address in its shortest spelling, or a host name in lower case."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host.lower()
