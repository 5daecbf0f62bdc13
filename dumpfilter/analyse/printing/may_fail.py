"""The values of the option ``--may-fail``, in a module that is quick to import."""

from __future__ import annotations

import enum


class MayFail(enum.StrEnum):
    """How statements are printed that fail on the target because of the filter, or that the filter cannot
    decide about.
    """

    SAFE = "safe"
    """A comment if the statement must fail. IF EXISTS if the binlog set does not tell whether the object exists."""
    PRINT = "print"
    """The statement as it is in the binlog."""
    COMMENT = "comment"
    """A comment, also for every statement that the filter cannot decide about."""
