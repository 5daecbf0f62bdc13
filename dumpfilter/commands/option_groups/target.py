"""The options that say what a slave applies transactions to, and what it prints at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dumpfilter.options.settings import Settings


class TargetOptions(Settings):
    """The options of a slave's target, and of the summary that the slave prints at the end."""

    target: str = "summary"
    """The name of the target that transactions are applied to."""
    summary: Literal["table", "json", "none"] = "table"
    """The form of the summary at the end."""
    summary_file: Path | None = None
    """Write the summary to this file instead of standard output."""
