"""The directories of topologies, and the removal of those that a killed process has left behind.

A directory's state file names the process that runs the topology. A lock on another file says whether the topology
still runs. The names of temporary directories contain the process id, so that the next topology can remove them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from dumpfilter.testbed.errors import TestbedError, TopologyBusy

STATE = "state.json"
"""The name of the state file."""
LOCK = "lock"
KEPT = ("logs", "report.json")
"""The files of a directory that stay after the topology, if a user named the directory."""

_TEMPORARY = "dumpfilter-topology-"
"""The prefix of temporary directories. The id and the start time of their process follow."""

_KEPT = "dumpfilter-kept-"
"""The prefix of directories that are kept, so that no later topology removes them."""

_START_TIME = 19
"""The index of ``starttime`` in ``/proc/PID/stat``, counted from the field after the name."""
_STATE = 0


def start_time(pid: int) -> int | None:
    """Return the time at which a process started, in clock ticks since boot. None for a process that has ended.

    A process id can be reused later. Process id and start time together are unique.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_START_TIME])


def is_alive(pid: int, started: int) -> bool:
    """Tell whether the process with this id and start time still runs."""
    return start_time(pid) == started


def kept_directory() -> Path:
    """Create and return a temporary directory that no later topology removes."""
    return Path(tempfile.mkdtemp(prefix=_KEPT))


def temporary_directory() -> Path:
    """Create and return a temporary directory, whose name has the id and the start time of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-{start_time(os.getpid())}-"))


class State:
    """The lock and the state file of the directory of a topology that this process runs.

    The directory stays locked until :meth:`close`.
    """

    def __init__(self, directory: Path, *, is_temporary: bool, is_command: bool = False) -> None:
        self.directory = directory
        self.is_temporary = is_temporary
        self._lock_file = _locked(directory)
        content = {"pid": os.getpid(), "started": start_time(os.getpid()), "is_command": is_command}
        new = directory / f"{STATE}.new"
        new.write_text(json.dumps(content))
        new.rename(directory / STATE)

    def close(self) -> None:
        """Release the lock of the directory."""
        os.close(self._lock_file)


def take(directory: Path | None, *, is_command: bool = False) -> State:
    """Lock a directory for a new topology, and return its lock and state file. Remains of an earlier one are removed.

    With ``directory`` None the topology gets a temporary directory. ``is_command`` tells that
    ``dumpfilter topology down`` may end this process. Raises TopologyBusy, and TestbedError for a directory with other
    files.
    """
    clean_temporary()
    if directory is None:
        return State(temporary_directory(), is_temporary=True)
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / STATE).exists():
        clean(directory)
    elif any(path.name != LOCK and path.name not in KEPT for path in directory.iterdir()):
        raise TestbedError(
            f"{directory}: has files that no topology made: name an empty directory or a new one"
        )
    return State(directory, is_temporary=False, is_command=is_command)


class Owner(NamedTuple):
    """The process that runs a directory's topology."""

    pid: int
    is_command: bool
    """Whether the process is ``dumpfilter topology up``."""


def owner_of(directory: Path) -> Owner | None:
    """Return the process that runs the topology of a directory, or None if there is none."""
    try:
        content = json.loads((directory / STATE).read_text())
        owner = Owner(content["pid"], content["is_command"])
        return owner if is_alive(owner.pid, content["started"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clean(directory: Path) -> bool:
    """Remove the files that an ended topology has left in a directory. Return False for a directory without a topology.

    Raises TopologyBusy if the topology still runs.
    """
    if not (directory / STATE).exists():
        return False
    lock = _locked(directory)
    try:
        remove_files(directory)
    finally:
        os.close(lock)
    return True


def clean_temporary() -> None:
    """Remove the temporary directories of topologies whose processes were killed."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        try:
            pid, started, *_ = directory.name.removeprefix(_TEMPORARY).split("-")
            if directory.stat().st_uid != os.getuid() or is_alive(int(pid), int(started)):
                continue
            clean(directory)
            shutil.rmtree(directory, ignore_errors=True)
        except (OSError, ValueError, TopologyBusy):
            continue


def remove_files(directory: Path, *, keep: tuple[str, ...] = (LOCK,)) -> None:
    """Remove the files of a topology from its directory. Files whose names are in ``keep`` stay."""
    # The state file is the last to go. Without it nobody would clean the rest.
    for path in sorted(directory.iterdir(), key=lambda path: path.name == STATE):
        if path.name in keep:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _locked(directory: Path) -> int:
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise TopologyBusy(
            f"{directory}: a topology is up in this directory; end it with dumpfilter topology down, or name another "
            "directory"
        ) from None
    return handle
