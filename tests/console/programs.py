"""Runs of the ``mariadb`` command-line client and of ``dumpfilter sql`` on a console."""

from __future__ import annotations

import io
import logging
import os
import pty
import select
import subprocess
import sys
from unittest import mock

from structlog.testing import capture_logs

from dumpfilter.console.connection import ConsoleServer
from tests.commands.in_process import Finished, run


def mariadb_arguments(console: ConsoleServer, *arguments: str, password: str = "secret") -> list[str]:
    address = ["--protocol=tcp", "-h127.0.0.1", f"-P{console.port}", "-uroot", f"-p{password}"]
    return ["mariadb", "--no-defaults", *address, *arguments]


def mariadb(
    console: ConsoleServer, *arguments: str, script: str = "", password: str = "secret"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mariadb_arguments(console, *arguments, password=password),
        input=script,
        capture_output=True,
        text=True,
        timeout=240,
    )


class Terminal:
    """A program at a terminal."""

    def __init__(self, arguments: list[str]) -> None:
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "dumb"
            os.execvp(arguments[0], arguments)
        self._seen = ""

    def until(self, text: str) -> str:
        """Return the terminal's output up to and with this text."""
        while text not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], 60)
            assert ready, f"no {text!r} in {self._seen!r}"
            self._seen += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def close(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        os.close(self._terminal)
        return status


def dumpfilter_sql(
    console: ConsoleServer | int, *arguments: str, script: str = "", password: str = "secret"
) -> Finished:
    """Run ``dumpfilter sql`` in this process, with ``script`` as its standard input.

    A console of this process would log into the command's output.
    """
    port = console if isinstance(console, int) else console.port
    given = io.TextIOWrapper(io.BytesIO(script.encode()), "utf-8")
    logging.disable()
    try:
        with (
            # Logs before the command has set up its own go to structlog's default logger, which prints.
            capture_logs(),
            mock.patch.object(sys, "stdin", given),
            mock.patch.dict(os.environ, DUMPFILTER_PASSWORD=password),
        ):
            return run("sql", "--slave", f"127.0.0.1:{port}", *arguments)
    finally:
        logging.disable(logging.NOTSET)
