"""The names of collations and character sets by their number in events, and Python's codecs for character sets.

The names are from INFORMATION_SCHEMA.COLLATIONS and COLLATION_CHARACTER_SET_APPLICABILITY of MySQL 9.7, MariaDB 10.11
and 11.8.
"""

from __future__ import annotations

import functools
import json
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

Python's maps differ from the servers' in some characters (:mod:`dumpfilter.binlog.rows.charsets`). The servers' latin1
is Windows' code page 1252.
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


def charset_name(number: int, family: Family) -> str | None:
    """Return the name of the character set of the collation with this id.

    Return None for an id that the server family (MySQL or MariaDB) does not have.

    >>> charset_name(45, "mysql"), charset_name(63, "mariadb")
    ('utf8mb4', 'binary')
    """
    name = collation_name(number, family)
    return None if name is None else name.partition("_")[0]


@functools.cache
def _names() -> dict[str, dict[str, str]]:
    # The keys are "mysql", "mariadb", "uca1400" and "both". Each value maps a collation's number, as text, to its name.
    names: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("collations.json").read_text())
    return names
