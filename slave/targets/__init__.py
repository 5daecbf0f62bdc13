"""Targets: the objects to which a slave applies transactions, where a server has its tables.

The protocol :class:`Target` says what a target must do. To add a target, add a module to this package and an entry
to :data:`TARGETS`. docs/targets.md shows an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.targets.base import Target
from dumpfilter.slave.targets.summary import SummaryTarget

__all__ = ["TARGETS", "SummaryTarget", "Target", "make_target"]

TARGETS: Mapping[str, Callable[[], Target]] = {"summary": SummaryTarget}
"""The class of each target, by the name that users give to ``--target``."""


def make_target(name: str) -> Target:
    """Return a new target of the kind ``name``, an object to which the slave applies transactions. Nothing has been
    applied to it yet. Raises OptionError for an unknown name.
    """
    try:
        return TARGETS[name]()
    except KeyError:
        raise OptionError(
            f"--target={name}: there is no such target; give one of {', '.join(TARGETS)}"
        ) from None
