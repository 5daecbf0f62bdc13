"""The command ``dumpfilter purge``, which deletes the oldest files of one binlog that ``dumpfilter split`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def purge_command(
    directory: Annotated[
        Path, typer.Argument(help="The directory that dumpfilter split wrote.", show_default=False)
    ],
    binlog: Annotated[
        str, typer.Option(help="The binlog, by its name or its schema's.", metavar="NAME", show_default=False)
    ],
    before: Annotated[
        str,
        typer.Option(
            help="A file of the binlog (shop-bin.000003): purge the files before this file. A date and time (UTC, or "
            "with an offset): purge files whose last transaction is older. A position in the source "
            "(binlog.000012:4711): purge files whose transactions all end before the position.",
            metavar="WHAT",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be purged.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Purge one binlog of a split: its oldest files, never the newest, and none of the other binlogs.

    The next purge of the same binlog finishes a purge that was killed. dumpfilter manifest shows the files of a split.

    Examples:

        dumpfilter purge parts --binlog shop --before 2026-01-31T12:00:00+01:00
        dumpfilter purge parts --binlog shop --before shop-bin.000003 --dry-run
    """
    from dumpfilter.report.terminal import print_json
    from dumpfilter.spark_jobs.split.purge import purge_split

    purged = purge_split(directory, binlog, before, dry_run=dry_run)
    if json:
        print_json(purged.as_dict())
        return
    if purged.finished:
        typer.echo(f"finished an earlier purge: {', '.join(purged.finished)}")
    if not purged.files:
        typer.echo(f"{purged.binlog}: nothing to purge")
        return
    first, last = purged.files[0], purged.files[-1]
    typer.echo(
        f"{purged.binlog}: {'would purge' if dry_run else 'purged'} {len(purged.files)} "
        f"file{'s' if len(purged.files) > 1 else ''}, {purged.nbytes:,} bytes: "
        f"{first if first == last else f'{first} to {last}'}; it begins with {purged.left[0]} now"
    )
