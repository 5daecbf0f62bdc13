"""Addresses of running servers, ``mysql://user@host:port/?option=value``, which stand where a binlog set is named."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dumpfilter.errors import OptionError
from dumpfilter.receiver.tls import TlsMode, TlsOptions

SCHEMES = ("mysql", "mariadb")
"""The schemes of addresses. They mean the same, because the server itself says of which family it is."""

DEFAULT_PORT = 3306
DEFAULT_HEARTBEAT = 10.0
_MOST_SERVER_ID = 0xFFFFFFFF


@dataclass(frozen=True)
class CredentialFiles:
    """The places that an address names for user and password."""

    password_file: Path | None = None
    defaults_file: Path | None = None


@dataclass(frozen=True)
class SourceUrl:
    """The address of a running MySQL or MariaDB server, with what its query options say."""

    host: str
    port: int
    user: str = ""
    """The user; empty if an option file is to name the user."""
    socket: str = ""
    """The path of a Unix socket; empty for a TCP connection."""
    tls: TlsOptions = field(default_factory=TlsOptions)
    credentials: CredentialFiles = field(default_factory=CredentialFiles)
    server_id: int = 0
    """The server id to register with; 0 for a random high one."""
    heartbeat: float = DEFAULT_HEARTBEAT
    """The seconds of silence after which the source sends a heartbeat."""
    first: str = ""
    """The file to begin with (``from``): a name, ``oldest`` or ``newest``. Empty for the oldest."""
    last: str = ""
    """The last file to fetch (``to``); empty for all."""

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        if self.socket:
            return f"mysql://{user}{self.host}/?socket={self.socket}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{user}{host}:{self.port}/"

    @property
    def is_local(self) -> bool:
        """Whether the connection stays on this machine."""
        if self.socket or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def is_source_url(text: object) -> bool:
    """Tell whether a text that names a binlog set is the address of a running server.

    >>> is_source_url("mysql://repl@db1:3306/"), is_source_url("/var/lib/mysql/binlog.index")
    (True, False)
    """
    scheme, separator, _ = str(text).partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def parse_source_url(text: str) -> SourceUrl:
    """Return the address that a URL names. Raises OptionError, whose text never shows a password.

    >>> str(parse_source_url("mysql://repl@db1/?tls=verify-ca&ca=/etc/ca.pem"))
    'mysql://repl@db1:3306/'
    """
    if not is_source_url(text):
        raise OptionError("the address of a server begins with mysql://, as in mysql://repl@db1:3306/")
    parts = urlsplit(f"mysql://{text.partition('://')[2]}")
    if parts.password is not None or "@" in parts.netloc.rpartition("@")[0]:
        raise OptionError(
            "the address has a password, which other users of this machine can see: leave it out, and put it into a "
            "file (?password-file=FILE), into the variable DUMPFILTER_SOURCE_PASSWORD, or into ~/.my.cnf"
        )
    user = unquote(parts.username or "")
    shown = f"mysql://{f'{user}@' if user else ''}{parts.netloc.rpartition('@')[2]}/"
    try:
        port = parts.port
    except ValueError:
        raise OptionError(f"{shown}: the port is no number from 1 to 65535") from None
    if port == 0:
        raise OptionError(f"{shown}: the port is no number from 1 to 65535")
    if parts.path not in ("", "/"):
        raise OptionError(
            f"{shown}: a path follows the address; name a file with ?from={unquote(parts.path).lstrip('/')}"
        )
    if parts.fragment:
        raise OptionError(f"{shown}: '#' has no meaning in the address of a server; write it as %23")
    return _with_options(shown, parts.hostname or "", port or DEFAULT_PORT, user, parts.query)


def _with_options(shown: str, host: str, port: int, user: str, query: str) -> SourceUrl:
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        name = name.replace("_", "-")
        if name == "password":
            raise OptionError(
                f"{shown}: no option takes a password, because other users of this machine can see it; use "
                "?password-file=FILE"
            )
        if name not in _OPTIONS:
            raise OptionError(f"{shown}: unknown option {name!r}; there are {', '.join(sorted(_OPTIONS))}")
        if name in values:
            raise OptionError(f"{shown}: the option {name} is given twice")
        if not value:
            raise OptionError(f"{shown}: the option {name} needs a value")
        values[name] = value
    socket = values.get("socket", "")
    if not host and not socket:
        raise OptionError(f"{shown}: the host is missing, as in mysql://repl@db1:3306/")
    return SourceUrl(
        host=host or "localhost",
        port=port,
        user=user,
        socket=socket,
        tls=_tls(shown, values),
        credentials=CredentialFiles(
            _path(values.get("password-file")),
            _path(values.get("defaults-file")),
        ),
        server_id=int(_number(shown, "server-id", values, 0, _MOST_SERVER_ID)),
        heartbeat=_number(shown, "heartbeat", values, 0.05, 3600, DEFAULT_HEARTBEAT),
        first=values.get("from", ""),
        last=values.get("to", ""),
    )


_OPTIONS = frozenset(
    (
        "tls",
        "ca",
        "cert",
        "key",
        "source-public-key",
        "get-source-public-key",
        "password-file",
        "defaults-file",
        "socket",
        "server-id",
        "heartbeat",
        "from",
        "to",
    )
)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def _tls(shown: str, values: dict[str, str]) -> TlsOptions:
    mode = values.get("tls", "").lower().replace("_", "-")
    if mode and mode not in set(TlsMode):
        raise OptionError(f"{shown}: tls={mode}: there are {', '.join(TlsMode)}")
    options = TlsOptions(
        TlsMode(mode) if mode else None,
        _path(values.get("ca")),
        _path(values.get("cert")),
        _path(values.get("key")),
        _path(values.get("source-public-key")),
        _switch(shown, "get-source-public-key", values),
    )
    options.check(shown)
    return options


def _switch(shown: str, name: str, values: dict[str, str]) -> bool:
    text = values.get(name, "no").lower()
    if text not in ("yes", "no"):
        raise OptionError(f"{shown}: {name}={text}: yes or no is meant")
    return text == "yes"


def _number(
    shown: str, name: str, values: dict[str, str], least: float, most: float, default: float = 0
) -> float:
    text = values.get(name)
    if text is None:
        return default
    try:
        found = float(text) if isinstance(default, float) else int(text)
    except ValueError:
        found = -1
    if not least <= found <= most:
        raise OptionError(f"{shown}: {name}={text}: a number from {least:g} to {most:g} is meant")
    return found
