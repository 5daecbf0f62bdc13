"""Tests of GTID sets: the servers' text and binary forms, and the set operations against Python's sets."""

import cProfile
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, GtidError
from dumpfilter.binlog.cursor import Cursor, encode_varlen
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.gtid import (
    GNO_MAX,
    SEQ_NO_MAX,
    GtidSet,
    MariadbGtid,
    MariadbGtidSet,
    MysqlGtid,
    MysqlGtidSet,
    SourceKey,
    parse_gtid_set,
    parse_uuid,
)
from dumpfilter.binlog.gtid_events import (
    GtidList,
    decode_gtid_list,
    decode_previous_gtids,
    encode_gtid_list,
    encode_previous_gtids,
)

DATA = Path(__file__).parents[1] / "oracle" / "data"
U = "3E11fa47-71ca-11e1-9e33-c80aa9429562"
LOW = U.lower()

# MySQL 9.7.4's answers to SELECT GTID_SUBTRACT('…', ''). None stands for error 1772.
MYSQL_ANSWERS = {
    "": "",
    f"{U}:1-5": f"{LOW}:1-5",
    f"{U}:5-3": "",
    f"{U}:0": None,
    f"{U}:1-0": "",
    f"{U}:0-3": None,
    U: "",
    f"{U}:": None,
    f"{U}:mytag": "",
    f"{U}:mytag:": None,
    f"{U}:1-5:": None,
    f"{U}::1": None,
    f",,{U}:1,,": f"{LOW}:1",
    f" {U} : 1 - 5 : Tag_A : 7 ": f"{LOW}:1-5:tag_a:7",
    f"{U}:1,\n{U}:3": f"{LOW}:1:3",
    f"{{{U}}}:1": f"{LOW}:1",
    f"{U.replace('-', '')}:1": f"{LOW}:1",
    f"{U}:1-3:tag:4:5-6,{U}:2-9:tag:1": f"{LOW}:1-9:tag:1:4-6",
    f"{U}:9223372036854775806": f"{LOW}:9223372036854775806",
    f"{U}:9223372036854775807": None,
    f"{U}:1-9223372036854775807": None,
    f"{U}:01": f"{LOW}:1",
    f"{U}:1;": None,
    f"{U}:1tag": None,
    f"{U}:tag tag:1": None,
    f"{U}:1:1tag:3": None,
    f"{U}:_t:3": f"{LOW}:_t:3",
    f"{U}:abcdefghijabcdefghijabcdefghijab:1": f"{LOW}:abcdefghijabcdefghijabcdefghijab:1",
    f"{U}:abcdefghijabcdefghijabcdefghijabc:1": None,
    f"+{U}:1": None,
    f"{U}:tag-a:1": None,
    f"{U}:1 2": None,
    f"{U}:-1": None,
    f"{U}:1-": None,
    "x": None,
    f"{U}:1,x": None,
    f"{U}:tag:1:tag:3": f"{LOW}:tag:1:3",
    f"{U}:1-3 {U}:4": None,
    "3e11 fa47-71ca-11e1-9e33-c80aa9429562:1": None,
}


@pytest.mark.parametrize("text", MYSQL_ANSWERS)
def test_mysql_text_is_read_as_the_server_reads_it(text: str) -> None:
    answer = MYSQL_ANSWERS[text]
    if answer is None:
        with pytest.raises(GtidError):
            MysqlGtidSet.parse(text)
    else:
        assert str(MysqlGtidSet.parse(text)) == answer
        assert bool(MysqlGtidSet.parse(text)) == bool(answer)


@pytest.mark.parametrize(
    "text",
    [
        "0-1",
        "4294967296-1-1",
        "0-1-18446744073709551616",
        "0-1-5 1-2-3",
        "0-1-5,,",
        "0-1-5,0-2-6",
        "0-1-7:5",
        "0-1-0:5",
        "a-1-1",
        "-1-1-1",
        "0-1-٣",
    ],
)
def test_broken_mariadb_text_is_refused(text: str) -> None:
    with pytest.raises(GtidError):
        MariadbGtidSet.parse(text)


@pytest.mark.parametrize("text", ["\u212a:1", f"{U}:\u212a:1", f"\u00a0{U}:٣", f"{U}:" + "9" * 5000])
def test_only_ascii_letters_and_numbers_of_a_sane_length_count(text: str) -> None:
    for parse in (MysqlGtidSet.parse, parse_gtid_set):
        with pytest.raises(GtidError):
            parse(text)


def test_an_error_names_the_offending_piece() -> None:
    with pytest.raises(GtidError, match=r"1-x.*3E11"):
        MysqlGtidSet.parse(f"{U}:1-x")


