"""The message at Ctrl-C of a job that writes files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def telling_interruption(progress: Console, output: Path) -> Iterator[None]:
    """Print on the console ``progress`` at Ctrl-C that the directory ``output`` is unchanged, and raise
    KeyboardInterrupt again.

    The body of the ``with`` statement must leave ``output`` unchanged until its end.
    """
    try:
        yield
    except KeyboardInterrupt:
        progress.print(
            f"dumpfilter: interrupted; {output} is as before", markup=False, highlight=False, soft_wrap=True
        )
        raise
