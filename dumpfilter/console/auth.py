"""The check of clients' passwords, with the two authentication plugins that today's MySQL clients know.

MySQL's clients use ``caching_sha2_password`` since 8.0 (9.x has no other plugin). MariaDB's and older clients use
``mysql_native_password``. With both plugins, the server sends random bytes (the nonce), and the client answers with a
digest of the password and the nonce. The password itself is never sent.

Like a real server, the console keeps only hashes of passwords. The hash of mysql_native_password suffices to check a
login. The hash that caching_sha2_password stores (``$A$005$…``) does not: at the first login the console asks for the
password itself, and keeps a digest in memory. Later logins need only that digest. A client sends its password over TLS,
or encrypted with the server's RSA key. The key proves nothing about the server, so that TLS is better.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from itertools import cycle
from weakref import WeakValueDictionary

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dumpfilter.base.security.passwords import CACHING_SHA2 as CACHING_SHA2
from dumpfilter.base.security.passwords import NATIVE as NATIVE
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.throttle import Throttle

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

_FREE_FAILURES = 3
"""The number of a guesser's wrong passwords from which each further check is delayed."""

REQUEST_PUBLIC_KEY = b"\x02"
"""The packet by which a client asks for the public key (``request_public_key`` in MySQL's source)."""
_BITS = 2048
_EXPONENT = 65537
_PADDING = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)


class Accounts:
    """The users who may log in to a console (the port of a master or slave for MySQL clients), with their stored
    passwords.

    ``users`` has a password for each user name. A password of type ``str`` is plain text. Any thread may call the
    methods.
    """

    def __init__(self, users: Mapping[str, str | StoredPassword]) -> None:
        self.users: Mapping[str, StoredPassword] = {
            name: StoredPassword.plain(password) if isinstance(password, str) else password
            for name, password in users.items()
        }
        """The stored passwords of all users who may log in, by user name. A change replaces the mapping."""
        self._lock = threading.Lock()

    def change(self, users: Mapping[str, StoredPassword]) -> set[str]:
        """Replace the users, and return the names of users who are gone or have another password now."""
        with self._lock:
            old, self.users = self.users, dict(users)
        return {name for name, password in old.items() if users.get(name) != password}

    def password_of(self, user: str) -> StoredPassword:
        """Return a user's stored password.

        For an unknown user return the entry of another user, which is the same each time. The login then runs like that
        of a known user, so that an attacker cannot find user names by trying.
        """
        users = self.users
        if user in users or not users:
            return users.get(user, StoredPassword())
        number = hmac.digest(_KEY, user.encode("utf-8", "surrogatepass"), "sha256")
        return list(users.values())[int.from_bytes(number) % len(users)]

    def remember(self, user: str, kept: StoredPassword, password: str) -> None:
        """Keep the digest of a password that a login of ``user`` has proved, so that later logins need not send the
        password itself.

        ``kept`` is the stored password against which the login was checked. Nothing is kept if the user has another
        stored password by now.
        """
        with self._lock:
            if self.users.get(user) == kept:
                proved = replace(kept, sha2=StoredPassword.plain(password).sha2)
                self.users = {**self.users, user: proved}


def new_nonce() -> bytes:
    """Return 20 random bytes, with which a client must combine its password in a login.

    Each byte has a value from 1 to 127, because clients read the bytes as a text that ends with NUL.
    """
    return bytes(1 + secrets.randbelow(127) for _ in range(_NONCE_LENGTH))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


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
    found = []
    if password.is_empty or password.native is not None:
        found.append(NATIVE)
    if password.is_empty or password.sha2 is not None or password.crypt is not None:
        found.append(CACHING_SHA2)
    return tuple(sorted(found, key=lambda plugin: plugin != preferred))


def proves_password(password: StoredPassword, plugin: str, nonce: bytes, response: bytes) -> bool:
    """Tell whether ``response`` is the digest that a client with the right password sends at a login.

    The digest is computed from the password and ``nonce``, the random bytes that the server sent. ``plugin`` is the
    authentication plugin, which decides how.
    """
    # Without a password, some clients send a single NUL instead of an empty response.
    given = b"" if response == b"\0" else response
    if password.is_empty or not given:
        return password.is_empty and not given
    if plugin == NATIVE:
        return _proves(given, password.native, "sha1", lambda stored: nonce + stored)
    return _proves(given, password.sha2, "sha256", lambda stored: stored + nonce)


def _proves(response: bytes, stored: bytes | None, algorithm: str, salted: Callable[[bytes], bytes]) -> bool:
    """Tell whether ``response`` proves knowledge of the password whose hash is ``stored``; False if ``stored`` is None.

    The response is a digest of the password, combined by XOR with a digest of nonce and hash, which ``salted``
    concatenates.
    """
    known = stored or _KEY
    mask = hashlib.new(algorithm, salted(known)).digest()
    if len(response) != len(mask):
        return False
    return hmac.compare_digest(hashlib.new(algorithm, _xor(response, mask)).digest(), known)


def certificate_proof(password: StoredPassword, plugin: str, nonce: bytes, fingerprint: bytes) -> bytes:
    """Return the text by which a MariaDB client since 11.4 verifies the console's self-signed certificate.

    The console sends the text in the OK packet that ends the login. It is a digest of the password's hash, the login's
    ``nonce`` and the certificate's ``fingerprint``. Only a server that knows the password can compute this digest, so
    the client trusts the certificate when its own digest is equal.

    The result is empty if the user has no password or the plugin is not mysql_native_password, because the client
    cannot verify then.
    """
    if plugin != NATIVE or password.native is None:
        return b""
    proof = hashlib.sha256(password.native + nonce + fingerprint).hexdigest()
    return b"\x01" + proof.upper().encode()


class LoginTurns:
    """The queues of clients whose passwords are to be checked. A queue makes the guessing of passwords slow.

    There is one queue for each guesser, which is a user name together with a client's address. After three wrong
    passwords each further check is delayed by ``seconds``. A guesser with many connections does not guess faster than
    with one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures = Throttle(free=_FREE_FAILURES)
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        """The lock of each guesser, as long as a client holds or awaits it."""

    @asynccontextmanager
    async def turn(self, guesser: Hashable) -> AsyncIterator[None]:
        """Wait for the turn of a guesser (user name and client address), and let the ``with`` block check the password.
        The block calls :meth:`failed` if the password is wrong.

        Another check for the same guesser must end first. After three wrong passwords each check is delayed.
        """
        lock = self._locks.setdefault(guesser, asyncio.Lock())
        async with lock:
            if self._failures.failures(guesser) >= _FREE_FAILURES:
                await asyncio.sleep(self._seconds)
            yield

    def failed(self, guesser: Hashable) -> None:
        """Count a wrong password of a guesser (user name and client address)."""
        self._failures.failed(guesser)


class RsaExchange:
    """A server's RSA key for passwords, which is generated when the first client asks for it. Any thread can use it."""

    def __init__(self) -> None:
        self._making = threading.Lock()

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(_EXPONENT, _BITS)

    def public_key(self) -> bytes:
        """Return the public key as PEM. The first call takes a tenth of a second of CPU time."""
        with self._making:
            key = self._key.public_key()
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def decrypt(self, sent: bytes, nonce: bytes) -> bytes | None:
        """Return the password in the packet ``sent``, with its final NUL; None if this key cannot decrypt the packet.

        ``nonce`` has the random bytes of the login, with which the client combined the password.
        """
        try:
            masked = self._key.decrypt(sent, _PADDING)
        except ValueError:
            return None
        return bytes(a ^ b for a, b in zip(masked, cycle(nonce), strict=False))
