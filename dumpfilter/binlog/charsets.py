"""Collations and character sets: their names by number, and the conversion of values to text as the servers do it.

The names are from INFORMATION_SCHEMA.COLLATIONS and COLLATION_CHARACTER_SET_APPLICABILITY of MySQL 9.7, MariaDB 10.11
and 11.8.

The conversions were compared with ``CONVERT(… USING utf8mb4)`` of MariaDB 10.11 and MySQL 9.7 for all bytes and pairs
of bytes. Python's codecs agree with the servers except for the characters in this module, and for seven characters of
big5 and bytes of tis620 that MySQL alone maps to U+FFFD.
"""

from __future__ import annotations

import codecs
import functools
import json
import re
from pathlib import Path

from dumpfilter.binlog.format import Family

_OF_EQUAL_NAMES = (
    *("big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932"),
    *("gb18030", "gb2312", "gbk"),
)
CODECS = {
    **{name: name for name in _OF_EQUAL_NAMES},
    **dict.fromkeys(("ascii", "utf8", "utf8mb3", "utf8mb4"), "utf-8"),
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
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
}
"""Python's codec for each character set of the servers, by the character set's name. A character set that is missing
here has no codec in Python.

Python's maps differ from the servers' in some characters, which :func:`decode` corrects. The servers' latin1 is
Windows' code page 1252.
"""

_NOPAD = 1024
_UCA1400 = 2048
_UCA1400_SETS = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")


def collation_name(number: int, family: Family) -> str | None:
    """Return the name of the collation with this id, or None for an id that the server family (MySQL or MariaDB) does
    not have.

    >>> collation_name(255, "mysql"), collation_name(1057, "mariadb"), collation_name(2304, "mariadb")
    ('utf8mb4_0900_ai_ci', 'utf8mb3_general_nopad_ci', 'utf8mb4_uca1400_ai_ci')
    """
    names = _names()
    found = names["both"].get(str(number)) or names[family].get(str(number))
    if found or family == "mysql":
        return found
    if number >= _UCA1400:
        which, collation = divmod(number - _UCA1400, 256)
        name = names["uca1400"].get(str(collation))
        return f"{_UCA1400_SETS[which]}_{name}" if name and which < len(_UCA1400_SETS) else None
    padded = collation_name(number - _NOPAD, family) if number > _NOPAD else None
    if padded is None:
        return None
    head, _, last = padded.rpartition("_")
    return f"{head}_nopad_{last}"


@functools.cache
def charset_name(number: int | None, family: Family) -> str | None:
    """Return the name of the character set of the collation with this id.

    Return None for None, and for an id that the server family (MySQL or MariaDB) does not have.

    >>> charset_name(45, "mysql"), charset_name(63, "mariadb"), charset_name(13, "mariadb"), charset_name(None, "mysql")
    ('utf8mb4', 'binary', 'sjis', None)
    """
    name = None if number is None else collation_name(number, family)
    return None if name is None else name.partition("_")[0]


@functools.cache
def _names() -> dict[str, dict[str, str]]:
    # The keys are "mysql", "mariadb", "uca1400" and "both". Each value maps a collation's number, as text, to its name.
    names: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("collations.json").read_text())
    return names


BINARY = "binary"
LATIN1 = "latin1"
"""MySQL's latin1, which is Windows' code page 1252 with its five undefined bytes mapped to themselves."""

_OTHERS = {
    "cp866": str.maketrans("№¤", "ⁿ²"),
    "eucjpms": str.maketrans("〜‖−¢£¬¦", "～∥－￠￡￢￤"),
    "gb18030": str.maketrans("ḿ\ue7c7", "\ue7c7ḿ"),
    "greek": str.maketrans("‘’", "ʽʼ"),
    "hebrew": str.maketrans("¯", "‾"),
    "koi8u": str.maketrans("∙", "•"),
}
"""For a character set, a table for :meth:`str.translate`: from a character that Python's codec decodes to the character
that the servers use in its place.
"""

_WIDE_BACKSLASH = "＼"
_MAPS_TO_ASCII = frozenset({"sjis", "ujis"})
"""The character sets of which the servers map a two-byte character to an ASCII character: ``＼`` to a backslash."""

_UNCERTAIN = {
    "big5": "╴￣ˍ／＼十卅",
    "cp1256": "ٹڈکڑںھہے",
    "cp932": "\x80\uf8f0-\uf8f3",
    "greek": "€₯ͺ",
    **dict.fromkeys(_MAPS_TO_ASCII, _WIDE_BACKSLASH),
}
"""By character set, the characters of :func:`decode`'s result in whose place a server may read another character, so
that a name with such a character is uncertain.

MySQL makes a question mark or U+FFFD of most of them. A value is a part of a regular expression's character class.
"""

_THREE_BYTES = 0x8F
"""The byte before the two bytes of a character of JIS X 0212 in EUC."""
_USER_DEFINED, _USER_DEFINED_0212 = 0xE000, 0xE3AC
"""The first Unicode characters for the user-defined rows 85 to 94 of two character sets: JIS X 0208 and JIS X 0212."""
_CELLS = 94
_FIRST_BYTE, _FIRST_USER_DEFINED, _NEC_ROW = 0xA1, 0xF5, 0xAD
_FIRST_IBM = b"\xf3\xf3"
"""The first of IBM's extensions in EUC, without the byte before characters of JIS X 0212."""
_NO_TRAIL, _LAST_IBM = 0x7F, b"\xfc\x4b"
"""The trail byte that no character of Windows' code page 932 has, and the last character of IBM's extensions there."""
_BIG5_LAST = b"\xf9\xd6", b"\xf9\xdc"
"""The first and the last of the seven characters of Windows' Big5 that the servers know and Python does not."""


