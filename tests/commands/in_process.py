"""Runs of ``dumpfilter`` in the test's own process. A start of Python with numba takes a second."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from dumpfilter.base.compiler import notice
from dumpfilter.cli import main
from tests.log_state import reset_logs

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Finished(NamedTuple):
    """The result of a run, with the names that subprocess gives them."""

    returncode: int
    stdout: str
    stderr: str


def untold_compilation() -> AbstractContextManager[object]:
    """Keep the notice of a compilation from the output, which would depend on what earlier tests have compiled."""
    return mock.patch.object(notice, "tell")


def run(*arguments: str | Path, encoding: str | None = None) -> Finished:
    """Run a command to its end. The signals' handlers, which a master and a slave set, are put back.

    ``encoding`` is that of standard output, if not the locale's.
    """
    out, err = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True), io.StringIO()
    handlers = [signal.getsignal(number) for number in _SIGNALS]
    code: object = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["dumpfilter", *map(str, arguments)]),
            mock.patch.dict(os.environ, COLUMNS="120"),
            untold_compilation(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            signal.signal(number, handler)
        reset_logs()
    stdout = out.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined]
    return Finished(int(str(code or 0)), stdout, err.getvalue())
