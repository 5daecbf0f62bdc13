"""A real server that serves the generated files as its binlogs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench._common import MYSQL_ROOT, OUT, has_mysql
from dumpfilter.workload.generate import GeneratedSet, Style

_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class Peer:
    """A server's own program that copies the server's binlogs."""

    name: str
    command: list[str]
    files: list[str]
    port: int
    """The server's port on the loopback address."""
    raw: Path
    """The directory into which the program writes its copy."""


def free_port() -> int:
    """Return a port of the loopback address that no process uses now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def place_binlogs(made: GeneratedSet, directory: Path) -> list[str]:
    """Replace the server's binlogs by the generated files, and return their names."""
    for old in directory.glob("bin.*"):
        old.unlink()
    for path in made.files:
        try:
            os.link(path, directory / path.name)
        except OSError:
            shutil.copyfile(path, directory / path.name)
    names = [path.name for path in made.files]
    (directory / "bin.index").write_text("".join(f"./{name}\n" for name in names))
    return names


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, **_QUIET)  # type: ignore[call-overload]
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def server(made: GeneratedSet, family: Style | None = None) -> Iterator[Peer]:
    """Run MySQL where it is installed, else MariaDB, on a generated set of the same style. ``family`` asks for one."""
    port = free_port()
    if family == "mysql" or (family is None and has_mysql()):
        data = MYSQL_ROOT / "tmp/dumpfilter-bench-data"
        shutil.rmtree(data, ignore_errors=True)
        chroot = ["chroot", str(MYSQL_ROOT)]
        mysqld = [*chroot, "mysqld", "--no-defaults", "--user=root", "--secure-file-priv="]
        place = "/tmp/dumpfilter-bench-data"
        subprocess.run([*mysqld, "--initialize-insecure", f"--datadir={place}"], check=True, **_QUIET)  # type: ignore[call-overload]
        names = place_binlogs(made, data)
        options = [
            f"--datadir={place}", f"--socket={place}/s.sock", f"--port={port}", "--bind-address=127.0.0.1",
            "--mysqlx=OFF", "--server-id=1", "--log-bin=bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
            f"--log-error={place}/err.log", f"--pid-file={place}/pid", "--innodb-buffer-pool-size=64M",
        ]  # fmt: skip
        out = MYSQL_ROOT / "tmp/dumpfilter-bench-raw"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command = [*chroot, "mysqlbinlog", "--no-defaults", "--ssl-mode=DISABLED"]
        peer = Peer(
            "mysqlbinlog --raw",
            [*command, *_remote(port), "--result-file=/tmp/dumpfilter-bench-raw/"],
            names,
            port,
            out,
        )
        with _running([*mysqld, *options], port):
            yield peer
        shutil.rmtree(out, ignore_errors=True)
    else:
        data = (OUT / "mariadb-data").absolute()
        shutil.rmtree(data, ignore_errors=True)
        user = ["--user=root"] if os.geteuid() == 0 else []
        install = ["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}"]
        subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, **_QUIET)  # type: ignore[call-overload]
        names = place_binlogs(made, data)
        options = [
            "mariadbd", "--no-defaults", *user, f"--datadir={data}", f"--socket={data}/s.sock", f"--port={port}",
            "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=bin",
        ]  # fmt: skip
        out = OUT / "mariadb-raw"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command = ["mariadb-binlog", "--no-defaults", "--skip-ssl", *_remote(port), f"--result-file={out}/"]
        with _running(options, port):
            yield Peer("mariadb-binlog --raw", command, names, port, out)
        shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)


def _remote(port: int) -> list[str]:
    return ["--read-from-remote-server", "--host=127.0.0.1", f"--port={port}", "--user=root", "--raw"]
