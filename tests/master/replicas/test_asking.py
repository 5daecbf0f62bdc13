"""Replicas whose own filters the master reads before it serves them, over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.master.config import ConnectBack, OnDrift
from dumpfilter.master.replica_filters import FilterUnreadable, OwnFilter
from dumpfilter.master.who import Peer
from tests.master.replicas.entries import Own, adopting, checked
from tests.master.replicas.serving import MYSQL, SHOP, UUID, Replica, Serving, entry, serving

NOTHING = encode_previous_gtids(MysqlGtidSet())
SILENT = 30
"""More replicas than the master has threads for anything."""


@pytest.fixture
def own() -> Own:
    return Own("wild-do-table=shop.%")


@pytest.fixture
def served(own: Own) -> Iterator[Serving]:
    entries = [
        entry("shop", SHOP),
        adopting("adopted"),
        checked("do-db=shop", user="warned"),
        checked("do-db=shop", user="refused", on_drift=OnDrift.REFUSE),
    ]
    with serving(MYSQL, entries, max_connections=2 * SILENT) as served:
        served.filters._read = own
        yield served


def ask(served: Serving, user: str, server_id: int = 7) -> Replica:
    """Connect as a replica that can be asked for its filter, and ask for a dump."""
    replica = served.connect(user).greet()
    replica.register(server_id)
    replica.dump_gtid(NOTHING, server_id=server_id)
    return replica


def size(served: Serving, user: str) -> int:
    with ask(served, user) as replica:
        return sum(map(len, replica.events()))


def refusal(served: Serving, user: str) -> tuple[int, str]:
    with ask(served, user) as replica, pytest.raises(pymysql.err.MySQLError) as caught:
        replica.event()
    return caught.value.args[0], caught.value.args[1]


def test_an_adopted_filter_sends_what_the_same_rules_send(served: Serving, own: Own) -> None:
    filtered = size(served, "shop")
    assert size(served, "adopted") == filtered
    own.rules = ()
    assert size(served, "adopted") > filtered


def test_replicas_that_do_not_answer_delay_nobody_else(served: Serving) -> None:
    asked, go_on = threading.Semaphore(0), threading.Event()

    def silent(connect: ConnectBack, peer: Peer) -> OwnFilter:
        asked.release()
        go_on.wait()
        raise FilterUnreadable("it was silent", momentary=True)

    served.filters._read = silent
    with ExitStack() as replicas:
        waiting = [replicas.enter_context(ask(served, "adopted", 100 + number)) for number in range(SILENT)]
        asked.acquire()
        assert size(served, "shop")
        # Python waits at its end for threads that are no daemons.
        assert {one.daemon for one in threading.enumerate() if one.name.startswith("replica-filter")} == {
            True
        }
        go_on.set()
        for replica in waiting:
            with pytest.raises(pymysql.err.MySQLError, match="it was silent"):
                replica.event()


def test_a_replica_stops_at_1236_and_tries_again_at_other_errors(served: Serving, own: Own) -> None:
    own.error = FilterUnreadable("cannot connect", momentary=True)
    assert refusal(served, "adopted") == (1105, "cannot connect")
    own.error = FilterUnreadable("give it a privilege", momentary=False)
    assert refusal(served, "adopted") == (1236, "give it a privilege")
    own.error, own.rules = None, ("do-db=hr",)
    for _ in range(2):
        number, text = refusal(served, "refused")
        assert number == 1236
        assert "current database 'hr'" in text
    number, text = refusal(served, "warned")
    assert number == 1105
    assert "current database 'hr'" in text
    assert size(served, "warned")


def test_a_filter_that_changes_meanwhile_is_chosen_again(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters, register = served.filters, served.server.service.register
    (mine,) = (one for one in filters.entries if one.user == "shop")
    add = register.add
    seen: list[int] = []

    def change_and_add(peer: Peer, rule_filter: ReplicationFilter, **more: Any) -> Any:
        seen.append(len(rule_filter.rules))
        if len(seen) == 1:
            filters.take_over([entry(mine.user, ["--replicate-do-db=hr", *SHOP])])
        return add(peer, rule_filter, **more)

    monkeypatch.setattr(register, "add", change_and_add)
    with served.connect("shop").greet(uuid=UUID) as replica:
        replica.dump_gtid(NOTHING)
        list(replica.events())
    assert seen == [1, 2]
