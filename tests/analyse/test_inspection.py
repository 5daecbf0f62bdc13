"""Tests of the figures of ``dumpfilter inspect`` against a count in plain Python."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from dumpfilter.analyse.by_heading import NO_TABLE, SEVERAL, STATEMENTS, Rate, Rates, Volume
from dumpfilter.analyse.inspection import (
    NOT_OPENED,
    TOP,
    Inspection,
    Inspector,
    inspect_set,
    render_inspection,
)
from dumpfilter.base.errors import BinlogCorrupt, BinlogUnsupported
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import uncompress
from dumpfilter.binlog.events import (
    FLAGS_OFFSET,
    GTIDS,
    LOG_EVENT_BINLOG_IN_USE_F,
    EventType,
    event_name,
)
from dumpfilter.binlog.gtid import empty_set, parse_gtid_set
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.rows_events import decode_rows_header
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import TableSubject
from tests.index.plain_index import ReferenceIndex, index_events
from tests.strategies import MadeBinlog, binlogs
from tests.support import DATA, RECORDED_SETS, recording_id, segments


def _uncompressed(event: Event) -> int:
    """Return the size of an event without MariaDB's compression, by the decoders that uncompress it."""
    kind = EventType(event.type) if event.type in set(EventType) else None
    if kind is None or not kind.kind.compressed or kind == EventType.TRANSACTION_PAYLOAD:
        return len(event.raw)
    if kind == EventType.QUERY_COMPRESSED:
        body = bytes(event.body)
        at = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    else:
        at = decode_rows_header(event.type, event.body).rows_offset
    packed = bytes(event.body[at:])
    return len(event.raw) - len(packed) + len(uncompress(packed))


