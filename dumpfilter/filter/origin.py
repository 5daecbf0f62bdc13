"""The origin filter: a slave wants transactions by server id and, of MariaDB, by domain (WL#2387, requirement 1).

CHANGE MASTER TO sets it with ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS`` and ``IGNORE_DOMAIN_IDS``. A server's I/O thread
asks about every event that it receives (MySQL: ``queue_event``, MariaDB: ``Domain_id_filter``). All events of a
transaction have the server id of its first event. The master here asks about that event only.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.errors import OptionError


@dataclass(frozen=True)
class OriginFilter:
    """The origins whose transactions a slave wants.

    Parameters:
        ignore_server_ids: the servers whose transactions are not wanted.
        do_domain_ids: MariaDB's domains that are wanted. Empty: all domains.
        ignore_domain_ids: MariaDB's domains that are not wanted.
        own_server_id: the slave's server id. In a circle of servers the slave's own transactions come back to the
            slave, which does not want them. 0 with ``--replicate-same-server-id``. Ignored in a binlog that this very
            server wrote, so that a slave can be built anew from its own binlog.

    Raises OptionError for ids out of range, and when both domain lists are given (MariaDB: error 1201).
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
        """Whether the filter could drop any transaction."""
        return bool(
            self.ignore_server_ids or self.own_server_id or self.do_domain_ids or self.ignore_domain_ids
        )

    def unwanted_server_ids(self, writer: int) -> frozenset[int]:
        """Return the servers whose transactions in a binlog are not wanted.

        ``writer`` is the server id of the binlog's format description event.
        """
        if self.own_server_id in (0, writer):
            return self.ignore_server_ids
        return self.ignore_server_ids | {self.own_server_id}

    def wants_domain(self, domain_id: int) -> bool:
        """Tell whether the domain lists pass transactions of a domain."""
        if self.do_domain_ids:
            return domain_id in self.do_domain_ids
        return domain_id not in self.ignore_domain_ids

    def wants(self, server_id: int, domain_id: int | None, *, writer: int) -> bool:
        """Tell whether a transaction is wanted.

        ``server_id`` is in the header of the transaction's first event. ``domain_id`` is None outside MariaDB.
        ``writer`` is the server id of the server that wrote the binlog.

        >>> OriginFilter(ignore_server_ids=frozenset({7})).wants(7, None, writer=1)
        False
        """
        if server_id in self.unwanted_server_ids(writer):
            return False
        return domain_id is None or self.wants_domain(domain_id)


def _check(name: str, number: int) -> None:
    if not 0 <= number < 1 << 32:
        raise OptionError(f"{name}: {number} is not between 0 and 4294967295")
