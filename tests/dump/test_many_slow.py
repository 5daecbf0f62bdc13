"""One pass for many dump threads gives the plans that each thread gives alone, with generated and recorded binlogs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid import GtidSet, empty_set
from dumpfilter.dump.thread import DumpThread
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter.base import BoundaryFilter, OnUndecided, OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import Rule
from tests.dump.plans import ScannedFile, check_many, scanned
from tests.strategies import EXPENSIVE, binlogs, rules
from tests.support import RECORDED, recording_id

RECORDINGS = {recording_id(path): path.read_bytes() for path in RECORDED}
BINLOGS = st.one_of(
    binlogs(odd=True).map(lambda made: made.data),
    binlogs(odd=False, max_transactions=12).map(lambda made: made.data),
    st.sampled_from(sorted(RECORDINGS)).map(RECORDINGS.__getitem__),
)


@st.composite
def _threads(draw: st.DrawFn, file: ScannedFile) -> DumpThread:
    names = NameRules(file.file.format_description.family)
    own: list[Rule] = draw(rules())
    imposed = []
    if draw(st.integers(0, 9)) == 0:
        forbidden = [rule for rule in draw(rules()) if not rule.kind.is_rewrite]
        imposed.append(
            BoundaryFilter(Filter(forbidden, names=names), draw(st.sampled_from(OnUndecided)), name="x")
        )
    everything = TableFlags(Filter(), file.subjects)
    flags = TableFlags(Filter(own, names=names), file.subjects, imposed=imposed)
    begins = [segment.start for segment in file.segments if not segment.continues]
    inside = [
        offset
        for segment in file.segments
        for offset in segment.offset[segment.txn_event[int(segment.continues) : -1]].tolist()
    ]
    return file.thread(
        flags,
        # A file may have no event after its head, and then has no segment.
        position=draw(st.sampled_from([*begins[:1], *begins, *inside]))
        if begins and draw(st.booleans())
        else None,
        chunk_size=draw(st.sampled_from([1, 100, 700, 1 << 18])),
        exclude=_had(file, draw(st.integers(1, 4))) if draw(st.integers(0, 4)) == 0 else None,
        origin=draw(
            st.sampled_from(
                [
                    None,
                    None,
                    OriginFilter(frozenset({12})),
                    OriginFilter(own_server_id=7),
                    OriginFilter(own_server_id=12),
                ]
            )
        ),
        earlier=draw(st.sampled_from([None] * 9 + [Earlier((everything,), (everything,))])),
    )


def _had(file: ScannedFile, most: int) -> GtidSet:
    family = file.file.format_description.family
    found = empty_set(family)
    for segment in file.segments:
        for source, number in zip(segment.txn_source.tolist(), segment.txn_number.tolist(), strict=True):
            if source >= 0 and number <= most:
                found.add_range(file.sources.key(source), number, number)
    return found


@EXPENSIVE
@given(data=st.data(), binlog=BINLOGS, size=st.sampled_from([1, 400, 4000, 1 << 20]))
def test_generated_filters(data: st.DataObject, binlog: bytes, size: int) -> None:
    file = scanned(binlog, size)
    check_many(data.draw(st.lists(_threads(file), min_size=1, max_size=6), label="threads"), file.segments)


@pytest.mark.parametrize(("number", "name"), list(enumerate(sorted(RECORDINGS))), ids=sorted(RECORDINGS))
def test_recordings(number: int, name: str) -> None:
    """Filters that send and drop parts of recorded transactions.

    Each file has no filter and half of the others, in turn. Every eighth file has more filters than a word has bits.
    """
    options = [
        ["--replicate-do-db=shop"],
        ["--replicate-ignore-db=shop"],
        ["--replicate-ignore-table=shop.orders"],
        ["--replicate-wild-do-table=%.%s"],
        ["--replicate-wild-ignore-table=%a%.%", "--replicate-rewrite-db=shop->a"],
    ]
    for segment_size, chunk_size in ((1 << 20, 1 << 18), (2000, 300)):
        file = scanned(RECORDINGS[name], segment_size)
        names = NameRules(file.file.format_description.family)
        threads = [
            file.thread(
                TableFlags(Filter.from_options(each, names=names), file.subjects), chunk_size=chunk_size
            )
            for each in [[], *options[number % 2 :: 2]]
            * (20 if segment_size > 2000 and not number % 8 else 1)
        ]
        check_many(threads, file.segments)
