"""The files of LOAD DATA, and the tables that a printer remembers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dumpfilter.analyse.printing.options import TextOptions
from dumpfilter.analyse.printing.text import LoadFiles, TextPrinter
from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.binlog.context_events import LoadBlock
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.set_pass import PassedStatement
from tests.analyse.printing.printed import print_event
from tests.strategies import DIALECTS, query_body


def test_load_files_are_put_together_and_never_replace_one(tmp_path: Path) -> None:
    (tmp_path / "SQL_LOAD-7-0").write_text("somebody else's")
    files = LoadFiles(tmp_path)
    files.begin(LoadBlock(7, b"a,"))
    files.begin(LoadBlock(8, b"other"))
    files.append(LoadBlock(7, b"b"))
    path = files.take(7)
    assert path.read_bytes() == b"a,b"
    assert (tmp_path / "SQL_LOAD-7-0").read_text() == "somebody else's"
    with pytest.raises(BinlogCorrupt, match="never begun"):
        files.append(LoadBlock(7, b"c"))


def test_load_files_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = LoadFiles()
    assert list(tmp_path.iterdir()) == []
    path = files.begin(LoadBlock(1, b"data"))
    assert path.parent.parent == tmp_path
    assert path.parent == files.directory
    assert (files.take(1).read_bytes(), files.written) == (b"data", 1)


def test_load_files_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        LoadFiles(tmp_path / "file").begin(LoadBlock(1, b""))
    with pytest.raises(OutputError, match="give another --local-load"):
        LoadFiles(tmp_path / "back\\slash").begin(LoadBlock(1, b""))


def test_the_file_of_a_failed_load_data_is_deleted_without_a_warning(tmp_path: Path) -> None:
    printed: list[bytes] = []
    warned: list[str] = []
    printer = TextPrinter(printed.append, TextOptions(local_load=tmp_path), warn=warned.append)
    fd = FormatDescription.parse(DIALECTS[0].format_description())
    for kind, data in ((EventType.BEGIN_LOAD_QUERY, b"data"), (EventType.DELETE_FILE, b"")):
        print_event(printer, make_event(kind, b"\7\0\0\0" + data, checksum=True), 300, fd)
    assert b"Delete_file\tfile_id: 7\n" in b"".join(printed)
    assert (warned, list(tmp_path.iterdir())) == ([], [])


def test_an_upgraded_server_leaves_the_tables_that_drifted(tmp_path: Path) -> None:
    printer = TextPrinter(lambda text: None, TextOptions(local_load=tmp_path))
    statements = [b"CREATE TABLE t (i INT)", b"ALTER TABLE t ADD j INT"]
    created, altered = (
        make_event(EventType.QUERY, query_body(text, "shop"), checksum=True) for text in statements
    )
    old = DIALECTS[0]
    for dialect in (old, replace(old, version="9.7.5")):
        event = dialect.format_description()
        fd = FormatDescription.parse(event)
        print_event(printer, event, 4, fd)
        if dialect is old:
            print_event(printer, created, 200, fd)
            printer.left_out(PassedStatement("bin.000001", fd, 300, altered, passes=False))
        assert any("columns of table shop.t:" in text for text in printer.shortcomings())


@pytest.mark.parametrize(
    ("skip_gtids", "texts", "expected"),
    [
        (True, ["CREATE TABLE t (i INT)"], ["CREATE DATABASE IF", "use `logs`", "CREATE TABLE"]),
        (
            *(False, ["CREATE TABLE t (i INT)"]),
            [
                "SET GTID",
                "ROLLBACK",
                "SET AUTOMATIC",
                "CREATE DATABASE IF",
                "SET GTID",
                "use `logs`",
                "CREATE TABLE",
            ],
        ),
        (
            *(True, ["BEGIN", "INSERT INTO shop.t VALUES (1)"]),
            ["BEGIN", "CREATE DATABASE IF", "BEGIN", "use `logs`", "INSERT INTO"],
        ),
        (
            *(False, ["BEGIN", "INSERT INTO shop.t VALUES (1)"]),
            [
                *(
                    "SET GTID",
                    "BEGIN",
                    "ROLLBACK",
                    "SET AUTOMATIC",
                    "CREATE DATABASE IF",
                    "SET GTID",
                    "BEGIN",
                ),
                *("use `logs`", "INSERT INTO"),
            ],
        ),
    ],
)
def test_a_database_that_is_made_uses_up_no_gtid_and_ends_no_transaction(
    tmp_path: Path, skip_gtids: bool, texts: list[str], expected: list[str]
) -> None:
    printed: list[bytes] = []
    printer = TextPrinter(printed.append, TextOptions(local_load=tmp_path, skip_gtids=skip_gtids))
    event = DIALECTS[0].format_description()
    fd = FormatDescription.parse(event)
    print_event(printer, event, 4, fd)
    printed.clear()
    made, *run = (
        make_event(EventType.QUERY, query_body(text.encode(), "logs"), checksum=True)
        for text in ("CREATE DATABASE logs", *texts)
    )
    printer.left_out(PassedStatement("bin.000001", fd, 200, made, passes=False))
    gtid = b"\1" + bytes(15) + b"\1" + (3).to_bytes(8, "little") + b"\2" + bytes(16)
    for number, one in enumerate((make_event(EventType.GTID, gtid, checksum=True), *run)):
        print_event(printer, one, 300 + number, fd)
    text = b"".join(printed).decode()
    text = re.sub(
        r"(/\*!50616 )?SET @@SESSION.GTID_NEXT= '(AUTOMATIC)?",
        lambda found: f"SET {found[2] or 'GTID'}",
        text,
    )
    lines = [line for line in text.splitlines() if line.startswith(tuple(expected))]
    assert all(line.startswith(begin) for line, begin in zip(lines, expected, strict=True)), text


def test_each_file_after_a_gtid_begins_without_one(tmp_path: Path) -> None:
    """MySQL stops with error 1782 at the second BINLOG of a format description without ``AUTOMATIC`` before it."""
    printed: list[bytes] = []
    printer = TextPrinter(printed.append, TextOptions(local_load=tmp_path, skip_gtids=False))
    event = DIALECTS[0].format_description()
    fd = FormatDescription.parse(event)
    gtid = b"\1" + bytes(15) + b"\1" + (3).to_bytes(8, "little") + b"\2" + bytes(16)
    for one in (event, make_event(EventType.GTID, gtid, checksum=True), event, event):
        print_event(printer, one, 4, fd)
    printer.end()
    text = b"".join(printed).decode()
    assert re.findall(r"^BINLOG|AUTOMATIC", text, re.MULTILINE) == [
        *("BINLOG", "AUTOMATIC", "BINLOG", "AUTOMATIC", "BINLOG", "AUTOMATIC")
    ]


def test_a_database_is_made_before_the_xa_transaction_that_needs_it(tmp_path: Path) -> None:
    printed: list[bytes] = []
    printer = TextPrinter(printed.append, TextOptions(local_load=tmp_path))
    event = DIALECTS[0].format_description()
    fd = FormatDescription.parse(event)
    print_event(printer, event, 4, fd)
    made, *texts = (
        make_event(EventType.QUERY, query_body(text, "logs"), checksum=True)
        for text in (b"CREATE DATABASE logs", b"XA START 'x'", b"INSERT INTO shop.t VALUES (1)")
    )
    printer.left_out(PassedStatement("bin.000001", fd, 200, made, passes=False))
    for number, text in enumerate(texts):
        print_event(printer, text, 300 + number, fd)
    lines = [
        line for line in b"".join(printed).decode().splitlines() if line[:2] in ("CR", "XA", "IN", "US", "us")
    ]
    assert lines[0].startswith("CREATE DATABASE IF NOT EXISTS `logs`")
    assert [line[:8] for line in lines[1:]] == ["XA START", "use `log", "INSERT I"]


@pytest.mark.parametrize(
    ("alters", "said"),
    [(1, "1 statement is a comment in the text"), (2, "2 statements are comments in the text")],
)
def test_statements_that_became_comments_are_counted(tmp_path: Path, alters: int, said: str) -> None:
    printer = TextPrinter(lambda text: None, TextOptions(local_load=tmp_path))
    event = DIALECTS[0].format_description()
    fd = FormatDescription.parse(event)
    print_event(printer, event, 4, fd)
    created, altered = (
        make_event(EventType.QUERY, query_body(text, "shop"), checksum=True)
        for text in (b"CREATE TABLE t (i INT)", b"ALTER TABLE t ADD j INT")
    )
    printer.left_out(PassedStatement("bin.000001", fd, 200, created, passes=False))
    for number in range(alters):
        print_event(printer, altered, 300 + number, fd)
    assert any(text.startswith(said) for text in printer.shortcomings())
