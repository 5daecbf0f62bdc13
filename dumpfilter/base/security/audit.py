"""The audit log: one line for each attempt to change anything, with its time, account, peer, statement and result.

Lines go to the file that :func:`open_audit_log` opens, as JSON. Without a file they go to the ordinary log, as events
with the name ``audit``. Callers must not pass passwords. Any thread may write.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path

import structlog

from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import printable

_LONGEST_TEXT = 1000
"""The length at which a text in the audit log is cut, characters."""

log = structlog.get_logger("dumpfilter.audit")


class _AuditFile(WatchedFileHandler):
    """The handler that writes to the file of the audit log. If logrotate has renamed the file, the next line goes to a
    new file of the old name.
    """

    def _open(self) -> TextIOWrapper:
        # A new file can be read by its owner only.
        return open(
            self.baseFilename,
            "a",
            encoding="utf-8",
            errors="replace",
            opener=lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o600),
        )

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise the error, so that :func:`audit` writes the line to the ordinary log."""
        error, stream = sys.exception(), self.stream
        # The next line opens the file again. Otherwise the file might get this line later, beside the ordinary log.
        self.stream = None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
        assert error is not None
        raise error


class _State:
    file: _AuditFile | None = None


def open_audit_log(path: Path | None) -> None:
    """Direct audit lines to the file ``path`` from now on, or to the ordinary log if ``path`` is None.

    Raises OptionError if the file cannot be opened.
    """
    old, _State.file = _State.file, None
    if old is not None:
        old.close()
    if path is not None:
        try:
            _State.file = _AuditFile(path)
        except OSError as error:
            raise OptionError(
                f"{path}: the audit log cannot be written: {error.strerror}; name another file with --audit-log"
            ) from error


def audit(what: str, *, account: str, peer: str, result: str = "ok", **details: str | int) -> None:
    """Write one line to the audit log.

    Parameters:
        what: the statement or call, without passwords, for example ``PURGE BINARY LOGS TO 'b.3'`` or ``Register``.
        account: the user who asked for the change, or an empty text for a caller without a name.
        peer: the address from which the user came.
        result: ``ok``, or why nothing was changed.
        details: further fields, for example ``server_id``.
    """
    given = {"account": account, "peer": peer, "what": what, "result": result, **details}
    fields = {
        name: printable(value, _LONGEST_TEXT) if isinstance(value, str) else value
        for name, value in given.items()
    }
    file = _State.file
    if file is not None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields}, ensure_ascii=False)
        try:
            file.handle(logging.makeLogRecord({"msg": line}))
        except OSError as error:
            log.error("audit.not_written", file=file.baseFilename, reason=error.strerror)
        else:
            return
    log.info("audit", **fields)
