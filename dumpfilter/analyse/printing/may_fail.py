"""The values of the option ``--may-fail``, in a module that is quick to import."""

from __future__ import annotations

import enum


class MayFail(enum.StrEnum):
    """The form in which statements are printed that fail on the target because of the filter, or about which the
    filter cannot decide.
    """

    SAFE = "safe"
    """A statement that must fail is printed as a comment. A DROP gets IF EXISTS if it is unknown whether the object
    exists.
    """
    PRINT = "print"
    """Statements are printed as they are in the binlog."""
    COMMENT = "comment"
    """A statement that must fail, or about which the filter cannot decide, is printed as a comment."""
