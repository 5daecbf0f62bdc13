"""Names of schemas as names of files, as the servers make them (``tablename_to_filename``)."""

from __future__ import annotations

import hashlib
import re

REST = "@rest"
"""The set of what belongs to no schema. In an encoded name four hexadecimal digits follow every ``@``, so no
schema's name comes out as this."""

MAX_LENGTH = 200
"""Characters of an encoded name; room is left for ``-bin.000001.tmp`` in the 255 bytes file systems allow."""

_SAFE = re.compile("[^0-9A-Za-z_]")
_ESCAPE = re.compile("@([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """A schema's name for the file system: ``@`` and four hexadecimal digits for all but ``[0-9A-Za-z_]``.

    The servers have a second, shorter form for some 1500 letters (``é`` is ``@0n`` beside ``@00e9``) and read
    both; only the long one is written here, which keeps :data:`REST` free. Characters above U+FFFF, which the
    servers do not allow, become two (UTF-16); bytes that are no UTF-8 (surrogateescape) keep their code.
    A name longer than :data:`MAX_LENGTH` is cut and gets ``@@`` and a digest, and cannot be decoded.

    >>> encode_name("db,3"), encode_name("a_b")
    ('db@002c3', 'a_b')
    """
    encoded = _SAFE.sub(lambda m: "".join(f"@{unit:04x}" for unit in _utf16(m[0])), name)
    if len(encoded) > MAX_LENGTH:
        digest = hashlib.sha256(encoded.encode("ascii")).hexdigest()[:16]
        encoded = f"{encoded[: MAX_LENGTH - 18].rpartition('@')[0] or encoded[: MAX_LENGTH - 18]}@@{digest}"
    return encoded


def decode_name(encoded: str) -> str:
    """The name that :func:`encode_name` was given (a name that was cut: as it is).

    >>> decode_name("db@002c3")
    'db,3'
    """
    if "@@" in encoded:
        return encoded
    name = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), encoded)
    # two halves of a character above U+FFFF become one again; lone ones (surrogateescape) stay
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"),
        name,
    )


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[k : k + 2], "little") for k in range(0, len(raw), 2)]
