"""Run the console sessions of ``docs/tutorial.md``.

``python -m tests.docs.tutorial`` writes their outputs into the page.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from dumpfilter.testbed.servers.server import free_port
from tests.commands.forked import forked_commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PORT = "3307"
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z")
_SAME_TIME = "2026-01-01T12:00:00.000000Z"

_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "@@ end of an output @@"


def run_page(text: str, directory: Path) -> str:
    """Return the page's text with the output of every command as one shell in ``directory`` prints it."""
    sessions = [
        [line[2:] for line in found[1].splitlines() if line.startswith("$ ")]
        for found in _SESSION.finditer(text)
    ]
    port = str(free_port())
    lines = [f"cd {directory}", f"ln -s {ROOT}/dumpfilter dumpfilter"]
    for commands in sessions:
        for command in commands:
            lines += [command.replace(PORT, port), f"echo '{_MARK}'"]
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }
    with (
        forked_commands(environment) as forked,
        subprocess.Popen(
            ["bash", "-c", "\n".join(lines)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=forked,
            start_new_session=True,
        ) as shell,
    ):
        try:
            output, _ = shell.communicate()
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    outputs = iter(output.replace(port, PORT).split(_MARK + "\n"))

    def filled(_: re.Match[str]) -> str:
        body = "".join(f"$ {command}\n{_plain(next(outputs))}" for command in commands_of_sessions.pop(0))
        return f"```console\n{body}```"

    commands_of_sessions = list(sessions)
    return _SESSION.sub(filled, text)


def _plain(output: str) -> str:
    """Return the lines of an output, with the time of a log line replaced by a time that is always the same."""
    return "".join(_TIME.sub(_SAME_TIME, line.rstrip()) + "\n" for line in output.splitlines())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(run_page(PAGE.read_text(), Path(made)))
