"""The printed text keeps all events and values of a set."""

from __future__ import annotations

import base64
import io
import os
import tempfile
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.printing.options import SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog, range_of
from dumpfilter.analyse.printing.text import TextPrinter
from dumpfilter.base.errors import BinlogCorrupt, OptionError
from dumpfilter.binlog.compression import encode_transaction_payload
from dumpfilter.binlog.events import ROWS, EventHeader, EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.rows_events import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.set_pass import kept_pieces, one_event
from dumpfilter.filter.filter import Filter, FilterOptions
from dumpfilter.index.fileset import BinlogSet
from tests.analyse.printing.printed import BINLOG, events_in, print_event, printed, recording, text_options
from tests.analyse.printing.running import text_of


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_binlog_statements_hold_the_very_events(name: str, tmp_path: Path) -> None:
    files = recording(name).files
    text, _ = printed(files, tmp_path)
    held: list[bytes] = []
    for statement in BINLOG.findall(text):
        events = decoded(statement)
        while events:
            size = EventHeader.unpack(events).size
            held.append(events[:size])
            events = events[size:]
    wanted = ROWS | {EventType.TABLE_MAP, EventType.FORMAT_DESCRIPTION}
    assert held == [event.raw for event in events_in(files) if event.type in wanted]


def decoded(statement: bytes) -> bytes:
    """Return the events in a BINLOG statement, each of which has a base64 text of its own."""
    return b"".join(base64.b64decode(line) for line in statement.splitlines())


def test_a_compressed_transaction_is_opened(tmp_path: Path) -> None:
    text, warnings = printed(recording("mysql-mixed").files, tmp_path)
    payloads = text.count(b"\tTransaction_payload\t")
    assert payloads > 5
    # a compressed transaction has at least BEGIN and COMMIT
    assert text.count(b"\tXid\t") >= payloads
    assert text.count(b"\nBEGIN\n") >= payloads
    assert warnings == []


def test_rows_are_left_out_when_their_statement_maps_a_missing_table(tmp_path: Path) -> None:
    """The recorded replica lost the rows of logs.far, because it could not open shop.child of the same statement."""
    text, _ = text_of(recording("mysql97-foreign-keys-row"), "ignore-parent", tmp_path)
    held = [decoded(statement) for statement in BINLOG.findall(text)]
    assert [b"\3far\0" in events for events in held] == [False, True, False]


def test_a_rewritten_database_is_printed(tmp_path: Path) -> None:
    rules = Filter.from_options(["--replicate-rewrite-db=shop->store"], names=NameRules("mysql"))
    text, _ = printed(recording("mysql-row").files, tmp_path, rules)
    assert b"use `store`/*!*/;" in text
    assert b"use `shop`/*!*/;" not in text
    # a table map is the first event of its statement
    names = [event[28:] for statement in BINLOG.findall(text) if (event := decoded(statement))[4] == 19]
    assert any(name.startswith(b"\5store\0") or b"store\0" in name for name in names)
    assert not any(b"\4shop\0" in name for name in names)


def test_a_statement_that_holds_the_delimiter_gets_another(tmp_path: Path) -> None:
    one = recording("mariadb-statement")
    description = next(events_in(one.files))
    query = next(event for event in events_in(one.files) if b"INSERT" in event.raw)
    header = query.header
    body = bytes(query.body) + b" /* x /*!*/; y /*!0*/; */"
    out: list[bytes] = []
    printer = TextPrinter(out.append, text_options(tmp_path))
    print_event(printer, description.raw, 4, description.fd)
    event = make_event(header.type, body, timestamp=header.timestamp, checksum=True)
    print_event(printer, event, 99, description.fd)
    text = b"".join(out)
    assert text.endswith(b"y /*!0*/; */\n/*!1*/;\ndelimiter /*!*/;\n")
    assert b"\ndelimiter /*!1*/;\n" in text


def test_the_delimiter_command_is_in_lower_case(tmp_path: Path) -> None:
    r"""The client of MySQL 9.7 sends DELIMITER in upper case to the server after ``\C binary``."""
    text, _ = printed(recording("mariadb-statement").files, tmp_path)
    assert text.count(b"\ndelimiter ") == 2
    assert b"DELIMITER" not in text


