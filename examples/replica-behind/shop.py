"""A shop that writes to a primary and reads from a replica, as many applications do.

``orders`` of a :class:`Shop` reads from the replica, whatever the replica has. A customer who has just ordered may not
see the order. ``orders_with_own`` is the cure. It waits on the replica for the customer's last write, and asks the
primary when the replica takes too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pymysql


class Order(NamedTuple):
    """An order as a page of the shop shows it."""

    number: int
    item: str


@dataclass
class Session:
    """The session of one customer. A web application keeps ``last_write`` in a cookie."""

    customer: str
    last_write: str = ""
    """The GTID of the customer's last write, empty before the first one."""


class Shop:
    """The application. ``primary`` and ``replica`` are connections with autocommit."""

    def __init__(
        self, primary: pymysql.Connection, replica: pymysql.Connection, *, patience: float = 1.0
    ) -> None:
        self._primary = primary
        self._replica = replica
        self.patience = patience
        """The longest time that a page waits for the replica, seconds."""

    def create_tables(self) -> None:
        """Make the shop's tables."""
        with self._primary.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute(
                "CREATE TABLE shop.orders (number INT AUTO_INCREMENT PRIMARY KEY, "
                "customer VARCHAR(40), item VARCHAR(40))"
            )
            cursor.execute("CREATE DATABASE audit")
            cursor.execute("CREATE TABLE audit.log (at TIMESTAMP(6) DEFAULT NOW(6), what TEXT)")

    def order(self, session: Session, item: str) -> int:
        """Write an order, and remember the write in the customer's session. Returns the order's number."""
        with self._primary.cursor() as cursor:
            cursor.execute("INSERT INTO audit.log (what) VALUES (%s)", (f"{session.customer} orders {item}",))
            cursor.execute(
                "INSERT INTO shop.orders (customer, item) VALUES (%s, %s)", (session.customer, item)
            )
            number = cursor.lastrowid
            cursor.execute("SELECT @@last_gtid")
            session.last_write = cursor.fetchone()[0]
        return number

    def orders(self, session: Session) -> list[Order]:
        """Return the customer's orders as the replica has them. The last ones may be missing."""
        return self._read(self._replica, session.customer)

    def orders_with_own(self, session: Session) -> list[Order]:
        """Return the customer's orders, with all that the customer wrote in this session."""
        return self._read(self._replica if self._has(session.last_write) else self._primary, session.customer)

    def _has(self, gtid: str) -> bool:
        """Wait until the replica has a write. Returns False when the replica takes too long or does not answer."""
        if not gtid:
            return True
        try:
            with self._replica.cursor() as cursor:
                cursor.execute("SELECT MASTER_GTID_WAIT(%s, %s)", (gtid, self.patience))
                return cursor.fetchone()[0] == 0
        except pymysql.Error:
            return False

    @staticmethod
    def _read(connection: pymysql.Connection, customer: str) -> list[Order]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT number, item FROM shop.orders WHERE customer = %s ORDER BY number", (customer,)
            )
            return [Order(*row) for row in cursor.fetchall()]