def _shares(whole: int, sizes: list[int]) -> list[int]:
    """Divide the bytes of a payload among its events, with whole numbers only."""
    until = [end * whole // sum(sizes) for end in accumulate(sizes)]
    return [b - a for a, b in pairwise([0, *until])]


def _check(found: Inspection, paths: list[Path]) -> None:
    """Compare an inspection with a count of the same files, event by event."""
    events: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    volumes: dict[tuple[str, str], Volume] = {}
    transactions = 0
    times = []
    gtids = empty_set(found.family)
    prepared: dict[Xid, Any] = {}
    totals = []

    for path in paths:
        opened = []
        with open(path, "rb") as source:
            for event in iter_events(source, file=path.name, start=5):
                events[event.name] += 1
                sizes[event.name] += len(event.raw)
                times.append(event.header.timestamp)
                opened.append(_uncompressed(event))
        with open(path, "rb") as source:
            index = index_events(iter_events(source, file=path.name), prepared)
            prepared = index.prepared
        for heading, volume in _by_heading(index, opened):
            volumes[heading] = volumes.get(heading, Volume(0, 0, 0)).plus(volume)
        for transaction in index.transactions:
            transactions += transaction.subject != R.KEPT
            if not isinstance(transaction.source, int):
                gtids.add_range(transaction.source, transaction.number, transaction.number)
        totals += _transactions(index, opened)
    assert found.events == {name: (events[name], sizes[name]) for name in events}
    unopened = found.tables.pop((NOT_OPENED, ""), Volume(0, 0, 0))
    volumes[NO_TABLE, ""] = volumes.get((NO_TABLE, ""), Volume(0, 0, 0)).minus(unopened)
    assert {k: v for k, v in found.tables.items() if any(v)} == {k: v for k, v in volumes.items() if any(v)}
    assert found.transactions == transactions
    assert parse_gtid_set(found.gtids, found.family) == gtids
    times = [time for time in times if time]
    assert (found.first_time, found.last_time) == ((min(times), max(times)) if times else (None, None))
    assert found.files == [(path.name, path.stat().st_size) for path in paths]
    # Every byte after the heads of the files counts for one type of event and for one schema.
    heads = sum(4 + int.from_bytes(path.read_bytes()[13:17], "little") for path in paths)
    total = sum(size for _, size in found.files)
    assert sum(size for _, size in found.events.values()) == total - heads
    assert sum(one.bytes for one in found.schemas().values()) + unopened.bytes == total - heads
    # The largest transactions are those that a sort of all transactions gives.
    assert [one.bytes_uncompressed for one in found.largest_transactions] == sorted(totals, reverse=True)[
        :TOP
    ]
    assert sum(one.transactions for one in found.rates.buckets) == found.transactions


def _by_heading(index: ReferenceIndex, opened: list[int]) -> Iterator[tuple[tuple[str, str], Volume]]:
    """Yield the schema and table under which each event counts, with the event's volume."""
    starts = [transaction.first_event for transaction in index.transactions]
    for begin, end in pairwise([*starts, len(index.size)]):
        events: list[tuple[int, Any, Volume]] = []
        for k in range(begin, end):
            inner = index.payloads.get(k)
            if inner is None or not inner.size:
                role = R.KEEP if index.role[k] & R.ROLE_MASK == R.PAYLOAD else index.role[k] & R.ROLE_MASK
                events.append((role, index.subject[k], Volume(1, index.size[k], opened[k])))
                continue
            shares = _shares(index.size[k], inner.size)
            for role, each, share, own in zip(inner.role, inner.subject, shares, inner.size, strict=True):
                events.append((role & R.ROLE_MASK, each, Volume(1, share, own)))
        yield from _of_transaction(events)


def _of_transaction(events: list[tuple[int, Any, Volume]]) -> Iterator[tuple[tuple[str, str], Volume]]:
    deciding = {
        subject
        for role, subject, _ in events
        if role in (R.ROWS, R.ROWS_END, R.STATEMENT) and subject != R.UNMAPPED
    }
    is_always = any(
        (role >= R.KEEP and role != R.GAP) or (role in (R.ROWS, R.ROWS_END) and subject == R.UNMAPPED)
        for role, subject, _ in events
    )
    frame = (NO_TABLE, "") if is_always else _heading(deciding)
    nothing = (NO_TABLE, "")
    waiting: list[tuple[int, Any, Volume, set[Any]]] = []
    changed: set[Any] = set()
    is_unmapped = False

    def waited(*, is_sent: bool = False) -> Iterator[tuple[tuple[str, str], Volume]]:
        """Yield the context events and table maps that waited for the rows of their statement."""
        for role, subject, volume, following in waiting:
            if role == R.TABLE_MAP:
                yield _heading({subject}) if following or is_sent else nothing, volume
            else:
                yield nothing if is_sent else _heading(following), volume
        waiting.clear()

    for role, subject, volume in events:
        if role in (R.GTID, R.FRAME):
            yield frame, volume
        elif role in (R.FILE, R.GAP):
            yield nothing, volume
        elif role in (R.CONTEXT, R.TABLE_MAP):
            waiting.append((role, subject, volume, set()))
        elif role == R.DUMMY_ROWS:
            yield nothing if is_unmapped else _heading(changed), volume
            yield from waited()
        elif role >= R.KEEP or subject == R.UNMAPPED:
            # An event about which nobody can decide goes with the events before it.
            yield nothing, volume
            yield from waited(is_sent=True)
            is_unmapped |= role < R.KEEP
        else:
            yield _heading({subject}), volume
            changed |= {subject} if role != R.STATEMENT else set()
            for *_, following in waiting:
                following.add(subject)
            if role != R.ROWS:
                yield from waited()
        if role in (R.ROWS_END, R.DUMMY_ROWS):
            changed, is_unmapped = set(), False
    yield from waited()


def _heading(subjects: set[Any]) -> tuple[str, str]:
    """Return the schema and the table that some subjects, or sets of subjects, have together."""
    if len(subjects) == 1:
        only = next(iter(subjects))
        if isinstance(only, TableSubject):
            return replace_invalid_utf8(only.database), replace_invalid_utf8(only.table)
        if isinstance(only, frozenset):
            return _heading(set(only))
        schemas = only.schemas()
        if len(schemas) == 1:
            return replace_invalid_utf8(schemas[0]), STATEMENTS
        return (SEVERAL if schemas else NO_TABLE), ""
    return (SEVERAL if subjects else NO_TABLE), ""


_BETWEEN = -3
"""The GTID source of an event between transactions."""


def _transactions(index: ReferenceIndex, opened: list[int]) -> list[int]:
    """Return the size of each transaction without compression."""
    of_event = [
        sum(index.payloads[k].size) if k in index.payloads and index.payloads[k].size else opened[k]
        for k in range(len(index.size))
    ]
    starts = [transaction.first_event for transaction in index.transactions]
    found = []
    for transaction, (begin, end) in zip(index.transactions, pairwise([*starts, len(of_event)]), strict=True):
        if transaction.source != _BETWEEN:
            found.append(sum(of_event[begin:end]))
    return found


@pytest.mark.parametrize("path", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_recordings(path: Path) -> None:
    binlogs_ = BinlogSet.open(path)
    _check(inspect_set(binlogs_), [binlogs_.path(name) for name in binlogs_.names])


@settings(deadline=None, max_examples=40)
@given(made=binlogs())
def test_generated(made: MadeBinlog, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("set") / "made.000001"
    path.write_bytes(made.data)
    _check(inspect_set(BinlogSet.open(path)), [path])


@settings(deadline=None, max_examples=40)
@given(made=binlogs(), segment_size=st.integers(64, 2048))
def test_segments_of_any_size_give_the_same_figures(made: MadeBinlog, segment_size: int) -> None:
    """Transactions and statements that lie in several segments count once. Only the bytes over time differ: each
    part of a transaction counts in its own period.
    """
    found = []
    for size in (segment_size, 1 << 22):
        one = Inspection(made.fd.server_version, made.fd.family)
        work = Inspector(one)
        for reader, segment in segments(made.data, size, subjects=work.subjects, sources=work.sources):
            work.add(reader, segment)
        work.finish()
        rates, one.rates = one.rates.buckets, Rates()
        transactions = {each.start: each.transactions for each in rates if each.transactions}
        found.append((one.as_dict(), transactions, sum(each.bytes for each in rates)))
    assert found[0] == found[1]


@pytest.mark.parametrize("recording", ["mysql-row", "mariadb-row"])
def test_a_transaction_counts_where_it_ends(recording: str) -> None:
    """The last transaction of a file that a server is still writing may be large, and not written to its end."""
    path = DATA / "oracle" / recording / "bin.000001"
    with path.open("rb") as source:
        places = [(event.type, event.offset) for event in iter_events(source, file=path.name)]
    end = max(offset for kind, offset in places if kind == EventType.XID)
    begin = max(offset for kind, offset in places if kind in GTIDS and offset < end)
    data, found = bytearray(path.read_bytes()), []
    data[FLAGS_OFFSET] |= LOG_EVENT_BINLOG_IN_USE_F
    for size in (begin, end):
        one = Inspection("", "mariadb" if recording == "mariadb-row" else "mysql")
        work = Inspector(one)
        for reader, segment in segments(bytes(data[:size]), 64, subjects=work.subjects, sources=work.sources):
            work.add(reader, segment)
        work.finish()
        found.append((one.gtids, one.transactions))
    assert found[0] == found[1]


def test_a_binlog_without_events(tmp_path: Path) -> None:
    """A server that has just begun a file has written its format description event only."""
    path = tmp_path / "bin.000001"
    data = (DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes()
    path.write_bytes(data[: 4 + int.from_bytes(data[13:17], "little")])
    found = inspect_set(BinlogSet.open(path))
    assert (found.tables, found.events, found.rates.buckets, found.largest_transactions) == ({}, {}, [], [])
    out = StringIO()
    render_inspection(found, Console(file=out, width=80))
    assert "transactions: 0" in out.getvalue()


def test_events_without_timestamps(tmp_path: Path) -> None:
    """A set without any timestamp has no time, rather than the year 1970."""
    path = tmp_path / "bin.000001"
    data = bytearray((DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes())
    at = 4
    while at < len(data):
        end = at + int.from_bytes(data[at + 9 : at + 13], "little")
        data[at : at + 4] = bytes(4)
        data[end - 4 : end] = zlib.crc32(data[at : end - 4]).to_bytes(4, "little")
        at = end
    path.write_bytes(data)
    found = inspect_set(BinlogSet.open(path))
    made = found.as_dict()
    assert (made["first_time"], made["last_time"]) == (None, None)
    assert {one["time"] for one in (*made["largest_transactions"], *made["largest_statements"])} == {None}
    assert [one["start"] for one in made["rates"]["buckets"]] == [None]
    out = StringIO()
    render_inspection(found, Console(file=out, width=80))
    assert "time: –" in out.getvalue()
    assert "1970" not in out.getvalue()


def test_the_highest_rate_is_printed() -> None:
    found = inspect_set(BinlogSet.open(DATA / "oracle" / "mysql-row"))
    found.rates = Rates(5, [Rate(None, 99, 9), Rate(1000, 9, 1), Rate(10**9, 50, 2), Rate(10**9 + 5, 49, 3)])
    out = StringIO()
    render_inspection(found, Console(file=out, width=80))
    assert "highest rate: 10 bytes a second from 2001-09-09 01:46:40 UTC on, for 5 s\n" in out.getvalue()


def test_statements_are_found_as_in_plain_python() -> None:
    """The largest statements are those that a sort of all statements gives."""
    path = DATA / "recordings" / "mysql-payloads"
    binlogs_ = BinlogSet.open(path)
    expected = []
    prepared: dict[Xid, Any] = {}
    for name in binlogs_.names:
        with open(binlogs_.path(name), "rb") as source:
            index = index_events(iter_events(source, file=name), prepared)
            prepared = index.prepared
        for each in (index, *index.payloads.values()):
            size = 0
            for role, nbytes in zip(each.role, each.size, strict=True):
                kind = role & R.ROLE_MASK
                if R.CONTEXT <= kind <= R.DUMMY_ROWS:
                    size += nbytes
                    if kind in (R.ROWS_END, R.STATEMENT, R.DUMMY_ROWS):
                        expected.append(size)
                        size = 0
    found = inspect_set(binlogs_, top=1000).largest_statements
    assert [one.bytes_uncompressed for one in found] == sorted(expected, reverse=True)


def test_large_transaction_names_its_tables() -> None:
    """A large transaction has its file, position, GTID, tables and kinds of change."""
    found = inspect_set(BinlogSet.open(DATA / "recordings" / "mysql-payloads"))
    largest = found.largest_transactions[0]
    assert largest.bytes_uncompressed == max(one.bytes_uncompressed for one in found.largest_transactions)
    assert largest.gtid.endswith(":8")
    assert largest.tables
    assert all("." in name for name in largest.tables)
    assert any(kind.endswith(" rows") for kind in largest.kinds)
    assert found.compression.transactions == 12
    assert found.largest_statements[0].text.startswith("insert into shop.a(v) select repeat('x',n)")
    everything = inspect_set(BinlogSet.open(DATA / "recordings" / "mysql-payloads"), top=99)
    outside = [one for one in everything.largest_statements if "CREATE DATABASE" in one.kinds]
    assert outside
    assert all(one.text.lower().startswith("create database") for one in outside)
    assert found.compression.bytes_uncompressed == 7889
    out = StringIO()
    render_inspection(found, Console(file=out, width=80), top=3)
    text = out.getvalue()
    assert "compression: 12 of 24 transactions" in text
    assert f"{largest.file}:{largest.position}" in text
    assert "Events inside compressed transactions" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("first", "second"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_gtids_of_another_family_are_an_error(first: str, second: str) -> None:
    """The GTIDs of MySQL and MariaDB are in no common set."""
    files = [DATA / "oracle" / f"{name}-row" / f"bin.00000{n}" for n, name in ((1, first), (2, second))]
    message = f"bin.000002: the file has GTIDs of {second}, and the first file of the set is of {first}"
    with pytest.raises(BinlogUnsupported, match=message):
        inspect_set(BinlogSet.open(files))


def test_oracle() -> None:
    """The inspection agrees with the server about version, GTIDs and number of transactions."""
    found = inspect_set(BinlogSet.open(DATA / "oracle" / "mysql-row"))
    assert found.server_version.startswith("9.7.4")
    assert found.family == "mysql"
    assert found.transactions == 74
    assert found.gtids_before == ""
    assert found.gtids.endswith(":1-74")
    assert next(iter(found.events)) == max(found.events, key=lambda name: found.events[name][1])
    assert set(found.events) <= {event_name(kind) for kind in EventType}


def test_as_dict_and_as_text() -> None:
    found = inspect_set(BinlogSet.open(DATA / "oracle" / "mariadb-row"))
    made = found.as_dict()
    assert made["files"][0] == {"name": found.files[0][0], "bytes": found.files[0][1]}
    assert {
        (row["schema"], row["table"]): (row["events"], row["bytes"], row["bytes_uncompressed"])
        for row in made["tables"]
    } == found.tables
    assert {name: tuple(row.values()) for name, row in made["schemas"].items()} == found.schemas()
    assert (made["transactions"], made["gtids"]) == (found.transactions, found.gtids)
    out = StringIO()
    render_inspection(found, Console(file=out, width=120), top=1)
    text = out.getvalue()
    assert "10.11.19-MariaDB" in text
    assert f"transactions: {found.transactions}" in text
    assert "shop" in text
    assert f"and {len(found.tables) - 1} more tables" in text


def test_damage_is_an_error(tmp_path: Path) -> None:
    data = bytearray((DATA / "oracle" / "mysql-row" / "bin.000002").read_bytes())
    data[400] ^= 1
    path = tmp_path / "bin.000002"
    path.write_bytes(data)
    with pytest.raises(BinlogCorrupt, match=r"bin[.]000002"):
        inspect_set(BinlogSet.open(path))
    assert inspect_set(BinlogSet.open(path), verify=False).transactions


def test_a_version_is_no_markup() -> None:
    out = StringIO()
    render_inspection(Inspection("8.4[/x]", "mysql", [("bin.000001", 4)]), Console(file=out))
    assert "written by 8.4[/x]" in out.getvalue()


def test_a_file_name_cannot_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "bin\x1b[31m.000001"
    file.write_bytes((DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes())
    out = StringIO()
    render_inspection(inspect_set(BinlogSet.open(file)), Console(file=out, width=200))
    assert "\x1b" not in out.getvalue()
    assert r"bin\x1b[31m.000001:33775" in out.getvalue()
