"""SHA-crypt, the slow hash that MySQL's ``caching_sha2_password`` stores passwords with.

The algorithm is Ulrich Drepper's "Unix crypt using SHA-256". Python's module ``crypt`` has left the standard library.
Other implementations refuse MySQL's salts, which have 20 bytes instead of 16.
"""

from __future__ import annotations

import hashlib

_ALPHABET = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGEST_LENGTH = 32
_BASE64_ORDER = [
    *((0, 10, 20), (21, 1, 11), (12, 22, 2), (3, 13, 23), (24, 4, 14)),
    *((15, 25, 5), (6, 16, 26), (27, 7, 17), (18, 28, 8), (9, 19, 29)),
]
"""The bytes of the digest that make four characters each. The last two bytes, 31 and 30, make three characters."""


def sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """Return the SHA-crypt hash of a password: 43 characters, without salt and number of rounds.

    The time grows with ``rounds``, which makes guessing slow.

    >>> sha256_crypt(b"Hello world!", b"saltstring", 5000)
    b'5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5'
    """
    inner = hashlib.sha256(password + salt + password).digest()
    outer = hashlib.sha256(password + salt + _repeat(inner, len(password)))
    length = len(password)
    while length:
        outer.update(inner if length & 1 else password)
        length >>= 1
    digest = outer.digest()
    p = _repeat(hashlib.sha256(password * len(password)).digest(), len(password))
    s = _repeat(hashlib.sha256(salt * (16 + digest[0])).digest(), len(salt))
    for number in range(rounds):
        odd = number & 1
        digest = hashlib.sha256(
            (p if odd else digest)
            + (s if number % 3 else b"")
            + (p if number % 7 else b"")
            + (digest if odd else p)
        ).digest()
    return _to_text(digest)


def _repeat(digest: bytes, length: int) -> bytes:
    return (digest * (length // _DIGEST_LENGTH + 1))[:length]


def _to_text(digest: bytes) -> bytes:
    text = bytearray()
    for first, second, third in _BASE64_ORDER:
        _append(text, digest[first] << 16 | digest[second] << 8 | digest[third], 4)
    _append(text, digest[31] << 8 | digest[30], 3)
    return bytes(text)


def _append(text: bytearray, bits: int, characters: int) -> None:
    for _ in range(characters):
        text.append(_ALPHABET[bits & 63])
        bits >>= 6
