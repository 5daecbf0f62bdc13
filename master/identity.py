"""Which binlog set this is: so that a slave notices when it is pointed at another one."""

from __future__ import annotations

import os
import re
import uuid as uuids
from pathlib import Path

from dumpfilter.index.fileset import BinlogSet

_SERVER_UUID = re.compile(r"^\s*server[-_]uuid\s*=\s*([0-9a-fA-F-]{36})\s*$", re.MULTILINE)


def uuid_of(binlogs: BinlogSet) -> str:
    """An identity for this binlog set, the same whenever the same set is served.

    The server's own uuid where the set lies in its data directory, the one that was kept (:func:`keep_uuid`), or one
    made from how the first file begins.
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
    """Write the identity beside the index where it follows from the first file, which is about to go.

    Raises OSError.
    """
    assert binlogs.index is not None
    if not any(path.exists() for path in _kept(binlogs.index)):
        path = _kept(binlogs.index)[-1]
        beside = path.with_name(path.name + ".new")
        beside.write_text(f"[auto]\nserver-uuid={uuid_of(binlogs)}\n")
        os.replace(beside, path)


def _kept(index: Path) -> list[Path]:
    """Where an identity may stand: a server's auto.cnf, and ours, which looks the same."""
    return [index.with_name("auto.cnf"), index.with_suffix(".uuid")]
