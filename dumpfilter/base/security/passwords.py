"""Passwords as configuration files store them, and the check of a password at a login.

A hash has one of the two forms that MySQL stores. A client proves its password by a digest. The hash of
mysql_native_password can check such a digest. The hash of caching_sha2_password cannot, so that the first login against
this hash needs the password itself.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from dumpfilter.base.errors import OptionError

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"

MOST_PASSWORD = 255
"""The longest password that is checked, bytes of UTF-8. Hashing a longer one would only cost time."""

CHECKS_AT_ONCE = 2
"""The largest number of passwords that a port hashes at the same time. Each takes about 3 ms of a processor at MySQL's
default cost, and at most 50 ms.
"""

_NATIVE_FORM = re.compile(r"\*([0-9A-Fa-f]{40})")
_SHA2_HEX_FORM = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2}){70})")
_SHA2_FORM = re.compile(rb"\$A\$([0-9A-Fa-f]{3})\$(.{20})([./0-9A-Za-z]{43})", re.DOTALL)

_SHA2_ROUNDS = 5
"""The cost of a new hash for caching_sha2_password, thousands of rounds. MySQL's default is 5, too."""
_SHA2_MOST_ROUNDS = 100
"""The highest cost that a configured hash may have, thousands of rounds. One check then takes about 50 ms."""
_KEY = secrets.token_bytes(16)
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def to_bytes(password: str) -> bytes:
    """Return the UTF-8 bytes of a password, for the hash functions."""
    return password.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Sha2Crypt:
    """A password's hash as ``caching_sha2_password`` stores it: SHA-crypt with 20 bytes of salt."""

    rounds: int
    """The number of rounds of the hash function, in thousands."""
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> Sha2Crypt:
        """Hash a password with a new random salt of printable characters, and return the hash."""
        salt = "".join(secrets.choice(_ALPHABET) for _ in range(20)).encode()
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
class StoredPassword:
    """The stored hashes of a user's password, which a server needs to check a login.

    A client can log in by MySQL's authentication plugins mysql_native_password and caching_sha2_password, or by sending
    the password itself. An attribute is None if the configuration has no hash of that type. A user without any hash has
    no password.
    """

    native: bytes | None = field(default=None, repr=False)
    """The hash of mysql_native_password: ``SHA1(SHA1(password))``."""
    sha2: bytes | None = field(default=None, repr=False, compare=False)
    """The digest ``SHA256(SHA256(password))``, with which caching_sha2_password checks a login without the password.
    The digest does not count for equality, since a console learns the digest only at the first login.
    """
    crypt: Sha2Crypt | None = field(default=None, repr=False)
    """The hash that caching_sha2_password stores. A login against this hash needs the password itself, over TLS or
    encrypted with the server's RSA key.
    """

    @classmethod
    def plain(cls, password: str) -> StoredPassword:
        """Return the stored form of a plain-text password. An empty password becomes a user without a password."""
        if not password:
            return cls()
        data = to_bytes(password)
        once, once_sha2 = hashlib.sha1(data).digest(), hashlib.sha256(data).digest()
        return cls(native=hashlib.sha1(once).digest(), sha2=hashlib.sha256(once_sha2).digest())

    @classmethod
    def parse(cls, *texts: str) -> StoredPassword:
        """Parse the hashes of one password in MySQL's notation: ``*…`` for mysql_native_password and ``$A$005$…`` for
        caching_sha2_password. There is at most one text of each kind.

        MySQL's hexadecimal notation (``0x244124…``) is allowed, because MySQL's salts may contain control characters.
        Raises OptionError for any other text, for a second hash of a kind, and for too many rounds. The error's text
        does not show the hash.
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
                    "is no hash that MySQL stores, or is the second of its kind: make one with dumpfilter "
                    "password-hash"
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

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is right. The time does not depend on how much of a wrong password is right."""
        if self.native is None and self.crypt is not None:
            return self.crypt.matches(password)
        return hmac.compare_digest(self.native or b"", StoredPassword.plain(password).native or b"")


def password_of(users: Mapping[str, StoredPassword], user: str) -> StoredPassword:
    """Return a user's stored password. ``users`` has the passwords of all users who may log in.

    For an unknown user return the entry of another user, which is the same each time. The login then runs like that of
    a known user, so that an attacker cannot find user names by trying.
    """
    if user in users or not users:
        return users.get(user, StoredPassword())
    number = hmac.digest(_KEY, to_bytes(user), "sha256")
    return list(users.values())[int.from_bytes(number) % len(users)]


def native_hash(password: str) -> str:
    """Return a password's hash as mysql_native_password stores it.

    >>> native_hash("secret")
    '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7'
    """
    return "*" + hashlib.sha1(hashlib.sha1(to_bytes(password)).digest()).hexdigest().upper()


def sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """Return the SHA-crypt hash of a password: 43 characters, without salt and number of rounds.

    The algorithm is Ulrich Drepper's "Unix crypt using SHA-256". Python's module ``crypt`` has left the standard
    library. Other implementations refuse MySQL's salts, which have 20 bytes instead of 16. The time grows with
    ``rounds``, which makes guessing slow.

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
        first, last = (p, digest) if number & 1 else (digest, p)
        middle = (s if number % 3 else b"") + (p if number % 7 else b"")
        digest = hashlib.sha256(first + middle + last).digest()
    return _to_text(digest)


def _repeat(digest: bytes, length: int) -> bytes:
    return (digest * (length // len(digest) + 1))[:length]


def _to_text(digest: bytes) -> bytes:
    """Return the SHA-crypt text of a SHA-256 digest of 32 bytes: 43 characters of the alphabet ``./0-9A-Za-z``.

    The first 30 bytes form ten groups of three bytes, which give four characters each. The bytes of a group are 10
    apart (modulo 30), in an order that the algorithm fixes. Bytes 31 and 30 give the last three characters. The lowest
    6 bits of a group come first.
    """
    groups = [[(21 * group + 10 * k) % 30 for k in range(3)] for group in range(10)]
    numbers = [int.from_bytes(digest[place] for place in places) for places in [*groups, (31, 30)]]
    characters = (_ALPHABET[number >> 6 * k & 63] for number in numbers for k in range(4))
    return "".join(characters)[:43].encode()
