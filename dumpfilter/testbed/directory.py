"""The directory of a running replication topology: its lock, its control socket, and the removal of what a killed
process left.

A directory's state file names the process that runs the topology. A lock on another file says whether the topology
still runs. The names of temporary directories contain the process id, so that the next topology can remove them.

Through the control socket other commands call the methods of the topology. A request is one line of JSON, such as
``{"verb": "kill", "node": "web", "link": null, "arguments": {}}``. It names a method of a node, of a link, or without
both of the topology, and has the method's arguments. The answer is ``{"value": …}``, or
``{"error": "…", "exit_code": 4}``. Only the owner of the socket may use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from dumpfilter.base.errors import DirectoryBusy, DumpfilterError
from dumpfilter.base.files import DirectoryLock, replace
from dumpfilter.testbed.errors import NotUp, TestbedError, TopologyBusy

STATE = "state.json"
"""The name of the file in a topology's directory that names the process which runs the topology."""
LOCK = "lock"
LOGS = "logs"
"""The name of the subdirectory for logs. If the user named the topology's directory, only this subdirectory stays after
the topology's end (see :func:`taken`).
"""

_TEMPORARY = "dumpfilter-topology-"
"""The prefix of the names of topologies' temporary directories. The id and the start time of the process that runs the
topology follow.
"""

_START_TIME = 18
"""The index of ``starttime`` in ``/proc/PID/stat``, counted from the field after the state."""

_KEPT = "dumpfilter-kept-"
"""The prefix of the names of temporary directories that the user wants to keep, so that no later topology removes them.
"""


def start_time(pid: int) -> int | None:
    """Return the time at which a process started, in clock ticks since boot. None for a process that has ended.

    A process id can be reused later. Process id and start time together are unique.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[_START_TIME])


@contextlib.contextmanager
def taken(directory: Path | None, *, keep: bool = False, is_command: bool = False) -> Iterator[Path]:
    """Lock a directory for a new replication topology during the ``with`` block, and yield the directory. The
    directory's state file names this process, so that other commands find it.

    With ``directory`` None the topology gets a temporary directory. A named directory must be new or empty, or have the
    state file of an ended topology. In the last case everything in it is removed first.

    At the end a temporary directory is removed. In a named one only the logs stay. With ``keep`` all files stay.
    ``is_command`` tells that the process is ``dumpfilter topology up``. Then ``dumpfilter topology down`` may end the
    process, and a named directory that was new or had a state file is removed, too.

    Raises TopologyBusy if another topology runs in the directory, and TestbedError for a directory with other files.
    """
    clean_temporary()
    started = start_time(os.getpid())
    if directory is None:
        prefix = _KEPT if keep else f"{_TEMPORARY}{os.getpid()}-{started}-"
        is_made, directory = True, Path(tempfile.mkdtemp(prefix=prefix))
    else:
        directory = directory.absolute()
        # The directory of a topology that was killed has a state file.
        is_made = is_command and (not directory.exists() or (directory / STATE).exists())
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TestbedError(
                f"{directory}: cannot be made: {error.strerror}: name an empty directory or a new one"
            ) from None
        others = {path.name for path in directory.iterdir()} - {LOCK, LOGS}
        if others and not clean(directory):
            raise TestbedError(
                f"{directory}: has files that no topology made: name an empty directory or a new one"
            )
    with _locked(directory):
        owner = Owner(os.getpid(), is_command, started)
        replace(directory / STATE, json.dumps(owner._asdict()).encode(), synced=False)
        try:
            yield directory
        finally:
            if is_made and not keep:
                shutil.rmtree(directory, ignore_errors=True)
            elif not keep:
                remove_files(directory, keep=LOGS)


class Owner(NamedTuple):
    """A process that runs a replication topology, as the state file in the topology's directory identifies it by
    process id and start time.
    """

    pid: int
    is_command: bool
    """Whether the process is ``dumpfilter topology up``."""
    started: int | None
    """The time at which the process started, in clock ticks since boot (:func:`start_time`)."""


def _noted_owner(directory: Path) -> Owner | None:
    """Return the process that a directory's state file names, even if the process has ended. None if the directory has
    no such file, or a file of the same name that another program wrote.
    """
    try:
        return Owner(**json.loads((directory / STATE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def owner_of(directory: Path) -> Owner | None:
    """Return the process that runs the replication topology of a directory. None if no topology runs there."""
    owner = _noted_owner(directory)
    return owner if owner is not None and start_time(owner.pid) == owner.started else None


def clean(directory: Path) -> bool:
    """Remove everything in a directory but the lock file, if a replication topology (servers, masters and slaves) has
    left its state file there. Even files that the topology did not make are removed.

    Return True if the files were removed. Return False, and remove nothing, for a directory without a state file of a
    topology. Raises TopologyBusy if the topology still runs.
    """
    if _noted_owner(directory) is None:
        return False
    with _locked(directory):
        remove_files(directory)
    return True


def clean_temporary() -> None:
    """Remove this user's temporary directories of replication topologies whose processes were killed and could not
    remove them.
    """
    for directory in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError, ValueError, TopologyBusy):
            pid, started, *_ = directory.name.removeprefix(_TEMPORARY).split("-")
            if directory.stat().st_uid == os.getuid() and start_time(int(pid)) != int(started):
                clean(directory)
                shutil.rmtree(directory, ignore_errors=True)


def remove_files(directory: Path, *, keep: str = LOCK) -> None:
    """Remove all files and directories in ``directory``, except the one whose name is ``keep``. By default the lock
    file stays.
    """
    # Without the state file nobody would clean the rest, and without the lock another topology could begin.
    others = (path for path in directory.iterdir() if path.name != keep)
    for path in sorted(others, key=lambda path: (path.name == LOCK, path.name == STATE)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    busy = (
        "a topology is up in this directory; end it with dumpfilter topology down, or name another directory"
    )
    try:
        lock = DirectoryLock(directory / LOCK, f"{directory}: {busy}")
    except DirectoryBusy as error:
        raise TopologyBusy(str(error)) from None
    try:
        yield
    finally:
        lock.release()


# -- the control socket

SOCKET = "control.sock"
"""The name of the Unix socket in a topology's directory, through which commands control the topology."""

