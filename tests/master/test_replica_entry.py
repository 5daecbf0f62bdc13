"""The choice of the [[replica]] for a replica."""

from __future__ import annotations

import ipaddress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dumpfilter.master.config import ReplicaEntry, complete, first_fitting
from dumpfilter.master.who import Address, Peer, endpoint_of

NETWORKS = [
    ipaddress.ip_network(n)
    for n in ("10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "0.0.0.0/0", "::/0", "fd00::/8")
]
ADDRESSES = [
    ipaddress.ip_address(a) for a in ("10.1.0.1", "10.2.0.1", "10.200.0.1", "192.0.2.1", "fd00::1", "::1")
]


def entry(user: str = "r", **conditions: object) -> ReplicaEntry:
    return ReplicaEntry(user=user, password="x", rules=(), **conditions)  # type: ignore[arg-type]


def peer(channel: str, server_id: int, address: Address | None = ADDRESSES[0], user: str = "r") -> Peer:
    return Peer(user, channel, server_id, "" if address is None else endpoint_of(address, 1))


PEERS = [
    peer(channel, server_id, address, user)
    for user, channel, server_id, address in product("rs", ("", "a", "b"), (1, 2, 3), ADDRESSES)
]

entries = st.lists(
    st.builds(
        lambda user, channel, ids, networks: entry(
            user, channel=channel, server_ids=frozenset(ids), networks=tuple(networks)
        ),
        st.sampled_from("rs"),
        st.sampled_from([None, "", "a"]),
        st.lists(st.integers(1, 2), max_size=2),
        st.lists(st.sampled_from(NETWORKS), max_size=2),
    ),
    max_size=5,
)


@given(entries)
def test_a_table_is_an_error_only_if_no_replica_can_reach_it(made: list[ReplicaEntry]) -> None:
    reached = {id(first_fitting(made, peer)) for peer in PEERS}
    if all(id(one) in reached for one in made):
        complete(made)


@given(entries)
def test_a_table_after_an_equal_or_a_wider_one_is_an_error(made: list[ReplicaEntry]) -> None:
    fewer = {"channel": "b", "server_ids": frozenset({2}), "networks": (NETWORKS[3],)}
    for one in made:
        if all(
            condition in (None, frozenset(), ()) for condition in (one.channel, one.server_ids, one.networks)
        ):
            with pytest.raises(ValidationError, match="no replica can reach this table"):
                complete([one, entry(one.user, **fewer)])
        with pytest.raises(ValidationError, match="no replica can reach this table"):
            complete([one, one.model_copy()])


def test_the_first_table_that_fits_wins() -> None:
    both = entry(channel="a", server_ids=frozenset({7}))
    channel, server_id = entry(channel="a"), entry(server_ids=frozenset({7}))
    general, other = entry(), entry("s")
    made = [both, channel, server_id, general, other]
    complete(made)
    assert [one.key for one in made] == [f"replica[{number}]" for number in range(1, 6)]
    assert first_fitting(made, peer("a", 7)) is both
    assert first_fitting(made, peer("a", 1)) is channel
    assert first_fitting(made, peer("", 7)) is server_id
    assert first_fitting(made, peer("", 1)) is general
    assert first_fitting(made, peer("", 1, user="t")) is None
    # Tables may overlap. The first one still wins.
    assert first_fitting([server_id, channel], peer("a", 7)) is server_id


def test_an_unknown_address_meets_no_network() -> None:
    assert first_fitting([entry(networks=(NETWORKS[0],))], peer("", 1, None)) is None


def test_thousands_of_tables_are_checked_in_a_moment() -> None:
    made = [entry(server_ids=frozenset({number})) for number in range(1, 1000)]
    complete([*made, entry()])
    with pytest.raises(ValidationError, match="server_ids=7: no replica can reach"):
        complete([*made, entry(server_ids=frozenset({7}))])
