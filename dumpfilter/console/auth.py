"""The check of clients' passwords, with the two authentication plugins that today's MySQL clients know.

MySQL's clients use ``caching_sha2_password`` since 8.0 (9.x has no other plugin). MariaDB's and older clients use
``mysql_native_password``. With both plugins, the server sends random bytes (the nonce), and the client answers with a
digest of the password and the nonce. Usually the password itself is not sent.

Like a real server, the console keeps only hashes of passwords. The hash of mysql_native_password suffices to check a
login. The hash that caching_sha2_password stores (``$A$005$…``) does not: at the first login the console asks for the
password itself, and keeps a digest in memory. Later logins need only that digest. A client sends its password over TLS,
or encrypted with the server's RSA key. The key proves nothing about the server, so that TLS is better.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterable
from itertools import cycle
from operator import xor

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dumpfilter.base.security.passwords import CACHING_SHA2 as CACHING_SHA2
from dumpfilter.base.security.passwords import NATIVE as NATIVE
from dumpfilter.base.security.passwords import StoredPassword

DEFAULT_USER = "root"
"""The name of the user who may log in to the console if no option or configuration file names a user."""

FAST_AUTH_SUCCESS = b"\x03"
"""The data of the packet by which caching_sha2_password tells the client that its digest was right.

The OK packet follows. The server's source calls this byte ``fast_auth_success`` (sha2_password.cc).
"""

PERFORM_FULL_AUTHENTICATION = b"\x04"
"""The data of the packet by which caching_sha2_password asks the client for the password itself.

The server's source calls this byte ``perform_full_authentication`` (sha2_password.cc).
"""

_NONCE_LENGTH = 20
_SHA2_LENGTH = 32
_KEY = secrets.token_bytes(16)

REQUEST_PUBLIC_KEY = b"\x02"
"""The packet by which a client asks for the public key (``request_public_key`` in MySQL's source)."""
_BITS = 2048
_EXPONENT = 65537
_PADDING = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)


def new_nonce() -> bytes:
    """Return 20 random bytes, with which a client must combine its password in a login.

    Each byte has a value from 1 to 127, because clients read the bytes as a text that ends with NUL.
    """
    return bytes(1 + secrets.randbelow(127) for _ in range(_NONCE_LENGTH))


def _xor(left: bytes, right: Iterable[int]) -> bytes:
    return bytes(map(xor, left, right))


def plugin_of(response: bytes) -> str:
    """Return the name of the authentication plugin that a client uses without naming it in the login.

    The length of ``response``, the client's digest of the password, tells the plugin: mysql_native_password or
    caching_sha2_password.
    """
    return CACHING_SHA2 if len(response) == _SHA2_LENGTH else NATIVE


def plugins_for(password: StoredPassword, *, preferred: str = NATIVE) -> tuple[str, ...]:
    """Return the authentication plugins by which a user with this password can log in, the preferred one first.

    If only the hash of one plugin is stored, the other plugin cannot verify the password.
    """
    stored = {NATIVE: password.native, CACHING_SHA2: password.sha2 or password.crypt}
    found = [plugin for plugin, kept in stored.items() if kept is not None or password.is_empty]
    return tuple(sorted(found, key=lambda plugin: plugin != preferred))


def proves_password(password: StoredPassword, plugin: str, nonce: bytes, response: bytes) -> bool:
    """Tell whether ``response`` is the digest that a client with the right password sends at a login.

    The digest is computed from the password and ``nonce``, the random bytes that the server sent. ``plugin`` is the
    authentication plugin, which decides how the digest is computed. For a user without a password the right response is
    empty.
    """
    # Without a password, some clients send a single NUL instead of an empty response.
    given = b"" if response == b"\0" else response
    if password.is_empty or not given:
        return password.is_empty and not given
    # The response is a digest of the password, combined by XOR with a digest of nonce and stored hash.
    known = (password.native if plugin == NATIVE else password.sha2) or _KEY
    algorithm, salted = ("sha1", nonce + known) if plugin == NATIVE else ("sha256", known + nonce)
    mask = hashlib.new(algorithm, salted).digest()
    if len(given) != len(mask):
        return False
    return hmac.compare_digest(hashlib.new(algorithm, _xor(given, mask)).digest(), known)


def certificate_proof(password: StoredPassword, plugin: str, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return the proof (a text) by which a MariaDB client since 11.4 verifies the console's self-signed certificate.

    The console sends the text in the OK packet that ends the login. The text is a digest of the password's hash, the
    login's ``nonce`` and the certificate's ``fingerprint``. Only a server that knows the password can compute this
    digest, so the client trusts the certificate when its own digest is equal.

    The result is empty if the user has no password or the plugin is not mysql_native_password, because the client
    cannot verify then.
    """
    if plugin != NATIVE or password.native is None:
        return b""
    proof = hashlib.sha256(password.native + nonce + fingerprint).hexdigest()
    return b"\x01" + proof.upper().encode()


class RsaExchange:
    """The RSA key pair with which clients without TLS encrypt their passwords for the console. The key pair is
    generated when the first client asks for the public key. Any thread may call the methods.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._key: rsa.RSAPrivateKey | None = None

    def public_key(self) -> bytes:
        """Return the public key as PEM. The first call takes a tenth of a second of CPU time."""
        with self._making:
            self._key = self._key or rsa.generate_private_key(_EXPONENT, _BITS)
        key = self._key.public_key()
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def decrypt(self, sent: bytes, nonce: bytes) -> bytes:
        """Return the password in the packet ``sent``, with its final NUL; empty if this key cannot decrypt the packet.

        ``nonce`` has the random bytes of the login. The client combined the password with these bytes by XOR before the
        encryption.
        """
        try:
            return _xor(self._key.decrypt(sent, _PADDING), cycle(nonce)) if self._key is not None else b""
        except ValueError:
            return b""
