"""The loop of the ports, and the other threads of its process."""

from __future__ import annotations

import sys

from dumpfilter.console.serving_loop import ServingLoop


def test_a_computing_thread_does_not_keep_a_loop_waiting_for_long() -> None:
    """Replicas' statements and registrations compute in threads, also in a process without a console."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    try:
        with ServingLoop("any"):
            assert sys.getswitchinterval() < 0.001
    finally:
        sys.setswitchinterval(before)
