"""What the applier applies to: the :class:`Target` protocol and the targets that come with the product."""

from __future__ import annotations

from slave.targets.base import Target
from slave.targets.render import as_json, as_table
from slave.targets.summary import SummaryTarget

__all__ = ["SummaryTarget", "Target", "as_json", "as_table"]
