"""Who may log in: the two password plugins every client of today has one of, verified from the password itself.

A server's certificate may be verified from the password too (:func:`certificate_proof`).

``caching_sha2_password`` is what MySQL's clients use since 8.0 (9.x has no other), ``mysql_native_password`` what
MariaDB's and older ones do. Both prove the password with a digest over the server's nonce, so it never travels.
A real server stores only a hash and needs TLS or RSA where that hash is not cached; we hold the password, so the
fast path always suffices.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"

FAST_AUTH_SUCCESS = b"\x03"
"""What caching_sha2_password tells the client before OK (``fast_auth_success`` in sha2_password.cc)."""

_NONCE_LENGTH = 20
_ABSENT_PASSWORD = secrets.token_hex(16)


def new_nonce() -> bytes:
    """20 random bytes of which none is NUL or above 127: clients take it for a text that ends with NUL."""
    return bytes(1 + secrets.randbelow(127) for _ in range(_NONCE_LENGTH))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def native_scramble(password: str, nonce: bytes) -> bytes:
    """``SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))``; empty for an empty password."""
    if not password:
        return b""
    once = hashlib.sha1(password.encode()).digest()
    return _xor(once, hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest())


def sha2_scramble(password: str, nonce: bytes) -> bytes:
    """``SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)``; empty for an empty password."""
    if not password:
        return b""
    once = hashlib.sha256(password.encode()).digest()
    return _xor(once, hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest())


_SCRAMBLES = {NATIVE: native_scramble, CACHING_SHA2: sha2_scramble}


def is_known_plugin(plugin: str | None) -> bool:
    """Whether a client that answers with this plugin can be verified."""
    return plugin in _SCRAMBLES


def proves_password(users: Mapping[str, str], user: str, plugin: str, nonce: bytes, response: bytes) -> bool:
    """Whether the client knows the user's password.

    Takes the same path, in the same time, for users that there are and users that there are not.
    """
    expected = _SCRAMBLES[plugin](users.get(user, _ABSENT_PASSWORD), nonce)
    # some clients end an empty response with a NUL
    given = b"" if response == b"\0" else response
    return hmac.compare_digest(expected, given) and user in users


def certificate_proof(password: str, plugin: str, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return what proves to a MariaDB client since 11.4 that a self-signed certificate is this server's.

    Only one who knows the password's hash can make it, for this login and this certificate. The client computes it
    too, and compares. It stands in the OK packet that ends a login. Empty where the client cannot verify it: without a
    password, and with a plugin other than mysql_native_password, whose hash it is.
    """
    if plugin != NATIVE or not password:
        return b""
    password_hash = hashlib.sha1(hashlib.sha1(password.encode()).digest()).digest()
    proof = hashlib.sha256(password_hash + nonce + fingerprint).hexdigest()
    return b"\x01" + proof.upper().encode()
