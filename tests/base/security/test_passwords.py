"""Stored passwords: their texts, and the check of passwords against them."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security import passwords
from dumpfilter.base.security.passwords import Sha2Crypt, StoredPassword, native_hash, sha256_crypt


@settings(max_examples=10, deadline=None)
@given(st.text(), st.text())
def test_only_the_password_matches(password: str, other: str) -> None:
    with mock.patch.object(passwords, "_SHA2_ROUNDS", 1):
        crypt = Sha2Crypt.of(password)
    parsed = (
        StoredPassword.parse(*texts)
        for texts in ([native_hash(password)], [native_hash(password), str(crypt)])
    )
    for kept in (StoredPassword.plain(password), StoredPassword(crypt=crypt), *(parsed if password else ())):
        assert kept.matches(password)
        assert kept.matches(other) == (password == other)
        # A short password may be a part of the class's name.
        assert len(password) < 3 or password not in repr(kept).replace("StoredPassword", "")


def test_a_hash_survives_its_text() -> None:
    sha2 = Sha2Crypt.of("secret")
    assert StoredPassword.parse(str(sha2)).crypt == sha2 != Sha2Crypt.of("secret")
    assert StoredPassword.parse(f"0x{str(sha2).encode().hex()}").crypt == sha2
    assert StoredPassword.parse(native_hash("secret")).native == StoredPassword.plain("secret").native


def test_the_hashes_are_mysqls() -> None:
    """The first is of MySQL's manual; the second, of a server with a salt of 20 bytes."""
    assert native_hash("mypass") == "*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4"
    salt = bytes.fromhex("F9CC98CE08892924F50A213B6BC571A2C11778C5")
    digest = b"bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/"
    assert sha256_crypt(b"hashcat", salt, 5000) == digest
    text = "0x" + (b"$A$005$" + salt + digest).hex()
    assert StoredPassword.parse(text).crypt == Sha2Crypt(5, salt, digest)
    assert str(Sha2Crypt(5, salt, digest)) == "0x" + text[2:].upper()


@pytest.mark.parametrize(
    "texts",
    [
        ("secret",),
        ("*6C89",),
        ("$A$000$" + "s" * 20 + "d" * 43,),
        ("$A$FFF$" + "s" * 20 + "d" * 43,),
        (native_hash("a"), native_hash("b")),
        ("$scrypt$ln=14,r=8,p=1$" + "s" * 22 + "$" + "d" * 43,),
    ],
    ids=["plain", "cut", "no rounds", "too many rounds", "two", "scrypt"],
)
def test_what_is_no_hash(texts: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as caught:
        StoredPassword.parse(*texts)
    assert texts[-1] not in str(caught.value)
