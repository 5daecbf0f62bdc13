"""The UUID of a binlog set. A slave recognizes its master's binlog set by the UUID, and notices when another set is
served.
"""

from __future__ import annotations

import re
import uuid as uuids
from pathlib import Path

from dumpfilter.base.files import committed
from dumpfilter.binlog.reader import unreadable
from dumpfilter.index.fileset import BinlogSet

_SERVER_UUID = re.compile(r"^\s*server[-_]uuid\s*=\s*([0-9a-fA-F-]{36})\s*$", re.MULTILINE)


def uuid_of(binlogs: BinlogSet) -> str:
    """Return the UUID that identifies a binlog set. It is the same at every start of the master.

    A set in a MySQL server's data directory has the UUID of ``auto.cnf``. For another set, the UUID is computed from
    the first bytes of its first file. If :func:`keep_uuid` has saved a UUID before that file was purged, the saved UUID
    is used. Raises BinlogError for a file that cannot be read.
    """
    if binlogs.index is not None:
        for path in _kept(binlogs.index):
            try:
                found = _SERVER_UUID.search(path.read_text("ascii", "replace"))
            except FileNotFoundError:
                continue
            except OSError as error:
                # Without this file the set would have another UUID, and its slaves would take it for another set.
                raise unreadable(error, file=str(path)) from None
            if found:
                return found[1].lower()
    with binlogs.file(binlogs.names[0]) as first:
        head = first.format_description.raw + first.read_up_to(first.first_event, 4096)
    return str(uuids.uuid5(uuids.NAMESPACE_OID, head.hex()))


def keep_uuid(binlogs: BinlogSet) -> None:
    """Save the UUID of a binlog set in a file beside the index file, before the set's first file is purged.

    :func:`uuid_of` may compute the UUID from the first file. If a file such as ``auto.cnf`` already has the UUID,
    nothing is written. Raises OutputError.
    """
    assert binlogs.index is not None
    if not any(path.exists() for path in _kept(binlogs.index)):
        path = _kept(binlogs.index)[-1]
        with committed(path) as file:
            file.write(f"[auto]\nserver-uuid={uuid_of(binlogs)}\n".encode())


def _kept(index: Path) -> list[Path]:
    """Return the paths of the files that may have a binlog set's UUID: a server's ``auto.cnf``, and the file of
    :func:`keep_uuid`.
    """
    return [index.with_name("auto.cnf"), index.with_suffix(".uuid")]
