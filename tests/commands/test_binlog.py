"""``dumpfilter binlog``: its options, its errors, and its output as text and as a binlog set."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.workload import generate
from dumpfilter.cli import main
from dumpfilter.dump.with_tables_info import has_tables_info
from tests.commands.binlog_runs import MARIADB, MYSQL, ORACLE, gtids, invoke, printed, run, undecided


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere.index"], 1, "nowhere.index"),
        (["README.md"], 1, "not a binlog"),
        (
            [MYSQL, "--do-table=t"],
            2,
            "--replicate-do-table=t: could not add the rule: it is not in the form db_name.table_name",
        ),
        ([MYSQL, "--statement-kind=upsert"], 2, "--statement-kind=upsert: there is no such kind"),
        ([MYSQL, "--raw"], 2, "--output=DIR"),
        ([MYSQL, "--output=x"], 2, "--output goes with --raw"),
        ([MYSQL, "--binlog-with-tables-info"], 2, "--binlog-with-tables-info goes with --raw"),
        ([MYSQL, "--raw", "--output=x", "--no-skip-gtids"], 2, "--no-skip-gtids is about text"),
        ([MYSQL, "--raw", "--output=x", "--base-name=../x"], 2, "--base-name=../x: is no file name"),
        ([MYSQL, "--raw", f"--output={MYSQL}"], 2, "the binlogs themselves are there"),
        (
            [MYSQL, "--start-position=159"],
            1,
            "bin.000001: at 159: no transaction begins here; the nearest places are",
        ),
        ([MYSQL, "--start-position=0-1-5"], 2, "--start-position=0-1-5: not a position (bytes)"),
        ([MARIADB, "--start-position=x"], 2, "--start-position: not a GTID of MariaDB: 'x'"),
        ([MARIADB, "--start-position=2"], 2, "--start-position=2: a binlog's first event is at 4"),
        ([MARIADB, "--start-position=0-1-5", "--exclude-gtids=0-1-5"], 2, "use one of the two"),
        ([MARIADB, "--include-gtids=0-x"], 2, "--include-gtids: not a GTID of MariaDB: '0-x'"),
        (
            [MYSQL, "--stop-datetime=soon"],
            2,
            "--stop-datetime=soon: not a date and time (2026-11-21 13:05:00",
        ),
    ],
    ids=lambda value: " ".join(map(str, value[1:])) if isinstance(value, list) else "",
)
def test_errors_are_one_line(
    arguments: list[str | Path],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["dumpfilter", "binlog", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith("dumpfilter: ")
    assert err.count("\n") == 1


def test_help_has_examples() -> None:
    text = printed("--help")
    assert "dumpfilter binlog /var/lib/mysql/binlog.index --do-db=shop" in text
    assert "dumpfilter binlog binlog.000007 -vv --base64-output=decode-rows" in text


def test_both_spellings_are_the_same_rules() -> None:
    text = undecided(MYSQL, "--replicate-do-db=shop", "--replicate-wild-ignore-table=shop.o%")
    assert text == undecided(MYSQL, "--do-db=shop", "--wild-ignore-table=shop.o%")
    assert "INTO orders" not in text
    assert "use `shop`" in text
    assert "use `hr`" not in text


def test_kinds_of_statement() -> None:
    ddl = printed(MYSQL, "--statement-kind=create-table", "--statement-kind=CREATE DATABASE")
    assert "CREATE TABLE customers" in ddl
    assert "CREATE DATABASE shop" in ddl
    assert "INSERT" not in ddl
    rest = printed(MYSQL, "--ignore-statement-kind=create_table")
    assert "CREATE TABLE customers" not in rest
    assert "CREATE TABLE t2 LIKE t1" in rest
    assert "INSERT" in rest


def test_the_write_side() -> None:
    text = printed(MYSQL, "--binlog-ignore-db=shop", "--may-fail=print")
    assert "CREATE DATABASE hr" in text
    assert "use `shop`" not in text


def test_the_target_has_what_the_filter_drops() -> None:
    rules = ("--replicate-do-db=shop", "--skip-gtids")
    assert "# dumpfilter: not run: table " in invoke(MYSQL, *rules).stdout
    assert "# dumpfilter: not run: table " not in invoke(MYSQL, *rules, "--target-has=%.%").stdout


def test_the_parts_of_a_set_are_the_whole() -> None:
    """A position, a moment or a set of GTIDs divides the transactions in two."""
    for files in (MYSQL, MARIADB):
        first = sorted(files.glob("bin.0*"))[0]
        text = printed(first)
        every = gtids(text)
        places = [int(place) for place in re.findall(r"^# at (\d+)\n.*\tGtid\t", text, re.MULTILINE)]
        middle = places[len(places) // 2]
        before = gtids(printed(first, f"--stop-position={middle}"))
        after = gtids(printed(first, f"--start-position={middle}"))
        assert before + after == every
        assert len(before) == len(places) // 2
        some = ",".join(every[3:9])
        gtid_set = parse_gtid_set("")
        if files is MARIADB:
            # a position takes in all before it
            some = every[8]
            assert gtids(printed(first, f"--stop-position={some}")) == every[:9]
            assert gtids(printed(first, f"--start-position={some}")) == every[9:]
        else:
            gtid_set = parse_gtid_set(some)
        inside = gtids(printed(first, f"--include-gtids={gtid_set if gtid_set else some}"))
        outside = gtids(printed(first, f"--exclude-gtids={gtid_set if gtid_set else some}"))
        assert inside == (every[:9] if files is MARIADB else every[3:9])
        assert sorted(inside + outside) == sorted(every)
        # A script's variable may be empty. mysqlbinlog then prints no transaction, either.
        assert gtids(printed(first, "--include-gtids=")) == []
        assert gtids(printed(first, "--exclude-gtids=")) == every


def test_moments_are_of_whole_transactions() -> None:
    # recorded half a minute apart; the servers were started a second before
    files = [ORACLE / "mariadb-row" / "bin.000001", MARIADB / "bin.000002"]
    every = gtids(printed(*files))
    parts = [gtids(printed(file)) for file in files]
    assert every == parts[0] + parts[1]
    for when in ("2026-11-21 00:34:15", "2026-11-21T02:34:15+02:00", "2026-11-21 00:33:45"):
        assert gtids(printed(*files, f"--stop-datetime={when}")) == parts[0]
        assert gtids(printed(*files, f"--start-datetime={when}")) == parts[1]
    assert (
        gtids(printed(*files, "--start-datetime=2026-11-21 00:33:44", "--stop-datetime=2026-11-22")) == every
    )
    assert gtids(printed(*files, "--stop-datetime=2026-11-21 00:33:44")) == []


def test_a_stop_inside_a_transaction_leaves_it_out() -> None:
    """The position of a statement keeps the statement out, although its GTID stands before it."""
    first = MYSQL / "bin.000001"
    text = printed(first)
    before = text[: text.index("CREATE DATABASE hr\n")]
    place = re.findall(r"^# at (\d+)$", before, re.MULTILINE)[-1]
    done = run(first, f"--stop-position={place}")
    assert done.returncode == 0
    assert f"the stop position {place} lies inside the transaction" in done.stderr
    assert "CREATE DATABASE shop" in done.stdout
    assert "CREATE DATABASE hr" not in done.stdout
    assert len(gtids(done.stdout)) == 1


def test_where_nothing_is_renamed_clever_is_plain(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 400_000, style="mysql", file_size=150_000)
    rules = ["--ignore-table=shop_01.t_01", "--ignore-db=shop_02", "--raw", "--output"]
    printed(made.index, *rules, tmp_path / "plain")
    printed(made.index, *rules, tmp_path / "clever", "--clever")
    plain, clever = (sorted((tmp_path / name).iterdir()) for name in ("plain", "clever"))
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in clever]
    assert sum(path.stat().st_size for path in plain) < sum(path.stat().st_size for path in made.files)


def test_clever_tables_are_followed() -> None:
    """The recording makes t2 like t1, lets them change places, and renames t2 to t3."""
    plain = undecided(MARIADB, "--do-table=scratch.t1")
    clever = undecided(MARIADB, "--do-table=scratch.t1", "--clever")
    assert "CREATE TABLE t2 LIKE t1" not in clever
    assert "RENAME TO scratch.t3" not in plain
    assert "RENAME TO scratch.t3" in clever
    said = invoke(MARIADB, "--ignore-table=scratch.t1", "--clever").stderr
    # t2 is ignored like t1, so that nothing is torn apart
    assert "RENAME" not in said
    kinds = ORACLE / "mariadb-statement-kinds"
    said = invoke(kinds, "--ignore-table=d1.a", "--clever").stderr
    warning = (
        r"warning: bin\.00000\d: at \d+: this renames tables that are followed and tables that are not.*: "
    )
    assert re.search(warning + "RENAME TABLE a2 TO a4, b2 TO b4\n", said)


def test_tables_info_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(MYSQL, "--do-db=shop", "--raw", "--output", out, "--binlog-with-tables-info")
    assert done.returncode == 0, done.stderr
    assert {path.suffix for path in out.iterdir()} == {".index", ".000001", ".000002", ".000003"}
    named = []
    for path in sorted(out.glob("bin.0*")):
        with path.open("rb") as source:
            for event in iter_events(source, file=path.name):
                if event.type == EventType.FORMAT_DESCRIPTION:
                    assert has_tables_info(event.fd)
                if event.type == EventType.QUERY:
                    info = decode_query(event.body, post_header_length=17).tables_info
                    named += [one.table for one in info or ()]
    assert {"customers", "orders"} <= set(named)
    assert "emp" in printed(MYSQL)
    # servers know nothing of it, so the text does not either
    descriptions = [
        re.findall(r"^BINLOG '\n(.*?)'", printed(index), re.MULTILINE | re.DOTALL)
        for index in (out / "bin.index", MYSQL)
    ]
    assert descriptions[0] == descriptions[1]
    assert "CREATE TABLE customers" in printed(out / "bin.index")


def test_damage_stops_it_and_nothing_raw_is_left(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 200_000)
    data = bytearray(made.files[0].read_bytes())
    data[150_000] ^= 1
    made.files[0].write_bytes(data)
    done = run(made.index)
    assert done.returncode == 1
    assert re.fullmatch(r"dumpfilter: bin\.000001: at \d+: checksum mismatch.*\n", done.stderr)
    done = run(made.index, "--raw", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert not (tmp_path / "out").exists()


def test_rows_alone(tmp_path: Path) -> None:
    printed(ORACLE / "mysql-row", "--ignore-statement-kind=ROWS", "--raw", "--output", tmp_path / "out")
    kinds = set()
    for path in sorted((tmp_path / "out").glob("bin.0*")):
        with path.open("rb") as source:
            kinds |= {event.type for event in iter_events(source, file=path.name)}
    assert not kinds & ROWS
    assert EventType.QUERY in kinds


def test_verbose_prints_the_changed_rows_that_pass() -> None:
    done = run(ORACLE / "mysql-row" / "bin.000001", "-vv", "--base64-output=decode-rows", "--do-db=shop")
    assert done.returncode == 0, done.stderr
    assert "\n### INSERT INTO `shop`.`customers`\n### SET\n###   @1=1 /* INT meta=0 nullable=0" in done.stdout
    assert "`hr`" not in done.stdout
    assert "BINLOG '" not in done.stdout
    assert "\n###   @1=1\n" in run(ORACLE / "mysql-row" / "bin.000001", "--verbose", "--do-db=shop").stdout


def test_verbose_is_about_text(tmp_path: Path) -> None:
    done = run(MYSQL, "-v", "--raw", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "--verbose is about text" in done.stderr