def decode(data: bytes, charset: str | None) -> str:
    r"""Return ``data`` as text, or as hexadecimal digits when the bytes are not valid in the character set.

    ``charset`` is the servers' name of a character set, such as ``latin1``. With None (unknown), the bytes are text if
    they are UTF-8.

    >>> decode("ü".encode(), None), decode(b"\xff", "utf8mb4"), decode(b"\xfc", "latin1"), decode(b"a", "binary")
    ('ü', '0xFF', 'ü', '0x61')
    >>> decode(b"\x95", "koi8u"), decode(b"\xf5\xa1", "ujis") == chr(0xE000), decode(b"\xad\xa1", "eucjpms")
    ('•', True, '①')
    """
    text = valid_text(data, charset)
    if text is None:
        return "0x" + data.hex().upper()
    return text.replace(_WIDE_BACKSLASH, "\\") if charset in _MAPS_TO_ASCII else text


def valid_text(data: bytes, charset: str | None) -> str | None:
    """Return ``data`` as text, or None when the bytes are not valid in the character set ``charset`` (a server's name
    such as ``latin1``; None: UTF-8).

    No byte above 0x7F becomes an ASCII character, so that an SQL text keeps its tokens. So the result differs from
    that of :func:`decode` for one character of sjis and ujis.
    """
    codec = "utf-8" if charset is None else CODECS.get(charset)
    if codec is None:
        return None
    try:
        text = data.decode(codec, _ADDED.get(charset or "", "strict"))
    except UnicodeDecodeError:
        return None
    return text.translate(_OTHERS[charset]) if charset in _OTHERS else text


@functools.cache
def _uncertain(charset: str | None) -> re.Pattern[str]:
    # In many single-byte sets the server reads U+00A0 as white space, and some bytes after -- as a comment's begin.
    return re.compile(f"[\xa0\udc80-\udcff{_UNCERTAIN.get(charset or '', '')}]|--[^\0-\x7f]")


def has_certain_names(text: str, charset: str | None) -> bool:
    """Tell whether Python's decoding of an SQL text certainly gives the names of tables and databases that a server
    reads. False means that a character may mean something else to the server. The text has no literals.

    ``charset`` is the character set from which ``text`` was decoded; None if unknown. Surrogates stand for bytes that
    are not valid in the character set.
    """
    return not _uncertain(charset).search(text)


def _latin1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(error.object[error.start]), error.start + 1


def _big5(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if not _BIG5_LAST[0] <= pair <= _BIG5_LAST[1]:
        raise error
    return pair.decode("cp950"), error.start + 2


def _euc(error: UnicodeError) -> tuple[str, int]:
    """Decode one EUC character that Python's codec rejects. Return the character and the offset in ``error.object``
    after its bytes.

    The function is the part of a codec error handler (:func:`codecs.register_error`) that knows characters missing in
    Python. These characters are user-defined, from NEC's row 13, or from IBM's extensions. For other bytes ``error`` is
    raised again.
    """
    assert isinstance(error, UnicodeDecodeError)
    at, base = error.start, _USER_DEFINED
    if error.object[at] == _THREE_BYTES:
        at, base = at + 1, _USER_DEFINED_0212
    row, cell = error.object[at : at + 1], error.object[at + 1 : at + 2]
    if not cell or not _FIRST_BYTE <= cell[0] < _FIRST_BYTE + _CELLS or row[0] < _FIRST_BYTE:
        raise error
    number = cell[0] - _FIRST_BYTE
    if _FIRST_USER_DEFINED <= row[0] < _FIRST_BYTE + _CELLS:
        return chr(base + (row[0] - _FIRST_USER_DEFINED) * _CELLS + number), at + 2
    place = (row[0] - _FIRST_IBM[0]) * _CELLS + cell[0] - _FIRST_IBM[1]
    if base == _USER_DEFINED_0212 and 0 <= place < len(_ibm()):
        return _ibm()[place], at + 2
    if row[0] != _NEC_ROW or base != _USER_DEFINED:
        raise error
    # Row 13 has the lead byte 0x87 in Windows' code page 932, whose trail bytes leave out 0x7F.
    return bytes((0x87, 0x40 + number + (number >= _NO_TRAIL - 0x40))).decode("cp932"), at + 2


@functools.cache
def _ibm() -> str:
    """Return one string with IBM's extensions of Windows' code page 932 that Python's euc_jp lacks, in the order of
    that code page.

    The characters have the same order in EUC, so that a character's index in the string follows from its EUC code.
    """
    pairs = (bytes((lead, trail)) for lead in (0xFA, 0xFB, 0xFC) for trail in range(0x40, 0xFD))
    found = "".join(pair.decode("cp932") for pair in pairs if pair[1] != _NO_TRAIL and pair <= _LAST_IBM)
    return "".join(
        one for one in found if one == "№" or (one not in "￢￤" and not one.encode("euc_jp", "ignore"))
    )


def _euc_without_extensions(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    first, second = error.object[error.start], error.object[error.start + 1 : error.start + 2]
    if first == _NEC_ROW or (first == _THREE_BYTES and b"\xf3" <= second <= b"\xf4"):
        raise error
    return _euc(error)


_ADDED = {
    "latin1": "dumpfilter.latin1",
    "big5": "dumpfilter.big5",
    "ujis": "dumpfilter.ujis",
    "eucjpms": "dumpfilter.eucjpms",
}
"""The codec error handlers, by character set, that decode the characters that Python's codecs lack."""

for _charset, _handler in (
    *((LATIN1, _latin1), ("big5", _big5)),
    *(("ujis", _euc_without_extensions), ("eucjpms", _euc)),
):
    codecs.register_error(_ADDED[_charset], _handler)
