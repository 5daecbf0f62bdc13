"""The reception of a running server's binlog by commands, with a progress bar. Commands import this module when they
receive.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import typer
from rich import progress as bars
from rich.console import Console

from dumpfilter.analyse.report.text import human_files
from dumpfilter.base.byte_bar import byte_bar
from dumpfilter.base.endings import INTERRUPT, TERMINATE, handling
from dumpfilter.base.printable import printable
from dumpfilter.receiver.reception import Follower, FollowOptions, Progress
from dumpfilter.receiver.store import BinlogDirectory, Sync
from dumpfilter.receiver.url import SourceUrl


def bytes_before(files: Iterable[tuple[str, int]], name: str) -> int:
    """Return the sum of the sizes of the binlog files before the file ``name``.

    ``files`` are the names and sizes of a server's binlog files, in any order. Names are compared by length first, so
    that number 1000000 comes after 999999.

    >>> bytes_before([("bin.999999", 10), ("bin.1000000", 20), ("bin.1000001", 30)], "bin.1000001")
    30
    """
    return sum(size for other, size in files if (len(other), other) < (len(name), name))


def fetch(
    url: SourceUrl, directory: Path, sync: str, terminal: Console, options: FollowOptions | None = None
) -> None:
    """Receive a server's binlog into ``directory``, show the progress on ``terminal``, and print the position at which
    the stored binlog ends.

    ``url`` is the server's address. ``options`` say whether to wait for new events and how often to retry; None: the
    defaults. ``sync`` is the value of a :class:`~dumpfilter.receiver.store.Sync`.

    SIGINT and SIGTERM stop the reception between two writes. With ``--stop-never`` that is the ordinary end. Otherwise
    the command exits with 128 plus the signal's number. Raises DumpfilterError if the server cannot be read, or if the
    directory cannot be used.
    """
    options = options or FollowOptions()
    signals: list[int] = []
    handled = ExitStack()

    def stop(number: int, _: FrameType | None) -> None:
        # A second signal has its usual effect.
        handled.close()
        signals.append(number)
        follower.stop()

    store = BinlogDirectory(directory, sync=Sync(sync))
    try:
        with byte_bar(terminal, remaining=False) as bar:
            task = bar.add_task("", total=None)
            follower = Follower(url, store, options, on_progress=lambda: move(bar, task, follower.progress))
            with handled:
                handled.enter_context(handling(stop, INTERRUPT, TERMINATE))
                follower.run()
        names = store.names
    finally:
        store.close()
    progress = follower.progress
    where = f", to {printable(progress.file)} at {progress.position:,}" if progress.file else ""
    terminal.print(
        f"{human_files(len(names))} in {directory}{where} ({progress.bytes:,} bytes received)",
        markup=False,
        soft_wrap=True,
    )
    if signals and not options.stop_never:
        raise typer.Exit(128 + signals[0])


def move(bar: bars.Progress, task: bars.TaskID, progress: Progress) -> None:
    """Show in a progress bar how far a server's binlog has been received.

    ``bar`` and ``task`` are Rich's bar and its line, and ``progress`` is the state of the reception. The bar shows the
    end of the stored binlog, in bytes from the beginning of the server's oldest file. If the sizes of the server's
    files are unknown, the bar counts received bytes and has no total.
    """
    if not bar.disable:
        total = sum(size for _, size in progress.files) or None
        done = bytes_before(progress.files, progress.file) + progress.position if total else progress.bytes
        bar.update(task, description=printable(progress.file), completed=done, total=total)
