"""The check of the law for real replicas, behind masters, slaves and recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.testbed import LawBroken, up

RECORDING = Path(__file__).parents[1] / "oracle" / "data" / "oracle" / "mariadb-row"
WAIT = 200.0


def test_a_replica_that_lost_a_table_breaks_the_law() -> None:
    rules = "wild-ignore-table=hr.%"
    replica = "server=mariadb"
    with up(
        f"m[binlogs={RECORDING}, speed=at-once] >> f; f >> web[{replica}, {rules}]; f >> s[{rules}] >> end[{replica}]"
    ) as t:
        t.wait_done(WAIT)
        t.check(WAIT)
        t["end"].execute("TRUNCATE TABLE shop.orders")
        with pytest.raises(LawBroken) as broken:
            t.check(WAIT)
        (line,) = str(broken.value).splitlines()[1:]
        assert line.startswith(
            "end: table shop.orders: found 0 rows with checksum 0, expected 5 rows with checksum "
        )
