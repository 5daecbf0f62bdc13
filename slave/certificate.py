"""The certificate that a slave makes for its console and keeps beside its state."""

from __future__ import annotations

from pathlib import Path

import structlog

from dumpfilter.security.tls import ServerTls, TlsFileError, TlsFiles, load_tls, make_key_pair
from dumpfilter.slave.state import durable

CERTIFICATE = "tls-cert.pem"
KEY = "tls-key.pem"

log = structlog.get_logger("dumpfilter.slave")


def kept_tls(directory: Path, host: str, ca: Path | None) -> ServerTls:
    """Return the certificate in ``directory``.

    Make a new certificate at the first start, after a crash between writing its two files, and after its
    expiry. Raises OptionError for ``ca``, and OutputError.
    """
    certificate, key = directory / CERTIFICATE, directory / KEY
    try:
        load_tls(TlsFiles(certificate, key))
    except TlsFileError as unusable:
        if certificate.exists():
            log.warning(f"{unusable.path}: {unusable.what}: the slave makes a new certificate")
        made = make_key_pair(host)
        durable.replace(key, made.key, synced=True, mode=0o600)
        durable.replace(certificate, made.certificate, synced=True, mode=0o644)
    return load_tls(TlsFiles(certificate, key, ca))
