"""What a filter says about a subject."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """``UNDECIDED``: the filter would need to know more, so the master sends and the slave decides."""

    EXECUTE = "execute"
    IGNORE = "ignore"
    UNDECIDED = "undecided"

    @property
    def passes(self) -> bool:
        return self is not Verdict.IGNORE
