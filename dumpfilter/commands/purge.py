"""The command ``dumpfilter purge``, which deletes the oldest files of one binlog that ``dumpfilter split`` wrote."""

from __future__ import annotations

from pathlib import Path

import typer

from dumpfilter.base.options.settings import setting
from dumpfilter.commands.option_groups import JsonOption


class PurgeSettings(JsonOption):
    """The options of ``dumpfilter purge``: the directory that ``dumpfilter split`` wrote, the binlog in it, and which
    files of this binlog to purge.
    """

    directory: Path = setting(show_default=False, is_argument=True)
    """The directory that dumpfilter split wrote."""
    binlog: str = setting(metavar="NAME", show_default=False)
    """The binlog to purge, given by its name or its schema's name."""
    before: str = setting(metavar="WHAT", show_default=False)
    """A file of the binlog (shop-bin.000003): purge the files before this file. A date and time (UTC, or with an
    offset): purge files whose last transaction is older. A position in the source (binlog.000012:4711): purge files
    whose transactions all end before the position."""
    dry_run: bool = False
    """Only print what would be purged."""


def purge_command(given: PurgeSettings) -> None:
    """Purge the oldest files of one binlog that dumpfilter split wrote, never the newest file. The other binlogs stay.

    The next purge of the same binlog finishes a purge that was killed. dumpfilter manifest shows the files of a split.

    Examples:

        dumpfilter purge parts --binlog shop --before 2026-01-31T12:00:00+01:00
        dumpfilter purge parts --binlog shop --before shop-bin.000003 --dry-run
    """
    from dumpfilter.analyse.report.text import human_files
    from dumpfilter.spark_jobs.split.purge import purge_split

    purged = purge_split(given.directory, given.binlog, given.before, dry_run=given.dry_run)
    text = "nothing to purge"
    if purged.files:
        names = " to ".join(dict.fromkeys((purged.files[0], purged.files[-1])))
        text = (
            f"{'would purge' if given.dry_run else 'purged'} {human_files(len(purged.files))}, "
            f"{purged.bytes:,} bytes: {names}; "
            f"it {'would begin' if given.dry_run else 'begins'} with {purged.left[0]}{'' if given.dry_run else ' now'}"
        )
    given.show(purged, lambda: typer.echo(f"{purged.binlog}: {text}"))
