"""Users and passwords of slaves, with a clock that the tests set. Over the wire: test_owners.py."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from dumpfilter.base.security.passwords import CHECKS_AT_ONCE, Sha2Crypt, StoredPassword
from dumpfilter.master import service as service_module
from dumpfilter.master.service import (
    FREE_GUESSES,
    Access,
    AccessDenied,
    TryLater,
)
from tests.base.security.test_throttle import Clock

GUESSER, RIGHTFUL = "ipv4:192.0.2.1:1", "ipv4:10.0.0.7:1"
SECRET = b"s" * 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    users = {"a": StoredPassword.plain("right"), "b": StoredPassword.plain("other")}
    return Access(lambda: users, clock=clock)


def guess(
    access: Access, times: int, user: str = "a", peer: str = GUESSER, secret: bytes = b""
) -> list[type]:
    outcomes = []
    for number in range(times):
        try:
            access.check(user, f"wrong {number}", peer=peer, secret=secret)
        except (AccessDenied, TryLater) as error:
            outcomes.append(type(error))
    return outcomes


def test_wrong_passwords_of_one_address_cost_time(access: Access, clock: Clock) -> None:
    assert guess(access, 10) == [AccessDenied] * (FREE_GUESSES + 1) + [TryLater] * (9 - FREE_GUESSES)
    with pytest.raises(TryLater, match="in 1 s"):
        access.check("a", "right", peer=GUESSER)
    clock.now += 1
    assert guess(access, 3) == [AccessDenied, TryLater, TryLater]
    with pytest.raises(TryLater, match="in 2 s"):
        access.check("b", "other", peer="ipv4:192.0.2.1:999")
    checked = 0
    for _ in range(3600):
        clock.now += 1
        checked += guess(access, 1) == [AccessDenied]
    assert checked < 70


def test_the_rightful_user_is_not_locked_out(access: Access, clock: Clock) -> None:
    """Neither from another address, nor from the guesser's own address once his slave is known."""
    access.check("a", "right", peer=GUESSER, secret=SECRET)
    guess(access, 100)
    for number in range(100):
        guess(access, 1, peer=f"ipv4:198.51.100.{number}:1")
    access.check("a", "right", peer=RIGHTFUL)
    access.check("a", "right", peer=GUESSER, secret=SECRET)
    with pytest.raises(TryLater):
        access.check("a", "right", peer=GUESSER, secret=b"x" * 32)
    with pytest.raises(TryLater):
        access.check("b", "other", peer=GUESSER, secret=SECRET)


def test_a_known_slave_must_wait_for_its_own_wrong_passwords(access: Access) -> None:
    access.check("a", "right", peer=GUESSER, secret=SECRET)
    assert guess(access, 10, secret=SECRET).count(AccessDenied) == FREE_GUESSES + 1
    access.check("a", "right", peer=GUESSER)


def test_many_addresses_that_guess_one_users_password_wait_together(access: Access, clock: Clock) -> None:
    peers = [f"ipv4:198.51.100.{number}:1" for number in range(30)]
    for peer in peers:
        assert guess(access, 1, peer=peer) == [AccessDenied]
    for peer in peers:
        assert guess(access, 1, peer=peer) == [TryLater]
    assert guess(access, 1, user="b", peer=peers[0]) == [AccessDenied]


def test_an_ipv6_network_is_one_guesser(access: Access) -> None:
    outcomes = [
        outcome for n in range(10) for outcome in guess(access, 1, peer=f"ipv6:%5B2001:db8::{n:x}%5D:1")
    ]
    assert outcomes.count(AccessDenied) == FREE_GUESSES + 1
    assert guess(access, 1, peer="ipv6:%5B2001:db8:0:1::1%5D:1") == [AccessDenied]


def test_a_right_password_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    matches = Sha2Crypt.matches
    monkeypatch.setattr(
        Sha2Crypt, "matches", lambda kept, password: hashed.append(password) or matches(kept, password)
    )
    users = {"a": StoredPassword(crypt=Sha2Crypt.of("right"))}
    access = Access(lambda: users)
    for _ in range(5):
        access.check("a", "right", peer=RIGHTFUL)
    assert hashed == ["right"]
    for user in ("a", "nobody"):
        with pytest.raises(AccessDenied):
            access.check(user, "wrong", peer=RIGHTFUL)
    assert hashed == ["right", "wrong", "wrong"]
    users = {"a": StoredPassword(crypt=Sha2Crypt.of("new"))}
    with pytest.raises(AccessDenied):
        access.check("a", "right", peer=RIGHTFUL)


class Slow:
    """A password whose check takes until the test ends it."""

    native = b"hash"

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.release = threading.Event()
        self._lock = threading.Lock()

    def matches(self, password: str) -> bool:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.release.wait(240)
        with self._lock:
            self.running -= 1
        return False


def test_a_flood_is_hashed_a_few_at_a_time_and_holds_few_threads(
    monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(service_module, "LONGEST_TURN", 240.0)
    slow = Slow()
    access = Access(lambda: {"a": slow})
    threads = [
        threading.Thread(target=guess, args=(access, 1), kwargs={"peer": f"ipv4:10.0.{n}.1:1"})
        for n in range(CHECKS_AT_ONCE + 6)
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: slow.running == CHECKS_AT_ONCE)
    monkeypatch.setattr(service_module, "LONGEST_TURN", 0.0)
    assert guess(access, 5, peer=RIGHTFUL) == [TryLater] * 5
    slow.release.set()
    for thread in threads:
        thread.join(240)
    assert slow.most == CHECKS_AT_ONCE


def test_the_check_of_an_unknown_user_costs_what_the_check_of_some_user_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cheap, dear = (StoredPassword(crypt=Sha2Crypt.of(password)) for password in ("cheap", "dear"))
    users = {"cheap": cheap, "dear": dear}
    access = Access(lambda: users, clock=itertools.count(step=1000).__next__)
    hashed = []
    monkeypatch.setattr(Sha2Crypt, "matches", lambda kept, password: hashed.append(kept) or False)

    def check(user: str, password: str) -> object:
        hashed.clear()
        with pytest.raises(AccessDenied):
            access.check(user, password, peer=GUESSER)
        (kept,) = hashed
        return kept

    names = list(map(str, range(50)))
    costs = {name: check(name, "x") for name in names}
    assert set(costs.values()) == {cheap.crypt, dear.crypt}
    assert all(check(name, "y") is known for name, known in costs.items())


def test_the_password_of_another_user_opens_nothing() -> None:
    """It stands for that of a user who does not exist, so that the check takes as long."""
    access = Access(lambda: {"a": StoredPassword.plain("right")})
    with pytest.raises(AccessDenied):
        access.check("nobody", "right", peer=GUESSER)
    access.check("a", "right", peer=GUESSER)
