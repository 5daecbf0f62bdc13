"""The check of the law for real replicas, behind masters, slaves and recordings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dumpfilter.testbed import LawBroken, up
from dumpfilter.testbed.server_nodes import StartedServer
from dumpfilter.testbed.servers import replica_status

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
        web = t.report()["nodes"]["web"]
        assert web["bytes_received"] > 0 < web["bytes_saved"] == t.status().nodes["web"].saved
        # A slave of dumpfilter counts nothing for its replicas.
        assert t.status().nodes["end"].saved is None
        t["end"].execute("TRUNCATE TABLE shop.orders")
        with pytest.raises(LawBroken) as broken:
            t.check(WAIT)
        (line,) = str(broken.value).splitlines()[1:]
        assert line.startswith(
            "end: table shop.orders: found 0 rows with checksum 0, expected 5 rows with checksum "
        )


def test_a_channel_that_an_error_has_stopped_breaks_the_law(tmp_path: Path) -> None:
    """Each transaction comes twice to the end of a diamond, and the second one fails. The data are complete."""
    diamond = tmp_path / "diamond.toml"
    diamond.write_text(
        """
        [node.m]
        server = "mariadb"
        init = ["CREATE DATABASE d", "CREATE TABLE d.t (i INT PRIMARY KEY)"]
        [node.a]
        from = "m"
        [node.b]
        from = "m"
        [node.end]
        server = "mariadb"
        from = ["a", "b"]
        """
    )
    with up(diamond) as t:
        deadline = time.monotonic() + WAIT
        end, begin = t["end"], t["m"].status().place
        assert isinstance(end, StartedServer)
        # A replica replaces a table that is created again. So both channels must have it before the row comes.
        while any(one.applied.position < begin.position for one in replica_status(end.server)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        t["m"].execute("INSERT INTO d.t VALUES (1)")
        while not any(channel.sql == "No" for channel in t["end"].channels()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(LawBroken, match=r"end, channel [ab]: the SQL thread has stopped: .*error"):
            t.check(WAIT)
