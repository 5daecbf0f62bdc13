"""State files: JSON objects with their kind, format version and a CRC32 over the other members.

A state file is replaced as a whole. People can read it. If somebody edits it, the CRC32 no longer fits, and
the slave refuses the file at its next start.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, durable

FORMAT = 1
"""The format version that this release reads and writes."""


class State(BaseModel):
    """The base class of a state file's content: immutable, strict, without unknown members."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


S = TypeVar("S", bound=State)


def _checksum(kind: str, members: dict[str, Any]) -> int:
    text = json.dumps([kind, FORMAT, members], sort_keys=True, separators=(",", ":"))
    return zlib.crc32(text.encode())


def encode(kind: str, state: State) -> bytes:
    """Return the bytes of a state file."""
    members = state.model_dump(mode="json")
    document = {"kind": kind, "format": FORMAT, **members, "crc32": _checksum(kind, members)}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode(data: bytes, kind: str, model: type[S], where: Path) -> S:
    """Parse the bytes of a state file. Raises :class:`StateCorrupt`, which names ``where`` and the cure."""

    def corrupt(what: str) -> StateCorrupt:
        return StateCorrupt(f"{where}: {what}; {AFRESH}")

    try:
        document = json.loads(data)
    except ValueError:
        raise corrupt(f"is not a {kind} file or is damaged (no JSON)") from None
    if not isinstance(document, dict) or document.pop("kind", None) != kind:
        raise corrupt(f"is not a {kind} file of dumpfilter")
    version = document.pop("format", None)
    if version != FORMAT:
        raise corrupt(f"has format {version!r}, this release reads format {FORMAT}")
    if document.pop("crc32", None) != _checksum(kind, document):
        raise corrupt("was damaged or edited (its crc32 does not match)")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        member = ".".join(str(part) for part in first["loc"])
        raise corrupt(f"has no usable {member!r}: {first['msg']}") from None


def load(path: Path, kind: str, model: type[S]) -> S | None:
    """Return the state in a file, or None when there is no such file. Raises :class:`StateCorrupt`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateCorrupt(f"{path}: cannot be read: {error.strerror or error}") from error
    return decode(data, kind, model, path)


def save(path: Path, kind: str, state: State, *, synced: bool, mode: int = 0o640) -> None:
    """Replace a state file. Raises :class:`~dumpfilter.errors.OutputError`."""
    durable.replace(path, encode(kind, state), synced=synced, mode=mode)
