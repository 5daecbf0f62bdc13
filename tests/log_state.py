"""The log of the process, which tests set back after a command that has configured it."""

from __future__ import annotations

import logging
import threading

import structlog

from dumpfilter.base import logs

_HOOK = threading.excepthook


def reset_logs() -> None:
    """Undo ``logs.configure``."""
    logs._State.format, logs._State.level = None, logs.Level.DEBUG
    structlog.reset_defaults()
    root = logging.getLogger()
    root.handlers = [one for one in root.handlers if not isinstance(one, logs.ErrorHandler)]
    root.setLevel(logging.WARNING)
    for name in ("dumpfilter", logs.AUDIT):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.captureWarnings(False)
    threading.excepthook = _HOOK
