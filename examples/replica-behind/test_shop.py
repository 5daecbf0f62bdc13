"""The shop's tests, with a real primary and a real replica that is 3 s behind, stopped, or out of reach."""

from __future__ import annotations

import pytest
from shop import Order, Session

from dumpfilter.testbed import SqlFailed


def test_an_order_reaches_the_replica(topology_session, shop, ada):
    number = shop.order(ada, "tea")
    topology_session["replica"].wait_caught_up()
    assert shop.orders(ada) == [Order(number, "tea")]


def test_the_audit_log_stays_on_the_primary(topology_session, shop, ada):
    shop.order(ada, "tea")
    topology_session["replica"].wait_caught_up()
    assert topology_session["primary"].execute("SELECT what FROM audit.log") == [("ada orders tea",)]
    with pytest.raises(SqlFailed, match="doesn't exist"):
        topology_session["replica"].execute("SELECT what FROM audit.log")


def test_the_problem_a_customer_misses_the_own_order(topology_session, shop, ada):
    with topology_session["replica"].paused():
        shop.order(ada, "tea")
        assert shop.orders(ada) == []


def test_the_cure_a_customer_sees_the_own_order(topology_session, shop, ada):
    topology_session["replica"].hold_behind(3)
    number = shop.order(ada, "tea")
    assert shop.orders_with_own(ada) == [Order(number, "tea")]


def test_a_patient_page_reads_from_the_replica(topology_session, shop, ada):
    topology_session["replica"].hold_behind(3)
    shop.patience = 60
    number = shop.order(ada, "tea")
    assert shop.orders_with_own(ada) == [Order(number, "tea")]
    assert shop.orders(ada) == [Order(number, "tea")], "the page came from the replica"


def test_other_customers_do_not_wait(topology_session, shop, ada):
    """A customer who has written nothing reads from the replica at once, however far the replica is behind."""
    with topology_session["replica"].paused():
        shop.order(ada, "tea")
        assert shop.orders_with_own(Session("grace")) == []
        assert topology_session["replica"].lag.bytes > 0


def test_the_shop_bears_a_lost_replica(topology_session, shop, ada):
    topology_session["replica"].kill()
    number = shop.order(ada, "tea")
    assert shop.orders_with_own(ada) == [Order(number, "tea")]


def test_a_replica_that_was_cut_off_has_everything_in_the_end(topology_session, shop, ada):
    link = topology_session.link("filter", "replica")
    link.cut()
    numbers = [shop.order(ada, item) for item in ("tea", "milk", "sugar")]
    link.heal()
    topology_session.wait_caught_up()
    assert [order.number for order in shop.orders(ada)] == numbers
    topology_session.check()
