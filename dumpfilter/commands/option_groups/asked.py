"""The options that name the console of a running master or slave, for commands such as ``status`` that query it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.base.security.guarded_client import Login

PASSWORD_VARIABLE = "DUMPFILTER_PASSWORD"


class ConsoleLogin(Settings):
    """The options that name the console of a master or a slave, and the user and password for it."""

    slave: str = setting("", metavar="HOST:PORT")
    """The console of a slave."""
    console: str = setting("", metavar="HOST:PORT")
    """The console of a master."""
    user: str = setting("root", "--user", "-u")
    """The console's user."""
    password_file: Path | None = setting(None, "--password-file", "-p")
    """A file whose first line is the console user's password. Without it the password is that of the environment
    variable DUMPFILTER_PASSWORD."""
    tls_ca: Path | None = setting(None, metavar="FILE")
    """Demand TLS of the console, with a certificate that this CA has signed or that is in this file, and that names the
    host. Without it TLS is used unverified."""

    def login(self) -> Login | None:
        """Return the address, user and password for the console that the options name, or None if they name no console.
        Raises OptionError.
        """
        from dumpfilter.console.client import console_login

        option, address = ("--slave", self.slave) if self.slave else ("--console", self.console)
        if not address:
            return None
        host, port = parse_address(option, address)
        password = read_password(self.password_file, PASSWORD_VARIABLE)
        return console_login(host, port, self.user, password, self.tls_ca)


def parse_address(option: str, value: str) -> tuple[str, int]:
    """Parse the value ``HOST:PORT`` of the command line option ``option``, and return host and port. Raises OptionError
    for another form.

    >>> parse_address("--slave", "[::1]:3308")
    ('::1', 3308)
    """
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise OptionError(f"{option}={value}: it is HOST:PORT")
    return host.strip("[]"), int(port)
