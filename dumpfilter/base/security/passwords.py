"""Passwords as configuration files store them, and the check of a password at a login.

Replication users have a scrypt hash. Users of a console have one of the hashes that MySQL stores. MySQL's client
protocol sends digests instead of the password, and only such a hash can check these digests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Protocol

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.crypt import sha256_crypt

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"
SCRYPT = "scrypt"

MOST_PASSWORD = 255
"""The longest password that is checked, bytes of UTF-8. Hashing a longer one would only cost time."""

_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 14, 8, 1
"""The cost of a new scrypt hash: 16 MiB of memory and about 50 ms."""
_SCRYPT_MOST_MEMORY = 64 << 20
_SCRYPT_FORM = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,64})\$([A-Za-z0-9+/]{43})"
)
_NATIVE_FORM = re.compile(r"\*([0-9A-Fa-f]{40})")
_SHA2_HEX_FORM = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2}){70})")
_SHA2_FORM = re.compile(rb"\$A\$([0-9A-Fa-f]{3})\$(.{20})([./0-9A-Za-z]{43})", re.DOTALL)

_SHA2_ROUNDS = 5
"""The cost of a new hash for caching_sha2_password, thousands of rounds. MySQL's default is 5, too."""
_SHA2_MOST_ROUNDS = 100
"""The highest cost that a configured hash may have, thousands of rounds. One check then takes about 50 ms."""
_SALT_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def to_bytes(password: str) -> bytes:
    """Return the UTF-8 bytes of a password, for the hash functions."""
    return password.encode("utf-8", "surrogatepass")


class StoredPassword(Protocol):
    """The stored password of a replication user. Two objects are equal if their stored forms are equal."""

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is right. The time does not depend on how much of a wrong password is right."""


@dataclass(frozen=True)
class PlainPassword:
    """A password that is stored as plain text."""

    password: str = field(repr=False)

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is right. The time does not depend on how much of a wrong password is right."""
        return hmac.compare_digest(to_bytes(self.password), to_bytes(password))


@dataclass(frozen=True)
class ScryptHash:
    """A password's scrypt hash, with salt and cost."""

    n: int
    r: int
    p: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> ScryptHash:
        """Parse a hash of ``dumpfilter password-hash``. Raises OptionError, whose text does not show the hash."""
        found = _SCRYPT_FORM.fullmatch(text)
        if found is None:
            raise OptionError("is no hash for a replication user: make one with dumpfilter password-hash")
        ln, r, p = (int(found[group]) for group in (1, 2, 3))
        try:
            salt = base64.b64decode(found[4] + "=" * (-len(found[4]) % 4))
            digest = base64.b64decode(found[5] + "=")
        except binascii.Error:
            raise OptionError("is a damaged hash: make a new one with dumpfilter password-hash") from None
        n = 1 << ln
        if not (ln and r and p) or 128 * n * r * p > _SCRYPT_MOST_MEMORY:
            raise OptionError(
                "is a hash whose check takes too much memory (at most 64 MiB): make a new one with "
                "dumpfilter password-hash"
            )
        return cls(n, r, p, salt, digest)

    @classmethod
    def of(cls, password: str) -> ScryptHash:
        """Hash a password with a new random salt and the default cost, and return the hash."""
        salt = secrets.token_bytes(16)
        digest = _scrypt(password, salt, _SCRYPT_N, _SCRYPT_R, _SCRYPT_P)
        return cls(_SCRYPT_N, _SCRYPT_R, _SCRYPT_P, salt, digest)

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(data).decode().rstrip("=") for data in (self.salt, self.digest))
        return f"$scrypt$ln={self.n.bit_length() - 1},r={self.r},p={self.p}${salt}${digest}"

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is right. With the default cost, one check takes 16 MiB of memory and about 50 ms
        of CPU time.
        """
        return hmac.compare_digest(self.digest, _scrypt(password, self.salt, self.n, self.r, self.p))


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        to_bytes(password), salt=salt, n=n, r=r, p=p, maxmem=_SCRYPT_MOST_MEMORY + (1 << 20), dklen=32
    )


@dataclass(frozen=True)
class Sha2Crypt:
    """A password's hash as ``caching_sha2_password`` stores it: SHA-crypt with 20 bytes of salt."""

    rounds: int
    """The number of rounds in thousands."""
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> Sha2Crypt:
        """Hash a password with a new random salt of printable characters, and return the hash."""
        salt = "".join(secrets.choice(_SALT_ALPHABET) for _ in range(20)).encode()
        return cls(_SHA2_ROUNDS, salt, sha256_crypt(to_bytes(password), salt, _SHA2_ROUNDS * 1000))

    def __str__(self) -> str:
        data = b"$A$%03X$%s%s" % (self.rounds, self.salt, self.digest)
        return data.decode() if data.isascii() and data.decode().isprintable() else f"0x{data.hex().upper()}"

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is right. One check takes about 3 ms of CPU time at MySQL's default cost."""
        return hmac.compare_digest(
            self.digest, sha256_crypt(to_bytes(password), self.salt, self.rounds * 1000)
        )


