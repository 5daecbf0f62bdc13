"""The common format of the slave's state files, such as ``master.info`` and ``relay-log.info``.

A state file is a JSON object. The member ``kind`` says which state file it is, ``format`` is the format's
version, and ``crc32`` is a checksum over all other members. The slave always replaces the whole file. People can read
the file but not edit it: the slave refuses a file whose checksum does not fit.

The slave reads all formats from 1 on, and writes the newest. An upgrade is a chain of steps, each from one format to
the next (:attr:`State.STEPS`). :mod:`dumpfilter.slave.upgrade` has the steps that concern several files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter import __version__
from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, durable

FORMAT = 2
"""The version of the format of state files that this release writes.

Format 1 is that of release 0.1.0. Its relay logs do not tell what the master dropped.
"""

Members = dict[str, Any]
"""The members of a state file without ``kind``, ``format`` and ``crc32``."""

Step = Callable[[Members], Members]
"""A function that returns the members of a file in the next format."""


class State(BaseModel):
    """The base class for the content of a state file.

    An object cannot be changed. Members of a wrong type and unknown members are errors, so that the slave notices
    a damaged file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    STEPS: ClassVar[Mapping[int, Step]] = {}
    """The upgrade of the file: for each format that differs from the next one, the step to the next one."""


S = TypeVar("S", bound=State)


class Document(NamedTuple):
    """The content of a state file as it was written."""

    format: int
    members: Members


def _checksum(kind: str, version: int, members: Members) -> int:
    text = json.dumps([kind, version, members], sort_keys=True, separators=(",", ":"))
    return zlib.crc32(text.encode())


def encode(kind: str, state: State) -> bytes:
    """Return the bytes of a state file: the members of ``state`` as JSON, with kind, format version and checksum."""
    return encode_document(kind, Document(FORMAT, state.model_dump(mode="json")))


def encode_document(kind: str, found: Document) -> bytes:
    """Return the bytes of a state file with these members, in any format."""
    checksum = _checksum(kind, *found)
    document = {"kind": kind, "format": found.format, **found.members, "crc32": checksum}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode(data: bytes, kind: str, model: type[S], where: Path) -> S:
    """Parse the bytes of a state file of any format, and check its kind, format version, checksum and members.

    Raises StateCorrupt, whose text names the file ``where`` and the remedy.
    """
    return upgraded(decode_document(data, kind, where), model, where)


def decode_document(data: bytes, kind: str, where: Path) -> Document:
    """Parse the bytes of a state file, and check its kind, format version and checksum. Raises StateCorrupt."""

    def corrupt(what: str) -> StateCorrupt:
        return StateCorrupt(f"{where}: {what}; {AFRESH}")

    try:
        document = json.loads(data)
    except ValueError:
        raise corrupt(f"is not a {kind} file or is damaged (no JSON)") from None
    if not isinstance(document, dict) or document.pop("kind", None) != kind:
        raise corrupt(f"is not a {kind} file of dumpfilter")
    version = document.pop("format", None)
    if type(version) is int and version > FORMAT:
        raise corrupt(
            f"has format {version}, but dumpfilter {__version__} reads formats up to {FORMAT}, so a newer one wrote "
            "the file: start that release, or put back a copy of the relay directory from before the upgrade"
        )
    if type(version) is not int or version < 1:
        raise corrupt(f"has no usable format: {version!r}")
    if document.pop("crc32", None) != _checksum(kind, version, document):
        raise corrupt("was damaged or edited (its crc32 does not match)")
    return Document(version, document)


def upgraded(found: Document, model: type[S], where: Path) -> S:
    """Return the content of a state file after all steps up to the newest format. Raises StateCorrupt."""
    members = dict(found.members)
    for version in range(found.format, FORMAT):
        if version in model.STEPS:
            members = model.STEPS[version](members)
    try:
        return model.model_validate(members)
    except ValidationError as error:
        first = error.errors()[0]
        member = ".".join(str(part) for part in first["loc"])
        raise StateCorrupt(f"{where}: has no usable {member!r}: {first['msg']}; {AFRESH}") from None


def load(path: Path, kind: str, model: type[S]) -> S | None:
    """Read a state file. Return None when the file does not exist. Raises StateCorrupt when the file is unusable."""
    found = load_document(path, kind)
    return None if found is None else upgraded(found, model, path)


def load_document(path: Path, kind: str) -> Document | None:
    """Read a state file as it was written. Return None when the file does not exist. Raises StateCorrupt."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateCorrupt(f"{path}: cannot be read: {error.strerror or error}") from error
    return decode_document(data, kind, path)


def save(path: Path, kind: str, state: State, *, synced: bool, mode: int = 0o640) -> None:
    """Replace a state file atomically. Raises OutputError when the file cannot be written.

    With ``synced`` wait until the file is on the disk. ``mode`` is the permissions of the file.
    """
    durable.replace(path, encode(kind, state), synced=synced, mode=mode)
