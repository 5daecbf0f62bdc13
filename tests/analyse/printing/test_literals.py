"""SQL literals of decimals and of user variables' values, and the texts of Gap events."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dumpfilter.analyse.printing.literals import gap_text, user_variable
from dumpfilter.analyse.printing.options import SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog
from dumpfilter.analyse.printing.show_events import show_events
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.context_events import UserVar
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.gap_events import Gap, Head, make_gap, make_head
from dumpfilter.binlog.row_image import decimal_binary_size, decimal_text
from dumpfilter.filter.filter import FilterOptions
from dumpfilter.index.fileset import BinlogSet
from tests.support import DATA


def _binary_decimal(digits: str, negative: bool, precision: int, scale: int) -> bytes:
    """Return the result of the server's ``decimal2bin``, computed plainly from the decimal digits."""
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    width = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 4}
    head = len(whole) % 9
    groups = [whole[:head]] + [whole[at : at + 9] for at in range(head, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    out = bytearray(b"".join(int(group or 0).to_bytes(width[len(group)], "big") for group in groups))
    if negative:
        out = bytearray(byte ^ 0xFF for byte in out)
    out[0] ^= 0x80
    return bytes(out)


@given(st.data())
def test_decimals(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 30)))
    digits = data.draw(st.text("0123456789", min_size=precision, max_size=precision))
    negative = data.draw(st.booleans())
    raw = _binary_decimal(digits, negative, precision, scale)
    assert len(raw) == decimal_binary_size(precision, scale)
    text = decimal_text(raw, precision, scale)
    whole = digits[: precision - scale].lstrip("0") or "0"
    assert text == ("-" if negative else "") + whole + ("." + digits[precision - scale :] if scale else "")


@given(st.binary(max_size=40), st.sampled_from(["mysql", "mariadb"]))
def test_no_bytes_of_a_user_variable_break_out(value: bytes, family: str) -> None:
    said = user_variable(UserVar("v", value, charset=33), family)  # type: ignore[arg-type]
    assert said == b"_utf8mb3 X'" + value.hex().encode() + b"' COLLATE `utf8mb3_general_ci`"


UUID = bytes(15) + b"\7"
NAME = "00000000-0000-0000-0000-000000000007"


@pytest.fixture
def relay_log(tmp_path: Path) -> Path:
    """Return a recorded binlog with a head event, a Gap event and an event with hits after its format description."""
    data = (DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes()
    size = int.from_bytes(data[13:17], "little")
    path = tmp_path / "relay-bin.000001"
    gaps = [
        make_head({"master_uuid": "m"}, server_id=7, checksum=True),
        make_gap(Gap(4711, {1: 3}, ((UUID, 5, 9), (UUID + b"tag", 1, 1))), server_id=7, checksum=True),
        make_gap(Gap(hits={2: 1}), server_id=7, checksum=True),
    ]
    path.write_bytes(data[: len(MAGIC) + size] + b"".join(gaps) + data[len(MAGIC) + size :])
    return path


TEXTS = [
    "head of a relay log: master_uuid=m",
    f"dropped by the master: GTIDs {NAME}:5-9:tag:1, up to position 4711; hits REPLICATE_DO_DB=3",
    "dropped by the master: hits REPLICATE_IGNORE_DB=1",
]


def test_show_relaylog_events(relay_log: Path) -> None:
    rows = show_events(relay_log, "mysql").rows
    assert [(row[2], row[5]) for row in rows[1:4]] == [("Ignorable", text) for text in TEXTS]
    assert [row[4] for row in rows[1:4]] == [0, 4711, 0]


def test_binlog_prints_comments(relay_log: Path) -> None:
    out, log = io.BytesIO(), io.StringIO()
    counts = print_binlog(
        BinlogSet.open(relay_log), FilterOptions(), SelectionOptions(), TextOptions(), out, Console(file=log)
    )
    found = [line for line in out.getvalue().decode().splitlines() if "\tIgnorable\t" in line]
    assert [line.split("\t")[2] for line in found] == TEXTS
    assert all(line.startswith("#") for line in found)
    assert (counts.events_undecided, log.getvalue()) == (0, "")


def test_odd_contents() -> None:
    assert gap_text(None) == ""
    assert gap_text(Gap()) == "dropped by the master: nothing"
    assert gap_text(Head({})) == "head of a relay log: no member"
    assert gap_text(Gap(5, {250: 1})) == "dropped by the master: up to position 5; hits rule kind 250=1"
    with pytest.raises(BinlogCorrupt, match="impossible GTIDs"):
        gap_text(Gap(5, runs=((bytes(8), 1, 2), (UUID, 1, 2))))
