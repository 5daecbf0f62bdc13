"""Binlogs with Gap events, as a slave's relay log has them."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from hypothesis import strategies as st

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gap_events import Gap, make_gap, make_head
from dumpfilter.binlog.reader import iter_events
from tests.strategies import MadeBinlog

Draw = Callable[[st.SearchStrategy[Any]], Any]

_HITS = st.dictionaries(st.sampled_from([1, 2, 200]), st.integers(1, 1 << 40), max_size=2)
_FIRST = st.integers(1, 1 << 62)


def _runs(family: str) -> st.SearchStrategy[tuple[tuple[bytes, int, int], ...]]:
    mysql = st.sampled_from([bytes(16), b"m" * 16, b"m" * 16 + b"tag"])
    source = st.binary(min_size=8, max_size=8) if family == "mariadb" else mysql
    run = st.builds(
        lambda source, first, more: (source, first, first + more), source, _FIRST, st.integers(0, 9)
    )
    return st.lists(run, max_size=3).map(tuple)


def with_gap_events(made: MadeBinlog, draw: Draw) -> bytes:
    """Return a binlog with Gap events between its transactions, with hits anywhere, and with head events."""
    fd = made.fd
    parts = [made.data[: made.first_event]]

    def add(event: Callable[..., bytes], content: Any) -> None:
        parts.append(event(content, server_id=7, checksum=fd.checksum))

    for event in iter_events(BytesIO(made.data), file="made"):
        if event.type == EventType.FORMAT_DESCRIPTION and event.offset == 4:
            continue
        kinds = ["none", "none", "hits"] + (["gap", "head"] if event.offset in made.boundaries else [])
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=2)):
            if kind == "hits":
                add(make_gap, Gap(hits=draw(_HITS)))
            elif kind == "gap":
                add(make_gap, Gap(draw(st.integers(1, 1 << 40)), draw(_HITS), draw(_runs(fd.family))))
            elif kind == "head":
                add(make_head, {"master_uuid": "m"})
        parts.append(event.raw)
    return b"".join(parts)
