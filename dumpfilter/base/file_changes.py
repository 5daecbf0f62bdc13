"""Waiting until a file changes, by inotify of Linux."""

from __future__ import annotations

import ctypes
import errno
import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MASK = 0x00000002 | 0x00000004 | 0x00000400 | 0x00000800
"""The events of inotify(7) that count as a change: IN_MODIFY, IN_ATTRIB (another file may have replaced it),
IN_DELETE_SELF and IN_MOVE_SELF.
"""
_EVENTS_BYTES = 1 << 16


class FileChanges:
    """A watch on files, by which a thread waits until another process of this computer changes one of them
    (inotify(7)).

    Changes that another computer makes on a network file system are not seen.
    """

    def __init__(self) -> None:
        """Watch no file yet. Raises OSError on a system without inotify, and when the user has too many inotify
        instances.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def watch(self, paths: Iterable[Path]) -> bool:
        """Watch the files that are at ``paths`` now, in addition to the files of earlier calls. Return False if one of
        them cannot be watched.
        """
        add = self._libc.inotify_add_watch
        return all(add(self._descriptor, os.fsencode(path), _MASK) >= 0 for path in paths)

    def wait(self, seconds: float) -> None:
        """Return when a watched file has changed since the last call, and at the latest after ``seconds``."""
        if self._poll.poll(int(seconds * 1000)):
            with suppress(BlockingIOError):
                os.read(self._descriptor, _EVENTS_BYTES)

    def close(self) -> None:
        """End the watch of all files."""
        os.close(self._descriptor)
