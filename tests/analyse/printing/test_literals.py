"""SQL literals of decimals and of the values of user variables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.printing.literals import user_variable
from dumpfilter.binlog.context_events import (
    UserVar,
)
from dumpfilter.binlog.decimals import decimal_binary_size, decimal_text


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
