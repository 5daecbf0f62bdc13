"""Two sources into one: the orders of two branches in one replica, over a line that breaks.

python two_sources.py
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.testbed import Testbed, up

ORDERS = 200
LINES_OF_CLOCK = 4
"""The lines of the time clock for each order, which nobody at the head office reads."""

WAIT = 120


def write(t: Testbed, branch: str, orders: range) -> None:
    """Take orders in a branch. Both branches have a database ``staff`` with the same numbers."""
    with t[branch].connect(autocommit=False) as connection, connection.cursor() as cursor:
        for number in orders:
            cursor.execute(f"USE {branch}")
            cursor.execute(
                "INSERT INTO orders VALUES (%s, %s, %s)", (number, f"item {number % 17}", number % 90)
            )
            connection.commit()
            cursor.execute("USE staff")
            lines = [(number * LINES_OF_CLOCK + line, "." * 200) for line in range(LINES_OF_CLOCK)]
            cursor.executemany("INSERT INTO clock VALUES (%s, %s)", lines)
            connection.commit()


def main() -> None:
    """Run the topology. The line to the south breaks inside a transaction, and the head office restarts."""
    with up(Path(__file__).with_name("topology.toml")) as t:
        hq, south = t["hq"], t.link("s", "hq")
        south.cut_after(20_000)  # inside some transaction
        for branch in ("north", "south"):
            write(t, branch, range(ORDERS))
        south.wait("cut", WAIT)
        south.heal()
        hq.restart()
        for branch in ("south", "north"):
            write(t, branch, range(ORDERS, 2 * ORDERS))
        t.wait_caught_up(WAIT)

        for branch in ("north", "south"):
            ((count,),) = hq.execute(f"SELECT COUNT(*) FROM {branch}.orders")
            print(f"hq has {count} orders of {branch}")
        staff = hq.execute("SHOW DATABASES LIKE 'staff'")
        print(f"hq has {'a' if staff else 'no'} database staff")
        written = ",".join(
            t[branch].execute("SELECT @@gtid_binlog_pos")[0][0] for branch in ("north", "south")
        )
        ((applied,),) = hq.execute("SELECT @@gtid_slave_pos")
        print(f"the branches wrote up to GTIDs {written}, and hq has applied up to {applied}")
        for master, branch in (("n", "north"), ("s", "south")):
            sent, read = t.link(master, "hq").counters.down, t.link(branch, master).counters.down
            print(f"{branch}: {read:,} bytes of binlog, {sent:,} bytes to hq")

        t.check(WAIT)
        print("the law holds: each node has what its sources and the filters say")


if __name__ == "__main__":
    main()
