"""DECIMAL values in the servers' binary form: their sizes and their digits.

Sources: ``decimal_bin_size`` and ``bin2decimal`` in ``strings/decimal.cc``.
"""

from __future__ import annotations

from dumpfilter.base.errors import BinlogCorrupt

DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The sizes of groups of 0 to 9 decimal digits, bytes (``dig2bytes``)."""


def decimal_binary_size(precision: int, scale: int) -> int:
    """Return the size of a DECIMAL(precision, scale) value in the servers' binary form, bytes (``decimal_bin_size``).

    On either side of the point, each group of 9 digits takes 4 bytes. The remaining digits take 1 to 4 bytes.

    >>> decimal_binary_size(10, 2), decimal_binary_size(65, 30), decimal_binary_size(9, 9)
    (5, 30, 4)
    """
    whole = precision - scale
    return 4 * (whole // 9) + DIGIT_BYTES[whole % 9] + 4 * (scale // 9) + DIGIT_BYTES[scale % 9]


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Convert a DECIMAL(precision, scale) from the servers' binary form to decimal digits (``bin2decimal``).

    Raises BinlogCorrupt for data of the wrong length.

    >>> decimal_text(bytes.fromhex("810dfb38d204d2"), 14, 4)
    '1234567890.1234'
    """
    if not 0 <= scale <= precision or not data or len(data) != decimal_binary_size(precision, scale):
        raise BinlogCorrupt(f"a DECIMAL({precision},{scale}) of {len(data)} bytes")
    whole = precision - scale
    sign = "" if data[0] & 0x80 else "-"
    plain = bytes((data[0] ^ 0x80, *data[1:]))
    if sign:
        plain = bytes(byte ^ 0xFF for byte in plain)
    at = 0

    def digits(count: int) -> str:
        nonlocal at
        width = DIGIT_BYTES[count]
        number = int.from_bytes(plain[at : at + width], "big")
        at += width
        return f"{number:0{count}}"

    groups = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9)
    integer = "".join(digits(count) for count in groups).lstrip("0") or "0"
    groups = [9] * (scale // 9) + ([scale % 9] if scale % 9 else [])
    fraction = "".join(digits(count) for count in groups)
    return f"{sign}{integer}.{fraction}" if fraction else sign + integer
