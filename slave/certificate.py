"""The slave's own certificate for its console. A slave makes it once and keeps it beside its state."""

from __future__ import annotations

from pathlib import Path

import structlog

from dumpfilter.security.tls import CA_OPTION, ServerTls, TlsFileError, TlsFiles, load_tls, make_key_pair
from dumpfilter.slave.state import durable

CERTIFICATE = "tls-cert.pem"
KEY = "tls-key.pem"

log = structlog.get_logger("dumpfilter.slave")


def kept_tls(directory: Path, host: str, ca: Path | None) -> ServerTls:
    """Return the certificate that is kept in ``directory``, for clients whose certificates ``ca`` signs.

    A slave makes a new certificate when there is none that can be used: at the first start, after a crash between the
    two files, and when the certificate has expired. Raises OptionError for ``ca``, and OutputError.
    """
    files = TlsFiles(directory / CERTIFICATE, directory / KEY, ca)
    try:
        return load_tls(files)
    except TlsFileError as unusable:
        if unusable.option == CA_OPTION:
            raise
        if (directory / CERTIFICATE).exists():
            log.warning(f"{unusable.path}: {unusable.what}: the slave makes a new certificate")
    made = make_key_pair(host)
    durable.replace(directory / KEY, made.key, synced=True, mode=0o600)
    durable.replace(directory / CERTIFICATE, made.certificate, synced=True, mode=0o644)
    return load_tls(files)
