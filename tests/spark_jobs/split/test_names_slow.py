"""File names made from schema names, as a MariaDB server reads and writes them."""

from __future__ import annotations

from dumpfilter.spark_jobs.split.ownership import encode_name
from tests.mariadb import MariaDb


def test_the_server_reads_them(mariadb: MariaDb) -> None:
    for name in ("db,3", "a_b", "é ü", "中文", "a-b.c", "ȿst", "x@y"):
        query = f"SELECT HEX(CONVERT(CONVERT(x'{encode_name(name).encode().hex()}' USING filename) USING utf8mb4))"
        assert bytes.fromhex(mariadb.sql(query)[0][0]).decode() == name
    # The server encodes ASCII characters in the same way.
    for name in ("db,3", "a-b.c", "x@y z"):
        query = f"SELECT CONVERT(CONVERT('{name}' USING filename) USING binary)"
        assert mariadb.sql(query)[0][0] == encode_name(name)
