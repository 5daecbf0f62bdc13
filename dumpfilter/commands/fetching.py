"""Fetching a running server's binlog for a command, into a directory that may be temporary."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from dumpfilter.base.endings import INTERRUPT, TERMINATE, handling
from dumpfilter.base.errors import OptionError
from dumpfilter.commands.file_bar import FileBar, bytes_before
from dumpfilter.receiver.url import is_source_url, parse_source_url

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.receiver.follow import Follower, FollowOptions
    from dumpfilter.receiver.reception import Progress
    from dumpfilter.receiver.store import Sync
    from dumpfilter.receiver.url import SourceUrl


def fetch(url: SourceUrl, directory: Path, options: FollowOptions, sync: Sync, terminal: Console) -> None:
    """Receive a server's binlog into ``directory``, show the progress on ``terminal``, and print the position at which
    the stored binlog ends.

    ``url`` is the server's address, and ``options`` say whether to wait for new events and how often to retry. ``sync``
    says when received events are synced to the disk. SIGINT and SIGTERM stop the reception between two writes. With
    ``--stop-never`` that is the ordinary end. Otherwise the command exits with the signal's code. Raises
    DumpfilterError.
    """
    from dumpfilter.base.printable import printable
    from dumpfilter.receiver.follow import Follower
    from dumpfilter.receiver.store import BinlogDirectory

    store = BinlogDirectory(directory, sync=sync)
    try:
        with FileBar(terminal) as bar:
            follower = Follower(url, store, options, on_progress=lambda: _show(follower.progress, bar))
            with _stopping(follower) as signals:
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


@contextlib.contextmanager
def local_binlogs(binlogs: Sequence[str], store: Path | None, terminal: Console) -> Iterator[list[str]]:
    """Yield the paths of a binlog set. If ``binlogs`` is a running server's address, its binlog is fetched first.

    The files go to the directory ``store``, or with None to a directory that is removed at the end of the ``with``
    block. ``terminal`` shows the progress. Raises OptionError.
    """
    addresses = [each for each in binlogs if is_source_url(each)]
    if not addresses:
        if store is not None:
            raise OptionError("--store goes with the address of a server, mysql://…")
        yield list(binlogs)
        return
    if len(binlogs) > 1:
        raise OptionError(f"{parse_source_url(addresses[0])}: name one server, and no files beside it")
    from dumpfilter.receiver.follow import FollowOptions
    from dumpfilter.receiver.store import Sync

    url = parse_source_url(addresses[0])
    with contextlib.ExitStack() as stack:
        directory = store
        sync = Sync.INTERVAL
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dumpfilter-fetch-")))
            sync = Sync.NONE
        fetch(url, directory, FollowOptions(), sync, terminal)
        yield [str(directory)]


@contextlib.contextmanager
def _stopping(follower: Follower) -> Iterator[list[int]]:
    """Stop a follower (the reception of a server's binlog) at SIGINT and SIGTERM. Yield the list of the signals
    received.

    The earlier handlers are restored at the first signal, so that a second one has its usual effect, and at the end.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        restore()
        follower.stop()

    with handling(stop, INTERRUPT, TERMINATE) as restore:
        yield came
