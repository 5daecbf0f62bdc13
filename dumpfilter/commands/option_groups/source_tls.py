"""The options of TLS between a slave and its masters, named as those of CHANGE REPLICATION SOURCE TO."""

from __future__ import annotations

from typing import Any

from dumpfilter.errors import OptionError
from dumpfilter.options.settings import Settings, setting

PANEL = "Master"


class SourceTlsOptions(Settings, panel=PANEL):
    """The options that say whether a slave uses TLS, and how far the slave verifies the master's certificate."""

    source_plain_password: bool = False
    """Send the password to a master on another machine even without TLS."""
    source_ssl: bool | None = setting(None, show_default=False)
    """Connect to the master with TLS. The default is yes if one of the files below is given."""
    source_ssl_ca: str = setting("", metavar="FILE")
    """The CA that must have signed the master's certificate, PEM. Without it the connection is encrypted, and the
    certificate is not verified."""
    source_ssl_cert: str = setting("", metavar="FILE")
    """This slave's certificate, PEM, for a master that demands one."""
    source_ssl_key: str = setting("", metavar="FILE")
    """The private key of --source-ssl-cert, PEM."""
    source_ssl_verify_server_cert: bool | None = setting(None, show_default=False)
    """Demand that the master's certificate names the host in --master. The default is yes with --source-ssl-ca."""

    def members(self) -> dict[str, Any]:
        """Return the members of SourceInfo that describe TLS. Raises OptionError for options that contradict."""
        is_any_file = bool(self.source_ssl_ca or self.source_ssl_cert or self.source_ssl_key)
        if self.source_ssl is False and is_any_file:
            raise OptionError(
                "--no-source-ssl contradicts --source-ssl-ca, --source-ssl-cert and --source-ssl-key: leave out one "
                "or the others"
            )
        if self.source_ssl_verify_server_cert and not self.source_ssl_ca:
            raise OptionError(
                "--source-ssl-verify-server-cert needs --source-ssl-ca, the CA of the master's certificate"
            )
        return {
            "ssl": is_any_file if self.source_ssl is None else self.source_ssl,
            "ssl_ca": self.source_ssl_ca,
            "ssl_cert": self.source_ssl_cert,
            "ssl_key": self.source_ssl_key,
            "ssl_verify_server_cert": self.source_ssl_verify_server_cert,
        }
