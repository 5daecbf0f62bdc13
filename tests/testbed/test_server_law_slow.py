"""The check of the law for real replicas, behind masters, slaves and recordings, and their references."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from dumpfilter.testbed import LawBroken, NotCaughtUp, up
from dumpfilter.testbed.nodes import StartedServer
from dumpfilter.testbed.servers.sql import channel_states

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
        assert web["channels"][0]["bytes_received"] > 0 < web["saved"] == t.status().nodes["web"].saved
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
        while any(one.applied.position < begin.position for one in channel_states(end.server)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        t["m"].execute("INSERT INTO d.t VALUES (1)")
        while not any(channel.sql == "No" for channel in t["end"].channels()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(LawBroken, match=r"end: channel [ab]: .*SQL thread No; error"):
            t.check(WAIT)


def test_a_filter_on_the_way_is_part_of_the_reference() -> None:
    replica = "server=mariadb, ignore-db=own"
    with up(f"m[server=mariadb] >> f >> s[ignore-db=hr] >> end[{replica}]") as t:
        for database in ("own", "shop", "hr"):
            t["m"].execute(f"CREATE DATABASE {database}", database=None)
            t["m"].execute("CREATE TABLE t (i INT)", database=database)
            t["m"].execute("INSERT INTO t VALUES (1), (2)", database=database)
        t.check(WAIT)
        t["end"].execute("DELETE FROM shop.t WHERE i = 1")
        t["end"].execute("CREATE VIEW shop.v AS SELECT 1")
        with pytest.raises(LawBroken) as broken:
            t.check(WAIT)
        table, view = str(broken.value).splitlines()[1:]
        told = r"end: table shop\.t: found 1 rows with checksum \d+, expected 2 rows with checksum \d+"
        assert re.fullmatch(told, table)
        assert view == "end: view shop.v: found present, expected absent"


def test_a_reference_has_the_databases_that_init_made() -> None:
    with up("m[size=16K] >> r[server=mariadb, do-db=none, init=CREATE DATABASE own]") as t:
        t.wait_done(WAIT)
        t.check(WAIT)


def test_channels_have_their_own_rules_and_one_filter_for_each_source(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    sources = "\n".join(
        f'[node.{name}]\nserver = "mariadb"\n[node.f{name}]\nfrom = "{name}"' for name in ("a", "b")
    )
    file.write_text(
        sources
        + """
        [node.g]
        from = "a"
        [node.two]
        server = "mariadb"
        from = [{ node = "fa", rules = ["ignore-db=common"] }, { node = "fb" }]
        [node.chance]
        server = "mariadb"
        from = [{ node = "fa", rules = ["ignore-db=common"] }, { node = "g" }]
        """
    )
    with up(file, wait_timeout=WAIT) as t:
        for source in ("a", "b"):
            t[source].execute(f"CREATE DATABASE {source}")
            t[source].execute(f"CREATE TABLE t_{source} (i INT)", database=source)
        t["b"].execute("CREATE DATABASE common")
        t["a"].execute("CREATE DATABASE IF NOT EXISTS common")
        with pytest.raises(
            NotCaughtUp, match="chance: has two channels from one source with different filters"
        ):
            t.check(WAIT)
        t["chance"].stop()
        t["two"].restart()
        t["a"].execute("CREATE TABLE t (i INT)", database="common")
        t["b"].execute("CREATE TABLE u (i INT)", database="common")
        t.check(WAIT, running_only=True)
        assert t["two"].execute("SHOW TABLES IN common") == [("u",)]