@given(st.text(alphabet="0123456789abcdef-:, _T\n", max_size=60))
def test_any_text_is_a_set_or_a_gtid_error(text: str) -> None:
    for parse in (
        parse_gtid_set,
        MariadbGtid.parse,
        MysqlGtidSet.parse,
        MariadbGtidSet.parse,
    ):
        try:
            parse(text)
        except GtidError:
            continue


def test_gtids_are_read_and_written() -> None:
    assert str(MysqlGtid(parse_uuid(U), 7)) == f"{LOW}:7"
    assert str(MysqlGtid(parse_uuid(U), 7, "tag")) == f"{LOW}:tag:7"
    assert MariadbGtid.parse("0-11-74") == MariadbGtid(0, 11, 74)
    for text in ("", "x", f"{U}:1", "0-1", "0-1-2:3", "0-1--2"):
        with pytest.raises(GtidError):
            MariadbGtid.parse(text)


def test_families_do_not_mix() -> None:
    mysql, mariadb = MysqlGtidSet.parse(f"{U}:1"), MariadbGtidSet.parse("0-1-1")
    with pytest.raises(GtidError, match="two families"):
        parse_gtid_set(f"{U}:1,0-1-1")
    for broken in (
        lambda: mysql | mariadb,
        lambda: mariadb - mysql,
        lambda: mysql & mariadb,
        lambda: mysql in mariadb,
        lambda: MysqlGtid(parse_uuid(U), 1) in mariadb,
        lambda: mysql.add(MariadbGtid(0, 1, 1)),
        lambda: mariadb.add(MysqlGtid(parse_uuid(U), 1)),
        lambda: mysql.add_range((0, 0), 1, 1),
        lambda: mariadb.add_range((parse_uuid(U), ""), 1, 1),
        lambda: "0-1-1" in mariadb,
    ):
        with pytest.raises(GtidError):
            broken()
    assert mysql != mariadb
    assert MysqlGtidSet() != MariadbGtidSet()
    assert parse_gtid_set("", "mariadb").family == "mariadb"
    assert parse_gtid_set(" 0-1-5 , 1-2-3 ").family == "mariadb"
    assert parse_gtid_set(f"{U}:1").family == "mysql"


def test_numbers_out_of_range_are_refused() -> None:
    mysql, mariadb, key = MysqlGtidSet(), MariadbGtidSet(), (parse_uuid(U), "")
    for broken in (
        lambda: mysql.add(MysqlGtid(key[0], 0)),
        lambda: mysql.add(MysqlGtid(key[0], GNO_MAX + 1)),
        lambda: mysql.add_range(key, 3, 2),
        lambda: mysql.add_many(key, np.array([1, 0])),
        lambda: mysql.add_many(key, np.array([GNO_MAX + 1])),
        lambda: mariadb.add(MariadbGtid(0, 1, 0)),
        lambda: mariadb.add_range((2**32, 0), 1, 1),
    ):
        with pytest.raises(GtidError):
            broken()
    assert not mysql
    assert not mariadb
    mariadb.add_range((0, 0), 1, SEQ_NO_MAX)
    assert mariadb.count() == SEQ_NO_MAX
    assert [*iter(mariadb - MariadbGtidSet.parse("0-1-5"))] == [(0, 6, SEQ_NO_MAX)]
    assert not mariadb - mariadb
    mariadb.add_range((0, 0), SEQ_NO_MAX, SEQ_NO_MAX)
    assert sum(1 for _ in mariadb) == 1


def test_mariadb_positions_and_single_gtids() -> None:
    done = MariadbGtidSet()
    done.add_range((0, 11), 1, 500)
    assert str(done) == "0-11-500"
    assert done.is_position()
    done.add(MariadbGtid(0, 12, 501))
    assert str(done) == "0-12-501"
    done.add(MariadbGtid(0, 11, 503))
    assert str(done) == "0-11-1:501,0-11-503:503"
    assert not done.is_position()
    assert MariadbGtidSet.parse(str(done)) == done
    assert done.gtids() == (MariadbGtid(0, 11, 503),)
    assert MariadbGtid(0, 99, 7) in done
    assert MariadbGtid(1, 11, 7) not in done
    assert str(MariadbGtidSet.parse("0-1-0")) == ""
    assert str(MariadbGtidSet.parse("0-11-10") | MariadbGtidSet.parse("0-12-20")) == "0-12-20"
    assert str(MariadbGtidSet.parse("0-12-20") | MariadbGtidSet.parse("0-11-10")) == "0-12-20"
    assert str(MariadbGtidSet.parse("0-12-20") - MariadbGtidSet.parse("0-11-10")) == "0-12-11:20"


