"""The command ``dumpfilter manifest``, which lists the binlog sets and files that ``dumpfilter split`` wrote."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.options.settings import setting
from dumpfilter.commands.option_groups import JsonOption


class ManifestSettings(JsonOption):
    """The options of ``dumpfilter manifest``: the directory that ``dumpfilter split`` wrote, one of its binlogs, and
    JSON output.
    """

    directory: Path = setting(show_default=False, is_argument=True)
    """The directory that dumpfilter split wrote."""
    binlog: str | None = setting(None, metavar="NAME")
    """Show only this binlog, given by its name or its schema's name."""


def manifest_command(given: ManifestSettings) -> None:
    """Show what dumpfilter split wrote: the files of each binlog, the part of the source in each file, and the purged
    files.

    Example:

        dumpfilter manifest parts --binlog shop
    """
    from dumpfilter.analyse.report.terminal import output_console
    from dumpfilter.analyse.split_set import Manifest, render_manifest

    manifest = Manifest.load(given.directory)
    binlogs = manifest.binlogs if given.binlog is None else [manifest.binlog(given.binlog)]
    shown = manifest.model_copy(update={"binlogs": binlogs})
    given.show(shown, lambda: render_manifest(manifest, binlogs, output_console()))
