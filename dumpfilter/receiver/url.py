"""The addresses of running servers, ``mysql://user@host:port/?option=value``. Commands take such an address in place of
the path of a binlog set.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, Field, ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, reason_of
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.base.security.listening import host_and_port

SCHEMES = ("mysql", "mariadb")
"""The schemes of addresses. All schemes mean the same, because the server itself says whether it is MySQL or MariaDB.
"""

DEFAULT_PORT = 3306
DEFAULT_HEARTBEAT = 10.0


def home_expanded(path: Path) -> Path:
    """Return ``path`` with the home directory in place of ``~`` or ``~user`` at its beginning. A path of a user without
    a home directory stays unchanged, so that the error about the missing file names the path.
    """
    return Path(os.path.expanduser(path))


_File = Annotated[Path, AfterValidator(home_expanded)]


class SourceUrl(Model):
    """The address of a running MySQL or MariaDB server. A field with an alias is an option in the URL's query."""

    host: str
    port: int = DEFAULT_PORT
    user: str = ""
    """The user name; empty if an option file names the user."""
    socket: str = Field("", alias="socket")
    """The path of a Unix socket; empty for a TCP connection."""
    tls: TlsMode | None = Field(None, alias="tls")
    ca: _File | None = Field(None, alias="ca")
    cert: _File | None = Field(None, alias="cert")
    key: _File | None = Field(None, alias="key")
    public_key: _File | None = Field(None, alias="source-public-key")
    """The file with the server's RSA public key, with which a password is encrypted on a connection without TLS."""
    asks_for_key: bool = Field(False, alias="get-source-public-key")
    """Whether the public key may be taken from the server itself on a connection without TLS. A fake server could then
    get the password.
    """
    password_file: _File | None = Field(None, alias="password-file")
    defaults_file: _File | None = Field(None, alias="defaults-file")
    server_id: int = Field(0, alias="server-id", ge=0, le=0xFFFFFFFF)
    """The server id with which to register as a replica; 0 for a random high one."""
    heartbeat: float = Field(DEFAULT_HEARTBEAT, alias="heartbeat", ge=0.05, le=3600, allow_inf_nan=False)
    """The time without events after which the source sends a heartbeat, seconds."""
    first: str = Field("", alias="from")
    """The binlog file at which to begin to receive: a name, ``oldest`` or ``newest``. Empty for the oldest."""
    last: str = Field("", alias="to")
    """The name of the last binlog file to receive; empty for all."""

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        if self.socket:
            return f"mysql://{user}{self.host}/?socket={self.socket}"
        return f"mysql://{user}{host_and_port(self.host, self.port)}/"

    @property
    def is_local(self) -> bool:
        """Whether the connection stays on this machine (socket or loopback address)."""
        if self.socket or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def source_url_in(named: Sequence[str]) -> SourceUrl | None:
    """Return the address of a server in ``named``, the arguments of a command that accepts such an address or binlog
    files. Return None if all arguments are files.

    Raises OptionError for a wrong address, and for an address with other arguments beside it.
    """
    addresses = [each for each in named if is_source_url(each)]
    if not addresses:
        return None
    url = parse_source_url(addresses[0])
    if len(named) > 1:
        raise OptionError(f"{url}: name one server, and no files beside it")
    return url


def is_source_url(text: object) -> bool:
    """Tell whether a text is the address of a running server, and not the path of a binlog set.

    >>> is_source_url("mysql://repl@db1:3306/"), is_source_url("/var/lib/mysql/binlog.index")
    (True, False)
    """
    scheme, separator, _ = str(text).partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def parse_source_url(text: str) -> SourceUrl:
    """Parse the URL of a running server. Raises OptionError for a wrong URL; the text of the error never shows a
    password.

    >>> str(parse_source_url("mysql://repl@db1/?tls=verify-ca&ca=/etc/ca.pem"))
    'mysql://repl@db1:3306/'
    """
    if not is_source_url(text):
        raise OptionError("the address of a server begins with mysql://, as in mysql://repl@db1:3306/")
    if "%00" in text:
        raise OptionError(
            "the address of a server has a NUL byte (%00), which no name and no file has: leave it out"
        )
    try:
        parts = urlsplit(f"mysql://{text.partition('://')[2]}")
    except ValueError:
        # The text, which may have a password, is not shown.
        raise OptionError(
            "this is no address of a server, such as mysql://repl@[::1]:3306/ or mysql://repl@db1:3306/"
            "?password-file=FILE"
        ) from None
    if parts.password is not None or "@" in parts.netloc.rpartition("@")[0]:
        raise OptionError(
            "the address has a password, which other users of this machine can see: leave it out, and put it into a "
            "file (?password-file=FILE), into the variable DUMPFILTER_SOURCE_PASSWORD, or into ~/.my.cnf"
        )
    user = unquote(parts.username or "")
    shown = f"mysql://{f'{user}@' if user else ''}{parts.netloc.rpartition('@')[2]}/"
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise OptionError(f"{shown}: the port is no number from 1 to 65535")
    host = parts.hostname or ""
    try:
        host.encode("idna")
    except UnicodeError:
        raise OptionError(
            f"{shown}: the host is no name of a machine; write it as db1 or db1.example.com"
        ) from None
    if parts.path not in ("", "/"):
        raise OptionError(
            f"{shown}: a path follows the address; name a file with ?from={unquote(parts.path).lstrip('/')}"
        )
    if parts.fragment:
        raise OptionError(f"{shown}: '#' has no meaning in the address of a server; write it as %23")
    return _with_options(shown, host, port, user, parts.query)


def _with_options(shown: str, host: str, port: int, user: str, query: str) -> SourceUrl:
    known = {field.alias for field in SourceUrl.model_fields.values() if field.alias}
    values: dict[str, object] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        name = name.replace("_", "-")
        if name == "password":
            raise OptionError(
                f"{shown}: no option takes a password, because other users of this machine can see it; use "
                "?password-file=FILE"
            )
        if name not in known:
            raise OptionError(f"{shown}: unknown option {name!r}; there are {', '.join(sorted(known))}")
        if name in values:
            raise OptionError(f"{shown}: the option {name} is given twice")
        if not text:
            raise OptionError(f"{shown}: the option {name} needs a value")
        values[name] = text
    if not host and "socket" not in values:
        raise OptionError(f"{shown}: the host is missing, as in mysql://repl@db1:3306/")
    try:
        url = SourceUrl.model_validate({"host": host or "localhost", "port": port, "user": user, **values})
    except ValidationError as error:
        name, reason = reason_of(error, SourceUrl)
        raise OptionError(f"{shown}: {name}={values[name]}: {reason}") from None
    if bool(url.cert) != bool(url.key):
        raise OptionError(f"{shown}: cert and key need each other: give both, or none")
    if url.tls is TlsMode.DISABLED and (url.ca or url.cert):
        raise OptionError(f"{shown}: tls=disabled contradicts ca, cert and key: leave out one or the others")
    if url.ca and url.tls in (TlsMode.PREFERRED, TlsMode.REQUIRED):
        raise OptionError(
            f"{shown}: tls={url.tls} does not verify the certificate, so ca has no use; say tls=verify-ca or "
            "tls=verify-identity"
        )
    return url
