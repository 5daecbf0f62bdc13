"""Masters and slaves as processes, which a test starts, signals and kills."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.slave.driven import wait_until
from tests.slave.relayed import contents

# The process imports everything once, which takes half a second in each process.
# It forks a `dumpfilter` process for each line that it reads. A start costs milliseconds.
_LAUNCHER = """
import gc, json, os, signal, sys, threading
gc.disable()
import dumpfilter.edge, dumpfilter.master.process, dumpfilter.master.source, dumpfilter.master.console
import dumpfilter.master.replicas.connection, dumpfilter.slave.process, dumpfilter.slave.console
from dumpfilter.cli import main, preload
preload("master", "slave")
gc.freeze()  # Collections of the children leave out these objects, which stay in shared pages.
gc.enable()
assert threading.active_count() == 1, "a fork would lose the other threads"
for line in sys.stdin.buffer:  # main() changes sys.stdin, which must not have been read
    order = json.loads(line)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        log = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.dup2(log, 1); os.dup2(log, 2)
        sys.argv = ["dumpfilter", *order["argv"]]
        os.environ.update(order["environment"])
        code = 70
        try:
            main(); code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            with open(order["log"] + ".exit.new", "w") as note:
                note.write(str(code))
            os.rename(order["log"] + ".exit.new", order["log"] + ".exit")
            os._exit(code)
    print(pid, flush=True)
"""


class Launcher:
    """Starts, signals and kills ``dumpfilter`` processes, whose files are in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.running: dict[str, int] = {}
        """A pidfd of each process, by name. A pidfd never refers to a later process with the same number."""
        self.port = 0
        """The port of the newest master."""
        self.newest = 0
        """The number of the newest process."""

    def start(self, name: str, *argv: object, **environment: str) -> int:
        """Start ``dumpfilter`` with these arguments and variables of its environment. Return the process's number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        (self.directory / f"{name}.log.exit").unlink(missing_ok=True)
        order = {
            "argv": [str(argument) for argument in argv],
            "log": str(self.directory / f"{name}.log"),
            "environment": environment,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.newest = pid = int(self._process.stdout.readline())
        with contextlib.suppress(ProcessLookupError):
            self.running[name] = os.pidfd_open(pid)
        return pid

    def start_master(self, binlogs: Path, *options: str) -> None:
        """Start a master, on the port of the one before, and wait until it listens."""
        note = self.directory / "port"
        note.unlink(missing_ok=True)
        listen = ("--port", str(self.port), "--port-file", str(note))
        self.start("master", "master", str(binlogs), *listen, *options)
        wait_until(note.exists, lambda: self.log("master"))
        self.port = int(note.read_text())

    def start_slave(self, name: str, *options: str) -> int:
        """Start a slave of the newest master, with a relay directory, a report and a server id of its own."""
        return self.start(
            name,
            *("slave", "--master", f"127.0.0.1:{self.port}", "--relay-dir", str(self.directory / name)),
            *("--server-id", str(100 + sum(name.encode())), "--connect-retry", "0.1", "--summary", "json"),
            *("--summary-file", str(self.directory / f"{name}.json"), *options),
        )

    def wait(self, name: str) -> int:
        """Wait until a process has ended. Return its exit code."""
        note = self.directory / f"{name}.log.exit"
        wait_until(note.exists, lambda: f"{name} hangs: {self.log(name)}")
        os.close(self.running.pop(name))
        return int(note.read_text())

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal. After SIGKILL, wait until the process is gone."""
        handle = self.running[name]
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        if number == signal.SIGKILL:
            assert select.select([handle], [], [], 30)[0], f"{name} does not die"
            os.close(self.running.pop(name))

    def kill_all(self) -> None:
        """Kill the processes that still run, and forget the master's port."""
        for name in list(self.running):
            self.kill(name)
        self.port = 0

    def log(self, name: str) -> str:
        """Return the end of a process's output."""
        path = self.directory / f"{name}.log"
        return path.read_text()[-2000:] if path.exists() else ""

    def report(self, name: str) -> dict[str, Any]:
        """Return the report of a slave that has ended."""
        report: dict[str, Any] = json.loads((self.directory / f"{name}.json").read_text())
        return report

    def master_info(self, name: str) -> dict[str, Any]:
        """Return the content of a slave's ``master.info``."""
        try:
            info: dict[str, Any] = json.loads((self.directory / name / "master.info").read_bytes())
        except FileNotFoundError:
            return {"source_file": "", "source_position": 0, "relay_offset": 0}
        return info

    def relay_logs(self, name: str) -> dict[str, Any]:
        """Return the content of a slave's relay logs and their index, by file name."""
        return contents(self.directory / name)

    def relay_log_sizes(self, name: str) -> dict[str, int]:
        """Return the sizes of a slave's relay logs, by file name."""
        return {path.name: path.stat().st_size for path in (self.directory / name).glob("relay-bin.0*")}

    def close(self) -> None:
        """Kill all processes."""
        self.kill_all()
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
