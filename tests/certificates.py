"""Certificates for tests: authorities and the certificates that they issue, valid or not."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import NameOID

from dumpfilter.base.security.client_tls import CA_OPTION, ClientTls

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)

YESTERDAY = _NOW - _DAY

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def client_context(ca: Path) -> ssl.SSLContext:
    """Return the TLS context of a client that accepts servers' certificates signed by the CA in the file ``ca``.

    The file may also be the server's own certificate. The certificate must name the server's host. Raises OptionError.
    """
    context = ClientTls(ca=ca, ca_option=CA_OPTION).context()
    assert context is not None
    return context


@dataclass(frozen=True)
class Issued:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    def replace(self, other: Issued) -> None:
        """Write another certificate and its key into these files, as a renewal does."""
        for ours, theirs in ((self.certificate, other.certificate), (self.key, other.key)):
            beside = ours.with_name(ours.name + ".new")
            beside.write_bytes(theirs.read_bytes())
            beside.rename(ours)


class Authority:
    """A certificate authority. ``certificate`` is the file of its own certificate."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"CA {directory.name}")])
        self.certificate = directory / "ca.pem"
        built = self._builder(self._name, self._key, _NOW - _DAY, _NOW + _DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        built = built.add_extension(_SIGNS_CERTIFICATES, critical=True)
        self._write(self.certificate, built)

    def issue(
        self,
        name: str,
        *,
        begins: datetime.datetime = _NOW - _DAY,
        ends: datetime.datetime = _NOW + _DAY,
        password: bytes | None = None,
        address: str | None = "127.0.0.1",
        key: CertificateIssuerPrivateKeyTypes | None = None,
    ) -> Issued:
        """Write a certificate for an address and its key, which is encrypted when there is a password."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        issued = Issued(self._directory / f"{name}.pem", self._directory / f"{name}-key.pem")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
        built = self._builder(subject, key, begins, ends)
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            built = built.add_extension(names, critical=False)
        self._write(issued.certificate, built)
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption(),
            )
        )
        return issued

    def _builder(
        self,
        subject: x509.Name,
        key: CertificateIssuerPrivateKeyTypes,
        begins: datetime.datetime,
        ends: datetime.datetime,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            # Python 3.13 checks strictly, and then wants to be told which keys belong together.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )

    def _write(self, path: Path, builder: x509.CertificateBuilder) -> None:
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
