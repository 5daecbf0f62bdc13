"""The progress display of a job's tasks, equal for all engines: a bar on a terminal, otherwise log lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dumpfilter.base import logs
from dumpfilter.base.waiting import watching
from dumpfilter.spark_jobs.engines.runner import Amount

if TYPE_CHECKING:
    from rich.console import Console

_REFRESH = 0.2
"""The interval between updates of the progress bar, seconds."""

LINE_SECONDS = 10.0
"""The interval between progress lines without a terminal, seconds. A shorter command prints no line."""


class Progress:
    """Shows the progress of a command's jobs on ``console``: a bar on a terminal, otherwise a line every 10 seconds.

    No line is written if the log level hides warnings. The interval continues across all jobs of a command, because
    each of many jobs may be shorter.
    """

    def __init__(self, console: Console | None, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._due = now() + LINE_SECONDS

    @contextmanager
    def of(
        self, label: str, total: int, amount: Amount, reached: Callable[[], tuple[int, int | None]]
    ) -> Iterator[None]:
        """Show the progress of a job while the body of the ``with`` statement runs.

        Parameters:
            label: the name of the work for the user, such as "indexing".
            total: the number of tasks.
            amount: the job's size in bytes, and the noun for its tasks.
            reached: a function that a thread calls repeatedly. It returns the number of completed tasks, and the bytes
                read so far (None: they are estimated from the tasks). If it raises an exception, the display stays
                unchanged.
        """
        console = self._console
        if console is None or not (console.is_terminal or logs.shows(logs.Level.WARNING)):
            yield
            return

        def now() -> tuple[float, str]:
            tasks, nbytes = reached()
            if nbytes is None:
                nbytes = (amount.nbytes or 0) * min(tasks, total) // max(total, 1)
            return nbytes if amount.nbytes else tasks, told_of(tasks, nbytes, total, amount)

        def follow(over: threading.Event) -> None:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[told]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            with RichProgress(*columns, console=console, transient=True, expand=True) as bar:
                whole = float(amount.nbytes or total or 1)
                task = bar.add_task(label, total=whole, told=told_of(0, 0, total, amount))
                while not over.wait(_REFRESH):
                    # Spark or the job may have ended in the meantime, which the job itself reports.
                    with suppress(Exception):
                        done, told = now()
                        bar.update(task, completed=min(done, whole), told=told)

        def write_lines(over: threading.Event) -> None:
            while not over.wait(max(self._due - self._now(), 0.0)):
                self._due = self._now() + LINE_SECONDS
                with suppress(Exception):
                    _, told = now()
                    if logs.is_json():
                        import structlog

                        structlog.get_logger("dumpfilter").info("progress", job=label, reached=told)
                    else:
                        console.print(f"{label}: {told}", markup=False, highlight=False, soft_wrap=True)

        with watching(follow if console.is_terminal else write_lines, "progress"):
            yield


def told_of(tasks: int, nbytes: int, total: int, amount: Amount) -> str:
    """Return the text beside the progress bar: the number of completed tasks, and the bytes read.

    ``tasks`` of ``total`` tasks are completed, and ``nbytes`` have been read. ``amount`` has the total bytes and the
    noun for tasks.

    >>> told_of(3, 5 << 28, 5, Amount("files", 2 << 30))
    '3 of 5 files, 1.2 of 2.0 GiB'
    >>> told_of(3, 0, 5, Amount())
    '3 of 5 tasks'
    """
    told = f"{min(tasks, total):,} of {total:,} {amount.unit}"
    if not amount.nbytes:
        return told
    power = min(max((amount.nbytes.bit_length() - 1) // 10, 0), 4)
    size = 1 << 10 * power
    digits = 1 if power else 0
    names = ("bytes", "KiB", "MiB", "GiB", "TiB")
    done = min(nbytes, amount.nbytes)
    return f"{told}, {done / size:,.{digits}f} of {amount.nbytes / size:,.{digits}f} {names[power]}"
