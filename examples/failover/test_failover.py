"""Fail over to a replica while the link of the other replica is cut in the middle of a transaction."""

from __future__ import annotations

ROWS = 2000
"""The rows of one large transaction. They take about 250 kB of the binlog."""

CUT_AFTER = 100_000
"""The bytes after which the link is cut. The large transaction is then under way."""

WAIT = 60


def test_failover_under_a_cut_link(topology):
    t = topology
    a, b, c = t["a"], t["b"], t["c"]
    create_tables(a)
    pay(a, 0, 10)
    t.wait_caught_up()

    # The link of b breaks inside the next transaction, which c gets whole.
    t.link("f", "b").cut_after(CUT_AFTER)
    pay(a, 10, 10 + ROWS)
    a.execute("INSERT INTO audit.log VALUES ('a transaction that the filter drops')")
    c.wait_caught_up(WAIT)
    assert numbers(c) == list(range(10 + ROWS))
    t.link("f", "b").wait("cut", WAIT)
    assert numbers(b) == list(range(10)), "no part of the transaction is visible on b"

    # The primary and its dumpfilter are lost. c has the most, so it becomes the primary.
    a.kill()
    t["f"].kill()
    promote(c)
    follow(b, c)
    pay(c, 10 + ROWS, 20 + ROWS)
    wait(b, c)
    assert_same(b, c, 20 + ROWS)

    # The old primary comes back as a replica. It had nothing that c did not have.
    a.start()
    follow(a, c, use="current_pos")
    wait(a, c)
    assert_same(a, c, 20 + ROWS)


def create_tables(server):
    server.execute("CREATE DATABASE bank")
    server.execute(
        "CREATE TABLE bank.payment (number INT PRIMARY KEY, cents INT NOT NULL, note VARCHAR(200))"
    )
    server.execute("CREATE DATABASE audit")
    server.execute("CREATE TABLE audit.log (what TEXT)")


def pay(server, start, end):
    """Insert payments with consecutive numbers in one transaction. Their sum is 0."""
    rows = [(number, 100 if number % 2 else -100, f"payment {number} " * 5) for number in range(start, end)]
    with server.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.executemany("INSERT INTO bank.payment VALUES (%s, %s, %s)", rows)
        connection.commit()


def promote(server):
    """Make a replica the primary."""
    server.execute("STOP SLAVE")
    server.execute("RESET SLAVE ALL")


def follow(replica, primary, use="slave_pos"):
    """Let a server replicate from another one, from the last GTID that it has."""
    account = primary.status()
    replica.execute("STOP SLAVE")
    replica.execute(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='{account.user}', "
        f"MASTER_PASSWORD='{account.password}', MASTER_USE_GTID={use}"
    )
    replica.execute("START SLAVE")


def wait(replica, primary):
    """Wait until the replica has all that the primary has."""
    ((position,),) = primary.execute("SELECT @@gtid_current_pos")
    ((result,),) = replica.execute("SELECT MASTER_GTID_WAIT(%s, %s)", (position, WAIT))
    assert result == 0, replica.execute("SHOW SLAVE STATUS")


def assert_same(replica, primary, count):
    """Check that no payment is lost, none is there twice, and that both servers have the same rows."""
    assert numbers(replica) == numbers(primary) == list(range(count))
    checksum = "CHECKSUM TABLE bank.payment"
    assert replica.execute(checksum) == primary.execute(checksum)


def numbers(server):
    return [number for (number,) in server.execute("SELECT number FROM bank.payment ORDER BY number")]
