"""The options that bound what a master spends on its slaves."""

from __future__ import annotations

from dumpfilter.master.limits import MAX_DUMPS
from dumpfilter.options.settings import Settings, setting

PANEL = "Limits"


class LimitOptions(Settings, panel=PANEL):
    """The bounds on a master's memory and threads that an operator may want to change."""

    cache_size: int = setting(32, min=1)
    """Memory for the index of scanned binlogs, MiB."""
    max_transaction: int = setting(512, min=1)
    """Filter compressed transactions of up to this size, MiB before compression. Larger ones are sent whole, and
    counted as undecided."""
    max_dumps: int = setting(MAX_DUMPS, min=1)
    """The most slaves that can receive events at once. Each takes two threads of the master."""
