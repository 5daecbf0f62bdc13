"""The choice of a real replica's filter: from the configuration or the replica itself, and drift between both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import OnDrift, OnUndecided
from dumpfilter.master.replica_filters import FilterUnreadable, ReplicaFilters, ReplicaRefused
from dumpfilter.master.who import Peer
from tests.dump.test_xa import Made
from tests.master.replicas.entries import PEER, Own, adopting, checked, filters_of
from tests.master.replicas.serving import UUID, Serving, entry, header, serving
from tests.master.tables import imposed_table


def rules(filters: ReplicaFilters, peer: Peer = PEER) -> list[str]:
    return [str(rule).removeprefix("--replicate-") for rule in filters.filter_for(peer)[1].rules]


def test_the_first_entry_that_fits_gives_the_filter() -> None:
    filters = filters_of(
        [
            entry("r", ["--replicate-do-db=c"], channel="c"),
            entry("r", ["--replicate-do-db=any"]),
            entry("s", []),
        ]
    )
    assert rules(filters) == ["do-db=any"]
    assert rules(filters, replace(PEER, channel="c")) == ["do-db=c"]
    assert rules(filters, replace(PEER, user="s")) == []


def test_a_replica_without_an_entry_is_refused() -> None:
    filters = filters_of([entry("r", [], server_ids=frozenset({8}))])
    with pytest.raises(
        ReplicaRefused, match=r"no \[\[replica\]\] of user 'r' is for .*server id 7.*: add one"
    ) as caught:
        filters.filter_for(PEER)
    assert not caught.value.momentary


def test_a_filter_is_adopted_at_each_connect() -> None:
    own = Own("do-db=a")
    filters = filters_of([adopting()], own)
    assert rules(filters) == ["do-db=a"]
    own.rules = ("ignore-db=b",)
    assert rules(filters) == ["ignore-db=b"]
    assert own.reads == 2


@pytest.mark.parametrize("momentary", [True, False])
def test_without_its_filter_a_replica_is_not_served(momentary: bool) -> None:
    own = Own()
    filters = filters_of([adopting()], own)
    own.error = FilterUnreadable("cannot read: do this", momentary=momentary)
    with pytest.raises(ReplicaRefused, match="cannot read: do this") as caught:
        filters.filter_for(PEER)
    assert caught.value.momentary is momentary


def test_rules_that_may_be_one_or_several_are_logged() -> None:
    own = Own()
    own.likely = ("ignore-db=a", "ignore-db=b")
    with capture_logs() as logs:
        assert rules(filters_of([adopting()], own)) == []
    assert [line["rules"] for line in logs] == ["REPLICATE_IGNORE_DB=a,b"]


def test_a_widened_filter_is_told_with_the_way_out() -> None:
    own = Own("do-db=a")
    filters = filters_of([adopting()], own)
    with capture_logs() as logs:
        rules(filters)
        own.rules = ("do-db=a", "do-table=a.t")
        rules(filters)
        assert not logs
        own.rules = ("do-db=a",)
        rules(filters)
    widened = [line for line in logs if line["event"] == "adopted filter widened"]
    assert len(widened) == 1
    assert "RESET REPLICA" in widened[0]["reason"]


def test_drift_is_told_to_both_sides_and_then_the_replica_is_served() -> None:
    own = Own("do-db=a", "do-db=b")
    filters = filters_of([checked("do-db=a")], own)
    with capture_logs() as logs, pytest.raises(ReplicaRefused) as caught:
        filters.filter_for(PEER)
    assert caught.value.momentary
    for text in (str(caught.value), *(line["reason"] for line in logs if line["event"] == "drift")):
        assert "would apply statements with the current database 'b'" in text
    assert any(line["event"] == "audit" and line["result"] in str(caught.value) for line in logs)
    with capture_logs() as logs:
        assert rules(filters) == ["do-db=a"]
    assert not logs
    (told,) = filters.drifting()
    assert (told.peer, told.is_refused) == (PEER, False)
    assert told.text in str(caught.value)
    own.rules = ("do-db=a",)
    assert rules(filters) == ["do-db=a"]
    assert not filters.drifting()
    own.rules = ("do-db=a", "do-db=c")
    with pytest.raises(ReplicaRefused, match="'c'"):
        filters.filter_for(PEER)
    with pytest.raises(ReplicaRefused, match="'c'"):
        filters.filter_for(replace(PEER, server_id=8))


def test_a_narrower_or_equal_filter_is_no_drift() -> None:
    for own in (Own("do-db=a"), Own("do-db=a", "do-table=a.t"), Own("ignore-db=b", "do-db=a")):
        with capture_logs() as logs:
            assert rules(filters_of([checked("do-db=a")], own)) == ["do-db=a"]
        assert not logs


def test_drift_is_refused_by_option() -> None:
    own = Own("do-db=a", "ignore-table=a.t")
    filters = filters_of([checked("do-db=a", "ignore-table=a.u", on_drift=OnDrift.REFUSE)], own)
    for _ in range(2):
        with pytest.raises(ReplicaRefused, match=r"rows of a\.u.*by --replicate-ignore-table=a\.u") as caught:
            filters.filter_for(PEER)
        assert not caught.value.momentary
    own.rules = ("do-db=a", "ignore-table=a.u")
    assert rules(filters) == ["do-db=a", "ignore-table=a.u"]


def test_what_cannot_be_compared_is_a_warning_only() -> None:
    own = Own("do-db=a")
    filters = filters_of([checked("ignore-db=a", "ignore-db=b", on_drift=OnDrift.REFUSE)], own)
    own.rules, own.likely = (), ("ignore-db=a", "ignore-db=b")
    with pytest.raises(ReplicaRefused, match=r"can be one rule or several.*commas_separate = true") as caught:
        filters.filter_for(PEER)
    assert caught.value.momentary
    assert rules(filters) == ["ignore-db=a", "ignore-db=b"]
    own.error = FilterUnreadable("no way in", momentary=True)
    with pytest.raises(ReplicaRefused, match=r"cannot be compared.*no way in"):
        filters.filter_for(PEER)
    assert rules(filters)


def test_a_program_without_a_port_has_no_filter_of_its_own() -> None:
    own = Own()
    assert rules(filters_of([checked("do-db=a")], own), replace(PEER, port=0)) == ["do-db=a"]
    assert not own.reads


def received(served: Serving, last: int) -> list[int]:
    """Return the numbers of the transactions of which a dump for a replica with GTIDs to ``last`` has rows or
    an XA end, and not only a stand-in.
    """
    have = MysqlGtidSet()
    if last:
        have.add_range((bytes(16), ""), 1, last)
    with served.connect("r").greet(uuid=UUID) as replica:
        replica.dump_gtid(encode_previous_gtids(have))
        events = list(replica.events())
    numbers: list[int] = []
    for event, following in pairwise(events):
        if header(event).type == EventType.GTID and b"BEGIN" not in following:
            numbers.append(int.from_bytes(event[19 + 17 : 19 + 25], "little"))
    return numbers


@contextmanager
def sent_prepared(directory: Path) -> Iterator[tuple[Made, Serving]]:
    """Serve a set in which "a" (of shop) and "b" (of logs) are prepared, after a dump for a replica of shop alone."""
    made = Made()
    made.prepare("a", "shop")
    made.prepare("b", "logs")
    with serving(made.write(directory), [entry("r", ["--replicate-do-db=shop"])]) as served:
        assert received(served, 0) == [1]
        yield made, served


def test_xa_commit_follows_the_filter_that_sent_the_prepared_part(tmp_path: Path) -> None:
    """The filter changes between two dumps. "c" and "d" are prepared after the change, and end after a third dump."""
    with sent_prepared(tmp_path) as (made, served):
        served.filters.take_over([entry("r", ["--replicate-do-db=logs"])])
        made.finish("a")
        made.finish("b")
        made.prepare("c", "shop")
        made.prepare("d", "logs")
        made.write(tmp_path)
        assert received(served, 2) == [3, 6]
        made.finish("c")
        made.finish("d")
        made.write(tmp_path)
        assert received(served, 4) == [6, 8]
        assert received(served, 6) == [8]


def test_xa_commit_follows_the_filter_that_sent_the_prepared_part_if_the_imposed_filters_change(
    tmp_path: Path,
) -> None:
    with sent_prepared(tmp_path) as (made, served):
        imposed = imposed_table(
            "no shop", Filter.from_options(["--replicate-ignore-db=shop"]), on_undecided=OnUndecided.SEND
        )
        service = served.server.service
        service.reconfigure(service.config.model_copy(update={"imposed": (imposed,)}))
        made.finish("a")
        made.finish("b")
        made.write(tmp_path)
        assert received(served, 2) == [3]
