"""The law of the split: a named binlog holds the events that the dump thread sends to a slave with its filter."""

from __future__ import annotations

import io
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from dumpfilter.analyse.split_set import BinlogPart
from dumpfilter.binlog.context_events import decode_rotate, decode_xa_prepare
from dumpfilter.binlog.events import LOG_EVENT_BINLOG_IN_USE_F, EventType, seal
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, empty_set
from dumpfilter.binlog.gtid_events import (
    GtidList,
    Xid,
    decode_gtid_list,
    decode_previous_gtids,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.writer import rebase_array, with_body
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.base import Decision, ReplicationFilter, Step, Verdict
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.ownership import NamedBinlog, Specification
from tests.dump.test_law import EFFECTIVE_RULES
from tests.spark_jobs.here import Made, PartSet, split_here
from tests.spark_jobs.walking import FILE_LEVEL, GTIDS, check_set
from tests.spark_jobs.walking import plain_events as events_inside
from tests.strategies import DIALECTS, EXPENSIVE, UUIDS, Dialect, MadeBinlog, binlogs, rules

Plain = tuple[int, int, int, int, bytes]
"""An event without its position: time, type, server id, flags, body. All events of a source have different times."""


@dataclass
class Source:
    """A set of one to three files, with its transactions."""

    dialect: Dialect
    files: list[bytes]
    before: list[tuple[object, int]]
    """The GTIDs before the first file."""
    transactions: list[Transaction]
    gtids: dict[int, tuple[object, int]]
    """The GTIDs by the time of the GTID event."""

    def __repr__(self) -> str:
        return f"<{self.dialect.name}, {self.dialect.gtids}: {self.files!r}>"


@dataclass
class Transaction:
    file: int
    start: int
    end: int
    events: list[Plain]


def plain(event: Event) -> Plain:
    header = event.header
    return header.timestamp, header.type, header.server_id, header.flags, bytes(event.body)


def _remade(
    made: MadeBinlog, number: int, created: int, before: Sequence[tuple[object, int]]
) -> tuple[bytes, list[int]]:
    """Return the file with another start of the server, other earlier GTIDs and times of its own, and the file's
    boundaries."""
    checksum = made.dialect.checksum
    out, bounds = bytearray(made.data[:4]), []
    for event in iter_events(io.BytesIO(made.data), file="made"):
        if event.offset in made.boundaries:
            bounds.append(len(out))
        raw = bytearray(event.raw)
        if event.type == EventType.FORMAT_DESCRIPTION:
            raw[71:75] = created.to_bytes(4, "little")
            if event.fd.ends_in_checksum:
                raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "little")
            raw[17] = made.data[21]  # the in-use flag, which the checksum does not cover
            out += raw
            continue
        raw[:4] = (event.header.timestamp + number * 100_000).to_bytes(4, "little")
        if event.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST) and before:
            body = _before(made.dialect, before)
            raw = bytearray(with_body(event.header, body, checksum=checksum))
        if checksum:
            seal(raw)
        rebase_array(np.frombuffer(raw, np.uint8), len(out), checksum=checksum)
        out += raw
    return bytes(out), [*bounds, len(out)]


def _before(dialect: Dialect, gtids: Sequence[tuple[object, int]]) -> bytes:
    if dialect.family == "mariadb":
        found = tuple(MariadbGtid(*cast(tuple[int, int], key), number) for key, number in gtids)
        return encode_gtid_list(GtidList(found))
    return encode_previous_gtids(_set_of(gtids, "mysql"))  # type: ignore[arg-type]


