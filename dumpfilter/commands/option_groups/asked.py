"""The options that name a running master or slave, for commands such as ``status`` that query it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.small_file import read_password
from dumpfilter.slave.options import MASTER_PANEL, SOURCE_VARIABLE, TlsOptions

if TYPE_CHECKING:
    from dumpfilter.base.security.guarded_client import Login
    from dumpfilter.slave.threads.connection import Source

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
        """Return the login at the console, or None if the options name no console. Raises OptionError."""
        from dumpfilter.console.client import console_login

        option, address = ("--slave", self.slave) if self.slave else ("--console", self.console)
        if not address:
            return None
        host, port = _address(option, address)
        password = read_password(self.password_file, PASSWORD_VARIABLE)
        return console_login(host, port, self.user, password, self.tls_ca)


class AskedOptions(ConsoleLogin):
    """The options that name the master or slave whose status is shown, by an address or a slave's relay directory, and
    the logins.
    """

    master: str = setting("", metavar="HOST:PORT")
    """A master's address for slaves."""
    relay_dir: Path | None = setting(None, metavar="DIRECTORY")
    """A slave's relay directory, read as it is, also without a slave."""
    source_user: str = ""
    """A replication user of the master."""
    source_password_file: Path | None = None
    """A file whose first line is the replication user's password. Without it the password is that of the environment
    variable DUMPFILTER_SOURCE_PASSWORD."""
    source_plain_password: bool = setting(False, rich_help_panel=MASTER_PANEL)
    """Send the password to a master on another machine even without TLS."""

    def check(self) -> None:
        """Check that the options name exactly one master, slave or relay directory. Raises OptionError."""
        asked = [
            bool(self.master or self.console),
            bool(self.slave),
            self.relay_dir is not None,
        ]
        if sum(asked) != 1:
            raise OptionError(
                "give one of --master (with or without --console), --console, --slave and --relay-dir"
            )
        if self.source_user and not self.master:
            raise OptionError("--source-user needs --master; the user of a console is --user")

    def source(self, tls: TlsOptions) -> Source | None:
        """Return the settings of a connection to the master's gRPC port for slaves, or None without ``--master``.
        Raises OptionError.
        """
        members = tls.members()
        if not self.master:
            return None
        from dumpfilter.slave.options import SlaveOptions
        from dumpfilter.slave.state.infos import SourceInfo
        from dumpfilter.slave.threads.connection import Source

        host, port = _address("--master", self.master)
        password = read_password(self.source_password_file, SOURCE_VARIABLE) if self.source_user else ""
        info = SourceInfo(host=host, port=port, user=self.source_user, password=password, **members)
        info.check_tls()
        options = SlaveOptions(relay_dir=Path(), server_id=0, plain_password=self.source_plain_password)
        return Source(info, options)


def _address(option: str, value: str) -> tuple[str, int]:
    """Parse the value ``HOST:PORT`` of an option, and return host and port. Raises OptionError for another form.

    >>> _address("--slave", "[::1]:3308")
    ('::1', 3308)
    """
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise OptionError(f"{option}={value}: it is HOST:PORT")
    return host.strip("[]"), int(port)
