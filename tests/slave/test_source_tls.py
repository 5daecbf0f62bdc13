"""The options of TLS between a slave and its master."""

from __future__ import annotations

import pytest

from dumpfilter.errors import OptionError
from dumpfilter.security.client_tls import TlsMode
from dumpfilter.slave.source_tls import SourceTls


@pytest.mark.parametrize(
    ("tls", "verification"),
    [
        (SourceTls(), TlsMode.REQUIRED),
        (SourceTls(verify_host=False), TlsMode.REQUIRED),
        (SourceTls("ca"), TlsMode.VERIFY_IDENTITY),
        (SourceTls("ca", verify_host=True), TlsMode.VERIFY_IDENTITY),
        (SourceTls("ca", verify_host=False), TlsMode.VERIFY_CA),
    ],
)
def test_verification(tls: SourceTls, verification: TlsMode) -> None:
    assert tls.mode is verification


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        (SourceTls(certificate="c"), "SOURCE_SSL_CERT needs SOURCE_SSL_KEY"),
        (SourceTls(key="k"), "SOURCE_SSL_KEY needs SOURCE_SSL_CERT"),
        (SourceTls(verify_host=True), "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA"),
    ],
)
def test_options_that_contradict_each_other(tls: SourceTls, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        tls.check()
