"""The user and the password for a source, from the places that MySQL's own clients use. No argument has a password."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.options.my_cnf import FileOption, read_options_file
from dumpfilter.options.small_file import read_small_file
from dumpfilter.receiver.tls import TlsMode, TlsOptions
from dumpfilter.receiver.url import SourceUrl

PASSWORD_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"
SECTIONS = ("client", "dumpfilter-source")
"""The sections of an option file that are read. The later one wins."""

_DEFAULT_FILE = "~/.my.cnf"
_ON = ("", "1", "on", "true")
"""The values with which an option file turns an option on. The name alone does so, too."""


@dataclass(frozen=True)
class Credentials:
    """The user, password and TLS options for a login at a source."""

    user: str
    password: str = field(repr=False)
    tls: TlsOptions = field(default_factory=TlsOptions)


def find_credentials(url: SourceUrl, environment: Mapping[str, str] | None = None) -> Credentials:
    """Return the credentials for a source. What the address says wins over the option file.

    The option file is ``~/.my.cnf`` if the address names none. Raises OptionError for a file that cannot be read.
    """
    environment = os.environ if environment is None else environment
    places = url.credentials
    options: dict[str, str] = {}
    defaults = places.defaults_file or Path(_DEFAULT_FILE).expanduser()
    if places.defaults_file is not None or defaults.is_file():
        options |= _options(read_options_file(defaults), SECTIONS)
    if places.password_file is not None:
        password = _first_line(places.password_file)
    elif PASSWORD_VARIABLE in environment:
        password = environment[PASSWORD_VARIABLE]
    else:
        password = options.get("password", "")
    user = url.user or options.get("user", "") or getpass.getuser()
    return Credentials(user, password, url.tls.or_else(_tls(options)))


def _options(found: Iterable[FileOption], sections: tuple[str, ...]) -> dict[str, str]:
    """Return the values of options in the named sections; a later section and a later option wins."""
    ordered = sorted(
        (option for option in found if option.section in sections),
        key=lambda option: sections.index(option.section),
    )
    return {option.name.replace("_", "-"): option.value or "" for option in ordered}


def _tls(options: Mapping[str, str]) -> TlsOptions:
    mode = options.get("ssl-mode", "").lower().replace("_", "-")

    def path(name: str) -> Path | None:
        return Path(options[name]).expanduser() if options.get(name) else None

    return TlsOptions(
        TlsMode(mode) if mode in set(TlsMode) else None,
        path("ssl-ca"),
        path("ssl-cert"),
        path("ssl-key"),
        path("server-public-key-path"),
        options.get("get-server-public-key", "0").lower() in _ON,
    )


def _first_line(path: Path) -> str:
    try:
        lines = read_small_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{path}: the password cannot be read: {reason}") from None
    return lines[0] if lines else ""
