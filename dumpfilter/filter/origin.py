"""The filter of a slave by the origin of transactions: their server id and, in MariaDB, their domain id.

CHANGE MASTER TO sets the filter with ``IGNORE_SERVER_IDS``, ``DO_DOMAIN_IDS`` and ``IGNORE_DOMAIN_IDS``. The I/O
thread of a MySQL or MariaDB slave checks every event that it receives (MySQL: ``queue_event``, MariaDB:
``Domain_id_filter``). All events of a transaction have the server id of the first event. So dumpfilter's master
checks the first event only.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.base.errors import OptionError


@dataclass(frozen=True)
class OriginFilter:
    """The origin filter of a slave: the server ids and MariaDB domain ids whose transactions the slave wants.

    Parameters:
        ignore_server_ids: the servers whose transactions the slave does not want.
        do_domain_ids: the MariaDB domains that the slave wants. Empty: all domains.
        ignore_domain_ids: the MariaDB domains that the slave does not want.
        own_server_id: the slave's server id. In circular replication the slave's own transactions come back, and the
            slave does not want them. 0 (``--replicate-same-server-id``) keeps them. A binlog that the slave itself
            wrote keeps them, too, so that a slave can be rebuilt from its own binlog.

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
        """Whether the filter could drop any transaction. Without server ids and domain ids, no transaction is
        dropped.
        """
        return bool(
            self.ignore_server_ids or self.own_server_id or self.do_domain_ids or self.ignore_domain_ids
        )

    def unwanted_server_ids(self, writer: int) -> frozenset[int]:
        """Return the ids of the servers whose transactions the slave does not want from a binlog.

        ``writer`` is the id of the server that wrote the binlog, from its format description event. When the slave
        wrote the binlog itself, the slave wants its own transactions.
        """
        if self.own_server_id in (0, writer):
            return self.ignore_server_ids
        return self.ignore_server_ids | {self.own_server_id}

    def wants_domain(self, domain_id: int) -> bool:
        """Tell whether the slave wants transactions of a MariaDB domain, by its lists of domain ids."""
        if self.do_domain_ids:
            return domain_id in self.do_domain_ids
        return domain_id not in self.ignore_domain_ids

    def wants(self, server_id: int, domain_id: int | None, *, writer: int) -> bool:
        """Tell whether the slave wants a transaction.

        ``server_id`` is from the header of the transaction's first event. ``domain_id`` is None for MySQL.
        ``writer`` is the id of the server that wrote the binlog.

        >>> OriginFilter(ignore_server_ids=frozenset({7})).wants(7, None, writer=1)
        False
        """
        if server_id in self.unwanted_server_ids(writer):
            return False
        return domain_id is None or self.wants_domain(domain_id)


def _check(name: str, number: int) -> None:
    if not 0 <= number < 1 << 32:
        raise OptionError(f"{name}: {number} is not between 0 and 4294967295")
