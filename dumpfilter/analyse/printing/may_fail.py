"""The values of ``--may-fail``, in a module that imports quickly."""

from __future__ import annotations

import enum


class MayFail(enum.StrEnum):
    """The form of printed statements that fail on the target because of the filter, or that are undecided."""

    SAFE = "safe"
    """A comment where the statement must fail. IF EXISTS where the binlog set does not tell about an object."""
    PRINT = "print"
    """The statement as it is in the binlog."""
    COMMENT = "comment"
    """A comment, also for every statement about which the filter cannot decide."""
