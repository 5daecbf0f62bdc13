"""A ``dumpfilter`` for shells whose processes are forks of one process that has imported everything.

A start of Python with dumpfilter takes a second of processor time, and a fork takes milliseconds. The script
``dumpfilter`` on the shell's PATH hands its working directory, arguments and standard streams over to the process.
The script passes signals on to the fork, and ends with the fork's exit code.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LONGEST_REQUEST = 1 << 16
_FAILED = 70
_SCRIPT = """\
#!{python} -SEs
import os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect("{address}")
    socket.send_fds(connection, ["\\0".join([os.getcwd(), *sys.argv[1:]]).encode()], [0, 1, 2])
    answers = connection.makefile()
    process = int(answers.readline())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(process, number))
    sys.exit(int(answers.readline()))
"""


@contextlib.contextmanager
def forked_commands(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Return an environment for shells in which ``dumpfilter`` is a fork of one process.

    The forks have that process's variables, whatever the shell exports.
    """
    with tempfile.TemporaryDirectory(prefix="forked-") as made:
        address, script = Path(made, "socket"), Path(made, "dumpfilter")
        script.write_text(_SCRIPT.format(python=sys.executable, address=address))
        script.chmod(0o755)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.commands.forked", str(address)],
            # A process with threads must not fork, and numpy's linear algebra starts threads.
            env={**environment, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n"
            yield {**environment, "PATH": f"{made}:{environment['PATH']}"}
        finally:
            # The forks that still run are in the process group of the server.
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            server.stdout.close()


def _serve(address: str) -> None:
    """Fork for each request. A child runs its command and does not return."""
    gc.disable()
    import dumpfilter.analyse.explain
    import dumpfilter.analyse.inspection
    import dumpfilter.analyse.printing
    import dumpfilter.master.process
    import dumpfilter.slave.process
    import dumpfilter.spark_jobs  # noqa: F401
    from dumpfilter.cli import COMMANDS, main, preload

    preload(*COMMANDS)

    # Collections of the children leave out these objects, which stay in shared pages.
    gc.freeze()
    gc.enable()
    # The kernel reaps the children, which tell their exit codes themselves.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            request, streams, *_ = socket.recv_fds(connection, _LONGEST_REQUEST, 3)
            if not os.fork():
                break
            connection.close()
            for stream in streams:
                os.close(stream)
    # The child tells its number and its exit code, so that they arrive in this order.
    connection.sendall(f"{os.getpid()}\n".encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    directory, *arguments = request.decode().split("\0")
    os.chdir(directory)
    sys.argv = ["dumpfilter", *arguments]
    code: object = _FAILED
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout.flush()
        connection.sendall(f"{code}\n".encode())
        os._exit(int(str(code)))


if __name__ == "__main__":
    _serve(sys.argv[1])
