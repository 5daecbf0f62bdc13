"""The audit log: one line for each attempt to change anything, with its time, account, peer, statement and result.

Lines go to the file that :func:`open_audit_log` names, as JSON. Without a file they go to the ordinary log, as events
with the name ``audit``. Callers must not pass passwords.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import structlog

from dumpfilter.errors import OptionError
from dumpfilter.printable import printable

_LONGEST_TEXT = 1000
"""The length at which a text in the audit log is cut, characters."""

log = structlog.get_logger("dumpfilter.audit")


class AuditLog:
    """The audit log of a process. Any thread can write to the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._descriptor: int | None = None

    def open(self, path: Path | None) -> None:
        """Write to this file from now on, or to the ordinary log if ``path`` is None.

        A new file can be read by its owner only. Raises OptionError if the file cannot be opened.
        """
        with self._lock:
            self._close()
            self._path = path
            if path is not None:
                try:
                    self._descriptor = _open(path)
                except OSError as error:
                    self._path = None
                    raise OptionError(
                        f"{path}: the audit log cannot be written: {error.strerror}; name another file with "
                        "--audit-log"
                    ) from error

    def reopen(self) -> None:
        """Open the file anew, for example after logrotate has renamed the file. On failure, keep the open file."""
        with self._lock:
            if self._path is None:
                return
            try:
                new = _open(self._path)
            except OSError as error:
                log.error("audit.not_reopened", file=str(self._path), reason=error.strerror)
                return
            self._close()
            self._descriptor = new

    def write(self, what: str, *, account: str, peer: str, result: str = "ok", **details: str | int) -> None:
        """Write one line.

        Parameters:
            what: the statement or call, without passwords, for example ``PURGE BINARY LOGS TO 'b.3'`` or ``Register``.
            account: the user who asked for the change, or an empty text for a caller without a name.
            peer: the address from which the user came.
            result: ``ok``, or why nothing was changed.
            details: further fields, for example ``server_id``.
        """
        fields: dict[str, str | int] = {
            "account": printable(account, _LONGEST_TEXT),
            "peer": printable(peer, _LONGEST_TEXT),
            "what": printable(what, _LONGEST_TEXT),
            "result": printable(result, _LONGEST_TEXT),
        }
        for name, value in details.items():
            fields[name] = printable(value, _LONGEST_TEXT) if isinstance(value, str) else value
        with self._lock:
            if self._descriptor is not None:
                now = datetime.now(UTC).isoformat(timespec="milliseconds")
                line = json.dumps({"time": now, **fields}, ensure_ascii=False) + "\n"
                try:
                    # One write of a file opened for appending is one whole line, also if several processes write.
                    data = line.encode("utf-8", "replace")
                    if os.write(self._descriptor, data) == len(data):
                        return
                    log.error("audit.not_written", file=str(self._path), reason="the disk is full")
                except OSError as error:
                    log.error("audit.not_written", file=str(self._path), reason=error.strerror)
        log.info("audit", **fields)

    def _close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


_audit_log = AuditLog()


open_audit_log = _audit_log.open
reopen_audit_log = _audit_log.reopen
audit = _audit_log.write
