"""The origin filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.convert import origin_from_proto, origin_to_proto
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.v1 import dumpfilter_pb2 as pb

IDS = st.frozensets(st.integers(0, (1 << 32) - 1), max_size=4)


@st.composite
def origins(draw: st.DrawFn) -> OriginFilter:
    do, ignore = draw(st.sampled_from([(IDS, st.just(frozenset())), (st.just(frozenset()), IDS)]))
    return OriginFilter(draw(IDS), draw(do), draw(ignore), draw(st.integers(0, 3)))


@given(origin=origins())
def test_over_the_wire(origin: OriginFilter) -> None:
    made = origin_from_proto(pb.OriginFilter.FromString(origin_to_proto(origin).SerializeToString()))
    assert made == (origin if origin.is_on else None)


def test_nothing_wanted_is_everything() -> None:
    assert origin_from_proto(pb.OriginFilter()) is None
    assert origin_to_proto(None) == pb.OriginFilter()
    assert not OriginFilter().is_on
    assert OriginFilter().wants(1, 0, writer=1)


def test_servers() -> None:
    origin = OriginFilter(frozenset({7}), own_server_id=3)
    assert origin.is_on
    assert [origin.wants(server, None, writer=1) for server in (1, 3, 7)] == [True, False, False]
    # the slave wants its own transactions from its own binlog; IGNORE_SERVER_IDS stays in force
    assert [origin.wants(server, None, writer=3) for server in (1, 3, 7)] == [True, True, False]
    assert OriginFilter(frozenset({7})).wants(7, None, writer=7) is False


def test_domains() -> None:
    """Domain lists do not apply to events without a domain, as in MariaDB 10.11."""
    do, ignore = OriginFilter(do_domain_ids=frozenset({0, 5})), OriginFilter(ignore_domain_ids=frozenset({3}))
    assert [do.wants(1, domain, writer=1) for domain in (0, 3, 5, None)] == [True, False, True, True]
    assert [ignore.wants(1, domain, writer=1) for domain in (0, 3, 5, None)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("given_ids", "words"),
    [
        ({"do_domain_ids": {1}, "ignore_domain_ids": {2}}, "cannot be given together"),
        ({"ignore_server_ids": {1 << 32}}, "ignore_server_ids: 4294967296"),
        ({"do_domain_ids": {-1}}, "do_domain_ids: -1"),
        ({"own_server_id": 1 << 32}, "own_server_id"),
    ],
)
def test_what_cannot_be(given_ids: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        OriginFilter(**given_ids)  # type: ignore[arg-type]


def test_both_over_the_wire() -> None:
    with pytest.raises(OptionError):
        origin_from_proto(pb.OriginFilter(do_domain_ids=[1], ignore_domain_ids=[1]))
