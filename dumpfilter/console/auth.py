"""The users of a console, and the two password plugins that today's clients know.

MySQL's clients use ``caching_sha2_password`` since 8.0 (9.x has no other plugin). MariaDB's and older clients use
``mysql_native_password``. With both, the client sends a digest of the password and the server's nonce, never the
password. A real server stores only a hash, so it needs TLS or RSA when that hash is not cached. The console has the
password and therefore always takes the plugin's fast path.

A MariaDB client can verify the server's certificate by the password, too (:func:`certificate_proof`).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping

from dumpfilter.errors import OptionError

DEFAULT_USER = "root"
"""The console's user when no option or configuration names one."""

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"

FAST_AUTH_SUCCESS = b"\x03"
"""The byte that caching_sha2_password sends before OK (``fast_auth_success`` in sha2_password.cc)."""

_NONCE_LENGTH = 20
_ABSENT_PASSWORD = secrets.token_hex(16)


def check_users(host: str, users: Mapping[str, str]) -> None:
    """Refuse a user without a password on a console that other machines can reach.

    ``host`` is the address that the console listens on. Raises OptionError.

    >>> check_users("127.0.0.1", {"root": ""})
    """
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local and not all(users.values()):
        raise OptionError(
            f"{host}: a console that others can reach needs a password: set DUMPFILTER_CONSOLE_PASSWORD"
        )


def new_nonce() -> bytes:
    """Return 20 random bytes from 1 to 127, since clients read the nonce as a text that ends with NUL."""
    return bytes(1 + secrets.randbelow(127) for _ in range(_NONCE_LENGTH))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def native_scramble(password: str, nonce: bytes) -> bytes:
    """Return ``SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))``, or nothing for an empty password."""
    if not password:
        return b""
    once = hashlib.sha1(password.encode()).digest()
    return _xor(once, hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest())


def sha2_scramble(password: str, nonce: bytes) -> bytes:
    """Return ``SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)``, or nothing for an empty password."""
    if not password:
        return b""
    once = hashlib.sha256(password.encode()).digest()
    return _xor(once, hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest())


_SCRAMBLES = {NATIVE: native_scramble, CACHING_SHA2: sha2_scramble}


def is_known_plugin(plugin: str | None) -> bool:
    """Tell whether the console can verify a client that answers with this plugin."""
    return plugin in _SCRAMBLES


def proves_password(users: Mapping[str, str], user: str, plugin: str, nonce: bytes, response: bytes) -> bool:
    """Tell whether the client's response proves the user's password.

    An unknown user takes the same path and the same time as a known user, so that timing reveals no names.
    """
    expected = _SCRAMBLES[plugin](users.get(user, _ABSENT_PASSWORD), nonce)
    # some clients end an empty response with a NUL
    given = b"" if response == b"\0" else response
    return hmac.compare_digest(expected, given) and user in users


def certificate_proof(password: str, plugin: str, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return the text by which a MariaDB client since 11.4 verifies a self-signed certificate.

    The text is a digest of the password's hash, this login's nonce and the certificate's fingerprint. The client
    computes it, too, and compares. The OK packet that ends a login carries it.

    The result is empty where the client cannot verify: without a password, and with any plugin but
    mysql_native_password, whose hash the digest uses.
    """
    if plugin != NATIVE or not password:
        return b""
    password_hash = hashlib.sha1(hashlib.sha1(password.encode()).digest()).digest()
    proof = hashlib.sha256(password_hash + nonce + fingerprint).hexdigest()
    return b"\x01" + proof.upper().encode()
