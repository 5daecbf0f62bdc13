"""The options by which operators watch a process: its metrics and its log."""

from __future__ import annotations

from dumpfilter.commands.option_groups.logs import LogOptions
from dumpfilter.commands.option_groups.metrics import MetricsOptions


class MonitoringOptions(MetricsOptions, LogOptions):
    """The endpoint of a process's metrics, and the form of its log."""
