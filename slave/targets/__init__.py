"""What the applier applies to: the :class:`Target` protocol and the targets that come with the product."""

from __future__ import annotations

from dumpfilter.slave.targets.base import Target
from dumpfilter.slave.targets.render import as_json, as_table
from dumpfilter.slave.targets.summary import SummaryTarget

__all__ = ["SummaryTarget", "Target", "as_json", "as_table"]
