"""The texts of bytes in character sets whose maps in Python differ from the servers'.

The texts are those of ``CONVERT(CONVERT(bytes USING set) USING utf8mb4)`` in MariaDB 10.11 and MySQL 9.7.
"""

from __future__ import annotations

import numpy as np
import pytest

from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.charsets import decode, has_certain_names, valid_text
from dumpfilter.binlog.rows.table import Column
from dumpfilter.binlog.rows.texts import text_style


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("koi8u", b"a\x95", "a•"),
        ("cp866", b"\xfc\xfd", "ⁿ²"),
        ("greek", b"\xa1\xa2\xe1", "ʽʼα"),
        ("hebrew", b"\xaf\xe0", "‾א"),
        ("sjis", b"\x81\x5f", "\\"),
        ("ujis", b"\xa1\xc0\xf5\xa1\xfe\xfe", "\\\ue000\ue3ab"),
        ("ujis", b"\x8f\xf5\xa1\x8f\xfe\xfe!", "\ue3ac\ue757!"),
        ("ujis", b"\xad\xa1", "0xADA1"),
        ("eucjpms", b"\xad\xa1\xad\xe0\xa1\xc1~", "①〝～~"),
        ("eucjpms", b"\xf5\xa1\x8f\xf6\xa2\x8f\xa2\xc3", "\ue000\ue40b￤"),
        ("eucjpms", b"\xad\xfe", "0xADFE"),
        ("big5", b"\xf9\xd6\xf9\xda\xa4\x40", "碁恒一"),
        ("big5", b"\xf9\xdd", "0xF9DD"),
        ("ujis", b"\xf5", "0xF5"),
        ("eucjpms", b"\x8f\xf3\xf3\x8f\xf4\xac\x8f\xf4\xfe", "ⅰ№黑"),
        ("ujis", b"\x8f\xf3\xf3", "0x8FF3F3"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37", "ḿ\ue7c7"),
    ],
)
def test_the_servers_texts(charset: str, data: bytes, text: str) -> None:
    assert decode(data, charset) == text


def test_no_byte_above_ascii_becomes_ascii() -> None:
    assert (valid_text(b"\x81\x5f", "sjis"), valid_text(b"\xa1\xc0", "ujis")) == ("＼", "＼")
    assert (valid_text(b"\xe9\x81", "latin1"), valid_text(b"\x81", "gbk")) == ("é\x81", None)


@pytest.mark.parametrize(
    ("charset", "text", "is_certain"),
    [
        ("latin1", "INSERT INTO é", True),
        ("latin1", "INSERT INTO\xa0t", False),  # white space
        ("cp1250", "DELETE FROM t --€ x", False),  # a comment
        ("utf8mb4", "INSERT INTO \udce9", False),
        ("greek", "INSERT INTO €", False),  # MySQL's name is a question mark
        ("latin1", "INSERT INTO €", True),
        ("big5", "INSERT INTO 十", False),  # one of its two codes is U+FFFD for the servers
        ("utf8mb4", "INSERT INTO 十", True),
    ],
)
def test_names_that_a_server_may_read_otherwise(charset: str, text: str, is_certain: bool) -> None:
    assert has_certain_names(text, charset) is is_certain


def test_names_of_a_binary_enum_are_text() -> None:
    style = text_style(Column("e", T.ENUM, 1, True, collation=63, values=(b"a", b"\xff")), "mysql")
    assert style.together(np.array([[1], [2]], np.uint8)).to_pylist() == ["a", "0xFF"]