@dataclass(frozen=True)
class ConsolePassword:
    """The stored password of a console's user, for logins with either of MySQL's authentication plugins.

    An attribute is None if the configuration has no hash of that type. A user without any hash has no password.
    """

    native: bytes | None = field(default=None, repr=False)
    """The hash of mysql_native_password: ``SHA1(SHA1(password))``."""
    sha2: bytes | None = field(default=None, repr=False)
    """The digest ``SHA256(SHA256(password))``, with which caching_sha2_password checks a login without the password."""
    crypt: Sha2Crypt | None = field(default=None, repr=False)
    """The hash that caching_sha2_password stores. A login against this hash needs the password itself, over TLS."""

    @classmethod
    def plain(cls, password: str) -> ConsolePassword:
        """Return the stored form of a plain-text password. An empty password becomes a user without a password."""
        if not password:
            return cls()
        data = to_bytes(password)
        once, once_sha2 = hashlib.sha1(data).digest(), hashlib.sha256(data).digest()
        return cls(native=hashlib.sha1(once).digest(), sha2=hashlib.sha256(once_sha2).digest())

    @classmethod
    def parse(cls, *texts: str) -> ConsolePassword:
        """Parse the hashes of one password in MySQL's notation: ``*…`` and ``$A$005$…``, at most one of each kind.

        MySQL's hexadecimal notation (``0x244124…``) is allowed, because MySQL's salts may contain control characters.
        Raises OptionError, whose text does not show a hash.
        """
        native: bytes | None = None
        crypt: Sha2Crypt | None = None
        for text in texts:
            if (found := _NATIVE_FORM.fullmatch(text)) is not None and native is None:
                native = bytes.fromhex(found[1])
                continue
            hexadecimal = _SHA2_HEX_FORM.fullmatch(text)
            data = bytes.fromhex(hexadecimal[1]) if hexadecimal else text.encode()
            if (parts := _SHA2_FORM.fullmatch(data)) is None or crypt is not None:
                raise OptionError(
                    "is no hash for a user of the console, or is the second of its kind: make one with "
                    f"dumpfilter password-hash --plugin {CACHING_SHA2}"
                )
            rounds = int(parts[1], 16)
            if not 0 < rounds <= _SHA2_MOST_ROUNDS:
                raise OptionError(f"is a hash of {rounds} thousand rounds: at most {_SHA2_MOST_ROUNDS}")
            crypt = Sha2Crypt(rounds, parts[2], parts[3])
        return cls(native=native, crypt=crypt)

    @property
    def is_empty(self) -> bool:
        """Whether the user has no password."""
        return self.native is None and self.sha2 is None and self.crypt is None


def native_hash(password: str) -> str:
    """Return a password's hash as mysql_native_password stores it.

    >>> native_hash("secret")
    '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7'
    """
    return "*" + hashlib.sha1(hashlib.sha1(to_bytes(password)).digest()).hexdigest().upper()