def _set_of(gtids: Sequence[tuple[object, int]], family: Family) -> GtidSet:
    found = empty_set(family)
    for key, number in gtids:
        found.add_range(key, number, number)  # type: ignore[arg-type]
    return found


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Draw a set of up to three files of one server, which may have restarted before each file."""
    dialect = draw(st.sampled_from(DIALECTS))
    count = draw(st.sampled_from([1, 1, 2, 3]))
    mades = [
        draw(binlogs([dialect], odd=False, max_transactions=6, closed=k < count - 1)) for k in range(count)
    ]
    before: list[tuple[object, int]] = []
    if draw(st.booleans()) and dialect.gtids in ("mysql", "tagged", "mariadb"):
        keys: list[object] = [(UUIDS[0], ""), (UUIDS[2], "")]
        if dialect.gtids == "mariadb":
            keys = [(0, 12), (0, 11), (7, 1)]
        before = [(key, 100 + k) for k, key in enumerate(keys)]
    created = [1_600_000_000, *draw(st.lists(st.sampled_from([0, 1_650_000_000]), min_size=2, max_size=2))]
    files, transactions = [], []
    gtids: dict[int, tuple[object, int]] = {}
    for number, made in enumerate(mades):
        data, bounds = _remade(made, number, created[number], before if number == 0 else [])
        files.append(data)
        events = list(iter_events(io.BytesIO(data), file="made"))
        of_gtids = [event.header.timestamp for event in events if event.type in GTIDS]
        gtids.update(zip(of_gtids, made.gtids, strict=True))
        for start, end in pairwise(bounds):
            inside = [
                plain(event)
                for event in events
                if start <= event.offset < end and event.type not in FILE_LEVEL
            ]
            if inside:
                transactions.append(Transaction(number, start, end, inside))
    return Source(dialect, files, before, transactions, gtids)


_CLASSIC = st.tuples(st.just(FilterSemantics.CLASSIC), rules())
_EFFECTIVE = st.tuples(st.just(FilterSemantics.EFFECTIVE), EFFECTIVE_RULES)


@st.composite
def specifications(draw: st.DrawFn) -> Specification:
    """Draw one to four filters, with or without a rest."""
    filters = draw(st.lists(st.one_of(_CLASSIC, _CLASSIC, _EFFECTIVE), min_size=1, max_size=4))
    named = tuple(
        NamedBinlog(name=f"n{k}", semantics=semantics, rules=tuple(str(rule) for rule in given))
        for k, (semantics, given) in enumerate(filters)
    )
    return Specification(named, draw(st.sampled_from([None, "others"])))


class NoneOf(ReplicationFilter):
    """A filter that passes the subjects that no other filter passes."""

    def __init__(self, others: Sequence[ReplicationFilter]) -> None:
        self.others = others
        self.rules = ()
        self.names = others[0].names

    @property
    def is_on(self) -> bool:
        return True

    def decide(self, subject: Subject) -> Decision:
        passes = not any(one.verdict(subject).passes for one in self.others)
        return Decision(Verdict.EXECUTE if passes else Verdict.IGNORE, Step.NO_RULES)


def written(folder: Path) -> list[Path]:
    return [folder / Path(line).name for line in next(folder.glob("*.index")).read_text().split()]


def plain_events(files: Sequence[Path]) -> list[Plain]:
    """Return the events of the files, without file events."""
    found = []
    for path in files:
        with open(path, "rb") as file:
            found += [
                plain(event) for event in iter_events(file, file=path.name) if event.type not in FILE_LEVEL
            ]
    return found


def no_xid_twice(index: Path) -> bool:
    """Tell whether each XA transaction is prepared in one file only, since a server never prepares a name twice."""
    seen: dict[Xid, int] = {}
    number = 0
    for _, header, body, _, _ in events_inside(index):
        number += header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST)
        if (
            header.type == EventType.XA_PREPARE
            and seen.setdefault(decode_xa_prepare(body).xid, number) != number
        ):
            return False
    return True


def expected(
    source: Source, index: Path, specification: Specification, folder: Path
) -> dict[str, list[Plain]]:
    """Return the events of each output, from the dump thread. The rest has the events of no other output."""
    family: Family = source.dialect.family  # type: ignore[assignment]
    binlogs = BinlogSet.open(index)
    filters = specification.filters(NameRules(family))
    found = {}
    for name, one in filters:
        filter_set(binlogs, one, folder / name, "x")
        found[name] = plain_events(written(folder / name))
    if specification.rest is not None:
        filter_set(binlogs, NoneOf([one for _, one in filters]), folder / "rest", "x")
        events = plain_events(written(folder / "rest"))
        given = {event[0] for part in [*found.values(), events] for event in part}
        for transaction in source.transactions:
            if not any(event[0] in given for event in transaction.events):
                events += transaction.events
        found[specification.rest] = sorted(events)
    return found


@EXPENSIVE
@given(
    source=sources(),
    specification=specifications(),
    sizes=st.tuples(st.integers(1, 2500), st.integers(64, 1500)),
    max_size=st.sampled_from([1, 300, 700, 1500, 1 << 30]),
)
def test_the_law(source: Source, specification: Specification, sizes: tuple[int, int], max_size: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = folder / "made.index"
        for number, data in enumerate(source.files, 1):
            (folder / f"made.{number:06}").write_bytes(data)
        index.write_text("".join(f"./made.{number:06}\n" for number in range(1, len(source.files) + 1)))
        assume(no_xid_twice(index))
        options = SplitOptions(
            specification=specification, max_binlog_size=max_size, range_size=sizes[0], block_size=sizes[1]
        )
        made = split_here(index, folder / "out", options)
        wanted = expected(source, index, specification, folder / "dumped")
        assert sorted(wanted) == [one.name for one in made.sets]
        of = {event[0]: one for one in source.transactions for event in one.events}
        for one in made.sets:
            check_set(one)
            assert plain_events(one.files) == wanted[one.name], one.name
            check_files(source, one, made, of, max_size)
        check_counts(source, made, wanted, of)


def check_counts(
    source: Source, made: Made, wanted: dict[str, list[Plain]], of: dict[int, Transaction]
) -> None:
    """Check the manifest's counts of transactions. With a rest, every transaction belongs to an output."""
    had: dict[int, dict[str, list[Plain]]] = {}
    for name, events in wanted.items():
        for event in events:
            had.setdefault(id(of[event[0]]), {}).setdefault(name, []).append(event)
    unassigned = cut = 0
    for one in source.transactions:
        parts = had.get(id(one), {})
        unassigned += not parts
        cut += len(parts) > 1 and any(part != one.events for part in parts.values())
    assert (made.manifest.unassigned_transactions, made.manifest.cut_transactions) == (unassigned, cut)
    if "others" in wanted:
        assert unassigned == 0


