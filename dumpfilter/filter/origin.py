"""Which transactions a slave wants by where they come from: by server and, of MariaDB, by domain (WL#2387,
requirement 1; ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS`` and ``IGNORE_DOMAIN_IDS`` of CHANGE MASTER TO).

A server asks this of every event that its I/O thread receives (MySQL: ``queue_event``, MariaDB: ``Domain_id_filter``).
All of a transaction has the server id that its first event has, so here it is asked of that one.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.errors import OptionError


@dataclass(frozen=True)
class OriginFilter:
    """What comes from elsewhere is not wanted.

    Parameters:
        ignore_server_ids: the servers whose transactions are not wanted.
        do_domain_ids: MariaDB's domains that are wanted; empty: all.
        ignore_domain_ids: MariaDB's domains that are not.
        own_server_id: the slave's own, whose transactions come back to it in a circle of servers; 0 with
            ``--replicate-same-server-id``. It is not looked at in a binlog that this server wrote itself, or a slave
            could not be read anew from its own binlog.

    Raises OptionError for ids that cannot be, and where both kinds of domain rule are given (MariaDB: error 1201).
    """

    ignore_server_ids: frozenset[int] = frozenset()
    do_domain_ids: frozenset[int] = frozenset()
    ignore_domain_ids: frozenset[int] = frozenset()
    own_server_id: int = 0

    def __post_init__(self) -> None:
        for name in ("ignore_server_ids", "do_domain_ids", "ignore_domain_ids"):
            ids = frozenset(getattr(self, name))
            object.__setattr__(self, name, ids)
            for number in ids:
                _check(name, number)
        _check("own_server_id", self.own_server_id)
        if self.do_domain_ids and self.ignore_domain_ids:
            raise OptionError(
                "DO_DOMAIN_IDS and IGNORE_DOMAIN_IDS cannot be given together: one of them must be empty"
            )

    @property
    def is_on(self) -> bool:
        """Whether any transaction could be unwanted."""
        return bool(
            self.ignore_server_ids or self.own_server_id or self.do_domain_ids or self.ignore_domain_ids
        )

    def unwanted_server_ids(self, writer: int) -> frozenset[int]:
        """The servers whose transactions are not wanted of a binlog, by the server id of who wrote it (the format
        description event's)."""
        if self.own_server_id in (0, writer):
            return self.ignore_server_ids
        return self.ignore_server_ids | {self.own_server_id}

    def wants_domain(self, domain_id: int) -> bool:
        """Whether transactions of a domain are wanted, as far as that goes."""
        if self.do_domain_ids:
            return domain_id in self.do_domain_ids
        return domain_id not in self.ignore_domain_ids

    def wants(self, server_id: int, domain_id: int | None, *, writer: int) -> bool:
        """Whether a transaction is wanted, by the server id in the header of its first event, its domain (None where
        there is none), and the server id of the binlog's writer.

        >>> OriginFilter(ignore_server_ids=frozenset({7})).wants(7, None, writer=1)
        False
        """
        if server_id in self.unwanted_server_ids(writer):
            return False
        return domain_id is None or self.wants_domain(domain_id)


def _check(name: str, number: int) -> None:
    if not 0 <= number < 1 << 32:
        raise OptionError(f"{name}: {number} is not between 0 and 4294967295")
