"""The address at which a master listens for slaves, with TLS and the check that it is not open to strangers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.endpoint import Endpoint
from dumpfilter.base.security.exposure import Lack, check_listener, host_and_port
from dumpfilter.base.security.listening import listening_error, why_not

# At run time this import would load a large package that a master without TLS does not need.
if TYPE_CHECKING:
    from dumpfilter.base.security.tls import ServerTls, TlsSource


@dataclass(frozen=True)
class ListenAddress(Endpoint):
    """The address at which a master listens for slaves, and the protection of the connections.

    ``tls`` provides the master's certificate; None: connections are not encrypted. With ``insecure`` the master may
    serve other machines without TLS or without a login.
    """

    require_slave_certificate: bool = False
    """Whether each slave must present a certificate that the CA of ``tls`` has signed (mutual TLS)."""
    owner: str = "the master"
    """The name of the listening program in the texts of errors."""
    host_option: str = "--host"
    port_option: str = "--port"

    def __post_init__(self) -> None:
        """Raise OptionError when slaves must present certificates and there is no CA to check them."""
        if self.require_slave_certificate and (self.tls is None or self.tls.current().ca is None):
            raise OptionError(
                "--tls-require-slave-cert needs --tls-ca, the CA that signs the slaves' certificates, and --tls-cert "
                "and --tls-key: give all of them"
            )

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)

    def check_exposure(self, users: Mapping[str, object]) -> str | None:
        """Check that a master with these ``users`` may listen on this address. Return a warning if only ``--insecure``
        permits it; otherwise None.

        Raises Exposed when the master would serve other machines without TLS or without a login.
        """
        lacks = []
        if self.tls is None:
            lacks.append(Lack("without TLS", "give --tls-cert and --tls-key"))
        if not users and not self.require_slave_certificate:
            lacks.append(
                Lack(
                    "without a login",
                    "name users ([[user]] in the file of --config), or demand certificates with --tls-ca and "
                    "--tls-require-slave-cert",
                )
            )
        return check_listener(self.owner, self.host_option, self.host, lacks, insecure=self.insecure)

    def open_port(self, server: grpc.Server | grpc.aio.Server) -> int:
        """Make a gRPC server listen on this address, and return the port. Raises OptionError when the address cannot
        be used.
        """
        # gRPC would write a line with the name of its source file to standard error.
        reason = why_not(self.host, self.port)
        if reason is not None:
            raise listening_error(
                f"{self.owner} cannot listen on {self}: {reason}; choose others with {self.host_option} and "
                f"{self.port_option}",
                reason,
            )
        try:
            if self.tls is None:
                port = server.add_insecure_port(str(self))
            else:
                port = server.add_secure_port(str(self), self._credentials(self.tls))
        except RuntimeError:
            port = 0
        if not port:
            unusable = "" if self.tls is None else ", or gRPC cannot use the certificate of --tls-cert"
            raise OptionError(
                f"{self.owner} cannot listen on {self}: the port is taken, or the address is not this machine's"
                f"{unusable}; choose others with {self.host_option} and {self.port_option}"
            )
        return port

    def _credentials(self, tls: TlsSource) -> grpc.ServerCredentials:
        """Return gRPC credentials that read the certificate from ``tls`` before each handshake."""
        used = tls.current()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal used
            now = tls.current()
            if now is used:
                return None
            used = now
            return self._configuration(now)

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(used),
            renewed,  # type: ignore[arg-type]  # The stubs do not know that None stands for an unchanged certificate.
            require_client_authentication=self.require_slave_certificate,
        )

    def _configuration(self, tls: ServerTls) -> grpc.ServerCertificateConfiguration:
        roots = tls.ca if self.require_slave_certificate else None
        return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificates)], roots)
