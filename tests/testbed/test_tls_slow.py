"""Nodes whose readers connect by TLS, and verify the certificate of the topology."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.tls import make_key_pair
from dumpfilter.binlog.format import Family
from dumpfilter.testbed import up
from dumpfilter.testbed.nodes import StartedServer
from dumpfilter.testbed.servers.sql import status_rows
from dumpfilter.topology import make_topology, master, parse_string, server, slave
from tests.slave.driven import wait_until

WAIT = 120.0
TABLES = ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
RULES = ["wild-do-table=shop.%"]
MYSQL_ROOT = os.environ.get("DUMPFILTER_MYSQL_ROOT")


@pytest.mark.parametrize("family", ["mariadb", *(["mysql"] if MYSQL_ROOT else [])])
def test_all_readers_of_nodes_with_tls_verify_the_certificate(family: Family, tmp_path: Path) -> None:
    root = MYSQL_ROOT if family == "mysql" else None
    db = server("db", family, root=root, init=TABLES, options=["--binlog-format=ROW"], tls=True)
    f = master("f", db, tls=True)
    web = slave("web", f, tls=True)
    topology = make_topology(
        db,
        f,
        web,
        slave("end", web, rules=RULES),
        server("plain", family, db, root=root),
        server("filtered", family, f, root=root, rules=RULES),
    )
    with up(topology, wait_timeout=WAIT) as bed:
        bed["db"].execute("INSERT INTO shop.t VALUES (1)")
        bed.wait_caught_up()
        bed.check()
        assert '"tls": true' in bed["f"].logs or "tls=True" in bed["f"].logs
        for name in ("web", "end", "plain", "filtered"):
            node = bed[name]
            (row,) = status_rows(node.server)
            assert row["Source_SSL_Allowed"] == "Yes"
            assert row["Source_SSL_Verify_Server_Cert"] == "Yes"
            assert row["Source_SSL_CA_File"] == str(bed.directory.resolve() / "certificate.pem")
            assert row["Replica_IO_Running"] == "Yes"
        source = bed["db"]
        assert isinstance(source, StartedServer)
        assert source.server.sql("SHOW GLOBAL VARIABLES LIKE 'ssl_cert'") == [
            ("ssl_cert", str(bed.directory.resolve() / "certificate.pem"))
        ]
        other = tmp_path / "other.pem"
        other.write_bytes(make_key_pair("127.0.0.1").certificate)
        plain = bed["plain"]
        assert isinstance(plain, StartedServer)
        address = source.server.replication_address._replace(port=plain.feeds[0].address[1], ca=other)
        plain.server.set_source(address)
        plain.server.control("START")
        wait_until(lambda: "SSL connection error" in status_rows(plain.server)[0]["Last_IO_Error"])
        plain.server.set_source(address._replace(ca=bed.directory.resolve() / "certificate.pem"))
        plain.server.control("START")
        bed.wait_caught_up()


def test_a_workload_passes_tls_to_its_master_and_a_server_to_the_master_between() -> None:
    with up("m[size=100K, tls=yes] >> web[tls=yes] >> end", wait_timeout=WAIT) as bed:
        bed.wait_done()
        bed.check()
        assert {name: bed[name].node.tls for name in bed.nodes} == {
            "m-workload": False,
            "m": True,
            "web": True,
            "end": False,
        }
        (row,) = status_rows(bed["web"].server)
        assert row["Source_SSL_Allowed"] == "Yes"
    assert parse_string("db[server=mariadb, tls=yes] >> web")["db-master"].tls


def test_what_has_no_certificate_cannot_say_tls() -> None:
    with pytest.raises(
        OptionError, match="db\\[tls\\]: db is a running server, to which the topology gives no certificate"
    ):
        parse_string("db[connect=mysql://repl@db1/, tls=yes] >> f[role=master] >> web")
    with pytest.raises(
        OptionError, match="s: a slave of dumpfilter has one setting of TLS for all its sources"
    ):
        parse_string("m[tls=yes]; n; m >> s; n >> s")