UUIDS = [bytes([i]) * 16 for i in range(2)]
KEYS = {
    MysqlGtidSet: [(uuid, tag) for uuid in UUIDS for tag in ("", "a", "b")],
    MariadbGtidSet: [0, 5, 2**32 - 1],
}
MODELS = {
    kind: st.sets(st.tuples(st.sampled_from(keys), st.integers(1, 14)), max_size=30)
    for kind, keys in KEYS.items()
}


def source_of(key: object) -> SourceKey:
    """Return a GTID source with a key of the model, which is MariaDB's domain or MySQL's UUID and tag."""
    return (key, 0) if isinstance(key, int) else key  # type: ignore[return-value]


def made(kind: type[GtidSet], model: set[tuple[object, int]], how: int) -> GtidSet:
    """Return the GTID set that equals a Python set, filled in one of three ways."""
    gtids = kind()
    if how == 0:
        for key, number in model:
            gtids.add_range(source_of(key), number, number)
    elif how == 1:
        for key in KEYS[kind]:
            numbers = [number for k, number in model if k == key]
            gtids.add_many(source_of(key), np.array(numbers * 2, np.int64))
    else:
        for key, number in sorted(model, reverse=True):  # type: ignore[type-var]
            if kind is MysqlGtidSet:
                gtids.add(MysqlGtid(key[0], number, key[1]))  # type: ignore[index]
            else:
                gtids.add(MariadbGtid(key, 1, number))  # type: ignore[arg-type]
    return gtids


def members(gtids: GtidSet) -> set[tuple[object, int]]:
    """Return a GTID set as a Python set. Its intervals must be sorted, disjoint and not adjacent."""
    found = list(gtids)
    assert found == sorted(found)
    for (key, _, last), (next_key, first, _) in itertools.pairwise(found):
        assert key != next_key or first > last + 1
    return {(key, number) for key, first, last in found for number in range(first, last + 1)}


@pytest.mark.parametrize("kind", [MysqlGtidSet, MariadbGtidSet])
@given(data=st.data())
def test_algebra_is_that_of_sets(kind: type[GtidSet], data: st.DataObject) -> None:
    left, right = data.draw(MODELS[kind]), data.draw(MODELS[kind])
    a = made(kind, left, data.draw(st.integers(0, 2)))
    b = made(kind, right, data.draw(st.integers(0, 2)))
    assert members(a) == left
    assert len(a) == len(left)
    assert bool(a) == bool(left)
    assert members(a | b) == left | right
    assert members(a & b) == left & right
    assert members(a - b) == left - right
    assert (b in a) == a.issuperset(b) == b.issubset(a) == (left >= right)
    assert (a == b) == (left == right)
    assert members(a) == left  # no operator changed its operands
    assert kind.parse(str(a)) == a == parse_gtid_set(str(a), kind.family)
    copied = a.copy()
    copied |= b
    assert members(copied) == left | right
    assert members(a) == left
    first, last = sorted(data.draw(st.tuples(st.integers(1, 14), st.integers(1, 14))))
    key = data.draw(st.sampled_from(KEYS[kind]))
    a.add_range(source_of(key), first, last)
    assert members(a) == left | {(key, number) for number in range(first, last + 1)}
    for key in KEYS[kind]:
        numbers = {number for k, number in members(a) if k == key}
        assert a.highest(source_of(key)) == max(numbers, default=0)


def test_numbers_beyond_63_bits_are_found() -> None:
    seqs = np.array([1, 5, 6, 2**63 - 1, 2**63 + 5, 2**63 + 6, 2**64 - 1], np.uint64)
    assert MariadbGtidSet.parse("0-1-9223372036854775813").contains((0, 1), seqs.view(np.int64)).tolist() == [
        *[True] * 5,
        *[False] * 2,
    ]
    holes = MariadbGtidSet.parse("0-1-5,0-1-9223372036854775813:9223372036854775813")
    assert holes.contains((0, 1), seqs.view(np.int64)).tolist() == [
        True,
        True,
        False,
        False,
        True,
        False,
        False,
    ]


@given(MODELS[MysqlGtidSet])
def test_previous_gtids_round_trip(model: set[tuple[object, int]]) -> None:
    gtids = made(MysqlGtidSet, model, 0)
    assert isinstance(gtids, MysqlGtidSet)
    body = encode_previous_gtids(gtids)
    assert decode_previous_gtids(body) == gtids
    assert body[7] == int(gtids.has_tags())
    for length in range(len(body)):
        with pytest.raises(BinlogCorrupt):
            decode_previous_gtids(body[:length])


@given(st.lists(st.builds(MariadbGtid, *(st.integers(0, 2**n - 1) for n in (32, 32, 64))), max_size=5))
def test_gtid_list_round_trip(gtids: list[MariadbGtid]) -> None:
    given_list = GtidList(tuple(gtids), flags=1 << 29)
    body = encode_gtid_list(given_list)
    assert decode_gtid_list(body) == given_list
    assert all(gtid.seq_no == 0 or gtid in given_list.position() for gtid in gtids)
    for length in range(4 + 16 * len(gtids)):
        with pytest.raises(BinlogCorrupt):
            decode_gtid_list(body[:length])


