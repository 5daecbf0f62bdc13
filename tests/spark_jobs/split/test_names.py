"""Names of schemas as names of files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.split.names import MAX_LENGTH, REST, decode_name, encode_name
from tests.mariadb import MariaDb

NAMES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), min_size=1, max_size=40)


# as long as a name can be and not be cut: a character is five in the file's name, one above U+FFFF ten
@given(NAMES | st.text(min_size=1, max_size=MAX_LENGTH // 10))
def test_there_and_back(name: str) -> None:
    encoded = encode_name(name)
    assert encoded.isascii()
    assert "/" not in encoded
    assert encoded != REST
    assert decode_name(encoded) == name


@given(st.binary(min_size=1, max_size=30))
def test_bytes_that_are_no_characters(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    assert decode_name(encode_name(name)) == name


def test_long_names_fit_and_stay_apart() -> None:
    names = ["語" * 64, "語" * 63 + "言", "x" * 300]
    encoded = {encode_name(name) for name in names}
    assert len(encoded) == 3
    assert all(len(name) <= MAX_LENGTH for name in encoded)


def test_the_server_reads_them(mariadb: MariaDb) -> None:
    for name in ("db,3", "a_b", "é ü", "中文", "a-b.c", "ȿst", "x@y"):
        query = f"SELECT HEX(CONVERT(CONVERT(x'{encode_name(name).encode().hex()}' USING filename) USING utf8mb4))"
        assert bytes.fromhex(mariadb.sql(query)[0][0]).decode() == name
    # what a server writes itself, for characters of ASCII
    for name in ("db,3", "a-b.c", "x@y z"):
        query = f"SELECT CONVERT(CONVERT('{name}' USING filename) USING binary)"
        assert mariadb.sql(query)[0][0] == encode_name(name)
