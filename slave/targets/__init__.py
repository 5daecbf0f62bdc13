"""The targets that transactions are applied to: the protocol :class:`Target`, and the table of all targets.

A new target is a module in this package and an entry in :data:`TARGETS`. docs/targets.md shows an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dumpfilter.errors import OptionError
from dumpfilter.slave.targets.base import Target
from dumpfilter.slave.targets.summary import SummaryTarget

__all__ = ["DEFAULT_TARGET", "TARGETS", "SummaryTarget", "Target", "make_target"]

TARGETS: Mapping[str, Callable[[], Target]] = {"summary": SummaryTarget}
"""The constructor of each target, by the target's name."""

DEFAULT_TARGET = "summary"
"""The name of the target that a slave uses unless its options name another one."""


def make_target(name: str) -> Target:
    """Make an empty target. Raises OptionError for an unknown name."""
    try:
        return TARGETS[name]()
    except KeyError:
        raise OptionError(
            f"--target={name}: there is no such target; give one of {', '.join(TARGETS)}"
        ) from None
