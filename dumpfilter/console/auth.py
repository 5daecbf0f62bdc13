"""The verification of passwords on a console, with the two authentication plugins that today's clients know.

MySQL's clients use ``caching_sha2_password`` since 8.0 (9.x has no other plugin). MariaDB's and older clients use
``mysql_native_password``. With both plugins, the server sends random bytes (the nonce), and the client answers with a
digest of the password and the nonce. The password itself is never sent.

Like a real server, the console keeps only hashes of passwords. The hash of mysql_native_password suffices to check a
login. The hash that caching_sha2_password stores (``$A$005$…``) does not: at the first login the console asks for the
password itself, over TLS, and keeps a digest in memory. Later logins need only that digest.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from dumpfilter.base.security.listening import Lack, check_listener
from dumpfilter.base.security.passwords import CACHING_SHA2 as CACHING_SHA2
from dumpfilter.base.security.passwords import NATIVE as NATIVE
from dumpfilter.base.security.passwords import StoredPassword

log = structlog.get_logger("dumpfilter.console")

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


class Accounts:
    """The users who may log in to a console (the port of a master or slave for MySQL clients), with their stored
    passwords.

    ``users`` has a password for each user name. A password of type ``str`` is plain text. Any thread may call the
    methods.
    """

    def __init__(self, users: Mapping[str, str | StoredPassword]) -> None:
        self._users = {
            name: StoredPassword.plain(password) if isinstance(password, str) else password
            for name, password in users.items()
        }
        self._lock = threading.Lock()

    @property
    def users(self) -> Mapping[str, StoredPassword]:
        """The stored passwords of all users who may log in to the console, by user name."""
        return self._users

    def change(self, users: Mapping[str, StoredPassword]) -> set[str]:
        """Replace the users, and return the names of users who are gone or have another password now."""
        with self._lock:
            old, self._users = self._users, dict(users)
        return {name for name, password in old.items() if users.get(name) != password}

    def password_of(self, user: str) -> StoredPassword:
        """Return a user's stored password.

        For an unknown user return the entry of another user, which is the same each time. The login then runs like that
        of a known user, so that an attacker cannot find user names by trying.
        """
        users = self._users
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
            if self._users.get(user) == kept:
                proved = replace(kept, sha2=StoredPassword.plain(password).sha2)
                self._users = self._users | {user: proved}


def check_users(host: str, users: Mapping[str, StoredPassword], *, insecure: bool = False) -> None:
    """Raise Exposed if a user has no password although other machines can reach the console, a port for MySQL clients.

    ``host`` is the address that the console listens on. ``users`` has a password for each user name. On a loopback
    address, users need no password. ``insecure`` turns the error into a warning in the log.

    >>> check_users("127.0.0.1", {"root": StoredPassword()})
    """
    lacks = [
        Lack(
            f"without a password of user {user!r}",
            "set DUMPFILTER_CONSOLE_PASSWORD or --console-password-file",
        )
        for user, password in users.items()
        if password.is_empty
    ]
    warning = check_listener("the console", "--host or --console-host", host, lacks[:1], insecure=insecure)
    if warning is not None:
        log.warning("insecure", reason=warning)


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
