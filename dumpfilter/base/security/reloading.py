"""TLS files of a server that are read again when they change, so that a renewed certificate needs no restart."""

from __future__ import annotations

import os
import threading

import structlog

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.tls import ServerTls, TlsFiles, load_tls

log = structlog.get_logger("dumpfilter.tls")


class ReloadingTls:
    """The TLS settings of a server, read from files. A server calls :meth:`current` before each handshake.

    Existing connections keep the certificate of their handshake. With ``for_grpc`` the key must be of a type that gRPC
    can use. The constructor raises OptionError for files that cannot be used. Any thread may call the methods.
    """

    def __init__(self, files: TlsFiles, *, for_grpc: bool = False) -> None:
        self._files = files
        self._for_grpc = for_grpc
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._tls = load_tls(files, for_grpc=for_grpc)

    def current(self) -> ServerTls:
        """Return the TLS settings from the files' current content.

        If the files have changed and cannot be used, log the reason once and return the last usable settings.
        """
        with self._lock:
            # The stamp is older than the content. A file that changes while it is read has another stamp next time.
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
            return self._tls

    def _reload(self) -> None:
        try:
            self._tls = load_tls(self._files, for_grpc=self._for_grpc)
        except OptionError as error:
            log.error("tls.not_reloaded", reason=str(error), hint="the certificate from before stays in use")
        else:
            log.info(
                "tls.reloaded",
                certificate=str(self._files.certificate),
                sha256=self._tls.fingerprint.hex(),
                valid_until=f"{self._tls.valid_until:%Y-%m-%d %H:%M} UTC",
            )


def _stamp(files: TlsFiles) -> list[tuple[int, ...] | None]:
    """Return inode, size and times of each file, or None for a missing one. The list changes when a file is changed or
    replaced.
    """
    stamps: list[tuple[int, ...] | None] = []
    for path in (files.certificate, files.key, files.ca):
        try:
            found = None if path is None else os.stat(path)
        except OSError:
            found = None
        stamps.append(found and (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return stamps