@dataclass
class Held:
    """The expected content of an output's file."""

    created: int
    """The server's start that the file's format description event tells, or 0 if an earlier file told it."""
    transactions: list[Transaction]
    size: int


def as_a_server_rotates(
    source: Source, transactions: Sequence[tuple[Transaction, int]], heads: Sequence[int], max_size: int
) -> list[Held]:
    """Return the layout of an output's transactions in files with heads of these sizes, if a server wrote them."""
    created = [next(iter_events(io.BytesIO(data), file="made")).fd.created for data in source.files]
    files = [Held(created[0], [], heads[0])]
    told = 0
    for one, size in transactions:
        started = max(created[told + 1 : one.file + 1], default=0)
        told = max(told, one.file)
        if started or (files[-1].transactions and files[-1].size >= max_size):
            files.append(Held(started, [], heads[len(files)] if len(files) < len(heads) else 0))
        files[-1].transactions.append(one)
        files[-1].size += size
    return files


def check_files(
    source: Source, found: PartSet, made: Made, of: dict[int, Transaction], max_size: int
) -> None:
    """Check the ends of an output's files, the events at their beginning and end, and their entries
    in the manifest."""
    parts = made.manifest.binlog(found.name).parts
    contents = []
    sizes: dict[int, int] = {}
    transactions: dict[int, Transaction] = {}
    for path in found.files:
        with open(path, "rb") as file:
            contents.append(list(iter_events(file, file=path.name)))
        for event in contents[-1]:
            if event.type not in FILE_LEVEL:
                one = of[event.header.timestamp]
                transactions[id(one)] = one
                sizes[id(one)] = sizes.get(id(one), 0) + len(event.raw)
    heads = [_head(path) for path in found.files]
    head_sizes = [4 + sum(len(event.raw) for event in head) for head in heads]
    held = as_a_server_rotates(
        source, [(one, sizes[key]) for key, one in transactions.items()], head_sizes, max_size
    )
    assert len(held) == len(found.files)
    had = list(source.before)
    names = [path.name for path in found.files]
    for k, (events, head, holds, part) in enumerate(zip(contents, heads, held, parts, strict=True)):
        inside = [event for event in events if event.type not in FILE_LEVEL]
        assert {id(of[event.header.timestamp]) for event in inside} == {id(one) for one in holds.transactions}
        fd = head[0].fd
        assert (fd.created, fd.header.flags & LOG_EVENT_BINLOG_IN_USE_F) == (holds.created, 0)
        assert (fd.server_version, fd.post_header_lengths) == (
            source.dialect.version,
            bytes(source.dialect.lengths),
        )
        _check_gtids(source, head, part, had)
        had += [source.gtids[e.header.timestamp] for e in inside if e.header.timestamp in source.gtids]
        rotates = [event for event in events if event.type == EventType.ROTATE]
        following = [(to.name, to.position) for to in (decode_rotate(event.body) for event in rotates)]
        assert following == [(name, 4) for name in names[k + 1 : k + 2]]
        assert not rotates or rotates[0] is events[-1]
        times = [one.events[-1][0] for one in holds.transactions]
        assert (part.first_time, part.last_time) == (min(times, default=None), max(times, default=None))
        assert (part.name, part.size) == (names[k], sum(len(event.raw) for event in events) + 4)
        assert (part.events, part.transactions) == (len(inside), len(holds.transactions))
        start, end = ((place.file, place.position) for place in (part.source_start, part.source_end))
        for one in holds.transactions:
            name = f"made.{one.file + 1:06}"
            assert start <= (name, one.start) < (name, one.end) <= end
    assert [part.source_start for part in parts[1:]] == [part.source_end for part in parts[:-1]]
    assert (parts[0].source_start.file, parts[0].source_start.position) == ("made.000001", 4)
    assert parts[-1].source_end.file == f"made.{len(source.files):06}"


