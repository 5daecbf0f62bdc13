"""The reception of a running server's binlog into a directory, with progress bar and signals, for several commands."""

from __future__ import annotations

from pathlib import Path
from types import FrameType

import typer
from rich.console import Console

from dumpfilter.base.endings import INTERRUPT, TERMINATE, handling
from dumpfilter.base.printable import printable
from dumpfilter.commands.file_bar import FileBar, bytes_before
from dumpfilter.receiver.follow import Follower, FollowOptions
from dumpfilter.receiver.reception import Progress
from dumpfilter.receiver.store import BinlogDirectory, Sync
from dumpfilter.receiver.url import SourceUrl


def fetch(url: SourceUrl, directory: Path, options: FollowOptions, sync: Sync, terminal: Console) -> None:
    """Receive a server's binlog into ``directory``, show the progress on ``terminal``, and print the position at which
    the stored binlog ends.

    ``url`` is the server's address, and ``options`` say whether to wait for new events and how often to retry. ``sync``
    says when received events are synced to the disk. SIGINT and SIGTERM stop the reception between two writes. With
    ``--stop-never`` that is the ordinary end. Otherwise the command exits with the signal's code. Raises
    DumpfilterError.
    """
    signals: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        # A second signal has its usual effect.
        restore()
        signals.append(number)
        follower.stop()

    store = BinlogDirectory(directory, sync=sync)
    try:
        with FileBar(terminal) as bar:
            follower = Follower(url, store, options, on_progress=lambda: _show(follower.progress, bar))
            with handling(stop, INTERRUPT, TERMINATE) as restore:
                follower.run()
        names = store.names
    finally:
        store.close()
    progress = follower.progress
    where = f", to {printable(progress.file)} at {progress.position:,}" if progress.file else ""
    terminal.print(
        f"{len(names)} files in {directory}{where} ({progress.bytes:,} bytes received)",
        markup=False,
        soft_wrap=True,
    )
    if signals and not options.stop_never:
        raise typer.Exit(128 + signals[0])


def _show(progress: Progress, bar: FileBar) -> None:
    """Move the bar to the end of the stored binlog. Without the sizes of the source's files the bar has no length."""
    if not bar.is_shown:
        return
    total = sum(size for _, size in progress.files) or None
    done = bytes_before(progress.files, progress.file) + progress.position if total else progress.bytes
    bar.show("", progress.file, done, total)
