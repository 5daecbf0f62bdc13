"""The audit log: one line for each attempt to change anything, with its time, account, peer, statement and result.

Lines go to the file that :func:`open_audit_log` opens, as JSON. Without a file they go to the ordinary log, as events
with the name ``audit``. Callers must not pass passwords. Any thread may write.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable

_LONGEST_TEXT = 1000
"""The length at which a text in the audit log is cut, characters."""

log = logger("dumpfilter.audit")


class _State:
    path: Path | None = None
    lock = threading.Lock()


def _append(path: Path, text: str) -> None:
    """Append a text to the audit log's file ``path``. A missing file, as after logrotate has renamed it, is made for
    its owner only. If the disk becomes full, the file keeps no part of the text.
    """
    data, opener = text.encode(errors="replace"), partial(os.open, mode=0o600)
    with _State.lock, open(path, "ab", buffering=0, opener=opener) as file:
        written = file.write(data) if data else 0
        if written < len(data):
            # The next line would follow the half of this one on the same line.
            file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_audit_log(path: Path | None) -> None:
    """Direct audit lines to the file ``path`` from now on, or to the ordinary log if ``path`` is None. A missing file
    is created, which only its owner can read.

    Raises OptionError if the file cannot be opened.
    """
    _State.path = path
    try:
        if path is not None:
            _append(path, "")
    except OSError as error:
        raise OptionError(
            f"{path}: the audit log cannot be written: {error.strerror}; name another file with --audit-log"
        ) from error


def audit(what: str, *, account: str, peer: str, result: str = "ok", **details: str | int) -> None:
    """Write one line to the audit log. If its file cannot be written, the line and the reason go to the ordinary log.

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
    if _State.path is not None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            _append(_State.path, json.dumps({"time": now, **fields}, ensure_ascii=False) + "\n")
        except OSError as error:
            log.error("audit.not_written", file=str(_State.path), reason=error.strerror)
        else:
            return
    log.info("audit", **fields)
