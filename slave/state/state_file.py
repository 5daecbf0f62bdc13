"""The common format of the slave's state files, such as ``master.info`` and ``relay-log.info``.

A state file is a JSON object. The member ``kind`` says which state file it is, ``format`` is the format's
version, and ``crc32`` is a checksum over all other members. The slave always replaces the whole file. People can read
the file but not edit it: the slave refuses a file whose checksum does not fit.

The slave reads no other format than that of its own release.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter import __version__
from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, durable

FORMAT = 2
"""The version of the format of state files that this release writes and reads."""

Members = dict[str, Any]
"""The members of a state file without ``kind``, ``format`` and ``crc32``."""


class State(BaseModel):
    """The base class for the content of a state file.

    An object cannot be changed. Members of a wrong type and unknown members are errors, so that the slave notices
    a damaged file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


S = TypeVar("S", bound=State)


def _checksum(kind: str, version: int, members: Members) -> int:
    text = json.dumps([kind, version, members], sort_keys=True, separators=(",", ":"))
    return zlib.crc32(text.encode())


def encode(kind: str, state: State) -> bytes:
    """Return the bytes of a state file: the members of ``state`` as JSON, with kind, format version and checksum."""
    members = state.model_dump(mode="json")
    document = {"kind": kind, "format": FORMAT, **members, "crc32": _checksum(kind, FORMAT, members)}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode(data: bytes, kind: str, model: type[S], where: Path) -> S:
    """Parse the bytes of a state file, and check its kind, format version, checksum and members.

    Raises StateCorrupt, whose text names the file ``where`` and the remedy.
    """

    def corrupt(what: str) -> StateCorrupt:
        return StateCorrupt(f"{where}: {what}; {AFRESH}")

    try:
        members = json.loads(data)
    except ValueError:
        raise corrupt(f"is not a {kind} file or is damaged (no JSON)") from None
    if not isinstance(members, dict) or members.pop("kind", None) != kind:
        raise corrupt(f"is not a {kind} file of dumpfilter")
    version = members.pop("format", None)
    if type(version) is int and version > FORMAT:
        raise corrupt(
            f"has format {version}, but dumpfilter {__version__} reads format {FORMAT}, so a newer one wrote the file: "
            "start that release, or put back a copy of the relay directory from before the upgrade"
        )
    if type(version) is not int or version != FORMAT:
        raise corrupt(f"has format {version!r}, but dumpfilter {__version__} reads format {FORMAT}")
    if members.pop("crc32", None) != _checksum(kind, version, members):
        raise corrupt("was damaged or edited (its crc32 does not match)")
    try:
        return model.model_validate(members)
    except ValidationError as error:
        first = error.errors()[0]
        member = ".".join(str(part) for part in first["loc"])
        raise corrupt(f"has no usable {member!r}: {first['msg']}") from None


def load(path: Path, kind: str, model: type[S]) -> S | None:
    """Read a state file. Return None when the file does not exist. Raises StateCorrupt when the file is unusable."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateCorrupt(f"{path}: cannot be read: {error.strerror or error}") from error
    return decode(data, kind, model, path)


def save(path: Path, kind: str, state: State, *, synced: bool, mode: int = 0o640) -> None:
    """Replace a state file atomically. Raises OutputError when the file cannot be written.

    With ``synced`` wait until the file is on the disk. ``mode`` is the permissions of the file.
    """
    durable.replace(path, encode(kind, state), synced=synced, mode=mode)