_MOST_REQUEST = 1 << 20
_POLL = 0.1
"""The interval at which the server of the control socket checks whether it was closed, seconds."""


class ControlFailed(TestbedError):
    """An error that a running replication topology returned over its control socket, with the original text and exit
    code.
    """

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """The server of the control socket of a replication topology. Other commands call methods, such as ``status``, or
    read properties of the topology, its nodes and its links through the socket.

    Each request has its own thread. The constructor creates the socket and starts to serve. ``bed`` is the running
    topology, a :class:`~dumpfilter.testbed.bed.Testbed`.
    """

    daemon_threads = True

    def __init__(self, bed: Any) -> None:
        self.bed = bed
        self._path = bed.directory / SOCKET
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with _short(self._path) as path:
                super().__init__(path, _Request)
        finally:
            os.umask(before)
        threading.Thread(target=self.serve_forever, args=(_POLL,), name="control", daemon=True).start()

    def server_close(self) -> None:
        """Close the control socket, through which other commands call the topology, and remove its file. Call this
        after the topology's end.
        """
        self.shutdown()
        super().server_close()
        self._path.unlink(missing_ok=True)


class _Request(socketserver.StreamRequestHandler):
    """The handler of one connection to a topology's control socket, by which commands control the topology. The
    connection carries one request.
    """

    server: ControlServer

    def handle(self) -> None:
        """Read one request from the control socket, call the method (or read the property) that it names, and send the
        result.
        """
        with contextlib.suppress(OSError):
            answer = self._answer(self.rfile.readline(_MOST_REQUEST))
            self.wfile.write(json.dumps(answer, default=str).encode())

    def _answer(self, request: bytes) -> dict[str, Any]:
        bed = self.server.bed
        try:
            asked = json.loads(request)
            node, link = asked["node"], asked["link"]
            owner = bed if node is link is None else bed.link(link) if node is None else bed[node]
            value = getattr(owner, asked["verb"])
            if callable(value):
                value = value(**asked["arguments"])
            return {"value": value.as_dict() if hasattr(value, "as_dict") else value}
        except DumpfilterError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            # Without an answer the other command would take the topology for ended.
            return {"error": f"{request[:200].decode(errors='replace')}: {error!r}", "exit_code": 1}


def down(directory: Path) -> None:
    """End the replication topology that ``dumpfilter topology up`` runs in ``directory``, and return when its process
    has ended. The process itself removes the files that shall not stay.

    If the process has already ended without this cleanup, because it was killed, remove the directory with everything
    in it. Raises NotUp if no topology has left files there, or if another program (such as a test) runs the topology.
    """
    owner = owner_of(directory)
    if owner is not None and not owner.is_command:
        raise _without_socket(directory)
    # The process may end at this moment.
    with contextlib.suppress(ProcessLookupError):
        if owner is not None:
            with open(os.pidfd_open(owner.pid), "rb") as process:
                signal.pidfd_send_signal(process.fileno(), signal.SIGTERM)
                wait([process.fileno()])
            # A topology that ends in order leaves only what its user wants to keep.
            return
    if not clean(directory):
        raise _without_socket(directory)
    shutil.rmtree(directory)


def _without_socket(directory: Path) -> NotUp:
    """Return the error for a directory whose control socket cannot be reached. Its text says whether a topology is
    starting there, runs in a process without such a socket, or does not run.
    """
    owner = owner_of(directory)
    if owner is None:
        what = (
            "no topology is up in this directory; start one with dumpfilter topology up, or name its directory "
            "with --directory"
        )
    elif owner.is_command:
        what = (
            f"the topology is starting (process {owner.pid}); wait, or end it with dumpfilter topology down"
        )
    else:
        what = f"process {owner.pid} runs the topology in this directory; end the process"
    return NotUp(f"{directory}: {what}")


def ask(
    directory: Path, verb: str, *, node: str | None = None, link: str | None = None, **arguments: Any
) -> Any:
    """Call a method of the running replication topology in ``directory``, or of its node ``node`` or its link ``link``
    (network connection of two nodes), and return the method's result. The call goes over the control socket to the
    topology's process.

    ``verb`` is the name of the method, or of a property, and ``arguments`` are the method's arguments. A status is
    returned as a dictionary. Raises NotUp if no topology runs in the directory or the topology ends meanwhile.
    Raises ControlFailed, with the original text and exit code, if the method raises an error.
    """
    request = {"verb": verb, "node": node, "link": link, "arguments": arguments}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with _short(directory / SOCKET) as path:
                connection.connect(path)
        except OSError:
            raise _without_socket(directory) from None
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.load(connection.makefile())
        except (OSError, ValueError):
            raise NotUp(f"{directory}: the topology has ended") from None
    if "error" in answer:
        raise ControlFailed(answer["error"], answer["exit_code"])
    return answer["value"]


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield a short alias of a socket's path, because the address of a Unix socket holds only 107 bytes."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
