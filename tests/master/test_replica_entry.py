"""The choice of the [[replica]] for a replica."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.errors import OptionError
from dumpfilter.filter import Filter
from dumpfilter.master.replica_entry import ReplicaEntry, check_clear, most_specific
from dumpfilter.security.passwords import ConsolePassword

NETWORKS = [ipaddress.ip_network(n) for n in ("10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16", "::/0", "fd00::/8")]
ADDRESSES = [
    ipaddress.ip_address(a) for a in ("10.1.0.1", "10.2.0.1", "10.3.0.1", "192.0.2.1", "fd00::1", "::1")
]


def entry(key: str = "", user: str = "r", **conditions: object) -> ReplicaEntry:
    return ReplicaEntry(key, user, ConsolePassword(), Filter(), **conditions)  # type: ignore[arg-type]


entries = st.lists(
    st.builds(
        lambda user, channel, ids, networks: entry(
            user=user, channel=channel, server_ids=frozenset(ids), networks=tuple(networks)
        ),
        st.sampled_from("rs"),
        st.sampled_from([None, "", "a"]),
        st.lists(st.integers(1, 3), max_size=2),
        st.lists(st.sampled_from(NETWORKS), max_size=2),
    ),
    max_size=5,
)


@given(entries)
def test_one_entry_is_the_most_specific_for_each_replica(made: list[ReplicaEntry]) -> None:
    try:
        check_clear(Path("f"), made)
    except OptionError:
        return
    for user in "rs":
        for channel in ("", "a", "b"):
            for server_id in (1, 2, 3, 4):
                for address in (*ADDRESSES, None):
                    met = [
                        one for one in made if one.user == user and one.applies(channel, server_id, address)
                    ]
                    chosen = most_specific(
                        made, user=user, channel=channel, server_id=server_id, address=address
                    )
                    assert chosen is None if not met else chosen in met
                    assert all(chosen.within(one) for one in met if chosen is not None)


def test_the_narrowest_conditions_win() -> None:
    made = [
        entry("any"),
        entry("channel", channel="a"),
        entry("both", channel="a", server_ids=frozenset({7})),
        entry("id", server_ids=frozenset({7})),
        entry("other", user="s"),
    ]
    check_clear(Path("f"), made)

    def key(channel: str, server_id: int) -> str:
        found = most_specific(made, user="r", channel=channel, server_id=server_id, address=None)
        assert found is not None
        return found.key

    assert [key("", 1), key("a", 1), key("", 7), key("a", 7)] == ["any", "channel", "id", "both"]
    assert most_specific(made, user="t", channel="", server_id=1, address=None) is None


def test_conditions_of_which_neither_is_narrower_are_an_error() -> None:
    with pytest.raises(OptionError, match=r"add a .* for channel='a', networks=10.1.0.0/16$"):
        check_clear(
            Path("f"),
            [entry(channel="a", networks=(NETWORKS[0],)), entry(networks=(NETWORKS[1], NETWORKS[3]))],
        )
    check_clear(Path("f"), [entry(channel="a"), entry(channel="")])
    check_clear(Path("f"), [entry(networks=(NETWORKS[1],)), entry(networks=(NETWORKS[2],))])


def test_an_unknown_address_meets_no_network() -> None:
    assert not entry(networks=(NETWORKS[0],)).applies("", 1, None)
