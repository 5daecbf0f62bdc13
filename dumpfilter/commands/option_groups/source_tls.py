"""The options of TLS between a slave and its masters, named as those of CHANGE REPLICATION SOURCE TO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.errors import OptionError

PANEL = "Master"


def source_option(help: str, **more: Any) -> Any:
    """Return a Typer option in the panel of the options about masters."""
    return typer.Option(help=help, rich_help_panel=PANEL, **more)


@dataclass(frozen=True)
class SourceTlsOptions(OptionGroup):
    """The options that say whether a slave uses TLS, and how far the slave verifies the master's certificate."""

    source_plain_password: Annotated[
        bool,
        typer.Option(
            "--source-plain-password",
            help="Send the password to a master on another machine even without TLS.",
            rich_help_panel=PANEL,
        ),
    ] = False
    source_ssl: Annotated[
        bool | None,
        source_option(
            "Connect to the master with TLS. The default is yes if one of the files below is given.",
            show_default=False,
        ),
    ] = None
    source_ssl_ca: Annotated[
        str,
        source_option(
            "The CA that must have signed the master's certificate, PEM. Without it the connection is encrypted, and "
            "the certificate is not verified.",
            metavar="FILE",
        ),
    ] = ""
    source_ssl_cert: Annotated[
        str, source_option("This slave's certificate, PEM, for a master that demands one.", metavar="FILE")
    ] = ""
    source_ssl_key: Annotated[
        str, source_option("The private key of --source-ssl-cert, PEM.", metavar="FILE")
    ] = ""
    source_ssl_verify_server_cert: Annotated[
        bool | None,
        source_option(
            "Demand that the master's certificate names the host in --master. The default is yes with "
            "--source-ssl-ca.",
            show_default=False,
        ),
    ] = None

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
