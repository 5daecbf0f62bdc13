"""The numbers of GTID sources: in the order in which they came, and the same at each later look."""

from __future__ import annotations

from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers

_UUIDS = st.one_of(
    st.binary(min_size=16, max_size=16), st.integers(0, 300).map(lambda n: n.to_bytes(16, "big"))
)
_MYSQL = st.tuples(_UUIDS, st.sampled_from(["", "", "a", "b"]))
_MARIADB = st.tuples(st.integers(0, 300), st.integers(0, 0xFFFFFFFF))


@given(st.one_of(st.lists(_MYSQL, max_size=300), st.lists(_MARIADB, max_size=300)))
def test_each_source_has_one_number(keys: list[SourceKey]) -> None:
    sources, numbers = SourceNumbers(), dict[SourceKey, int]()
    for key in keys:
        assert sources.number(key) == numbers.setdefault(key, len(numbers))
    assert sources.count == len(numbers)
    for key, number in numbers.items():
        assert sources.number(key) == number
        assert sources.key(number) == key


class _InterruptedKey(tuple[int, int]):
    """A key during whose first look-up another thread asks for the number of another key."""

    sources: SourceNumbers | None = None

    def __hash__(self) -> int:
        sources, self.sources = self.sources, None
        if sources is not None:
            other = Thread(target=sources.number, args=((0, 2),))
            other.start()
            other.join()
        return super().__hash__()


def test_two_threads_get_two_numbers() -> None:
    sources = SourceNumbers()
    key = _InterruptedKey((0, 1))
    key.sources = sources
    number = sources.number(key)
    assert sources.key(number) == (0, 1)
    assert sources.key(sources.number((0, 2))) == (0, 2)
