"""The messages to systemd, received by a real socket."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.base.service_manager import READY, ServiceManager


@pytest.fixture
def manager_socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Yield the socket of a manager, at an abstract address, since a path in a temporary directory may be too long."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + receiver.getsockname()[1:].decode())
        yield receiver


def received(receiver: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(receiver.recv(4096).decode())
        except BlockingIOError:
            return found


def test_states_are_told(manager_socket: socket.socket) -> None:
    manager = ServiceManager()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    manager.reloading()
    manager.tell(READY, "STATUS=well")
    reloading, ready = received(manager_socket)
    assert ready == "READY=1\nSTATUS=well"
    first, _, at = reloading.partition("\nMONOTONIC_USEC=")
    assert first == "RELOADING=1"
    assert before <= int(at) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert "NOTIFY_SOCKET" not in os.environ, "a child process would speak for this one"


def test_a_path_as_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("notify")
        monkeypatch.setenv("NOTIFY_SOCKET", "notify")
        ServiceManager().tell(READY)
        assert receiver.recv(4096) == b"READY=1"


def test_signs_of_life_come_twice_as_often_as_demanded(
    manager_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    manager = ServiceManager()
    for now, expected in ((1000.0, 1), (1029.0, 0), (1030.0, 1), (1031.0, 0)):  # noqa: B007 (the clock reads it)
        manager.alive(lambda: True)
        assert received(manager_socket) == ["WATCHDOG=1"] * expected
    now = 1100.0
    manager.alive(lambda: False)
    assert received(manager_socket) == []


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "1000"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}],
)
def test_nothing_is_sent_that_nobody_wants(
    environment: dict[str, str], manager_socket: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if environment.get("WATCHDOG_PID") != "1" and environment.get("WATCHDOG_USEC") == "1000":
        monkeypatch.delenv("NOTIFY_SOCKET")
    manager = ServiceManager()
    manager.alive(lambda: True)
    assert received(manager_socket) == []


def test_a_manager_that_is_gone_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().tell(READY)


def test_a_process_without_file_descriptors_goes_on(manager_socket: socket.socket) -> None:
    manager = ServiceManager()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The lowest descriptor that is free, and all after it, are beyond this limit.
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        manager.tell(READY)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert received(manager_socket) == []
