"""The options of TLS between a slave and its master."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.slave.state import SourceInfo


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, TlsMode.REQUIRED),
        ({"ssl_verify_server_cert": False}, TlsMode.REQUIRED),
        ({"ssl_ca": "ca"}, TlsMode.VERIFY_IDENTITY),
        ({"ssl_ca": "ca", "ssl_verify_server_cert": True}, TlsMode.VERIFY_IDENTITY),
        ({"ssl_ca": "ca", "ssl_verify_server_cert": False}, TlsMode.VERIFY_CA),
    ],
)
def test_verification(options: dict[str, Any], mode: TlsMode) -> None:
    info = SourceInfo(ssl=True, **options)
    assert info.tls is not None
    assert info.tls.mode is mode
    assert info.verifies_host == (mode is TlsMode.VERIFY_IDENTITY)
    plain = SourceInfo(**options)
    assert plain.tls is None
    assert plain.verifies_host is False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl_cert": "c"}, "SOURCE_SSL_CERT needs SOURCE_SSL_KEY"),
        ({"ssl_key": "k"}, "SOURCE_SSL_KEY needs SOURCE_SSL_CERT"),
        ({"ssl_verify_server_cert": True}, "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], said: str) -> None:
    SourceInfo(**options).check_tls()
    with pytest.raises(OptionError, match=said):
        SourceInfo(ssl=True, **options).check_tls()
