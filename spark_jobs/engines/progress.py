"""The progress of a job's tasks, which looks the same for all engines: a bar, or lines where there is no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from dumpfilter.base import logs
from dumpfilter.spark_jobs.engines.runner import Amount

if TYPE_CHECKING:
    from rich.console import Console

_REFRESH = 0.2
"""The seconds between two updates of the progress bar."""

LINE_SECONDS = 10.0
"""The seconds between two lines about the progress, where there is no terminal. A shorter command has no line."""


class LineClock:
    """The time at which the next line about the progress is due. The jobs of a command share it.

    A command may run many jobs, each of which is shorter than the time between two lines.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due = now() + LINE_SECONDS

    @property
    def seconds(self) -> float:
        """The seconds until the next line is due."""
        return max(self._due - self._now(), 0.0)

    def told(self) -> None:
        """Note that a line has been written."""
        self._due = self._now() + LINE_SECONDS


class Reached(NamedTuple):
    """How far a job has come."""

    tasks: int
    """The number of completed tasks."""
    nbytes: int | None = None
    """The bytes read so far. None: the engine does not tell them, and they are estimated from the tasks."""


@contextmanager
def progress_bar(
    console: Console | None,
    label: str,
    total: int,
    amount: Amount,
    reached: Callable[[], Reached],
    clock: LineClock,
) -> Iterator[None]:
    """Show the progress of a job during the body of a ``with`` statement.

    A terminal shows a bar. Another ``console`` gets a line from time to time, unless the log has errors only.
    ``total`` is the number of tasks. A thread calls ``reached`` again and again. An error of ``reached`` leaves the bar
    as it is. ``clock`` tells when the next line is due.
    """
    if console is None or not (console.is_terminal or logs.shows(logs.Level.WARNING)):
        yield
        return
    over = threading.Event()

    def follow() -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True, expand=True) as bar:
            whole = float(amount.nbytes or total or 1)
            task = bar.add_task(label, total=whole, told=told_of(Reached(0, 0), total, amount))
            while not over.wait(_REFRESH):
                # Spark or the job may have ended in the meantime, which the job itself reports.
                with suppress(Exception):
                    now = reached()
                    done = _bytes_of(now, total, amount) if amount.nbytes else now.tasks
                    bar.update(task, completed=min(float(done), whole), told=told_of(now, total, amount))

    def write_lines() -> None:
        while not over.wait(clock.seconds):
            clock.told()
            with suppress(Exception):
                told = told_of(reached(), total, amount)
                if logs.is_json():
                    import structlog

                    structlog.get_logger("dumpfilter").info("progress", job=label, reached=told)
                else:
                    console.print(f"{label}: {told}", markup=False, highlight=False, soft_wrap=True)

    thread = threading.Thread(
        target=follow if console.is_terminal else write_lines, name="progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def told_of(reached: Reached, total: int, amount: Amount) -> str:
    """Return the words beside the bar.

    >>> told_of(Reached(3), 5, Amount("files", 2 << 30))
    '3 of 5 files, 1.2 of 2.0 GiB'
    >>> told_of(Reached(3), 5, Amount())
    '3 of 5 tasks'
    """
    told = f"{min(reached.tasks, total):,} of {total:,} {amount.unit}"
    if not amount.nbytes:
        return told
    power = min(max((amount.nbytes.bit_length() - 1) // 10, 0), 4)
    size = 1 << 10 * power
    done = min(_bytes_of(reached, total, amount), amount.nbytes)
    digits = 1 if power else 0
    names = ("bytes", "KiB", "MiB", "GiB", "TiB")
    return f"{told}, {done / size:,.{digits}f} of {amount.nbytes / size:,.{digits}f} {names[power]}"


def _bytes_of(reached: Reached, total: int, amount: Amount) -> int:
    if reached.nbytes is not None:
        return reached.nbytes
    return (amount.nbytes or 0) * min(reached.tasks, total) // max(total, 1)
