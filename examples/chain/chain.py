"""Three tiers over a long line: what crosses the line, and what the replica at the end has.

python chain.py
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.testbed import Testbed, up

ORDERS = 300
LINES_OF_AUDIT = 5
"""The lines of the audit log for each order."""


def write(t: Testbed, orders: int) -> None:
    """Take orders at the head office, each with its lines in the audit log."""
    with t["hq"].connect(autocommit=False) as connection, connection.cursor() as cursor:
        for number in range(orders):
            cursor.execute("USE shop")
            cursor.execute(
                "INSERT INTO orders (item, price) VALUES (%s, %s)", (f"item {number % 17}", number % 90 + 0.5)
            )
            connection.commit()
            cursor.execute("USE audit")
            cursor.executemany(
                "INSERT INTO log (line) VALUES (%s)",
                [(f"order {number}, step {step}: {'.' * 200}",) for step in range(LINES_OF_AUDIT)],
            )
            connection.commit()


def main() -> None:
    """Run the topology, with a cut and a crash on the way."""
    with up(Path(__file__).with_name("topology.toml")) as t:
        line, before = t.link("out", "in"), t.link("hq", "out")
        write(t, ORDERS)
        line.cut_after(5_000)  # inside some transaction
        write(t, ORDERS)
        line.wait("cut", timeout=120)
        line.heal()
        t["in"].kill()
        write(t, ORDERS)
        t["in"].start()
        t.wait_caught_up(timeout=120)

        print(f"from hq to its master: {before.counters.down:>9,} bytes")
        print(f"over the line:         {line.counters.down:>9,} bytes")
        ((orders,),) = t["tokyo"].execute("SELECT COUNT(*) FROM shop.orders")
        databases = [name for (name,) in t["tokyo"].execute("SHOW DATABASES") if name in ("shop", "audit")]
        print(f"tokyo has {orders} orders, and of shop and audit only {', '.join(databases)}")

        ((written,),) = t["hq"].execute("SELECT @@gtid_binlog_pos")
        ((applied,),) = t["tokyo"].execute("SELECT @@gtid_slave_pos")
        print(f"hq wrote up to GTID {written}, and tokyo has applied up to {applied}")
        ((file, position, *_),) = t["hq"].execute("SHOW MASTER STATUS")
        print(
            f"hq's binlog ends at {file}:{position}, and tokyo is at {t['tokyo'].status().channels[0].applied}"
        )

        t.check(timeout=120)
        print("the law holds: each node has what its source and the filters say")


if __name__ == "__main__":
    main()
