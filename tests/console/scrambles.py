"""The digests by which clients prove that they know a password."""

from __future__ import annotations

import hashlib


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def native_scramble(password: str, nonce: bytes) -> bytes:
    """Return the digest by which a client of mysql_native_password proves that it knows the password.

    The digest is ``SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))``, or empty for an empty password.
    """
    if not password:
        return b""
    once = hashlib.sha1(password.encode()).digest()
    return _xor(once, hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest())


def sha2_scramble(password: str, nonce: bytes) -> bytes:
    """Return the digest by which a client of caching_sha2_password proves that it knows the password.

    The digest is ``SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)``, or empty for an empty password.
    """
    if not password:
        return b""
    once = hashlib.sha256(password.encode()).digest()
    return _xor(once, hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest())
