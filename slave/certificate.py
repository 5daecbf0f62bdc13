"""The TLS certificate of a slave's SQL console.

The slave makes the certificate once, unless a user gives one, and keeps it in the relay directory.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from dumpfilter.base.files import replace
from dumpfilter.base.security.client_tls import CA_OPTION, TlsFileError
from dumpfilter.base.security.tls import ServerTls, TlsFiles, load_tls, make_key_pair

CERTIFICATE = "tls-cert.pem"
KEY = "tls-key.pem"

log = structlog.get_logger("dumpfilter.slave")


def kept_tls(directory: Path, host: str, ca: Path | None) -> ServerTls:
    """Return the TLS settings of the console, with the certificate and key in ``directory``.

    If ``directory`` has no usable certificate, the slave makes and stores a new one for ``host``. This happens at the
    first start, after a crash between the writes of the two files, and when the certificate has expired. ``ca`` is a
    file of certificate authorities; with ``ca``, clients must show a certificate that one of these authorities signed.
    Raises OptionError when the file ``ca`` is unusable, and OutputError when the slave cannot write a file.
    """
    files = TlsFiles(directory / CERTIFICATE, directory / KEY, ca)
    try:
        return load_tls(files)
    except TlsFileError as unusable:
        if unusable.option == CA_OPTION:
            raise
        if (directory / CERTIFICATE).exists():
            log.warning("the slave makes a new certificate", file=str(unusable.path), reason=unusable.what)
    made = make_key_pair(host)
    replace(directory / KEY, made.key, mode=0o600)
    replace(directory / CERTIFICATE, made.certificate, mode=0o644)
    return load_tls(files)
