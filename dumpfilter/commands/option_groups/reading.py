"""The options for how a master reads its binlogs."""

from __future__ import annotations

from dumpfilter.options.settings import Settings


class ReadingOptions(Settings):
    """The options for the checks with which a master reads its binlogs."""

    verify_checksum: bool = True
    """Verify the events' checksums on reading (source_verify_checksum)."""
