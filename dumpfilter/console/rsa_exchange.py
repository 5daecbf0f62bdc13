"""The exchange of a password over an unencrypted connection, as caching_sha2_password does it with RSA.

A client that must send its password itself, and that has no TLS, asks for the server's public key. The client encrypts
the password together with the login's nonce. The key proves nothing about the server, so that TLS is better.
"""

from __future__ import annotations

import threading
from functools import cached_property
from itertools import cycle

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

REQUEST_PUBLIC_KEY = b"\x02"
"""The packet by which a client asks for the public key (``request_public_key`` in MySQL's source)."""

_BITS = 2048
_EXPONENT = 65537
_PADDING = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)


class RsaExchange:
    """A server's RSA key for passwords, which is generated when the first client asks for it. Any thread can use it."""

    def __init__(self) -> None:
        self._making = threading.Lock()

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(_EXPONENT, _BITS)

    def public_key(self) -> bytes:
        """Return the public key as PEM. The first call takes a tenth of a second of CPU time."""
        with self._making:
            key = self._key.public_key()
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def decrypt(self, sent: bytes, nonce: bytes) -> bytes | None:
        """Return the password in the packet ``sent``, with its final NUL; None if this key cannot decrypt the packet.

        ``nonce`` has the random bytes of the login, with which the client combined the password.
        """
        try:
            masked = self._key.decrypt(sent, _PADDING)
        except ValueError:
            return None
        return bytes(a ^ b for a, b in zip(masked, cycle(nonce), strict=False))
