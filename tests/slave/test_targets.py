"""The summary: counts, digests that do not depend on the grouping of rows, and the state of the last commit."""

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import row_image
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.row_walk import row_images
from dumpfilter.binlog.rows_events import (
    RowsHeader,
    TableMap,
    decode_rows_header,
    rows_kind,
)
from dumpfilter.slave.targets import DIGEST_BYTES, SummaryTarget, Target, qualified_name
from tests.binlog.encoders import compress
from tests.binlog.plain_events import rows_events

DATA = Path(__file__).parents[1] / "oracle" / "data"
EMPTY: dict[str, Any] = {"tables": {}, "databases": {}}
TABLE = TableMap(7, 1, "shop", "orders", b"\x03\x0f", b"\x50\0", b"\2")


def header(kind: int = 30, table_id: int = 7, before: bytes = b"\3", after: bytes = b"\3") -> RowsHeader:
    name = rows_kind(kind)
    return RowsHeader(
        table_id, 1, b"", 2, before, after if name == "update" else None, 12, name, kind >= 166, kind
    )


def row(number: int, text: bytes) -> bytes:
    return b"\0" + struct.pack("<IB", number, len(text)) + text


def apply(target: Target, *events: tuple[RowsHeader, bytes]) -> None:
    target.begin(None)
    for head, data in events:
        target.rows("shop", "orders", TABLE, head, data)
    target.commit()


def recorded(name: str) -> Iterator[tuple[TableMap, RowsHeader, bytes]]:
    for path in sorted((DATA / name).glob("bin.0*")):
        for table, head, data in rows_events(path):
            yield table, head, bytes(data)


def test_counts_and_the_chain_of_digests():
    target = SummaryTarget()
    one, two = row(1, b"one"), row(2, b"")
    apply(target, (header(30), one + two), (header(31, after=b"\2"), one + b"\0\3two"), (header(32), two))
    digest = bytes(DIGEST_BYTES)
    for link in (
        b"\1\2\0\3" + struct.pack("<II", 0, len(one)) + one,
        b"\1\2\0\3" + struct.pack("<II", 0, len(two)) + two,
        b"\2\2\0\3\2" + struct.pack("<II", len(one), 5) + one + b"\0\3two",
        b"\3\2\0\3" + struct.pack("<II", len(two), 0) + two,
    ):
        digest = blake2b(digest + link, digest_size=DIGEST_BYTES).digest()
    counts = {"inserted": 2, "updated": 1, "deleted": 1, "digest": digest.hex()}
    assert target.state() == {"tables": {"shop.orders": counts}, "databases": {}}


def test_statements_are_counted_by_their_database():
    target = SummaryTarget()
    target.begin("0-1-1")
    target.statement("shop", b"DROP TABLE t")
    target.statement(None, b"CREATE DATABASE a")
    target.statement("", b"CREATE DATABASE b")
    target.commit()
    databases = target.state()["databases"]
    assert {name: facts["statements"] for name, facts in databases.items()} == {"": 2, "shop": 1}
    again = SummaryTarget()
    for text in (b"CREATE DATABASE b", b"CREATE DATABASE a"):
        again.statement("", text)
    again.commit()
    assert (
        again.state()["databases"][""]["digest"] != databases[""]["digest"]
    )  # the digest depends on the order
    assert SummaryTarget().state() == EMPTY


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 99), st.binary(max_size=5)), min_size=1, max_size=12), st.data())
def test_the_digest_does_not_depend_on_the_grouping_of_rows(rows, data):
    """Events, transactions, table ids, versions, compression and restarts do not change the digest."""
    images = [row(number, text) for number, text in rows]
    one = SummaryTarget()
    apply(one, (header(30), b"".join(images)))
    other = SummaryTarget()
    at = 0
    while at < len(images):
        upto = data.draw(st.integers(at + 1, len(images)))
        head = header(data.draw(st.sampled_from([23, 30, 166])), data.draw(st.integers(0, 2**48 - 1)))
        body = b"".join(images[at:upto])
        if head.compressed:
            packed = bytes(head.rows_offset) + compress(body)
            body = bytes(rows_data(head, packed))
        apply(other, (head, body))
        if data.draw(st.booleans()):
            saved = json.loads(json.dumps(other.state()))
            other = SummaryTarget()
            other.restore(saved)
        at = upto
    assert one.state() == other.state()


@pytest.mark.parametrize(
    "other",
    [
        (header(30), row(2, b"") + row(1, b"one")),
        (header(30), row(1, b"one")),
        (header(32), row(1, b"one") + row(2, b"")),
        (header(30), row(1, b"onf") + row(2, b"")),
    ],
)
def test_the_digest_tells_other_rows_apart(other):
    one, two = SummaryTarget(), SummaryTarget()
    apply(one, (header(30), row(1, b"one") + row(2, b"")))
    apply(two, other)
    assert one.state()["tables"]["shop.orders"]["digest"] != two.state()["tables"]["shop.orders"]["digest"]


def test_the_digest_tells_the_columns_present_apart():
    table = replace(TABLE, column_types=b"\x03\x03", metadata=b"")
    digests = set()
    for head in (header(before=b"\1"), header(before=b"\2"), header(39, before=b"\1", after=b"\1")):
        target = SummaryTarget()
        target.rows("a", "b", table, head, bytes(11 if head.type == 39 else 5))
        target.commit()
        digests.add(target.state()["tables"]["a.b"]["digest"])
    assert len(digests) == 3


