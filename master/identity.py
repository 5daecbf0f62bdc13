"""The identity of a binlog set, by which a slave notices that it was pointed at another set."""

from __future__ import annotations

import os
import re
import uuid as uuids
from pathlib import Path

from dumpfilter.index.fileset import BinlogSet

_SERVER_UUID = re.compile(r"^\s*server[-_]uuid\s*=\s*([0-9a-fA-F-]{36})\s*$", re.MULTILINE)


def uuid_of(binlogs: BinlogSet) -> str:
    """Return the identity of a binlog set, which is the same whenever the set is served.

    A set in a server's data directory has the server's UUID. Another set has the identity that :func:`keep_uuid` wrote,
    or a UUID made from the first bytes of its first file.
    """
    if binlogs.index is not None:
        for path in _kept(binlogs.index):
            try:
                found = _SERVER_UUID.search(path.read_text())
            except OSError:
                found = None
            if found:
                return found[1].lower()
    with binlogs.file(binlogs.names[0]) as first:
        head = first.format_description.raw + first.read(first.first_event, 4096)
    return str(uuids.uuid5(uuids.NAMESPACE_OID, head.hex()))


def keep_uuid(binlogs: BinlogSet) -> None:
    """Write the identity beside the index file, before the first file is purged.

    Does nothing for a set whose identity does not come from its first file. Raises OSError.
    """
    assert binlogs.index is not None
    if not any(path.exists() for path in _kept(binlogs.index)):
        path = _kept(binlogs.index)[-1]
        beside = path.with_name(path.name + ".new")
        beside.write_text(f"[auto]\nserver-uuid={uuid_of(binlogs)}\n")
        os.replace(beside, path)


def _kept(index: Path) -> list[Path]:
    """Return the paths that may hold an identity: a server's auto.cnf, and dumpfilter's file of the same format."""
    return [index.with_name("auto.cnf"), index.with_suffix(".uuid")]
