"""Messages to the service manager (systemd) about the state of this process, as ``sd_notify(3)`` defines them."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable

READY = "READY=1"
RELOADING = "RELOADING=1"
STOPPING = "STOPPING=1"
_ALIVE = "WATCHDOG=1"


class ServiceManager:
    """The service manager (systemd) that started this process, to which messages are sent. Without one, as in a
    terminal, nothing is sent.

    The constructor reads systemd's environment variables, such as NOTIFY_SOCKET, and removes them from this process's
    environment.
    """

    def __init__(self) -> None:
        # Child processes must not speak for this process.
        address = os.environ.pop("NOTIFY_SOCKET", "")
        period = os.environ.pop("WATCHDOG_USEC", "")
        process = os.environ.pop("WATCHDOG_PID", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        is_watched = period.isdecimal() and process in ("", str(os.getpid()))
        self._period = int(period) / 2e6 if is_watched else 0.0
        """The interval of the watchdog's keep-alive messages, seconds: half of what systemd allows. 0: no watchdog."""
        self._alive_at = 0.0

    def tell(self, *messages: str) -> None:
        """Send messages to systemd, such as :data:`READY` (the start is complete), or ``STATUS=`` with a text for
        people. Errors are ignored.
        """
        if not self._address:
            return
        # The process serves as well without a manager that listens. It may also have no file descriptor left.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.sendto("\n".join(messages).encode(), self._address)

    def reloading(self) -> None:
        """Tell systemd that this process reads its configuration again. The message :data:`READY` ends the reload."""
        self.tell(RELOADING, f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def alive(self, is_alive: Callable[[], bool]) -> None:
        """Send the watchdog's keep-alive message if it is due and ``is_alive`` returns True. Without the message
        systemd restarts the process.
        """
        now = time.monotonic()
        if self._period and now - self._alive_at >= self._period and is_alive():
            self._alive_at = now
            self.tell(_ALIVE)