def test_an_open_transaction_does_not_show():
    target = SummaryTarget()
    apply(target, (header(30), row(1, b"one")))
    target.statement("shop", b"first")
    target.commit()
    before = target.state()
    target.begin("gtid")
    for _ in range(3):
        target.rows("shop", "orders", TABLE, header(30), row(2, b"two"))
        target.rows("shop", "new", TABLE, header(30), row(2, b"two"))
        target.statement("shop", b"second")
        target.statement("other", b"third")
        assert target.state() == before
    target.commit()
    after = target.state()
    assert after["tables"]["shop.orders"]["inserted"] == 4
    assert after["tables"]["shop.new"]["inserted"] == 3
    assert after["databases"]["shop"]["statements"] == 4
    assert after["databases"]["other"]["statements"] == 3


def test_a_transaction_that_was_cut_off_leaves_no_trace():
    target, straight = SummaryTarget(), SummaryTarget()
    for one in (target, straight):
        apply(one, (header(30), row(1, b"one")))
    target.begin("gtid")
    target.rows("shop", "orders", TABLE, header(30), row(2, b"two"))
    target.rows("shop", "new", TABLE, header(30), row(2, b"two"))
    target.statement("shop", b"text")
    for one in (target, straight):
        apply(one, (header(32), row(1, b"one")))  # apply() begins another transaction
    assert target.state() == straight.state()
    saved = target.state()
    target.begin("gtid")
    target.rows("shop", "new", TABLE, header(30), row(2, b"two"))
    target.restore(saved)
    assert target.state() == saved
    target.restore({})
    assert target.state() == EMPTY


def test_memory_does_not_grow_with_the_transaction():
    target = SummaryTarget()
    target.begin("gtid")
    row_image._layout.cache_clear()
    for _ in range(1000):
        target.rows("shop", "orders", TABLE, header(30), row(2, b"two"))
    assert len(target._changed["tables"]) == row_image._layout.cache_info().currsize == 1


def test_rows_that_cannot_be_taken_apart_do_not_count():
    target = SummaryTarget()
    with pytest.raises(BinlogCorrupt):
        target.rows("shop", "orders", TABLE, header(30), row(2, b"two") + b"\0")
    target.commit()
    assert target.state() == EMPTY
    target.rows("shop", "orders", TABLE, decode_rows_header(30, b"\xff" * 6 + b"\1\0\2\0"), b"")
    target.commit()
    assert target.state() == EMPTY


def test_names_that_could_be_mistaken_are_told_apart():
    names = [("a", "b.c"), ("a.b", "c"), ("a`b", "c"), ("", "c"), ("db,3", "odd.name")]
    shown = [qualified_name(*name) for name in names]
    assert shown == ["a.`b.c`", "`a.b`.c", "`a``b`.c", "``.c", "db,3.`odd.name`"]
    raw = b"\xff".decode("utf-8", "surrogateescape")
    target = SummaryTarget()
    target.rows(raw, raw, TABLE, header(30), row(1, b""))
    target.statement(raw, b"x")
    target.commit()
    assert json.dumps(
        target.state(), ensure_ascii=False
    ).encode()  # a text with surrogates could not be encoded


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_the_summary_of_a_recording(name):
    target = SummaryTarget()
    for table, head, data in recorded(f"oracle/{name}"):
        target.rows(table.database, table.table, table, head, data)
    target.commit()
    state = json.loads((DATA / "oracle" / name / "oracle.json").read_text())["source"]["state"]
    tables = target.state()["tables"]
    for database in ("shop", "hr", "logs", "a_b", "axb", "db,3"):
        for table, facts in state[database].items():
            counts = tables[qualified_name(database, table)]
            assert counts["inserted"] - counts["deleted"] == facts["rows"]


@pytest.mark.parametrize("name", ["mysql-types", "mariadb-types"])
def test_row_by_row_a_recording_has_the_same_summary(name):
    whole, single = SummaryTarget(), SummaryTarget()
    for table, head, data in recorded(f"recordings/{name}"):
        whole.rows(table.database, table.table, table, head, data)
        images = row_images(table, head, data)
        for start, end in zip(images.start.tolist(), images.end.tolist(), strict=True):
            single.rows(table.database, table.table, table, head, data[start:end])
    whole.commit()
    single.commit()
    assert whole.state() == single.state()
    assert len(whole.state()["tables"]) >= 7


def test_the_two_families_agree_on_the_same_rows():
    """MySQL's v2 events and MariaDB's v1 events of one workload give the same tables and counts."""
    states = []
    for name in ("mysql-row", "mariadb-row"):
        target = SummaryTarget()
        for table, head, data in recorded(f"oracle/{name}"):
            target.rows(table.database, table.table, table, head, data)
        target.commit()
        states.append(target.state()["tables"])
    assert states[0].keys() == states[1].keys()
    counted = [{t: {**c, "digest": ""} for t, c in state.items()} for state in states]
    assert counted[0] == counted[1]


def test_rendering():
    target = SummaryTarget()
    target.rows("shop", "orders[b]", TABLE, header(30), row(1, b"one") * 1234)
    target.statement("shop", b"DROP TABLE x")
    target.statement(None, b"DROP DATABASE y")
    target.commit()
    state = target.state()
    assert json.loads(json.dumps(state)) == state
    lines = target.text().splitlines()
    words = [[word for word in line.replace("│", " ").replace("┃", " ").split() if word] for line in lines]
    assert ["table", "inserted", "updated", "deleted", "digest"] in words
    assert ["shop.orders[b]", "1,234", "0", "0", state["tables"]["shop.orders[b]"]["digest"][:12]] in words
    assert ["database", "statements", "digest"] in words
    assert ["(none)", "1", state["databases"][""]["digest"][:12]] in words
    assert ["shop", "1", state["databases"]["shop"]["digest"][:12]] in words
    assert SummaryTarget().text() == "nothing was applied"
