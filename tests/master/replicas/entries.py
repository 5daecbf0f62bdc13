"""Entries for real replicas, and stand-ins for the filters that replicas have themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.config import ConnectBack, ReplicaEntry
from dumpfilter.master.register import Register
from dumpfilter.master.replica_filters import FilterUnreadable, OwnFilter, ReplicaFilters
from dumpfilter.master.who import MYSQL_PROTOCOL, Peer
from tests.master.replicas.serving import entry

PEER = Peer("r", "", 7, "ipv4:127.0.0.1:5000", "u", "h", 3306, MYSQL_PROTOCOL)
CONNECT = ConnectBack(user="d", password_file=Path("password"))


def checked(*rules: str, user: str = "r", **more: Any) -> ReplicaEntry:
    """Return an entry whose replicas' own filters are read."""
    return entry(user, [f"--replicate-{rule}" for rule in rules], connect=CONNECT, **more)


def adopting(user: str = "r") -> ReplicaEntry:
    """Return an entry whose replicas' own filters are adopted."""
    return ReplicaEntry(user=user, adopt=True, connect=CONNECT, password="secret")


class Own:
    """The own filter of a replica, as a function that reads it. Tests change the rules and the error."""

    def __init__(self, *rules: str) -> None:
        self.likely: tuple[str, ...] | None = None
        self.error: FilterUnreadable | None = None
        self.rules = rules
        self.reads = 0

    def __call__(self, connect: ConnectBack, peer: Peer) -> OwnFilter:
        self.reads += 1
        if self.error is not None:
            raise self.error
        likely = self.rules if self.likely is None else self.likely
        doubts = () if self.likely is None else ("REPLICATE_IGNORE_DB=a,b",)
        return OwnFilter(_filter(self.rules), _filter(likely), doubts, doubts)


def _filter(rules: tuple[str, ...]) -> Filter:
    return Filter.from_options([f"--replicate-{rule}" for rule in rules])


def filters_of(entries: Sequence[ReplicaEntry], own: Own | None = None) -> ReplicaFilters:
    """Return the filters of replicas of which none is registered."""
    return ReplicaFilters(entries, Register(Subjects()), read=own or Own())
