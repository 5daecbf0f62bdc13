"""Reading of sizes in bytes such as ``512M``."""

from __future__ import annotations

from dumpfilter.errors import OptionError

_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(text: str, *, option: str = "size", least: int = 0) -> int:
    """Return the number of bytes that a text such as ``512M`` means. K, M, G and T are powers of 1024.

    Raises OptionError, which names ``option``, for a malformed size and for a size below ``least``.

    >>> parse_size("1.5K")
    1536
    """
    unit = _UNITS.get(text[-1:].upper())
    try:
        size = int(text) if unit is None else int(float(text[:-1]) * (1 << unit))
    except (ValueError, OverflowError):
        raise OptionError(f"{option}: {text!r} is not a size: bytes, or with K, M, G or T") from None
    if size < least:
        raise OptionError(f"{option}: {text!r} is too small: at least {least}")
    return size
