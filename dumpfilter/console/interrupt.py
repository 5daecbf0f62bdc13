"""Ending a statement before it is done: KILL QUERY, or a client that went away."""

from __future__ import annotations

import threading


class Interrupt(threading.Event):
    """Set once, from any thread, when the statement it was made for shall end."""
