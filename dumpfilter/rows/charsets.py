"""The character sets of columns: from a collation's number to a Python codec."""

from __future__ import annotations

import functools

from dumpfilter.binlog.collations import charset_name
from dumpfilter.binlog.format import Family

UTF8 = "utf-8"
LATIN1 = "latin1"
"""MySQL's latin1, which is Windows' code page 1252 with its five undefined bytes mapped to themselves."""
BINARY = "binary"

_CODECS = {
    "armscii8": None,
    "ascii": UTF8,
    "big5": "big5hkscs",
    "binary": BINARY,
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": LATIN1,
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ucs2": "utf_16_be",
    "ujis": "euc_jp",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "utf8": UTF8,
    "utf8mb3": UTF8,
    "utf8mb4": UTF8,
}
"""The Python codecs of the servers' character sets. Python has no codec for the sets that are not here."""


@functools.cache
def codec_of(collation: int | None, family: Family) -> str | None:
    """Return the Python codec of a collation, or :data:`LATIN1` or :data:`BINARY`; None for one that Python lacks.

    >>> codec_of(255, "mysql"), codec_of(63, "mysql"), codec_of(13, "mariadb"), codec_of(None, "mysql")
    ('utf-8', 'binary', 'shift_jis', None)
    """
    if collation is None:
        return None
    name = charset_name(collation, family)
    return None if name is None else _CODECS.get(name)


def decode(data: bytes, codec: str | None) -> str:
    r"""Return bytes as text, or as hexadecimal digits when they are no text in this character set.

    Bytes of an unknown character set are text if they are UTF-8.

    >>> decode("ü".encode(), None), decode(b"\xff", "utf-8"), decode(b"\xfc", "latin1"), decode(b"a", "binary")
    ('ü', '0xFF', 'ü', '0x61')
    """
    if codec == LATIN1:
        return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in data)
    if codec != BINARY:
        try:
            return data.decode(codec or UTF8)
        except UnicodeDecodeError:
            pass
    return "0x" + data.hex().upper()
