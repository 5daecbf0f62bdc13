"""Tests of the generator: every row can be decoded, and a seed repeats the bytes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench._common import schema_sizes, schemas_for
from dumpfilter.base.errors import OutputError
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import MysqlGtid
from dumpfilter.binlog.gtid_events import decode_mariadb_gtid, decode_mysql_gtid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.row_walk import row_images
from dumpfilter.binlog.rows_events import decode_rows_header, decode_table_map
from dumpfilter.binlog.workload import SERVER_ID, START, Span, generate, schema_names
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from tests.commands.in_process import run

STYLES: tuple[Family, ...] = ("mysql", "mariadb")


@pytest.mark.parametrize("style", STYLES)
def test_every_event_decodes(tmp_path: Path, style: Family) -> None:
    made = generate(tmp_path, 400_000, style=style, file_size=150_000, schemas=3, tables=8)
    assert len(made.files) > 2
    numbers, times, rows = [], [], 0
    for path in made.files:
        with open(path, "rb") as file:
            tables, last = {}, 4
            for event in iter_events(file, file=path.name):
                assert event.header.end_log_pos == event.offset + len(event.raw)
                assert event.header.server_id == SERVER_ID
                last = event.offset + len(event.raw)
                times.append(event.header.timestamp)
                if event.type == EventType.TABLE_MAP:
                    table = decode_table_map(event.body)
                    tables[table.table_id] = table
                elif event.type in ROWS:
                    header = decode_rows_header(event.type, event.body)
                    table = tables[header.table_id]
                    rows += row_images(table, header, event.body[header.rows_offset :]).end.size
                elif event.type == EventType.GTID:
                    gtid = decode_mysql_gtid(event.body).gtid
                    assert isinstance(gtid, MysqlGtid)
                    numbers.append(gtid.gno)
                elif event.type == EventType.MARIADB_GTID:
                    numbers.append(decode_mariadb_gtid(event.body, SERVER_ID).gtid.seq_no)
            assert last == path.stat().st_size
    assert numbers == list(range(1, made.transactions + 1))
    assert times == sorted(times)
    assert rows > made.transactions


@pytest.mark.parametrize("style", STYLES)
def test_the_index_takes_it(tmp_path: Path, style: Family) -> None:
    made = generate(tmp_path, 300_000, style=style, file_size=100_000)
    transactions = sum(
        int((segment.txn_source >= 0).sum())
        for _, segment in BinlogSet.open(made.index).segments(Subjects(), SourceNumbers())
    )
    assert transactions == made.transactions
    assert made.bytes == sum(path.stat().st_size for path in made.files)


def test_a_seed_says_all(tmp_path: Path) -> None:
    first = generate(tmp_path / "a", 100_000, seed=7)
    again = generate(tmp_path / "b", 100_000, seed=7)
    other = generate(tmp_path / "c", 100_000, seed=8)
    assert first.files[0].read_bytes() == again.files[0].read_bytes()
    assert first.files[0].read_bytes() != other.files[0].read_bytes()


@pytest.mark.parametrize("wanted", [0.05, 0.1, 0.2, 0.5, 0.9])
def test_a_fraction_is_kept(tmp_path: Path, wanted: float) -> None:
    made = generate(tmp_path, 2_000_000)
    sizes = schema_sizes(made)
    names = schemas_for(sizes, wanted)
    assert sum(sizes[name] for name in names) / sum(sizes.values()) == pytest.approx(wanted, abs=0.02)


def test_the_bytes_of_several_tables_are_no_schema(tmp_path: Path) -> None:
    """A filter kept 15 % of the bytes in place of a fifth, since it named no schema for the rest."""
    assert sorted(schema_sizes(generate(tmp_path, 1_000_000))) == schema_names(20)


def test_nothing_fits() -> None:
    assert schemas_for({"a": 100}, 0.5) == []


def _commit_seconds(index: Path) -> list[int]:
    return [
        int(at)
        for _, segment in BinlogSet.open(index).segments(Subjects(), SourceNumbers())
        for at in segment.time[segment.txn_event[:-1]][segment.txn_source >= 0]
    ]


@pytest.mark.parametrize("style", STYLES)
def test_commit_times_fill_a_span(tmp_path: Path, style: Family) -> None:
    begin = 1_700_000_000
    made = generate(tmp_path, 1 << 20, style=style, span=Span(begin, 86_400))
    times = _commit_seconds(made.index)
    assert times == sorted(times)
    assert begin <= times[0] < begin + 3600
    assert begin + 0.9 * 86_400 < times[-1] <= begin + 86_400


def test_a_steady_span(tmp_path: Path) -> None:
    made = generate(tmp_path, 1 << 20, span=Span(1_700_000_000, 1000))
    times = _commit_seconds(made.index)
    first = sum(at < 1_700_000_500 for at in times)
    assert 0.4 < first / len(times) < 0.6


def test_a_span_changes_only_the_times(tmp_path: Path) -> None:
    """Without a span, a seed gives the bytes that it always gave."""
    plain, spread = (
        generate(tmp_path / name, 1 << 16, span=span) for name, span in (("a", None), ("b", Span(START, 60)))
    )
    assert plain.files[0].read_bytes() != spread.files[0].read_bytes()
    assert _commit_seconds(plain.index)[-1] - START <= 1
    again = generate(tmp_path / "c", 1 << 16)
    assert plain.files[0].read_bytes() == again.files[0].read_bytes()


def test_a_full_disk_is_an_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "bin.000001").symlink_to("/dev/full")
    with pytest.raises(OutputError, match="000001: cannot be written: No space left"):
        generate(tmp_path, 50_000)


def test_command(tmp_path: Path) -> None:
    begin = int(time.time())
    made = run("generate", str(tmp_path / "sample"), "--size", "64K", "--hours", "2", "--style", "mariadb")
    assert made.returncode == 0
    assert made.stdout.startswith(f"{tmp_path}/sample/binlog.index: ")
    times = _commit_seconds(tmp_path / "sample" / "binlog.index")
    assert begin - 7200 <= times[0] <= times[-1] <= int(time.time())
    again = run("generate", str(tmp_path / "sample"))
    assert again.returncode != 0
    assert "name a new directory" in again.stderr
    assert "--size: 'big' is not a size" in run("generate", str(tmp_path / "x"), "--size", "big").stderr
    assert not (tmp_path / "x").exists()