@given(st.binary(max_size=120), st.sampled_from([b"", b"\1" + bytes(6) + b"\1", bytes(8)]))
def test_any_bytes_decode_or_are_corrupt(rest: bytes, head: bytes) -> None:
    for decode in (decode_previous_gtids, decode_gtid_list):
        try:
            decode(head + rest)
        except BinlogCorrupt:
            continue


@given(st.binary(max_size=4), st.integers(0, 2**64 - 1))
def test_varlen_round_trip(before: bytes, value: int) -> None:
    def decoded(data: bytes, at: int) -> tuple[int, int]:
        reader = Cursor(data, "test")
        reader.at = at
        return reader.varlen("a number"), reader.at

    encoded = encode_varlen(value)
    assert decoded(before + encoded + b"\x55", len(before)) == (value, len(before) + len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(BinlogCorrupt):
            decoded(encoded[:length], 0)


def bodies(path: Path, kind: int) -> list[bytes]:
    """Return the bodies of all events of one type in a binlog file."""
    data = path.read_bytes()
    found, position, checksum = [], 4, 4
    while position < len(data):
        header = EventHeader.unpack(data, position)
        end = position + header.size
        if header.type == EventType.FORMAT_DESCRIPTION:
            checksum = 4 if data[end - 5] == 1 else 0
        elif header.type == kind:
            found.append(data[position + 19 : end - checksum])
        position = end
    return found


RECORDINGS = sorted(path.parent for path in DATA.glob("oracle/*/oracle.json"))


def test_there_are_the_recordings_of_both_families() -> None:
    assert len(RECORDINGS) == 11


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_every_recorded_set_is_read_and_written_again(folder: Path) -> None:
    oracle = json.loads((folder / "oracle.json").read_text())
    final = parse_gtid_set(oracle["gtid"])
    last = parse_gtid_set("", final.family)
    for name in oracle["logs"]:
        if final.family == "mysql":
            (body,) = bodies(folder / name, EventType.PREVIOUS_GTIDS)
            last = decode_previous_gtids(body)
            assert encode_previous_gtids(last) == body
        else:
            (body,) = bodies(folder / name, EventType.GTID_LIST)
            listed = decode_gtid_list(body)
            last = listed.position()
            assert encode_gtid_list(listed) == body
        assert last in final
    assert last == final  # the last file has no transactions
    assert str(last) == oracle["gtid"]


def test_recorded_sets_with_tags() -> None:
    folder = DATA / "recordings" / "mysql-tagged"
    told = [line.split("\t") for line in (folder / "events.tsv").read_text("latin-1").splitlines()]
    expected = [info.replace("\\n", "\n") for _, _, kind, _, info in told if kind == "Previous_gtids"]
    found = [bodies(folder / f"bin.00000{n}", EventType.PREVIOUS_GTIDS)[0] for n in (1, 2)]
    assert [str(decode_previous_gtids(body)).replace(",", ",\n") for body in found] == expected
    assert [encode_previous_gtids(decode_previous_gtids(body)) for body in found] == found
    assert decode_previous_gtids(found[1]).has_tags()


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [(MysqlGtidSet, "3e11fa47-71ca-11e1-9e33-c80aa9429562:{0}"), (MariadbGtidSet, "7-1-{0}:{0}")],
)
def test_intervals_in_descending_order_are_not_moved_one_by_one(kind: type[GtidSet], pattern: str) -> None:
    """A text of 1 MiB took 10 s of a master's processor, since each interval was put before all others."""
    numbers = range(1, 100, 2)
    pieces = [pattern.format(number) for number in numbers]
    with cProfile.Profile() as profile:
        found = kind.parse(",".join(reversed(pieces)))
    assert found == kind.parse(",".join(pieces))
    assert not [entry for entry in profile.getstats() if "insert" in str(entry.code)]


def test_many_intervals() -> None:
    """Operations on 250,000 intervals take linear time. Quadratic time would exceed the bound by an hour."""
    key = (parse_uuid(U), "")
    begun = time.process_time()
    a, b = MysqlGtidSet(), MysqlGtidSet()
    a.add_many(key, np.random.default_rng(1).permutation(np.arange(1, 500_001, 2)))
    b.add_many(key, np.arange(3, 750_000, 3))
    assert sum(1 for _ in a) == 250_000
    assert len(a | b) == len(a) + len(b) - len(a & b)
    assert len(a - b) == len(a) - len(a & b)
    assert a in (a | b)
    assert decode_previous_gtids(encode_previous_gtids(a)) == a
    assert time.process_time() - begun < 50
