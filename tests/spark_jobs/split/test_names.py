"""File names made from schema names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.split.ownership import MAX_LENGTH, REST, decode_name, encode_name

NAMES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), min_size=1, max_size=40)


# MAX_LENGTH // 10 characters are never cut: a character takes five in the file name, one above U+FFFF takes
# ten.
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
