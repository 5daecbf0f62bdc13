"""File names made from schema names, in the servers' encoding (``tablename_to_filename``)."""

from __future__ import annotations

import hashlib
import re

REST = "@rest"
"""The output for events that belong to no schema. No schema's encoded name is equal to it, since in an encoded name
four hexadecimal digits follow every ``@``."""

MAX_LENGTH = 200
"""Characters of an encoded name. File systems allow 255 bytes, and ``-bin.000001.tmp`` follows the name."""

_SAFE = re.compile("[^0-9A-Za-z_]")
_ESCAPE = re.compile("@([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """Return a schema's name as a file name. ``@`` and four hexadecimal digits replace all but ``[0-9A-Za-z_]``.

    The servers read a second, shorter form for some 1500 letters (``é`` is ``@0n`` beside ``@00e9``). Only the long
    form is written here, which keeps :data:`REST` free. A character above U+FFFF, which the servers do not allow,
    becomes two UTF-16 units. Bytes that are not UTF-8 (surrogateescape) keep their code. A name longer than
    :data:`MAX_LENGTH` is cut, gets ``@@`` and a digest, and cannot be decoded.

    >>> encode_name("db,3"), encode_name("a_b")
    ('db@002c3', 'a_b')
    """
    encoded = _SAFE.sub(lambda m: "".join(f"@{unit:04x}" for unit in _utf16(m[0])), name)
    if len(encoded) > MAX_LENGTH:
        digest = hashlib.sha256(encoded.encode("ascii")).hexdigest()[:16]
        encoded = f"{encoded[: MAX_LENGTH - 18].rpartition('@')[0] or encoded[: MAX_LENGTH - 18]}@@{digest}"
    return encoded


def decode_name(encoded: str) -> str:
    """Return the name that :func:`encode_name` received, or ``encoded`` itself if the name was cut.

    >>> decode_name("db@002c3")
    'db,3'
    """
    if "@@" in encoded:
        return encoded
    name = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), encoded)
    # Two surrogates become one character above U+FFFF. Single surrogates (surrogateescape) stay.
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"),
        name,
    )


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[k : k + 2], "little") for k in range(0, len(raw), 2)]
