"""The reading of a GTID set's text when the caller does not know whether MySQL or MariaDB wrote it."""

from __future__ import annotations

from typing import Literal

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid.gtids import MARIADB_TEXT, UUID_TEXT, shortened
from dumpfilter.binlog.gtid.mariadb import MariadbGtidSet
from dumpfilter.binlog.gtid.mysql import MysqlGtidSet


def parse_gtid_set(
    text: str, family: Literal["mysql", "mariadb"] | None = None
) -> MysqlGtidSet | MariadbGtidSet:
    """Return the GTID set that a text names.

    Without ``family``, the form of the text tells the family, and an empty text is an empty set of MySQL. Raises
    GtidError, also when the text mixes GTIDs of both families.

    >>> parse_gtid_set("0-11-74").family, parse_gtid_set("").family
    ('mariadb', 'mysql')
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    mariadb = [piece for piece in pieces if MARIADB_TEXT.fullmatch(piece)]
    mysql = [piece for piece in pieces if UUID_TEXT.match(piece)]
    if mariadb and mysql:
        raise GtidError(f"GTIDs of two families: {shortened(mysql[0])!r} and {mariadb[0]!r}")
    if family == "mariadb" or (family is None and mariadb):
        return MariadbGtidSet.parse(text)
    return MysqlGtidSet.parse(text)
