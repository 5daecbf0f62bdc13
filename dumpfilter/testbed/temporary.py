"""The temporary directories of topologies. Their names tell whose they are, so that the next topology can clean."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dumpfilter.testbed.processes import start_time

TEMPORARY = "dumpfilter-topology-"
"""The begin of the names of temporary directories. The number and the start time of their process follow."""


KEPT = "dumpfilter-kept-"
"""The begin of the names of directories that stay, so that no later topology removes them."""


def kept_directory() -> Path:
    """Make a directory among the temporary ones that stays."""
    return Path(tempfile.mkdtemp(prefix=KEPT))


def temporary_directory() -> Path:
    """Make a temporary directory of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}-{start_time(os.getpid())}-"))