def test_what_cannot_be_printed_is_a_comment_and_a_warning(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    out: list[bytes] = []
    warnings: list[str] = []
    printer = TextPrinter(out.append, text_options(tmp_path), warn=warnings.append)
    print_event(printer, description.raw, 4, description.fd)
    out.clear()
    print_event(printer, make_event(99, b"what", checksum=True), 127, description.fd)
    print_event(printer, make_event(EventType.INCIDENT, b"\1\0\4gone"), 200, description.fd)
    text = b"".join(out)
    assert b"\tUnknown(99)\t" in text
    # an incident stops the client
    assert b"\nRELOAD DATABASE" in text
    assert [line for line in text.splitlines() if not line.startswith(b"#")] == [
        b"RELOAD DATABASE; # Shall generate syntax error",
        b"/*!*/;",
    ]
    assert [warning.partition(": ")[2][:8] for warning in warnings] == ["at 127: ", "at 200: "]
    assert "gone" in warnings[1]


def test_a_name_cannot_end_a_comment(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    table = TableMap(7, 1, "d", "x\nDROP DATABASE d;\n", bytes([3]), b"", b"\0")
    out: list[bytes] = []
    printer = TextPrinter(out.append, text_options(tmp_path))
    print_event(printer, description.raw, 4, description.fd)
    print_event(printer, make_event(EventType.TABLE_MAP, encode_table_map(table)), 127, description.fd)
    printer.end()
    assert not any(line.startswith(b"DROP") for line in b"".join(out).splitlines())


def test_damage_is_told_with_file_and_position(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    printer = TextPrinter(lambda data: None, text_options(tmp_path))
    print_event(printer, description.raw, 4, description.fd)
    with pytest.raises(BinlogCorrupt, match=r"bin\.000001: at 127: Intvar event"):
        print_event(printer, make_event(EventType.INTVAR, b"x"), 127, description.fd)


@pytest.mark.parametrize(
    ("name", "skip_gtids"),
    [("mysql-row", True), ("mysql-mixed", False), ("mariadb-row", False), ("mariadb-mixed", True)],
)
def test_events_printed_together_have_the_text_of_each_alone(
    name: str, skip_gtids: bool, tmp_path: Path
) -> None:
    """Statements end in other calls, and the settings of one statement hold for the next."""
    pieces = list(kept_pieces(BinlogSet.open(recording(name).files), Filter()))
    texts = []
    for number, size in enumerate((1, 3, 1 << 30)):
        out: list[bytes] = []
        options = text_options(tmp_path / str(number), skip_gtids=skip_gtids, verbose=2)
        printer = TextPrinter(out.append, options)
        for kept in pieces:
            for first in range(0, kept.start.size, size):
                printer.events(kept.part(first, min(first + size, kept.start.size)))
                if size < 1 << 30:
                    printer.flush()
        printer.end()
        texts.append(b"".join(out).replace(os.fsencode(tmp_path / str(number)), b""))
    assert texts[0] == texts[1] == texts[2]


def test_rows_that_cannot_be_decoded_are_an_error_with_their_place(tmp_path: Path) -> None:
    first, *rest = events_in(recording("mysql-row").files)
    out: list[bytes] = []
    printer = TextPrinter(out.append, text_options(tmp_path, verbose=1))
    table = next(k for k, event in enumerate(rest) if event.type == EventType.TABLE_MAP)
    maps, rows = rest[table : table + 2]
    broken = make_event(rows.type, bytes(rows.body)[:-1], checksum=rows.fd.checksum)
    for event in (first, *rest[:table], maps):
        printer.events(one_event("bin.000001", event.fd, event.offset, event.raw))
    with pytest.raises(BinlogCorrupt, match=rf"bin\.000001: at {rows.offset}: rows event: the rows data end"):
        print_event(printer, broken, rows.offset, rows.fd)
    assert b"# at %d\n" % rows.offset not in b"".join(out)


def test_the_events_before_rows_that_cannot_be_decoded_are_printed(tmp_path: Path) -> None:
    source = recording("mysql-row").files[0]
    events = list(events_in([source]))
    broken = [event for event in events if event.type in ROWS][9]
    rows = make_event(broken.type, bytes(broken.body)[:-1], checksum=broken.fd.checksum)
    data, end = source.read_bytes(), broken.offset + len(broken.raw)
    damaged = tmp_path / source.name
    damaged.write_bytes(data[: broken.offset] + rows + data[end:])
    texts = []
    for file in (source, damaged):
        out: list[bytes] = []
        printer = TextPrinter(out.append, text_options(tmp_path, verbose=1))
        place = rf"bin\.000001: at {broken.offset}: rows event: the rows data end"
        with pytest.raises(BinlogCorrupt, match=place) if file is damaged else nullcontext():
            for kept in kept_pieces(BinlogSet.open(file), Filter()):
                printer.events(kept)
            printer.finish()
        texts.append(b"".join(out))
    whole, part = texts
    before = events[events.index(broken) - 1]
    assert whole.startswith(part)
    assert part.rindex(b"# at ") == part.index(b"# at %d\n" % before.offset)


def test_compressed_rows_that_cannot_be_opened_are_an_error_with_their_place(tmp_path: Path) -> None:
    first, *rest = events_in(recording("mariadb118-mixed").files[:1])
    rows = next(event for event in rest if event.type == EventType.WRITE_ROWS_COMPRESSED_V1)
    broken = make_event(rows.type, bytes(rows.body)[:-4], checksum=rows.fd.checksum)
    out: list[bytes] = []
    printer = TextPrinter(out.append, text_options(tmp_path))
    for event in (first, *rest[: rest.index(rows)]):
        printer.events(one_event("bin.000001", event.fd, event.offset, event.raw))
    with pytest.raises(BinlogCorrupt, match=rf"bin\.000001: at {rows.offset}: compressed data"):
        print_event(printer, broken, rows.offset, rows.fd)
    assert b"# at %d\n" % rest[rest.index(rows) - 1].offset in b"".join(out)


def test_a_position_of_thousands_of_digits_is_an_error() -> None:
    with pytest.raises(OptionError, match="9: not a position"):
        range_of(SelectionOptions(stop_position="9" * 5000), "mysql")


def test_a_warning_cannot_command_the_terminal(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    message = b"lost \x1b[31m\nmore"
    body = b"\1\0%c%s" % (len(message), message)
    file = tmp_path / "bin.000001"
    incident = make_event(EventType.INCIDENT, body, checksum=description.fd.checksum)
    file.write_bytes(b"\xfebin" + description.raw + incident)
    log = io.StringIO()
    print_all(file, log)
    (line,) = log.getvalue().splitlines()
    assert line.endswith(r"an incident: lost \x1b[31m\nmore; replay stops here")


def test_a_text_that_ends_with_an_error_tells_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = recording("mysql-forms").files[0]
    file = tmp_path / source.name
    file.write_bytes(source.read_bytes()[:-1] + b"?")
    log = io.StringIO()
    with pytest.raises(BinlogCorrupt):
        print_all(file, log)
    (directory,) = tmp_path.glob("dumpfilter-load-*")
    assert f"files of LOAD DATA are in {directory}" in log.getvalue()


def print_all(file: Path, log: io.StringIO) -> None:
    """Print a binlog as ``dumpfilter binlog`` does without options, and leave out the text."""
    options = SelectionOptions(), TextOptions()
    print_binlog(BinlogSet.open(file), FilterOptions(), *options, io.BytesIO(), Console(file=log, width=1000))


def test_a_large_compressed_transaction_is_printed_in_little_memory(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    one = make_event(EventType.ROWS_QUERY, b"\xff" + b"x" * (1 << 16), checksum=False)
    payload = encode_transaction_payload(one * 1536)
    event = make_event(EventType.TRANSACTION_PAYLOAD, payload, checksum=description.fd.checksum)
    written = 0

    def write(text: bytes) -> None:
        nonlocal written
        written += len(text)

    printer = TextPrinter(write, text_options(tmp_path))
    print_event(printer, description.raw, 4, description.fd)
    tracemalloc.start()
    print_event(printer, event, 127, description.fd)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written > 96 << 20
    # Other threads of the tests' process allocate meanwhile, too.
    assert peak < 48 << 20


def test_damage_inside_a_compressed_transaction_is_told_after_the_events_before(tmp_path: Path) -> None:
    description = next(events_in(recording("mysql-row").files))
    inner = make_event(EventType.XID, bytes([7] + [0] * 7), checksum=False)
    payload = encode_transaction_payload(inner + b"x" * 30)
    event = make_event(EventType.TRANSACTION_PAYLOAD, payload, checksum=description.fd.checksum)
    out: list[bytes] = []
    printer = TextPrinter(out.append, text_options(tmp_path))
    print_event(printer, description.raw, 4, description.fd)
    with pytest.raises(BinlogCorrupt, match=r"bin\.000001: at 127: .*impossible length"):
        print_event(printer, event, 127, description.fd)
    assert b"Xid = 7\nCOMMIT" in b"".join(out)