def _head(path: Path) -> list[Event]:
    """Return the events before the first transaction."""
    head = []
    with open(path, "rb") as file:
        for event in iter_events(file, file=path.name):
            if event.type not in (
                EventType.FORMAT_DESCRIPTION,
                EventType.PREVIOUS_GTIDS,
                EventType.GTID_LIST,
            ):
                break
            head.append(event)
    return head


def _check_gtids(
    source: Source, head: list[Event], part: BinlogPart, had: Sequence[tuple[object, int]]
) -> None:
    """Check that a file lists the GTIDs of the output's earlier files."""
    kinds = [event.type for event in head[1:]]
    if source.dialect.gtids == "none":
        assert kinds == []
        assert part.previous_gtids is None
    elif source.dialect.gtids == "mariadb":
        assert kinds == [EventType.GTID_LIST]
        last: dict[object, MariadbGtid] = {}
        newest: dict[int, MariadbGtid] = {}
        for key, number in had:
            domain, server = cast(tuple[int, int], key)
            last[domain, server] = newest[domain] = MariadbGtid(domain, server, number)
        found = decode_gtid_list(head[1].body)
        assert sorted(found.gtids) == sorted(last.values())
        # In each domain the newest GTID is the last.
        assert {gtid.domain_id: gtid for gtid in found.gtids} == newest
        assert part.previous_gtids == str(found.position())
    else:
        assert kinds == [EventType.PREVIOUS_GTIDS]
        gtids = decode_previous_gtids(head[1].body)
        assert gtids == _set_of(had, "mysql")
        assert part.previous_gtids == str(gtids)
