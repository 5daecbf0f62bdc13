"""The user and the password for a source (a running server), from the files and variables that MySQL's own clients use.
A command-line argument never holds a password.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import read_options_file, read_password, read_small_file
from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.guarded_client import Login
from dumpfilter.receiver.url import SourceUrl

PASSWORD_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"
SECTIONS = ("client", "dumpfilter-source")
"""The sections of an option file that are read. A later section has precedence."""

_DEFAULT_FILE = "~/.my.cnf"
_ON = ("", "1", "on", "true")
"""The values with which an option file turns an option on. An empty value is an option without a value."""


def find_credentials(url: SourceUrl, environment: Mapping[str, str] | None = None) -> Login:
    """Return the login for the server at ``url``. Parts of the URL have precedence over the option file.

    The option file is ``~/.my.cnf`` if the URL names none. ``environment`` replaces the process's environment
    variables. Raises OptionError for a file that cannot be read.
    """
    environment = os.environ if environment is None else environment
    options: dict[str, str] = {}
    defaults = url.defaults_file or Path(_DEFAULT_FILE).expanduser()
    if url.defaults_file is not None or defaults.is_file():
        found = [option for option in read_options_file(defaults) if option.section in SECTIONS]
        found.sort(key=lambda option: SECTIONS.index(option.section))
        options = {option.name.replace("_", "-"): option.value or "" for option in found}
    if url.password_file is not None:
        password = read_password(url.password_file)
    else:
        password = environment.get(PASSWORD_VARIABLE, options.get("password", ""))

    def path(name: str) -> Path | None:
        return Path(options[name]).expanduser() if options.get(name) else None

    ca = url.ca or path("ssl-ca")
    return Login(
        host=url.host,
        port=url.port,
        socket=url.socket,
        user=url.user or options.get("user", "") or getpass.getuser(),
        password=password,
        tls=ClientTls(
            url.tls or _mode(options.get("ssl-mode", ""), is_local=url.is_local, has_ca=ca is not None),
            ca,
            url.cert or path("ssl-cert"),
            url.key or path("ssl-key"),
        ),
        public_key=_public_key(url, url.public_key or path("server-public-key-path")),
        asks_for_key=url.asks_for_key or options.get("get-server-public-key", "0").lower() in _ON,
    )


def _mode(text: str, *, is_local: bool, has_ca: bool) -> TlsMode:
    """Return the TLS mode with the name ``text``, or the default for any other text.

    With a CA the default verifies the server's identity. Without a CA it requires TLS for other machines, and uses TLS
    on this machine if the server offers it.
    """
    try:
        return TlsMode(text)
    except ValueError:
        if has_ca:
            return TlsMode.VERIFY_IDENTITY
        return TlsMode.PREFERRED if is_local else TlsMode.REQUIRED


def _public_key(url: SourceUrl, path: Path | None) -> bytes:
    """Return the server's RSA public key in PEM from the file ``path``; empty for None. Raises OptionError for a file
    without such a key.
    """
    if path is None:
        return b""
    # The imports take longer than a command that reads files has.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        pem = read_small_file(path)
        if not isinstance(load_pem_public_key(pem), RSAPublicKey):
            raise ValueError("the key is no RSA key")
    except OSError as error:
        raise OptionError(f"{url}: source-public-key={path}: cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OptionError(
            f"{url}: source-public-key={path}: holds no RSA public key in PEM ({error}); copy public_key.pem from the "
            "server's data directory"
        ) from None
    return pem
