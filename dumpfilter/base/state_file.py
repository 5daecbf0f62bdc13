"""State files: the JSON files in which a master or a slave keeps its state across restarts.

A state file is a JSON object. The member ``kind`` says which state file it is, ``format`` is the format's version, and
``crc32`` is a checksum over all other members. A program always replaces the whole file. People can read the file but
not edit it, because a file whose checksum does not fit is refused. A release reads no other format than its own.
"""

from __future__ import annotations

import contextlib
import json
import threading
import zlib
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError, StateCorrupt
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable

log = logger("dumpfilter.state")

_LARGEST = 64 << 20
"""The largest state file that is read, bytes. A master's counters with the longest possible names take less."""


class State(BaseModel):
    """The base class (a pydantic model) for the content of a state file, in which a master or slave keeps its state
    across restarts.

    An object cannot be changed. Members of a wrong type and unknown members are errors, so that damage is noticed.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


S = TypeVar("S", bound=State)


class Format(NamedTuple):
    """The version number that all state files in a directory must have, with texts for errors about these files.

    A state file is a JSON file in which a master or slave keeps its state across restarts, for example in a slave's
    relay directory.
    """

    version: int
    directory: str
    """The type of directory in error texts, such as "relay directory"."""
    remedy: str
    """The last words of error texts about unusable files, which tell the user the remedy."""


class StateFile(Generic[S]):
    """A state file at ``path``: a JSON file in which a master or slave keeps its state across restarts. The methods
    read and replace it.

    ``model`` is the class of the content. ``form`` is the format version that is written, and the only one that can be
    read. ``mode`` is the file's permissions.
    """

    def __init__(self, path: Path, model: type[S], form: Format, *, mode: int = 0o640) -> None:
        self.path = path
        self._model = model
        self._form = form
        self._mode = mode
        self._saving = threading.Lock()
        self._is_failing = False
        """Whether the last :meth:`try_save` has failed, so that the next failure is not logged again."""

    def load(self) -> S | None:
        """Read the state file, and return the state in it, or None if the file does not exist.

        Raises StateCorrupt, which names the file and the remedy, for a file that cannot be read, is damaged, or has
        another format.
        """
        try:
            with open(self.path, "rb") as file:
                data = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateCorrupt(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if len(data) > _LARGEST:
            raise self._corrupt(f"is larger than {_LARGEST >> 20} MiB")
        return self.decode(data)

    def load_or_set_aside(self) -> S | None:
        """Read the state file, and return the state in it, or None if the file does not exist or is unusable.

        An unusable file is renamed to ``….unusable``, and a warning is logged.
        """
        try:
            return self.load()
        except StateCorrupt as error:
            aside = self.path.with_name(f"{self.path.name}.unusable")
            with contextlib.suppress(OSError):
                self.path.replace(aside)
            log.warning(
                "state file cannot be used",
                file=str(self.path),
                reason=printable(str(error).removeprefix(f"{self.path}: ").partition(";")[0]),
                hint=f"the process begins without the state in it; the file is kept as {aside.name}, and a copy of a "
                "whole file can be put back while the process is stopped",
            )
            return None

    def try_save(self, state: S) -> bool:
        """Write ``state`` to the state file, and return whether that succeeded. Any thread may call this method.

        The first of several failures is logged, and so is the first success after a failure.
        """
        with self._saving:
            try:
                self.save(state)
            except OutputError as error:
                if not self._is_failing:
                    log.error(
                        "state not saved",
                        reason=str(error),
                        hint="the process goes on, and tries again; a restart would lose the changes since the last "
                        "save",
                    )
                self._is_failing = True
                return False
            if self._is_failing:
                log.info("state saved again", file=str(self.path))
            self._is_failing = False
            return True

    def save(self, state: S, *, synced: bool = True) -> None:
        """Write ``state`` to the state file, which is replaced atomically.

        With ``synced`` wait until the new file is on the disk. Raises OutputError if the file cannot be written.
        """
        files.replace(self.path, self.encode(state), synced=synced, mode=self._mode)

    def encode(self, state: State) -> bytes:
        """Return the bytes of a state file with the state ``state``.

        The bytes are a JSON object with the file's name (``kind``), the format version, the members of the state, and a
        checksum (``crc32``).
        """
        kind, members = self.path.name, state.model_dump(mode="json")
        head = {"kind": kind, "format": self._form.version}
        document = {**head, **members, "crc32": checksum(kind, self._form.version, members)}
        return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()

    def decode(self, data: bytes) -> S:
        """Parse the content of a state file, and return the state in it.

        Raises StateCorrupt if the file's kind, format version, checksum or members are not as expected.
        """
        kind, own = self.path.name, self._form.version
        try:
            members = json.loads(data)
        except (ValueError, RecursionError):
            raise self._corrupt(f"is not a {kind} file or is damaged (no JSON)") from None
        if not isinstance(members, dict) or members.pop("kind", None) != kind:
            raise self._corrupt(f"is not a {kind} file of dumpfilter")
        version = members.pop("format", None)
        if type(version) is not int or version != own:
            from importlib.metadata import version as release

            what = f"has format {version!r}, but dumpfilter {release('dumpfilter')} reads format {own}"
            if type(version) is int and version > own:
                what += (
                    ", so a newer one wrote the file: start that release, or put back a copy of the "
                    f"{self._form.directory} from before the upgrade"
                )
            raise self._corrupt(what)
        if members.pop("crc32", None) != checksum(kind, version, members):
            raise self._corrupt("was damaged or edited (its crc32 does not match)")
        try:
            return self._model.model_validate_json(json.dumps(members), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            member = ".".join(str(part) for part in first["loc"])
            raise self._corrupt(f"has no usable {member!r}: {first['msg']}") from None

    def _corrupt(self, what: str) -> StateCorrupt:
        return StateCorrupt(f"{self.path}: {what}; {self._form.remedy}")


def checksum(kind: str, version: int, members: dict[str, Any]) -> int:
    """Return the CRC32 by which a state file (JSON) notices damage and edits.

    ``kind`` is the file's name, ``version`` the format version, and ``members`` are the other members without
    ``crc32``.
    """
    return zlib.crc32(json.dumps([kind, version, members], sort_keys=True, separators=(",", ":")).encode())
