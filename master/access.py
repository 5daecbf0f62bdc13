"""The check of a slave's user and password against the master's configuration. Clients that gave wrong passwords must
wait.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import secrets
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from time import monotonic

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.passwords import MOST_PASSWORD, StoredPassword, to_bytes
from dumpfilter.base.security.throttle import Recent, Throttle
from dumpfilter.master.who import peer_address

CHECKS_AT_ONCE = 2
"""The largest number of passwords that are hashed at the same time. Each takes about 3 ms of a processor at MySQL's
default cost, and at most 50 ms.
"""
LONGEST_TURN = 1.0
"""The longest time that a call waits to have its password hashed, seconds."""

FREE_GUESSES = 3
"""The number of wrong passwords from one network address after which the address must wait."""
FREE_GUESSES_OF_A_USER = 20
"""The number of wrong passwords for one user, from all addresses, after which addresses that have guessed wrong must
wait.
"""

_MOST_DEVICES = 10_000
_IPV6_NETWORK = 64
_SHOWN_USER = 64


class AccessDenied(DumpfilterError):
    """The error for an unknown user or a wrong password.

    The text does not say whether the user or the password is wrong, because an attacker could use the answer.
    """

    grpc_code = "UNAUTHENTICATED"


class TryLater(DumpfilterError):
    """The error for a password that the master does not check now. The client has given wrong passwords, or the master
    is checking too many at once.

    ``quiet`` says that the caller need not log the error.
    """

    grpc_code = "RESOURCE_EXHAUSTED"

    def __init__(self, text: str, *, quiet: bool = False) -> None:
        super().__init__(text)
        self.quiet = quiet


class Access:
    """The users that slaves may connect as, and the check of their passwords. Thread-safe.

    Without users every slave is accepted. After a wrong password, the client's network address must wait before its
    next password is checked, longer each time. Many wrong passwords for one user also cause waits.

    A slave sends a registration secret (random bytes that it made at its first start) with its password. Wrong
    passwords of other clients never make a slave wait whose secret has come with the right password before. A correct
    password is hashed once; later checks compare a digest that the master keeps in memory.
    """

    def __init__(
        self, users: Mapping[str, StoredPassword], *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(CHECKS_AT_ONCE)
        self._addresses = Throttle(free=FREE_GUESSES, clock=clock)
        self._users_guessed = Throttle(free=FREE_GUESSES_OF_A_USER, clock=clock)
        self._devices: Recent[bytes, None] = Recent(_MOST_DEVICES)
        self.change(users)

    def change(self, users: Mapping[str, StoredPassword]) -> None:
        """Replace the users and their passwords, after the configuration was read again."""
        with self._lock:
            self._users = dict(users)
            self._right: dict[str, bytes] = {}
            self._absent = tuple(map(_absent, self._users.values()))

    @property
    def is_open(self) -> bool:
        """Whether every slave is accepted without a password, because no users are configured."""
        return not self._users

    def check(self, user: str, password: str, *, peer: str, secret: bytes = b"") -> StoredPassword | None:
        """Check the user name and password of a slave. Return the stored password that matched, or None if the master
        has no users.

        ``peer`` is the slave's address in gRPC's notation. ``secret`` is the random secret that the slave sends with
        each registration; empty for none. A slave that has logged in with this secret before does not wait when others
        at its address guess passwords. Raises AccessDenied when the name or the password is wrong, and TryLater when
        the client must wait.
        """
        users = self._users
        if not users:
            return None
        kept = users.get(user)
        device = self._digest(b"device", user, secret) if secret else None
        # Wrong passwords count for the address and for the user. A slave that has proved its password before has a
        # count of its own.
        is_known = device in self._devices
        guesser, guessed = (device, None) if is_known else (_address(peer), user)
        self._check_wait(guesser, guessed)
        digest = self._digest(b"password", user, to_bytes(password))
        if not hmac.compare_digest(self._right.get(user, b""), digest):
            if not self._slots.acquire(timeout=LONGEST_TURN):
                raise TryLater("the master is checking many passwords: try again", quiet=True)
            try:
                # Others may have guessed wrong from this address, or proved this password, during the wait.
                self._check_wait(guesser, guessed)
                right = len(to_bytes(password)) <= MOST_PASSWORD and (kept or self._stand_in(user)).matches(
                    password
                )
            finally:
                self._slots.release()
            if not right or kept is None:
                with self._lock:
                    self._addresses.failed(guesser)
                    if guessed is not None:
                        self._users_guessed.failed(guessed)
                used = "YES" if password else "NO"
                raise AccessDenied(
                    f"Access denied for user {user[:_SHOWN_USER]!r} from {peer} (using password: {used})"
                )
        with self._lock:
            if self._users is users:
                self._right[user] = digest
            if device is not None:
                self._devices[device] = None
        return kept

    def _stand_in(self, user: str) -> StoredPassword:
        """Return a password to check for a user name that does not exist. One name always gets the same password.

        The check takes as long as for an existing user, so that the time does not tell which users exist.
        """
        absent = self._absent
        return absent[int.from_bytes(self._digest(b"absent", user, b"")) % len(absent)]

    def _digest(self, kind: bytes, user: str, secret: bytes) -> bytes:
        name = to_bytes(user)
        return hmac.digest(self._key, b"%s%d:%s%s" % (kind, len(name), name, secret), "sha256")

    def _check_wait(self, guesser: Hashable, guessed: str | None) -> None:
        """Raise TryLater if the client ``guesser`` must wait. ``guessed`` is the user whose wrong passwords count, too;
        None for a slave that has proved its password before.
        """
        with self._lock:
            wait = self._addresses.wait(guesser)
            if guessed is not None and self._addresses.failures(guesser):
                wait = max(wait, self._users_guessed.wait(guessed))
            if wait:
                raise TryLater(
                    f"too many wrong passwords: the next one is checked in {math.ceil(wait)} s",
                    quiet=not self._addresses.is_first_refusal(guesser),
                )


def _absent(kept: StoredPassword) -> StoredPassword:
    """Return a password that nobody knows. Its check takes as long as the check of ``kept``."""
    if kept.native is None and kept.crypt is not None:
        unknown = replace(kept.crypt, salt=secrets.token_bytes(20), digest=secrets.token_bytes(43))
        return StoredPassword(crypt=unknown)
    return StoredPassword(native=secrets.token_bytes(20))


def _address(peer: str) -> Hashable:
    """Return the key under which wrong passwords of a client's network address are counted. ``peer`` is the address in
    gRPC's notation.

    All addresses of an IPv6 network of /64 share a key. The key is None for a client without an address.
    """
    address = peer_address(peer)
    if isinstance(address, ipaddress.IPv6Address):
        return ipaddress.ip_network((address, _IPV6_NETWORK), strict=False)
    return address
