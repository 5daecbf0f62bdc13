"""The encoding of schema names as file names.

The encoding is the one that servers use for the files of tables and databases (``tablename_to_filename``).
"""

from __future__ import annotations

import hashlib
import re

REST = "@rest"
"""The name of the output for events that belong to no schema. No schema's output has this name, since in an encoded
schema name four hexadecimal digits follow every single ``@``."""

MAX_LENGTH = 200
"""The largest length of an encoded schema name, characters. File systems allow file names of 255 bytes, and a suffix
such as ``-bin.000001.tmp`` follows the schema name."""

_SAFE = re.compile("[^0-9A-Za-z_]")
_ESCAPE = re.compile("@([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """Return a schema's name as a file name. ``@`` and four hexadecimal digits replace each character that is not in
    ``[0-9A-Za-z_]``.

    The servers also have a shorter form for some 1500 letters (``é`` is ``@0n`` as well as ``@00e9``). This function
    always writes the long form, so that no schema gets the name :data:`REST`. A character above U+FFFF becomes two
    UTF-16 units; the servers do not allow such a character. A byte that is not UTF-8 is encoded by its surrogate
    (surrogateescape). A result longer than :data:`MAX_LENGTH` is cut and gets ``@@`` and a digest, and
    :func:`decode_name` cannot decode it.

    >>> encode_name("db,3"), encode_name("a_b")
    ('db@002c3', 'a_b')
    """
    encoded = _SAFE.sub(lambda m: "".join(f"@{unit:04x}" for unit in _utf16(m[0])), name)
    if len(encoded) > MAX_LENGTH:
        digest = hashlib.sha256(encoded.encode("ascii")).hexdigest()[:16]
        encoded = f"{encoded[: MAX_LENGTH - 18].rpartition('@')[0] or encoded[: MAX_LENGTH - 18]}@@{digest}"
    return encoded


def decode_name(encoded: str) -> str:
    """Return the schema name that :func:`encode_name` made into this file name.

    A file name that ``encode_name`` cut to the largest length cannot be decoded; it is returned unchanged.

    >>> decode_name("db@002c3")
    'db,3'
    """
    if "@@" in encoded:
        return encoded
    name = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), encoded)
    # Two UTF-16 surrogates stand for one character above U+FFFF. A single surrogate stands for a byte that is no
    # UTF-8, and stays.
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"),
        name,
    )


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[k : k + 2], "little") for k in range(0, len(raw), 2)]
