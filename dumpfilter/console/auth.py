"""The verification of passwords on a console, with the two authentication plugins that today's clients know.

MySQL's clients use ``caching_sha2_password`` since 8.0 (9.x has no other plugin). MariaDB's and older clients use
``mysql_native_password``. With both plugins, the server sends random bytes (the nonce), and the client answers with a
digest of the password and the nonce. The password itself is never sent.

A real server stores only a hash of the password. With caching_sha2_password it needs the password itself over TLS or
RSA when the hash is not in its cache. The console knows the password, so it never needs this longer exchange.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import structlog

from dumpfilter.security.exposure import Lack, check_listener

log = structlog.get_logger()

DEFAULT_USER = "root"
"""The name of the user who may log in to the console if no option or configuration file names a user."""

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"

FAST_AUTH_SUCCESS = b"\x03"
"""The data of the packet by which caching_sha2_password tells the client that its digest was right.

The OK packet follows. The server's source calls this byte ``fast_auth_success`` (sha2_password.cc).
"""

_NONCE_LENGTH = 20
_ABSENT_PASSWORD = secrets.token_hex(16)


def check_users(host: str, users: Mapping[str, str], *, insecure: bool = False) -> None:
    """Raise Exposed if a user has no password although other machines can reach the console.

    ``host`` is the address that the console listens on. ``users`` has a password for each user name, and an empty text
    means no password. On a loopback address, users need no password. ``insecure`` turns the error into a warning in
    the log.

    >>> check_users("127.0.0.1", {"root": ""})
    """
    lacks = [
        Lack(
            f"without a password of user {user!r}",
            "set DUMPFILTER_CONSOLE_PASSWORD or --console-password-file",
        )
        for user, password in users.items()
        if not password
    ]
    warning = check_listener("the console", "--host or --console-host", host, lacks[:1], insecure=insecure)
    if warning is not None:
        log.warning(warning)


def new_nonce() -> bytes:
    """Return 20 random bytes, with which a client must combine its password in a login.

    Each byte has a value from 1 to 127, because clients read the bytes as a text that ends with NUL.
    """
    return bytes(1 + secrets.randbelow(127) for _ in range(_NONCE_LENGTH))


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


_SCRAMBLES = {NATIVE: native_scramble, CACHING_SHA2: sha2_scramble}


def is_known_plugin(plugin: str | None) -> bool:
    """Tell whether the console can verify passwords with this authentication plugin of the client."""
    return plugin in _SCRAMBLES


def proves_password(users: Mapping[str, str], user: str, plugin: str, nonce: bytes, response: bytes) -> bool:
    """Tell whether the user exists and the client's ``response`` is the right digest of password and ``nonce``.

    ``users`` has a password for each user name. An unknown user takes the same time as a known one, so that an attacker
    cannot find user names by measuring.
    """
    expected = _SCRAMBLES[plugin](users.get(user, _ABSENT_PASSWORD), nonce)
    # Without a password, some clients send a single NUL instead of an empty response.
    given = b"" if response == b"\0" else response
    return hmac.compare_digest(expected, given) and user in users


def certificate_proof(password: str, plugin: str, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return the text by which a MariaDB client since 11.4 verifies the console's self-signed certificate.

    The console sends the text in the OK packet that ends the login. It is a digest of the password's hash, the login's
    ``nonce`` and the certificate's ``fingerprint``. Only a server that knows the password can compute this digest, so
    the client trusts the certificate when its own digest is equal.

    The result is empty if the user has no password or the plugin is not mysql_native_password, because the client
    cannot verify then.
    """
    if plugin != NATIVE or not password:
        return b""
    password_hash = hashlib.sha1(hashlib.sha1(password.encode()).digest()).digest()
    proof = hashlib.sha256(password_hash + nonce + fingerprint).hexdigest()
    return b"\x01" + proof.upper().encode()
